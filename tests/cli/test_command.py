"""The command line: what it prints and where, and its exit status."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import gtsam
import pytest

import gtsam_sdp
from gtsam_sdp.cli import certifying, inputs
from gtsam_sdp.files.datasets import PoseGraphFile, read_dataset, read_pose_graph
from tests import problems
from tests.cli.conftest import Run

UNIT = "1 0 0 1 0 1"


def write_ring(path: Path, turns: int, size: int = 12) -> Path:
    """A 2D ring of odometry with one turn; the file's values make `turns` turns."""
    turn = 2 * math.pi / size
    step = gtsam.Pose2(1, 0, turn * turns)
    pose = gtsam.Pose2()
    lines = []
    for i in range(size):
        lines.append(f"VERTEX_SE2 {i} {pose.x()!r} {pose.y()!r} {pose.theta()!r}")
        lines.append(f"EDGE_SE2 {i} {(i + 1) % size} 1 0 {turn!r} {UNIT}")
        pose = pose.compose(step)
    path.write_text("\n".join(lines) + "\n")
    return path


def test_certified(run: Run) -> None:
    status, out, err = run("certify", "pose3example-grid")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "pose3example-grid.txt: 27 poses, 44 factors, 3D"
    assert lines[1] == "  start         values of the file"
    assert lines[2].startswith("  optimised     cost 127.941 -> 43.4986")
    assert "4 iterations of Levenberg-Marquardt, 0." in lines[2]
    assert lines[3].startswith("CERTIFIED: no solution is better by more than")


def test_a_wrong_minimum_is_not_certified(run: Run, tmp_path: Path) -> None:
    right = write_ring(tmp_path / "right.g2o", turns=1)
    wrong = write_ring(tmp_path / "wrong.g2o", turns=2)
    status, out, _ = run("certify", right)
    assert status == 0
    assert "CERTIFIED" in out
    status, out, _ = run("certify", wrong, "--json")
    assert status == 1
    answer = json.loads(out)
    assert answer["certificate"]["cost"] > 1
    assert answer["optimization"]["converged"]
    assert answer["certificate"]["status"] in ("bounded", "inconclusive")


def test_solve_leaves_a_wrong_minimum(run: Run, tmp_path: Path) -> None:
    wrong = write_ring(tmp_path / "wrong.g2o", turns=2)
    best = tmp_path / "best.g2o"
    for options in ([], ["--no-initial"], ["--method", "sdp"], ["--method", "staircase"]):
        status, out, _ = run("solve", wrong, "--output", best, *options)
        assert status == 0
        assert out.startswith("wrong.g2o: 12 poses, 12 factors, 2D\nCERTIFIED")
        assert "found by" in out
        assert run("certify", best, "--no-optimize")[0] == 0
    assert run("solve", wrong, "--method", "local")[0] == 1


def test_the_ring_of_the_repository_is_as_its_readme_says(run: Run) -> None:
    ring = Path(__file__).parents[2] / "data" / "ring.g2o"
    status, out, _ = run("certify", ring)
    assert status == 1
    assert "INCONCLUSIVE" in out
    assert "cost          434.4" in out
    status, out, _ = run("solve", ring)
    assert status == 0
    assert "cost          3.5065" in out


def test_solve_for_machines(run: Run, tmp_path: Path) -> None:
    wrong = write_ring(tmp_path / "wrong.g2o", turns=2)
    status, out, _ = run("solve", wrong, "--json")
    answer = json.loads(out)
    assert status == 0
    assert answer["certificate"]["status"] == "certified"
    assert answer["improvement"] > 1
    assert [stage["name"] for stage in answer["stages"]][-1] == "certify"
    assert answer["method"] in ("chordal initialisation", "sdp", "staircase")
    status, _, err = run("solve", wrong, "--time-limit", "0")
    assert status == 2
    assert "not a positive number" in err


def test_tolerance(run: Run) -> None:
    assert run("certify", "noisyToyGraph", "--tolerance", "1e-6")[0] == 0
    status, out, _ = run("certify", "noisyToyGraph", "--tolerance", "1e-12")
    assert status == 1
    assert "(asked for: 1e-10%)" in out


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "much"])
def test_bad_tolerance(run: Run, text: str) -> None:
    status, out, err = run("certify", "noisyToyGraph", f"--tolerance={text}")
    assert (status, out) == (2, "")
    assert "argument --tolerance:" in err


def test_json_has_the_certificate(run: Run) -> None:
    status, out, err = run("certify", "noisyToyGraph", "--json")
    assert (status, err) == (0, "")
    answer = json.loads(out)
    assert (answer["dimension"], answer["keys"], answer["factors"]) == (2, 4, 5)
    assert answer["file"].endswith("noisyToyGraph.txt")
    assert answer["start"] == "values of the file"
    assert answer["seconds"] > 0
    assert set(answer["optimization"]) == {"initial_cost", "cost", "iterations", "converged", "seconds"}
    file = read_dataset("noisyToyGraph")
    expected = gtsam_sdp.certify(file.graph, file.initial).to_dict()
    assert set(answer["certificate"]) == set(expected)
    assert answer["certificate"]["status"] == "certified"
    assert answer["certificate"]["cost"] == answer["optimization"]["cost"] < answer["optimization"]["initial_cost"]


def test_json_has_nothing_else_on_standard_output(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "suspicious.g2o"
    path.write_text(f"EDGE_SE2 0 1 1 0 0 1 2 0 1 0 1\nEDGE_SE2 1 2 1 0 0 {UNIT}\n")
    status, out, err = run("certify", path, "--json", "--verbose")
    assert status == 0
    assert json.loads(out)["certificate"]["status"] == "certified"
    first, *others = err.splitlines()
    assert first.startswith(f"warning: {path}: the information matrices of 1 edges are indefinite")
    assert any(line.startswith("gtsam_sdp: reading: 2 factors") for line in others)
    assert "warnings.warn" not in err


def test_chordal_cost(run: Run) -> None:
    chordal = json.loads(run("certify", "pose3example-grid", "--cost", "chordal", "--json")[1])["certificate"]
    assert chordal["largest_contributions"][0]["type"] == "FrobeniusBetweenFactorPose3"
    assert chordal["status"] == "certified"
    assert chordal["exactness"] == {"EXACT": 44}
    assert "choose from" in run("certify", "pose3example-grid", "--cost", "other")[2]


@pytest.mark.parametrize("cost", ["geodesic", "chordal"])
def test_output_can_be_certified_again(run: Run, tmp_path: Path, cost: str) -> None:
    best = tmp_path / "best.g2o"
    status, out, _ = run("certify", "pose3example-grid", "--output", best, "--json", "--cost", cost)
    assert status == 0
    before = json.loads(out)["certificate"]
    status, out, _ = run("certify", best, "--no-optimize", "--json", "--cost", cost)
    answer = json.loads(out)
    assert status == 0
    assert answer["optimization"] is None
    assert answer["certificate"]["cost"] == pytest.approx(before["cost"], rel=1e-9)
    assert answer["certificate"]["relative_gap"] == pytest.approx(before["relative_gap"], abs=1e-8)


def test_the_files_own_values(run: Run, tmp_path: Path) -> None:
    status, out, _ = run("certify", "pose3example-grid", "--no-optimize")
    assert status == 1
    assert "optimised     no, as asked for" in out
    assert "optimise first, then certify" in out
    path = tmp_path / "edges.g2o"
    path.write_text(f"EDGE_SE2 0 1 1 0 0 {UNIT}\n")
    assert run("certify", path)[0] == 0
    status, out, err = run("certify", path, "--no-optimize")
    assert (status, out) == (2, "")
    assert "edges.g2o does not hold a value for every key" in err


def test_bad_output_is_refused_before_the_work(run: Run, tmp_path: Path) -> None:
    (tmp_path / "folder.g2o").mkdir()
    for path in (tmp_path / "folder.g2o", tmp_path / "none" / "best.g2o"):
        status, out, err = run("certify", "noisyToyGraph", "--output", path)
        assert (status, out) == (2, "")
        assert f"--output {path}: give a file in a folder that exists." in err
    ranges = tmp_path / "ranges.g2o"
    ranges.write_text(f"EDGE_SE2 0 1 1 0 0 {UNIT}\nEDGE_RANGE 0 1 2 1\n")
    status, _, err = run("certify", ranges, "--output", tmp_path / "best.g2o")
    assert status == 2
    assert "line 2: EDGE_RANGE lines are not supported" in err


def test_fixed_vertices_are_written_again(run: Run, tmp_path: Path) -> None:
    ring, best = write_ring(tmp_path / "ring.g2o", turns=1), tmp_path / "best.g2o"
    ring.write_text("FIX 3\n" + ring.read_text())
    assert run("certify", ring, "--output", best)[0] == 0
    assert "FIX 3\n" in best.read_text()


def test_landmarks_are_written_and_read_again(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "best.g2o"
    status, out, _ = run("solve", "victoriaPark_reduced_1k", "--no-initial", "--output", path, "--json")
    assert status == 0
    cost = json.loads(out)["certificate"]["cost"]
    status, out, _ = run("certify", path, "--no-optimize", "--json")
    assert status == 0
    assert json.loads(out)["certificate"]["cost"] == pytest.approx(cost, rel=1e-9)


def test_files_with_ranges(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "best.pyfg"
    status, out, err = run("certify", "goats_16", "--output", path)
    assert status == 1
    assert "error" not in err
    assert out.splitlines()[0] == "goats_16.pyfg: 205 variables, 772 factors, 2D"
    status, again, _ = run("certify", path, "--no-optimize", "--json")
    assert status == 1
    assert f"{json.loads(again)['certificate']['cost']:.10g}" in out
    status, out, _ = run("info", "goats_16")
    assert status == 0
    assert "201 Pose2, 4 landmarks" in out
    assert "200 BetweenFactorPose2, 572 RangeFactor2D" in out
    status, _, err = run("certify", "goats_16", "--cost", "chordal")
    assert status == 2
    assert "needs a g2o file; this one is in PyFG format" in err


@pytest.mark.parametrize("command", ["certify", "info"])
def test_bad_input(run: Run, tmp_path: Path, command: str) -> None:
    path = tmp_path / "bad.g2o"
    path.write_text(f"EDGE_SE2 0 1 1 0 0 {UNIT}\nEDGE_SE2 0 1\n")
    status, out, err = run(command, path, "--json")
    assert (status, out) == (2, "")
    assert err.startswith(f"gtsam-sdp: error: {path}, line 2: EDGE_SE2 needs 11 numbers, this line has 2.")
    assert "Traceback" not in err
    status, out, err = run(command, "nosuchthing")
    assert (status, out) == (2, "")
    assert "There is no file nosuchthing" in err


def test_landmarks(run: Run) -> None:
    status, out, _ = run("certify", "example")
    assert status == 0
    assert "516 factors: 516 tangent" in out


def test_the_old_name_of_a_method(run: Run, tmp_path: Path) -> None:
    with pytest.warns(DeprecationWarning, match='method="chordal" is called method="sdp" now'):
        status, out, _ = run("solve", write_ring(tmp_path / "wrong.g2o", turns=2), "--method", "chordal")
    assert status == 0
    assert "found by      sdp" in out


def test_usage_errors(run: Run) -> None:
    for words in ([], ["certify"], ["prove", "w100"], ["info", "w100", "--tolerance", "1"]):
        status, out, err = run(*words)
        assert (status, out) == (2, "")
        assert "usage: gtsam-sdp" in err


def test_help_and_version(run: Run) -> None:
    status, out, _ = run("--help")
    assert status == 0
    for text in (
        "examples:",
        "gtsam-sdp certify map.g2o --output best.g2o",
        "exit status: 0 certified",
        "130 interrupted",
    ):
        assert text in out
    assert "--drop-unsupported" in run("certify", "--help")[1]
    assert "solve map.g2o" not in run("certify", "--help")[1]
    assert "certify map.g2o" not in run("solve", "--help")[1]
    assert "gtsam-sdp info map.g2o" in run("info", "--help")[1]
    assert run("--version")[1].startswith(f"gtsam-sdp {gtsam_sdp.__version__} (GTSAM 4.")


def test_iteration_limit_is_said(run: Run) -> None:
    """And what to do about it."""
    status, out, _ = run("certify", "pose3example", "--max-iterations", "2")
    assert status == 1
    assert "note: Levenberg-Marquardt from this start has not converged after 2 iterations: `gtsam-sdp solve" in out
    assert "pose3example` starts from the chordal initialisation; --max-iterations lets it go on" in out
    answer = json.loads(run("certify", "pose3example", "--json", "--max-iterations", "2")[1])
    assert not answer["optimization"]["converged"]
    for word in ("0", "-1", "1.5", "many"):
        status, _, err = run("certify", "pose3example", f"--max-iterations={word}")
        assert status == 2
        assert f"{word} is not a positive whole number" in err


def test_advice_is_for_the_command_line(run: Run, tmp_path: Path) -> None:
    wrong = write_ring(tmp_path / "wrong ring.g2o", turns=2)
    _, out, _ = run("certify", wrong)
    assert f"try `gtsam-sdp solve '{wrong}'`, or other starts" in out
    assert f"solve '{wrong}'" in json.loads(run("certify", wrong, "--json")[1])["certificate"]["notes"][0]
    _, out, _ = run("solve", wrong, "--method", "local")
    assert "try --method sdp, or more time" in out
    assert "refine" not in out
    for lift in ("gram", "vector"):
        status, out, _ = run("solve", wrong, "--no-initial", "--method", "sdp", "--lift", lift)
        assert status == 0


def test_unsupported_factors_are_dropped(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file makes them yet."""

    def read_with_bearing(path: Path, **_: object) -> PoseGraphFile:
        file = read_pose_graph(path)
        noise = gtsam.noiseModel.Isotropic.Sigma(1, 0.1)
        robust = gtsam.noiseModel.Robust.Create(problems.loss_of_numbers(1.0), noise)
        file.graph.add(gtsam.RangeFactorPose2(0, 1, 1.0, robust))
        return file

    monkeypatch.setattr(inputs, "read_pose_graph", read_with_bearing)
    for command in ("certify", "solve"):
        status, _, err = run(command, "noisyToyGraph")
        assert status == 2
        assert "or pass --drop-unsupported: a dropped factor counts as 0" in err
        _, out, _ = run(command, "noisyToyGraph", "--drop-unsupported")
        assert "6 factors: 5 tangent, 1 dropped" in out


def test_a_slow_optimisation_tells_of_another_way(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("_LONG", "_MANY_ITERATIONS"):
        monkeypatch.setattr(certifying, limit, 0)
    _, out, err = run("certify", "noisyToyGraph", "--verbose")
    lines = err.splitlines()
    assert lines[0].startswith("  iteration 1: cost 0.0")
    assert lines[1].startswith(
        "  Levenberg-Marquardt from this start has not converged after 1 iterations: `gtsam-sdp "
    )
    assert err.count("has not converged") == 1
    assert "gtsam_sdp: reading: 5 factors, 4 keys" in err
    assert out.startswith("noisyToyGraph.txt")


def test_info(run: Run) -> None:
    status, out, err = run("info", "pose3example-grid")
    assert (status, err) == (0, "")
    rows = dict(line.split(maxsplit=1) for line in out.splitlines()[1:5])
    assert rows == {
        "dimension": "3D",
        "keys": "27 Pose3",
        "factors": "44 BetweenFactorPose3",
        "noise": "44 Diagonal",
    }


def test_info_as_json(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "parts.g2o"
    edges = [f"EDGE_SE2 {i} {j} 1 0 0 {noise}" for i, j, noise in [(0, 1, UNIT), (5, 2**64 - 1, "2 0 0 3 0 4")]]
    path.write_text("\n".join(edges) + "\n")
    status, out, _ = run("info", path, "--json")
    facts = json.loads(out)
    assert status == 0
    assert facts.pop("cost_at_start") < 1e-20
    assert facts == {
        "file": str(path),
        "dimension": 2,
        "keys": {"Pose2": 4},
        "factors": {"BetweenFactorPose2": 2},
        "noise": {"Unit": 1, "Diagonal": 1},
        "components": 2,
        "has_values": False,
        "start": "odometry along a spanning tree (the file lacks 4 of 4 values)",
    }


def test_info_with_landmarks(run: Run) -> None:
    out = run("info", "example")[1]
    assert "95 Pose2, 24 landmarks" in out
    assert "94 BetweenFactorPose2, 422 BearingRangeFactor2D" in out


def test_the_installed_command() -> None:
    script = Path(sys.executable).with_name("gtsam-sdp")
    done = subprocess.run([script, "certify", "nosuchthing"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("gtsam-sdp: error: There is no file nosuchthing")
