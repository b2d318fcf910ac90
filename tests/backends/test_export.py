"""SDPA and CBF files: read back by independent readers, by MOSEK's own reader and by CSDP."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from gtsam_sdp.backends.clarabel_ import ClarabelBackend
from gtsam_sdp.backends.conic import ConicProblem
from gtsam_sdp.backends.mosek_ import MosekBackend
from gtsam_sdp.linalg.svec import lower_triangle_places, smat, svec_rows
from tests.backends.cases import OPTIMUM, TOLERANCE, conic
from tests.backends.readers import MatrixProblem, read_cbf, read_sdpa


def write_mosek_cbf(problem: ConicProblem, path: Path) -> None:
    MosekBackend().write(problem, path)


CASES = [
    pytest.param(ConicProblem.to_sdpa, read_sdpa, ".dat-s", id="sdpa"),
    pytest.param(ConicProblem.to_cbf, read_cbf, ".cbf", id="cbf"),
    pytest.param(write_mosek_cbf, read_cbf, ".cbf", id="cbf by mosek"),
]


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize(("write", "read", "ending"), CASES)
def test_read_back(
    d: int,
    write: Callable[[ConicProblem, Path], None],
    read: Callable[[Path], MatrixProblem],
    ending: str,
    tmp_path: Path,
) -> None:
    """The same matrices to the last digits, and the same optimum."""
    problem = conic(d)
    path = tmp_path / f"ring{ending}"
    write(problem, path)
    back = read(path)
    np.testing.assert_array_equal(back.sign * back.b, problem.b)
    assert [len(D) for D in back.constants] == problem.sizes.tolist()
    result = ClarabelBackend().solve(problem, tolerance=TOLERANCE, time_limit=None, verbose=False)
    assert back.sign * back.solve() == pytest.approx(result.objective, rel=OPTIMUM)
    A, matrices = problem.A.tocsc(), dict(back.matrices)
    for k, n in enumerate(problem.sizes.tolist()):
        rows = slice(problem.starts[k], problem.starts[k + 1])
        np.testing.assert_allclose(back.constants[k], smat(problem.c[rows], n), rtol=1e-14)
        block = A[rows].toarray()
        for variable in np.flatnonzero(np.abs(block).max(axis=0)).tolist():
            np.testing.assert_allclose(matrices.pop((k, variable)), -smat(block[:, variable], n), rtol=1e-14)
    assert not matrices


def test_mosek_reads_our_cbf(tmp_path: Path) -> None:
    """Its reader takes the file, and its writer gives the problem back. It has no reader for SDPA."""
    mosek: Any = pytest.importorskip("mosek")
    path, again = tmp_path / "ring.cbf", tmp_path / "again.cbf"
    conic(3).to_cbf(path)
    with mosek.Task() as task:
        task.readdata(str(path))
        task.writedata(str(again))
    first, second = read_cbf(path), read_cbf(again)
    np.testing.assert_allclose(second.sign * second.b, first.sign * first.b, rtol=1e-14)
    assert first.matrices.keys() == second.matrices.keys()
    for key, matrix in first.matrices.items():
        np.testing.assert_allclose(second.matrices[key], matrix, rtol=1e-14)
    for ours, theirs in zip(first.constants, second.constants, strict=True):
        np.testing.assert_allclose(theirs, ours, rtol=1e-14)


@pytest.mark.skipif(shutil.which("csdp") is None, reason="csdp is not installed (apt install coinor-csdp)")
@pytest.mark.parametrize("d", [2, 3])
def test_csdp_finds_the_same_optimum(d: int, tmp_path: Path) -> None:
    problem = conic(d)
    path = tmp_path / "ring.dat-s"
    problem.to_sdpa(path)
    run = subprocess.run(["csdp", str(path)], capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False)
    found = re.search(r"Dual objective value:\s*(\S+)", run.stdout)
    assert found is not None, run.stdout
    result = ClarabelBackend().solve(problem, tolerance=TOLERANCE, time_limit=None, verbose=False)
    assert -float(found[1]) == pytest.approx(result.objective, rel=OPTIMUM)


def test_scale_and_offset_are_in_the_first_line(tmp_path: Path) -> None:
    problem = conic(2)
    for write, ending, mark in ((ConicProblem.to_sdpa, ".dat-s", '"'), (ConicProblem.to_cbf, ".cbf", "#")):
        write(problem, tmp_path / f"ring{ending}")
        line = (tmp_path / f"ring{ending}").read_text().splitlines()[0]
        assert line.startswith(f"{mark} gtsam_sdp: " if mark == "#" else f"{mark}gtsam_sdp: ")
        words = line.replace(";", " ").split()
        assert float(words[words.index("scale") + 1]) == problem.scale
        assert float(words[words.index("offset") + 1]) == problem.offset


def test_rows_of_an_svec_and_the_order_of_lower_triangles() -> None:
    sizes = np.array([1, 4, 2, 7])
    rows, place = svec_rows(sizes), lower_triangle_places(sizes)
    expected = [(k, i, j) for k, n in enumerate(sizes.tolist()) for j in range(n) for i in range(j + 1)]
    assert list(zip(rows.block.tolist(), rows.row.tolist(), rows.column.tolist(), strict=True)) == expected
    lower = [(k, i, j) for k, n in enumerate(sizes.tolist()) for i in range(n) for j in range(i, n)]
    assert [lower[p] for p in place.tolist()] == expected
    np.testing.assert_array_equal(rows.scale, [1 if i == j else np.sqrt(2) for _, i, j in expected])


def test_large_blocks_have_exact_places() -> None:
    rows = svec_rows(np.array([3000]))
    column, row = np.tril_indices(3000)
    np.testing.assert_array_equal(rows.column, column)
    np.testing.assert_array_equal(rows.row, row)


def test_many_blocks_and_entries(tmp_path: Path) -> None:
    """5,000 blocks and 400,000 entries take a second or two, not minutes."""
    rng = np.random.default_rng(0)
    sizes = np.full(5000, 8)
    A: Any = sp.random_array((5000 * 36, 40000), density=4e-5, format="csc", rng=rng)
    c, b = rng.normal(size=A.shape[0]), rng.normal(size=A.shape[1])
    problem = ConicProblem(A=A, c=c, b=b, sizes=sizes, offset=0.0, scale=1.0)
    for write, ending in ((ConicProblem.to_sdpa, ".dat-s"), (ConicProblem.to_cbf, ".cbf"), (write_mosek_cbf, ".cbf")):
        started = time.perf_counter()
        write(problem, tmp_path / f"large{ending}")
        assert time.perf_counter() - started < 30
