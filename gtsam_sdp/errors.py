"""The exceptions and warnings of the package; every message says what, where, what is allowed and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gtsam_sdp.remedies import Advice, Remedy

_MAX_NAMED = 3


def format_key(key: int) -> str:
    """Name of a GTSAM key: `x12` for a symbol, the plain number otherwise."""
    character = key >> 56
    if 32 < character < 127:
        return f"{chr(character)}{key & ((1 << 56) - 1)}"
    return str(key)


def format_factor(index: int, type_name: str, keys: Iterable[int]) -> str:
    """Name of a factor for messages: `factor 12 (BetweenFactorPose3 on x3, x4)`."""
    return f"factor {index} ({type_name} on {', '.join(format_key(int(k)) for k in keys)})"


class GtsamSdpError(Exception):
    """Base of every error that this package raises on purpose."""


class InvalidGraphError(GtsamSdpError, ValueError):
    """The graph or the values cannot be used: a missing value, NaN, a wrong type, an unconstrained key."""


class DatasetError(GtsamSdpError, ValueError):
    """A file is missing, empty, damaged or holds something that is not supported; names file and line."""


class InvalidTermError(GtsamSdpError, ValueError):
    """A term is malformed, or above the cost of its factor, so that a bound made of it would be wrong."""


class ProblemTooLargeError(GtsamSdpError):
    """The predicted cost of a computation is beyond the machine; says what to use instead."""


class BackendNotInstalledError(GtsamSdpError, ImportError):
    """A solver was asked for whose package is not installed; says how to install it."""


class PandasNotInstalledError(GtsamSdpError, ImportError):
    """A table for pandas was asked for without pandas; says how to install it."""


class MatplotlibNotInstalledError(GtsamSdpError, ImportError):
    """A picture was asked for without matplotlib; says how to install it."""


class LicenseError(GtsamSdpError):
    """A commercial solver finds no valid licence; says where to get one and where to put it."""


class SolveFailedError(GtsamSdpError):
    """A solver ended without a point, so that there is nothing to verify.

    Attributes:
        problem: the conic problem, for example to export it.
        solution: what the solver returned.
    """

    def __init__(self, message: str, problem: Any, solution: Any) -> None:
        self.problem, self.solution = problem, solution
        super().__init__(message)


@dataclass(frozen=True)
class Offender:
    """A factor that cannot be certified: its place in the graph, its type, its keys and the reason."""

    index: int
    type_name: str
    keys: tuple[int, ...]
    reason: str


class UnsupportedFactorError(GtsamSdpError):
    """Factors that no term is known for; `offenders` lists all of them."""

    def __init__(self, offenders: Sequence[Offender]) -> None:
        self.offenders = tuple(offenders)
        super().__init__(_describe_offenders(self.offenders))


class UnsupportedNoiseError(UnsupportedFactorError):
    """Factors of supported types whose noise model no term is known for; `offenders` lists all of them."""


class SuspiciousInputWarning(UserWarning):
    """Legal input that probably is not what was meant."""


def _describe_offenders(offenders: Sequence[Offender]) -> Advice:
    groups: dict[tuple[str, str], list[Offender]] = {}
    for offender in offenders:
        groups.setdefault((offender.type_name, offender.reason), []).append(offender)
    lines = [f"{len(offenders)} factor(s) of the graph cannot be certified:"]
    for (type_name, reason), members in groups.items():
        named = "; ".join(
            f"factor {o.index} on {', '.join(format_key(k) for k in o.keys)}" for o in members[:_MAX_NAMED]
        )
        more = f"; and {len(members) - _MAX_NAMED} more" if len(members) > _MAX_NAMED else ""
        lines.append(f"  {len(members)} x {type_name}: {reason} ({named}{more})")
    lines.append("Remove or replace them, register a term for them (gtsam_sdp.register_term), or pass ")
    meaning = ": a dropped factor counts as 0 in the lower bound, which stays valid."
    return Advice("\n".join(lines), Remedy.DROP, meaning)
