"""What is wrong in files of people: the error names the line, the cause and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

import gtsam_sdp
from gtsam_sdp.errors import DatasetError

EDGE = "EDGE_SE2 0 1 1 0 0 100 0 0 100 0 100"
NOISE_3D = "100 0 0 0 0 0 100 0 0 0 0 100 0 0 0 100 0 0 100 0 100"
IDENTITY = "PARAMS_SE3OFFSET 0 0 0 0 0 0 0 1"
WRONG = {
    "comma": (["VERTEX_SE2 1 0,1 0 0"], r"line 1: '0,1' is not a number: decimals have a point .*, 0\.1\.$"),
    "Fortran": ([EDGE.replace("100", "1.0D+02", 1)], r"line 1: '1\.0D\+02' is not a number: .*an E, 1\.0E\+02\.$"),
    "minus sign": (["VERTEX_SE2 1 \u22121 0 0"], r"is not a number: a minus sign is a hyphen, -1\.$"),
    "two commas": (["VERTEX_SE2 1 1,2,3 0 0"], r"line 1: '1,2,3' is not a number: correct it\.$"),
    "vertex 0.0": (["VERTEX_SE2 0.0 0 0 0"], r"line 1: '0\.0' is not a vertex number .*: write 0\.$"),
    "vertex 0.5": (["VERTEX_SE2 0.5 0 0 0"], r"line 1: '0\.5' is not a vertex number .*: correct it\.$"),
    "negative": (["VERTEX_SE2 -1 0 0 0"], r"not between 0 and 2\^64 - 1: -1\. Number the vertices from 0 on\.$"),
    "nan": (["VERTEX_SE2 1 1 0 nan"], r"line 1: a number is not finite: nan\. Correct it"),
    "twice": (["VERTEX_SE2 0 0 0 0"] * 2, r"line 2: vertex 0 was given in line 1 before\. Take one of the lines out"),
    "max-mixture": (["EDGE_SE2_MAXMIX 0 1 1.9 0 0"], r"line 1: EDGE_SE2_MAXMIX lines are not .*robust.*Write such an"),
    "switch": ([EDGE, "VERTEX_SWITCH 3 1"], r"line 2: VERTEX_SWITCH lines are not supported.*robust.*take it out"),
    "no noise": (["EDGE_SE2 0 1 1 0 0"], r"line 1: .*It has no noise, .*Append the upper triangle"),
    "no :QUAT": (["EDGE_SE3 0 1 1.1 0 0 0 0 0 1"], r"line 1: unknown tag 'EDGE_SE3'\. If EDGE_SE3:QUAT is meant"),
    "lower triangle": (
        [IDENTITY, "EDGE_SE3_TRACKXYZ 0 1 0 1 1 1 0.04 0 0 0 0.04 0"],
        r"line 2: the information matrix is not positive definite\. .*row by row \(11 12 13 22 23 33\)",
    ),
    "no weight": (["EDGE_SE2 0 1 1 0 0 0 0 0 0 0 0"], r"line 1, which joins 0 and 1: .* Give it a positive weight"),
}  # fmt: skip


def written(folder: Path, *lines: str) -> Path:
    path = folder / "graph.g2o"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("name", WRONG)
def test_line_cause_and_remedy(tmp_path: Path, name: str) -> None:
    lines, message = WRONG[name]
    with pytest.raises(DatasetError, match=message):
        gtsam_sdp.load_g2o(written(tmp_path, *lines))


@pytest.mark.parametrize("line", ["PARAMS_SE2OFFSET 0 0 0 0", "PARAMS_CAMERACALIB 0 0 0 0 0 0 0 1 500 500 320 240"])
def test_parameters_that_no_edge_uses_change_nothing(tmp_path: Path, line: str) -> None:
    graph, _ = gtsam_sdp.load_g2o(written(tmp_path, line, EDGE))
    plain, _ = gtsam_sdp.load_g2o(written(tmp_path, EDGE))
    assert graph.equals(plain, 0.0)


def test_joined_files_keep_no_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "graph.g2o"
    path.write_bytes(b"\xef\xbb\xbf" + f"{EDGE}\n\ufeff{EDGE}\n".encode())
    assert gtsam_sdp.load_g2o(path)[0].size() == 2
