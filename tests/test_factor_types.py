"""The table of factor types is complete and true."""

from __future__ import annotations

import pytest

from gtsam_sdp.factors.families import ADAPTERS, COSTLESS, UNSUPPORTED
from tests.factor_types import PAGE, answer, factor_types, page


def test_every_type_of_the_wheel_has_an_answer() -> None:
    silent = [name for name in factor_types() if not answer(name)[0]]
    assert not silent


def test_page_is_what_the_package_says() -> None:
    assert PAGE.read_text() == page(), "run python -m tests.factor_types"


@pytest.mark.parametrize("registry", [ADAPTERS, COSTLESS, UNSUPPORTED])
def test_registries_name_types_of_the_wheel(registry: set[str] | dict[str, object]) -> None:
    assert set(registry) <= set(factor_types())
