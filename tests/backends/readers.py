"""Readers of SDPA and CBF files, written from the formats' definitions and not from our writers.

Both return the problem as max b^T y, D_k + sum y_i H_ki positive semidefinite, in dense matrices.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import clarabel
import numpy as np
import scipy.sparse as sp

from tests.backends.cases import TOLERANCE


@dataclass(frozen=True)
class MatrixProblem:
    """max b^T y (or min, if `sign` is -1) with blocks as lists of matrices.

    Attributes:
        sign: 1 if the file maximises, -1 if it minimises.
        b: objective of the file.
        constants: D_k, one a block.
        matrices: H_ki by (block, variable).
    """

    sign: int
    b: np.ndarray
    constants: list[np.ndarray]
    matrices: dict[tuple[int, int], np.ndarray]

    def solve(self) -> float:
        """The optimum in the file's own sense, by Clarabel."""
        sizes = [len(D) for D in self.constants]
        starts = np.concatenate([[0], np.cumsum([n * (n + 1) // 2 for n in sizes])])
        A = sp.lil_array((int(starts[-1]), len(self.b)))
        for (block, variable), H in self.matrices.items():
            A[starts[block] : starts[block + 1], [variable]] = -svec(H)[:, None]
        c = np.concatenate([svec(D) for D in self.constants])
        solver: Any = clarabel
        settings = solver.DefaultSettings()
        settings.verbose = False
        settings.chordal_decomposition_enable = settings.presolve_enable = False
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = TOLERANCE
        count = len(self.b)
        solution = solver.DefaultSolver(
            sp.csc_matrix((count, count)),
            -self.sign * self.b,
            sp.csc_matrix(A),
            c,
            [solver.PSDTriangleConeT(n) for n in sizes],
            settings,
        ).solve()
        assert str(solution.status) == "Solved"
        return -self.sign * float(solution.obj_val)


def svec(M: np.ndarray) -> np.ndarray:
    return np.concatenate([np.append(np.sqrt(2) * M[:j, j], M[j, j]) for j in range(len(M))])


def _put(M: np.ndarray, i: int, j: int, value: float) -> None:
    assert M[i, j] == 0, "an entry is given twice"
    M[i, j] = M[j, i] = value


def read_sdpa(path: Path) -> MatrixProblem:
    """min c^T x, sum F_i x_i - F_0: as b = c, D = -F_0, H_i = F_i."""
    lines = [line for line in path.read_text().splitlines() if line[0] not in '"*']
    count, blocks = int(lines[0]), int(lines[1])
    sizes = [int(n) for n in lines[2].split()]
    c = np.array([float(v) for v in lines[3].split()])
    assert len(sizes) == blocks
    assert len(c) == count
    constants = [np.zeros((n, n)) for n in sizes]
    matrices: dict[tuple[int, int], np.ndarray] = {}
    for line in lines[4:]:
        matrix, block, i, j = (int(word) for word in line.split()[:4])
        value = float(line.split()[4])
        assert i <= j, "upper triangle"
        if matrix == 0:
            _put(constants[block - 1], i - 1, j - 1, -value)
        else:
            n = sizes[block - 1]
            _put(matrices.setdefault((block - 1, matrix - 1), np.zeros((n, n))), i - 1, j - 1, value)
    return MatrixProblem(-1, c, constants, matrices)


def read_cbf(path: Path) -> MatrixProblem:
    """The part of the format that we and MOSEK write: free variables, PSDCON which is what it makes of svec domains."""
    lines = iter([line for line in map(str.strip, path.read_text().splitlines()) if line and line[0] != "#"])
    sign, b, sizes, constants = 1, np.zeros(0), [], []
    matrices: dict[tuple[int, int], np.ndarray] = {}
    for keyword in lines:
        if keyword == "VER":
            assert 1 <= int(next(lines)) <= 4
        elif keyword == "OBJSENSE":
            sign = {"MAX": 1, "MIN": -1}[next(lines)]
        elif keyword == "VAR":
            count, cones = (int(word) for word in next(lines).split())
            assert cones == 1
            assert next(lines).split() == ["F", str(count)]
            b = np.zeros(count)
        elif keyword == "PSDCON":
            sizes = [int(next(lines)) for _ in range(int(next(lines)))]
            constants = [np.zeros((n, n)) for n in sizes]
        elif keyword == "OBJACOORD":
            for _ in range(int(next(lines))):
                variable, value = next(lines).split()
                b[int(variable)] = float(value)
        elif keyword == "HCOORD":
            for _ in range(int(next(lines))):
                *place, value = next(lines).split()
                block, variable, i, j = (int(word) for word in place)
                assert i >= j, "lower triangle"
                n = sizes[block]
                _put(matrices.setdefault((block, variable), np.zeros((n, n))), i, j, float(value))
        elif keyword == "DCOORD":
            for _ in range(int(next(lines))):
                *place, value = next(lines).split()
                block, i, j = (int(word) for word in place)
                assert i >= j, "lower triangle"
                _put(constants[block], i, j, float(value))
        else:
            raise AssertionError(f"keyword {keyword}")
    return MatrixProblem(sign, b, constants, matrices)
