"""Optimising the graph with small weights first, where they span many decades."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

import gtsam

from gtsam_sdp.errors import GtsamSdpError
from gtsam_sdp.results.solution import FoundBy, StageName
from gtsam_sdp.search.budget import SHARE, Budget
from gtsam_sdp.search.continuation import Weights, continued
from gtsam_sdp.search.findings import Finding, Incumbent
from gtsam_sdp.search.methods.local import optimised
from gtsam_sdp.search.start import starting_values
from gtsam_sdp.search.task import Task


def stepped_up(task: Task, incumbent: Incumbent, budget: Budget) -> Finding:
    """The end of a continuation from the best values, and from the initialisation of the graph with small weights."""
    weights = Weights.of(task.graph)
    if not weights.span_decades:
        return Finding()
    best, _ = incumbent.best

    def starts(graph: gtsam.NonlinearFactorGraph) -> Sequence[gtsam.Values]:
        try:
            return (task.completed(starting_values(graph, task.options.on_unsupported), best), best)
        except GtsamSdpError:
            return (best,)

    values = continued(weights, starts, time.perf_counter() + SHARE * budget.remaining)
    note = f"weights in {len(weights.caps)} steps"
    then = (partial(optimised, values, FoundBy.CONTINUATION),)
    return Finding(StageName.CONTINUATION, note, task.graph.error(values), then=then)
