"""How results are shown: renderers are registered for their types, so that no result knows how it is drawn."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gtsam_sdp.compared import Compared


@dataclass(frozen=True)
class Renderers:
    """What `print`, the prompt and Jupyter show of a type."""

    text: Callable[[Any], str]
    brief: Callable[[Any], str]
    html: Callable[[Any], str]


_RENDERERS: dict[type, Renderers] = {}


def show_with(kind: type, text: Callable[[Any], str], brief: Callable[[Any], str], html: Callable[[Any], str]) -> None:
    """Registers the renderers of a type."""
    _RENDERERS[kind] = Renderers(text, brief, html)


def _renderers_of(result: Any) -> Renderers:
    """Those of its type; they are imported when something is shown first."""
    importlib.import_module("gtsam_sdp.show.renderers")
    return _RENDERERS[type(result)]


class Shown(Compared):
    """A result that its type's renderers show."""

    def __str__(self) -> str:
        return _renderers_of(self).text(self)

    def __repr__(self) -> str:
        return _renderers_of(self).brief(self)

    def _repr_html_(self) -> str:
        return _renderers_of(self).html(self)
