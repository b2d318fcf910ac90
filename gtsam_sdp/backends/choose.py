"""The names of the solvers."""

from __future__ import annotations

from typing import Literal

from gtsam_sdp.backends.base import Backend
from gtsam_sdp.backends.clarabel_ import ClarabelBackend
from gtsam_sdp.backends.mosek_ import MosekBackend

BackendChoice = Literal["clarabel", "mosek"] | Backend
"""A name, or an object of one's own class."""

_BACKENDS: dict[str, type[Backend]] = {
    "clarabel": ClarabelBackend,
    "mosek": MosekBackend,
}


def choose_backend(backend: BackendChoice) -> Backend:
    """The solver of a name; a solver is returned as it is.

    Raises:
        ValueError: the name is not known.
        BackendNotInstalledError: the solver's package is not installed.
    """
    if isinstance(backend, Backend):
        return backend
    if not isinstance(backend, str) or backend not in _BACKENDS:
        names = ", ".join(f'"{name}"' for name in _BACKENDS)
        raise ValueError(f"backend={backend!r}: it is one of {names}, or an object of a class derived from Backend")
    return _BACKENDS[backend]()
