"""Many files in one command: rows, tables, CSV, JSON lines, and the worst exit status."""

from __future__ import annotations

import csv
import io
import json
import warnings
from pathlib import Path

import gtsam
import pytest

import gtsam_sdp
from gtsam_sdp.cli import command, listing
from gtsam_sdp.files.shipped import shipped_datasets
from tests.cli.conftest import Run
from tests.cli.test_command import write_ring


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A right ring, a wrong one, a damaged file, and one that is no graph by its name."""
    place = tmp_path / "maps"
    place.mkdir()
    write_ring(place / "right.g2o", turns=1)
    write_ring(place / "wrong.g2o", turns=2)
    (place / "damaged.g2o").write_text("EDGE_SE2 0 1\n")
    (place / "remarks.md").write_text("no graph\n")
    return place


def test_a_folder_is_a_row_each_and_one_bad_file_stops_no_other(run: Run, folder: Path) -> None:
    status, out, err = run("certify", folder)
    assert status == 2
    head, *rows, end = out.splitlines()
    assert head.split() == [
        "file",
        "keys",
        "factors",
        "cost",
        "lower",
        "bound",
        "relative",
        "gap",
        "status",
        "seconds",
        "error",
    ]
    assert [Path(row.split()[0]).name for row in rows] == ["damaged.g2o", "right.g2o", "wrong.g2o"]
    assert "EDGE_SE2 needs 11 numbers" in rows[0]
    assert " certified " in rows[1]
    assert " inconclusive " in rows[2] or " bounded " in rows[2]
    assert end.startswith("3 files: 1 with an error, 1 certified, 1 not certified; ")
    assert err.count("gtsam-sdp: error: ") == 1
    assert f"{folder / 'right.g2o'}: certified, gap " in err


def test_the_exit_status_is_the_worst(run: Run, folder: Path) -> None:
    right, wrong = folder / "right.g2o", folder / "wrong.g2o"
    assert run("certify", right, right.with_name("right.g2o"))[0] == 0
    assert run("certify", wrong, right)[0] == 1
    assert run("certify", right, "nosuchthing")[0] == 2
    assert run("solve", folder / "[rw]*.g2o")[0] == 0


def test_json_is_a_line_each(run: Run, folder: Path) -> None:
    status, out, _ = run("solve", folder, "--json")
    assert status == 2
    damaged, right, wrong = map(json.loads, out.splitlines())
    assert "EDGE_SE2 needs 11 numbers" in damaged["error"]
    assert right["certificate"]["status"] == wrong["certificate"]["status"] == "certified"
    assert right["errors"] == []
    assert wrong["improvement"] > 1


def test_csv(run: Run, folder: Path) -> None:
    status, out, _ = run("certify", folder, "--csv")
    assert status == 2
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["status"] for row in rows][:2] == ["error", "certified"]
    one = list(csv.DictReader(io.StringIO(run("certify", folder / "right.g2o", "--csv")[1])))
    for name in ("file", "keys", "factors", "cost", "lower_bound", "relative_gap", "status"):
        assert one[0][name] == rows[1][name]
    assert float(rows[1]["lower_bound"]) <= float(rows[1]["cost"])
    assert "not allowed with" in run("certify", folder, "--csv", "--json")[2]


def test_info_of_many(run: Run, folder: Path) -> None:
    status, out, _ = run("info", "w100_30", folder / "right.g2o")
    assert status == 0
    rows = [line.split() for line in out.splitlines()]
    assert rows[0][:4] == ["file", "dimension", "keys", "factors"]
    assert rows[1][:4] == ["w100_30", "2", "30", "59"]
    assert rows[2][1:4] == ["2", "12", "12"]


def test_what_is_given_is_expanded_once(run: Run, folder: Path, tmp_path: Path) -> None:
    out = run("certify", folder / "right.g2o", folder / "r*.g2o", "--json")[1]
    assert len(out.splitlines()) == 1
    (tmp_path / "empty").mkdir()
    for given, told in (
        (tmp_path / "empty", "is a folder without files that end with .g2o"),
        (folder / "*.xyz", "No file matches "),
    ):
        status, out, err = run("certify", given)
        assert (status, out) == (2, "")
        assert told in err
    assert "give no other files with it" in run("certify", "-", "w100")[2]
    for option in ("--output=best.g2o", "--plot=best.png"):
        status, out, err = run("certify", folder, option)
        assert (status, out) == (2, "")
        assert "takes the result of one file, and 3 are given" in err


def test_ctrl_c_ends_with_what_is_done(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = command._WORK["certify"]

    def interrupted(arguments: object, name: str) -> object:
        if "wrong" in name:
            raise KeyboardInterrupt
        return work(arguments, name)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(command, "_WORK", {"certify": interrupted})
    status, out, _ = run("certify", folder)
    assert status == 130
    assert "2 files: 1 with an error, 1 certified; " in out
    assert "interrupted before the other 1" in out


def test_list(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is listed is there by its name, as it is said."""
    found = shipped_datasets()
    monkeypatch.setattr(listing, "shipped_datasets", lambda: found)
    names = [line.split()[0] for line in run("list")[1].splitlines()[1:]]
    assert {"w100", "goats_15", "victoria_park", "pose3example-grid"} <= set(names)
    assert [row["name"] for row in json.loads(run("list", "--json")[1])] == names
    assert run("list", "--csv")[1].splitlines()[0] == "name,dimension,keys,factors,format"
    for shipped in found:
        if shipped.factors > 2000:
            continue
        load = gtsam_sdp.load_pyfg if shipped.format == "PyFG" else gtsam_sdp.load_g2o
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", gtsam_sdp.SuspiciousInputWarning)
            graph, values = load(shipped.name)
        assert (graph.size(), values.size()) == (shipped.factors, shipped.keys), shipped.name


def test_python_takes_the_names_of_the_command_line() -> None:
    graph, values = gtsam_sdp.load_g2o("pose3example-grid")
    expected = gtsam.readG2o(gtsam.findExampleDataFile("pose3example-grid.txt"), True)
    assert graph.equals(expected[0], 1e-12)
    assert values.equals(expected[1], 1e-12)
    assert gtsam_sdp.load_pyfg("goats_16")[0].size() == 772
    with pytest.raises(gtsam_sdp.DatasetError, match="gtsam-sdp list"):
        gtsam_sdp.load_g2o("nosuchthing")
