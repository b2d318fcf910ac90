"""Conic problems as files of other solvers: SDPA (sparse) and CBF."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TextIO

import numpy as np
import scipy

from gtsam_sdp.linalg.array import Array
from gtsam_sdp.linalg.svec import svec_rows

_LINES_AT_ONCE = 100_000


def write_sdpa(path: Path, A: scipy.sparse.csc_array, b: Array, c: Array, sizes: Array, scaling: str) -> None:
    """Writes an SDPA sparse file (.dat-s): min sum c_i x_i subject to sum F_i x_i - F_0 positive semidefinite.

    x = y, c = -b, F_0 = -C, F_i = -A_i: the file's optimum v is that of the problem with its sign changed. The bound
    of the graph's cost is -v / scale + offset; scale and offset are in the file's first line. Matrices, blocks and
    entries count from 1; upper triangles; 17 significant digits, so that nothing is rounded more than once.

    Args:
        path: of the file; it is overwritten.
        A, b, c, sizes: as in `ConicProblem`.
        scaling: what the first line says of scale and offset.
    """
    block, row, column, variable, value = _entries(A, c, sizes)
    with path.open("w", encoding="ascii", newline="\n") as file:
        file.write(f'"gtsam_sdp: {scaling}; cost = offset - min / scale\n')
        file.write(f"{len(b)}\n{len(sizes)}\n")
        file.write(" ".join(map(str, sizes.tolist())) + "\n")
        file.write(" ".join(f"{-v + 0.0:.17g}" for v in b.tolist()) + "\n")
        _write_lines(file, "%d %d %d %d %.17g\n", variable + 1, block + 1, row + 1, column + 1, -value)


def write_cbf(path: Path, A: scipy.sparse.csc_array, b: Array, c: Array, sizes: Array, scaling: str) -> None:
    """Writes a file of the Conic Benchmark Format (.cbf): max sum b_i y_i, sum H_i y_i + D positive semidefinite.

    H_i = -A_i and D = C for each block (PSDCON), variables are free. The bound of the graph's cost is the file's
    optimum / scale + offset; scale and offset are in the file's first line. Everything counts from 0; lower
    triangles; 17 significant digits.

    Args:
        path: of the file; it is overwritten.
        A, b, c, sizes: as in `ConicProblem`.
        scaling: what the first line says of scale and offset.
    """
    block, row, column, variable, value = _entries(A, c, sizes)
    constant = variable < 0
    count, objective = len(b), np.flatnonzero(b)
    with path.open("w", encoding="ascii", newline="\n") as file:
        file.write(f"# gtsam_sdp: {scaling}; cost = max / scale + offset\n")
        file.write(f"VER\n1\n\nOBJSENSE\nMAX\n\nVAR\n{count} 1\nF {count}\n\nPSDCON\n{len(sizes)}\n")
        file.write("\n".join(map(str, sizes.tolist())) + "\n")
        file.write(f"\nOBJACOORD\n{len(objective)}\n")
        _write_lines(file, "%d %.17g\n", objective, b[objective])
        file.write(f"\nHCOORD\n{np.count_nonzero(~constant)}\n")
        columns = (block, variable, column, row, -value)
        _write_lines(file, "%d %d %d %d %.17g\n", *(c[~constant] for c in columns))
        file.write(f"\nDCOORD\n{np.count_nonzero(constant)}\n")
        _write_lines(file, "%d %d %d %.17g\n", *(c[constant] for c in (block, column, row, value)))


def _entries(A: scipy.sparse.csc_array, c: Array, sizes: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Entries of C (as variable -1), then of A_0, A_1, ...: block, row <= column, variable, value of the matrix."""
    rows = svec_rows(sizes)
    used = np.flatnonzero(c)
    entries = A.tocoo()
    kept = np.flatnonzero(entries.data)
    kept = kept[np.argsort(entries.col[kept], kind="stable")]
    place = np.concatenate([used, entries.row[kept]])
    variable = np.concatenate([np.full(len(used), -1), entries.col[kept]])
    value = np.concatenate([c[used], entries.data[kept]]) / rows.scale[place]
    return rows.block[place], rows.row[place], rows.column[place], variable, value


def _write_lines(file: TextIO, line: str, *columns: Array) -> None:
    """A line for each entry; formatting many lines at once is several times faster than one by one."""
    for start in range(0, len(columns[0]), _LINES_AT_ONCE):
        part = [column[start : start + _LINES_AT_ONCE].tolist() for column in columns]
        file.write(line * len(part[0]) % tuple(chain.from_iterable(zip(*part, strict=True))))
