"""Files packed, piped, and written in the format that their name says."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gtsam
import numpy as np
import pytest

import gtsam_sdp
from gtsam_sdp import cli
from gtsam_sdp.cli import certifying, solving
from gtsam_sdp.errors import DatasetError
from gtsam_sdp.files.datasets import read_dataset, read_pose_graph, write_g2o
from gtsam_sdp.files.pyfg_writing import write_pyfg
from tests.files.lines import definite, upper

UNIT_2D = "1 0 0 1 0 1"
UNIT_3D = " ".join("1" if row == column else "0" for row in range(6) for column in range(row, 6))
EDGE_2D = f"EDGE_SE2 0 1 1 0 0.5 {UNIT_2D}"
EDGE_3D = f"EDGE_SE3:QUAT 0 1 1 2 3 0 0 0.6 0.8 {UNIT_3D}"
MEASURED = "1 -2 0.5 0.1 0.3 -0.2 0.9"
Write = Callable[..., Path]


def factors(graph: gtsam.NonlinearFactorGraph) -> list[Any]:
    return [graph.at(k) for k in range(graph.size())]


@pytest.mark.parametrize(
    ("encoding", "name"),
    [("utf-16", "UTF-16"), ("utf-16-le", "UTF-16LE"), ("utf-16-be", "UTF-16BE"), ("utf-32", "UTF-32")],
)
def test_other_encodings_are_named(tmp_path: Path, encoding: str, name: str) -> None:
    """As iconv spells them."""
    path = tmp_path / "graph.g2o"
    path.write_bytes(f"{EDGE_2D}\n".encode(encoding))
    with pytest.raises(DatasetError, match=rf"is {encoding[:6].upper()} text; .*`iconv -f {name} -t UTF-8`"):
        gtsam_sdp.load_g2o(path)


@pytest.mark.parametrize(
    "lines",
    [
        [EDGE_2D],
        [EDGE_3D],
        ["EDGE2 0 1 1 0 0.5 1 0 1 1 0 0"],
        ["VERTEX_SE2 0.0 A0 0 0 0", "VERTEX_XY L0 3 4", "EDGE_RANGE 0.0 A0 L0 5.5 0.25"],
    ],
    ids=["g2o 2D", "g2o 3D", "TORO", "PyFG"],
)
@pytest.mark.parametrize("packed", [False, True])
def test_byte_order_marks_and_gzip_change_nothing(tmp_path: Path, lines: list[str], packed: bool) -> None:
    plain, other = tmp_path / "plain.g2o", tmp_path / "other.g2o"
    text = "\r\n".join([*lines, ""])
    plain.write_text(text)
    content = b"\xef\xbb\xbf" + text.encode()
    other.write_bytes(gzip.compress(content) if packed else content)
    assert read_pose_graph(other).graph.equals(read_pose_graph(plain).graph, 1e-12)


def test_gzip_data_that_is_cut_or_changed(tmp_path: Path) -> None:
    content = gzip.compress(EDGE_2D.encode() * 50)
    path = tmp_path / "graph.g2o.gz"
    for damaged in (content[:-9], content[:20] + b"\0\0\0\0" + content[24:], content[:-8] + bytes(8)):
        path.write_bytes(damaged)
        with pytest.raises(DatasetError, match=r"is damaged gzip data .* download it again"):
            gtsam_sdp.load_g2o(path)


class Piped(io.TextIOWrapper):
    """Standard input with some content."""

    def __init__(self, content: bytes, terminal: bool = False) -> None:
        super().__init__(io.BytesIO(content))
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize("command", ["certify", "solve", "info"])
@pytest.mark.parametrize("packed", [False, True])
def test_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str, packed: bool
) -> None:
    content = EDGE_2D.encode()
    monkeypatch.setattr("sys.stdin", Piped(gzip.compress(content) if packed else content))
    assert cli.main([command, "-", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["file"] == "standard input"


@pytest.mark.parametrize(
    ("content", "terminal", "message"),
    [(b"", True, "pipe a graph"), (b" \n", False, "is empty"), (b"EDGE_SE2 0 1\n", False, "standard input, line 1: ")],
    ids=["terminal", "empty", "bad line"],
)
def test_bad_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], content: bytes, terminal: bool, message: str
) -> None:
    monkeypatch.setattr("sys.stdin", Piped(content, terminal))
    assert cli.main(["info", "-"]) == 2
    assert message in capsys.readouterr().err


PYFG_2D = [
    "VERTEX_SE2 0.0 A0 0 0 0", "VERTEX_SE2 1.0 A1 1 2 0.5", "VERTEX_XY L0 3 4", "VERTEX_XY M0 3 5",
    "EDGE_SE2 0.0 A0 A1 1 2 0.5 0.04 0.01 0 0.04 0 0.01",
    "VERTEX_SE2:PRIOR 0.0 A0 0.1 0.2 0.3 0.04 0.01 0 0.09 0 0.01",
    "VERTEX_XY:PRIOR 0.0 L0 3 4 0.04 0.01 0.09",
    "EDGE_RANGE 0.0 A1 L0 5.5 0.25", "EDGE_RANGE 0.0 A0 A1 2 0.25", "EDGE_RANGE 0.0 L0 M0 1 0.3",
    "EDGE_SE2_XY 0.0 A0 L0 3 4 0.04 0.01 0.09",
]  # fmt: skip
COVARIANCE = upper(np.linalg.inv(definite(6)))
PYFG_3D = [
    "VERTEX_SE3:QUAT 0.0 A0 0 0 0 0 0 0 1", "VERTEX_SE3:QUAT 1.0 A1 1 2 3 0 0 0.6 0.8",
    "VERTEX_XYZ L0 3 4 5", "VERTEX_XYZ M0 3 5 5",
    f"EDGE_SE3:QUAT 0.0 A0 A1 {MEASURED} {COVARIANCE}", f"VERTEX_SE3:QUAT:PRIOR 0.0 A0 {MEASURED} {COVARIANCE}",
    "VERTEX_XYZ:PRIOR 0.0 L0 3 4 5 0.04 0.01 0 0.09 0 0.05",
    "EDGE_RANGE 0.0 A1 L0 5.5 0.25", "EDGE_RANGE 0.0 A0 A1 2 0.25", "EDGE_RANGE 0.0 L0 M0 1 0.3",
    "EDGE_SE3_XYZ 0.0 A0 L0 3 4 5 0.04 0.01 0 0.09 0 0.05",
]  # fmt: skip


@pytest.mark.parametrize("lines", [PYFG_2D, PYFG_3D], ids=["2D", "3D"])
def test_every_line_of_pyfg_is_written_again(tmp_path: Path, lines: list[str]) -> None:
    """From graph and values alone, with the names of the keys."""
    (tmp_path / "graph.pyfg").write_text("\n".join(lines) + "\n")
    graph, values = gtsam_sdp.load_pyfg(tmp_path / "graph.pyfg")
    write_pyfg(tmp_path / "copy.pyfg", graph, values)
    copy, again = gtsam_sdp.load_pyfg(tmp_path / "copy.pyfg")
    assert sorted(again.keys()) == sorted(values.keys())
    assert again.equals(values, 1e-12)
    assert [type(factor) for factor in factors(copy)] == [type(factor) for factor in factors(graph)]
    assert copy.equals(graph, 1e-9)
    assert copy.error(values) == pytest.approx(graph.error(values), rel=1e-9)


def test_g2o_as_pyfg(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Plain numbers get a letter; landmarks keep theirs; the cost is the same."""
    best = tmp_path / "best.pyfg"
    assert cli.main(["certify", "pose2example", "--output", str(best), "--json"]) == 0
    cost = json.loads(capsys.readouterr().out)["certificate"]["cost"]
    graph, values = gtsam_sdp.load_pyfg(best)
    assert graph.error(values) == pytest.approx(cost, rel=1e-9)
    assert {chr(key >> 56) for key in values.keys()} == {"A"}
    file = read_dataset("known_landmark_localization_3")
    write_pyfg(best, file.measured, file.initial)
    graph, values = gtsam_sdp.load_pyfg(best)
    assert graph.error(values) == pytest.approx(file.graph.error(file.initial), rel=1e-9)


def test_packed_output_is_the_same_whenever_it_is_written(tmp_path: Path) -> None:
    file = read_dataset("pose2example")
    for name in ("a.g2o.gz", "b.g2o.gz", "c.g2o"):
        write_g2o(tmp_path / name, file.measured, file.initial)
    packed = (tmp_path / "a.g2o.gz").read_bytes()
    assert packed == (tmp_path / "b.g2o.gz").read_bytes()
    assert gzip.decompress(packed) == (tmp_path / "c.g2o").read_bytes()
    assert read_pose_graph(tmp_path / "a.g2o.gz").graph.equals(read_pose_graph(tmp_path / "c.g2o").graph, 0.0)


@pytest.mark.parametrize("command", ["certify", "solve"])
@pytest.mark.parametrize(
    ("source", "name", "message"),
    [
        ("goats_16", "best.txt", "the format is told by the name"),
        ("goats_16", "best", "the format is told by the name"),
        ("nosuchthing", "best.csv", "the format is told by the name"),
        ("goats_16", "best.g2o", "factor 200 (RangeFactor2D on A"),
    ],
)
def test_output_that_cannot_be_written_is_refused_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str, source: str,
    name: str, message: str,
) -> None:  # fmt: skip
    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("the work has begun")

    for module, work in ((certifying, "certify"), (certifying, "optimise"), (solving, "solve")):
        monkeypatch.setattr(module, work, never)
    assert cli.main([command, source, "--output", str(tmp_path / name)]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / name).exists()


def test_a_position_has_no_line_in_pyfg(write: Write, tmp_path: Path) -> None:
    file = read_pose_graph(write(EDGE_2D, "EDGE_PRIOR_SE2_XY 1 0.4 -0.2 5 1 3"))
    with pytest.raises(DatasetError, match=r"factor 1 .PoseTranslationPrior2D on 1. has no line in PyFG .* \.g2o"):
        write_pyfg(tmp_path / "copy.pyfg", file.measured, file.initial)


@pytest.mark.parametrize("source", ["goats_16", "pose2example"])
def test_packed_pyfg(tmp_path: Path, capsys: pytest.CaptureFixture[str], source: str) -> None:
    best = tmp_path / "best.pyfg.gz"
    cli.main(["certify", source, "--output", str(best), "--json"])
    cost = json.loads(capsys.readouterr().out)["certificate"]["cost"]
    assert best.read_bytes().startswith(b"\x1f\x8b")
    graph, values = gtsam_sdp.load_pyfg(best)
    assert graph.error(values) == pytest.approx(cost, rel=1e-9)
