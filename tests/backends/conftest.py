"""Tests that need a MOSEK licence are skipped without one; Ctrl-C means something where tests run in the background."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.backends.cases import is_licensed


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("mosek_licence")]
    if marked and not is_licensed():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no MOSEK licence"))


@pytest.fixture(autouse=True)
def listen_to_interrupts() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
