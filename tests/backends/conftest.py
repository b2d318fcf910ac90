"""Tests that need a MOSEK licence are skipped without one."""

from __future__ import annotations

import pytest

from tests.backends.cases import is_licensed


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("mosek_licence")]
    if marked and not is_licensed():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no MOSEK licence"))
