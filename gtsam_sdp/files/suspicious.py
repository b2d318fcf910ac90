"""What is legal in a pose-graph file, and probably not what was meant."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from gtsam_sdp.errors import DatasetError, SuspiciousInputWarning, format_key
from gtsam_sdp.files.g2o import PoseLines
from gtsam_sdp.linalg.array import Array


def warn(message: str, level: int = 5) -> None:
    """A warning, by default at the caller of what calls the reader of a file."""
    warnings.warn(message, SuspiciousInputWarning, stacklevel=level)


def warn_of_missing_vertices(lines: PoseLines) -> None:
    """A vertex without a line, where others have one, may be a wrong number in an edge."""
    poses = [(key, line) for line, ids in zip(lines.places, lines.ids, strict=True) for key in ids]
    poses += [(sighting.pose, sighting.line) for sighting in lines.sightings]
    poses += [(prior.key, prior.line) for prior in lines.priors if prior.kind != "landmark"]
    points = [(sighting.landmark, sighting.line) for sighting in lines.sightings]
    for seen, given in ((poses, lines.vertices), (points, lines.points)):
        missing = [(key, line) for key, line in seen if given and key not in given]
        if missing:
            key, line = missing[0]
            warn(
                f"{lines.path}, line {line}: vertex {format_key(key)} has no VERTEX line, where others have one "
                f"({len(dict(missing))} such). If the number is wrong, correct it; else its value follows from the "
                "measurements."
            )


def warn_of_left_out_lines(lines: PoseLines) -> None:
    """FIX and EQUIV lines, and noise of landmarks that GTSAM replaces."""
    if len(lines.fixed) > 1:
        warn(f"{lines.path}: FIX lines hold {len(lines.fixed)} vertices; they are left out, and all vertices are free.")
    equal = sum(words[0] == "EQUIV" for words in lines.left_out)
    if equal:
        warn(f"{lines.path}: {equal} EQUIV lines are left out, as GTSAM does.")
    if lines.other_noise:
        warn(
            f"{lines.path}: the covariances of {len(lines.other_noise)} LANDMARK lines (the first is line "
            f"{lines.other_noise[0]}) are no multiples of the identity. GTSAM takes unit noise where the diagonal "
            "differs, and leaves correlation out. What is optimised and certified is GTSAM's cost."
        )


def warn_of_noise_format(lines: PoseLines) -> None:
    """GTSAM's readers of TORO files do not take the noise as the format has it: what they make is what counts."""
    size = 3 if lines.dimension == 2 else 6
    if size == 6:
        diagonals = np.diagonal(lines.information, axis1=1, axis2=2)
        plain = np.count_nonzero(lines.noise, axis=1) == np.count_nonzero(diagonals, axis=1)
        if not (plain.all() and (diagonals == diagonals[:, :1]).all()):
            warn(
                f"{lines.path}: GTSAM takes the noise of EDGE3 lines as information matrices with rotations first; "
                "the format has translations first. What is optimised and certified is GTSAM's cost."
            )
    elif (lines.noise[:, [0, 3]] != 1).any():
        warn(
            f"{lines.path}: GTSAM takes the noise of EDGE2 and ODOMETRY lines as covariance matrices; "
            "the format has information matrices. What is optimised and certified is GTSAM's cost."
        )


def warn_of_information(lines: PoseLines) -> None:
    """Noise that GTSAM refuses or changes."""
    _warn_of_matrices(lines, lines.information, [lines.edge_name(k) for k in range(len(lines.ids))], "edges")
    _warn_of_matrices(lines, lines.prior_information, [prior.name for prior in lines.pose_priors], "priors")


def _warn_of_matrices(lines: PoseLines, information: Array, names: Sequence[str], what: str) -> None:
    diagonals = np.diagonal(information, axis1=1, axis2=2)
    if not len(diagonals):
        return
    smallest = diagonals.min(axis=1)
    refused = np.flatnonzero(smallest <= 0 if lines.dimension == 2 else smallest < 0)
    if len(refused):
        raise DatasetError(
            f"{lines.path}, {names[refused[0]]}: the information matrix has {smallest[refused[0]]:g} on its diagonal, "
            "which GTSAM cannot use. Give it a positive weight, which may be small, or take the line out."
        )
    eigenvalues = np.linalg.eigvalsh(information)
    scale = np.abs(eigenvalues).max(axis=1)
    indefinite = np.flatnonzero(eigenvalues[:, 0] < -1e-9 * scale)
    singular = np.flatnonzero(np.abs(eigenvalues[:, 0]) <= 1e-12 * scale)
    if len(indefinite):
        warn(
            f"{lines.path}: the information matrices of {len(indefinite)} {what} are indefinite (the first in "
            f"{names[indefinite[0]]}). GTSAM factors them into different ones; "
            "what it optimises, and what is certified, is the cost of those.",
            level=6,
        )
    if len(singular):
        warn(
            f"{lines.path}: the information matrices of {len(singular)} {what} are singular (the first in "
            f"{names[singular[0]]}). They leave a direction free, and GTSAM may factor them into "
            "different ones; what is certified is the cost that GTSAM has.",
            level=6,
        )
