"""Terms that are registered for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gtsam_sdp import register_term, unregister_term


@contextmanager
def term_for(factor_type: type, function: Callable[[Any, Any], Any]) -> Iterator[None]:
    """Registers a function as the term of a factor type, and takes it back."""
    register_term(factor_type)(function)
    try:
        yield
    finally:
        unregister_term(function)
