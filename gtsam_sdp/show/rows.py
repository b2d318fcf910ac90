"""The rows of reports: what the terminal, Jupyter and the command line show of a result, each in its own layout."""

from __future__ import annotations

import math
from collections.abc import Iterable

from gtsam_sdp.linalg.array import Array
from gtsam_sdp.results.certificate import Certificate, FactorTerms
from gtsam_sdp.results.notes import percent
from gtsam_sdp.results.region import RobustRegion
from gtsam_sdp.results.solution import Solution
from gtsam_sdp.tolerances import SAME_COST

Row = tuple[str, str, str]
"""A row of a report: its name, a number, and what it is."""


def row_lines(rows: Iterable[Row]) -> list[str]:
    """Rows as lines of text, names and numbers below each other."""
    return [f"  {name:<13} {number}   {what}".rstrip() for name, number, what in rows]


def certificate_rows(certificate: Certificate) -> list[Row]:
    """The rows of a certificate's report."""
    stationarity = certificate.stationarity
    condition = ", under the assumption below" if certificate.assumptions and certificate.lower_bound > 0 else ""
    rows = [
        ("cost", f"{certificate.cost:.10g}", "graph.error(values)"),
        (
            "lower bound",
            f"{certificate.lower_bound:.10g}",
            f"{proof(certificate.lower_bound, certificate.region)}{condition}",
        ),
        ("gap", f"{certificate.gap:.3g}", _part(certificate)),
        ("terms", counts_text(certificate.terms), ""),
    ]
    if certificate.region is not None:
        rows.append(region_row(certificate.region))
    if math.isfinite(stationarity):
        rows.append(("stationarity", f"one more optimizer step would gain {percent(stationarity)}", ""))
    rows.append(("method", f"{certificate.method}, {1e3 * sum(certificate.timings.values()):.0f} ms", ""))
    return rows


def region_row(region: RobustRegion) -> Row:
    """The row about factors with robust losses."""
    counts = [
        (int(chosen.sum()), name) for chosen, name in zip(_sorts(region), ("kept", "outliers", "doubtful"), strict=True)
    ]
    named = ", ".join(f"{count} {name}" for count, name in counts if count)
    if region.is_unconditional:
        return ("robust", f"{len(region.index)} factors", f"{named}; no condition")
    most = (
        f"; a better solution throws out at most {region.most_violations}"
        if region.most_violations < len(region.index)
        else ""
    )
    return ("robust", f"{len(region.index)} factors", f"{named}{most}")


def change_text(region: RobustRegion) -> str:
    """What a better solution would have to change: `throws out one of 15 factors that are kept now`."""
    kept, outliers, doubtful = (int(chosen.sum()) for chosen in _sorts(region))
    parts = []
    if kept + doubtful:
        parts.append(f"throws out one of the {kept + doubtful} robust factors that are kept now")
    if outliers:
        parts.append(f"believes one of the {outliers} that are outliers now")
    return " or ".join(parts)


def _sorts(region: RobustRegion) -> tuple[Array, Array, Array]:
    return region.is_kept, region.is_outlier, region.is_doubtful


def solution_rows(solution: Solution) -> list[Row]:
    """The rows of a solution's report: its certificate's, and how the values were found."""
    found = solution.method
    if solution.improvement > SAME_COST * solution.cost:  # not by rounding alone
        found += f", {solution.improvement:.6g} below the values given"
    return [*certificate_rows(solution.certificate), ("found by", found, "")]


def stage_cells(solution: Solution) -> list[tuple[str, str, str, str, str]]:
    """Name, time [s], cost, bound and note of each stage; what is not known is empty."""
    return [
        (stage.name, f"{stage.seconds:.2f}", _finite(stage.cost), _finite(stage.lower_bound), stage.note)
        for stage in solution.stages
    ]


def _finite(number: float) -> str:
    return f"{number:.7g}" if math.isfinite(number) else ""


def proof(bound: float, region: RobustRegion | None = None) -> str:
    """What a lower bound is worth: 0 needs no proof."""
    if not bound > 0:
        return "trivial"
    where = "for all values" if region is None or region.is_unconditional else "where the robust factors allow it"
    return f"proven {where}"


def _part(certificate: Certificate) -> str:
    if certificate.zero_cost:
        return "the cost is zero to the digits of the data"
    return f"{percent(certificate.relative_gap)} of the cost"


def counts_text(terms: FactorTerms) -> str:
    """How many factors there are, and how exact their terms: `25 factors: 20 tangent, 5 exact`."""
    counts = ", ".join(f"{n} {name.lower().replace('_', ' ')}" for name, n in terms.counts().items())
    return f"{len(terms)} factors: {counts}" if counts else "no factors"
