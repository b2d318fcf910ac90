"""`gtsam-sdp solve` of one file: read, search, report."""

from __future__ import annotations

import argparse

from gtsam_sdp.cli.answer import CERTIFIED, INTERRUPTED, NOT_CERTIFIED, Answer, words
from gtsam_sdp.cli.inputs import check_graph, head, on_unsupported, size_facts
from gtsam_sdp.cli.results import read_for_result, written
from gtsam_sdp.errors import Interrupted
from gtsam_sdp.show.text import solution_text
from gtsam_sdp.solve import solve


def solved(arguments: argparse.Namespace, name: str) -> Answer:
    """Reads a file, and searches for the best values; Ctrl-C ends that with what was found until then."""
    file = read_for_result(arguments, name)
    check_graph(file, arguments)
    told, interrupt = [head(file)], None
    try:
        solution = solve(
            file.graph,
            None if arguments.no_initial or not file.has_values else file.initial,
            method=arguments.method,
            lift=arguments.lift,
            tolerance=arguments.tolerance,
            time_limit=arguments.time_limit,
            on_unsupported=on_unsupported(arguments),
            verbose=arguments.verbose,
        )
        values = solution.values
    except Interrupted as error:
        interrupt, solution, values = error, error.solution, error.values
    facts = (
        {**size_facts(file), "certificate": None} if solution is None else {**size_facts(file), **solution.to_dict()}
    )
    if solution is not None:
        told.append(solution_text(solution, words(name)))
    if interrupt is not None:
        told.append("interrupted: " + ("nothing was found yet" if values is None else "the best until then"))
        if values is not None and (solution is None or values is not solution.values):
            told.append(f"  cost          {file.graph.error(values):.10g}   not certified")
    is_certified = solution is not None and bool(solution.certificate)
    status = INTERRUPTED if interrupt else CERTIFIED if is_certified else NOT_CERTIFIED
    answer = Answer(name, status, "\n".join(told), facts)
    return answer if values is None else written(answer, head(file), arguments, file, values, solution)
