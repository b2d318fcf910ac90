"""Names of methods that have another one now: still taken, with a warning."""

from __future__ import annotations

import warnings
from typing import TypeVar

_Name = TypeVar("_Name", bound=str)
_NEW = {"chordal": "sdp"}


def renamed(method: _Name, level: int = 3) -> _Name:
    """The name of a method today; the caller of the function that was given an old one is warned."""
    new = _NEW.get(method) if isinstance(method, str) else None
    if new is None:
        return method
    warnings.warn(f'method="{method}" is called method="{new}" now.', DeprecationWarning, stacklevel=level)
    return new  # type: ignore[return-value]
