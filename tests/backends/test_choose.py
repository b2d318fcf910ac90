"""The choice of a solver by name."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from gtsam_sdp.backends import choose
from gtsam_sdp.backends.base import Backend
from gtsam_sdp.backends.choose import choose_backend
from gtsam_sdp.backends.clarabel_ import ClarabelBackend
from gtsam_sdp.backends.mosek_ import MosekBackend


def test_choice_by_name() -> None:
    assert isinstance(choose_backend("clarabel"), ClarabelBackend)
    assert isinstance(choose_backend("mosek"), MosekBackend)
    own = ClarabelBackend()
    assert choose_backend(own) is own
    names, own_class = get_args(choose.BackendChoice)
    assert set(get_args(names)) == set(choose._BACKENDS)
    assert own_class is Backend


@pytest.mark.parametrize("wrong", ["scs", "Clarabel", None, ClarabelBackend, ["mosek"]])
def test_unknown_backends(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r'it is one of "clarabel", "mosek", or an object of a class derived from'):
        choose_backend(wrong)
