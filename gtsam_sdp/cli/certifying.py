"""`gtsam-sdp certify` of one file: read, optimise, certify, report."""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import Any

import gtsam

from gtsam_sdp.certify import certify
from gtsam_sdp.cli.answer import CERTIFIED, INTERRUPTED, NOT_CERTIFIED, Answer, solve_command, words
from gtsam_sdp.cli.inputs import check_graph, head, on_unsupported, size_facts
from gtsam_sdp.cli.results import read_for_result, written
from gtsam_sdp.errors import DatasetError, InvalidGraphError
from gtsam_sdp.files.datasets import PoseGraphFile
from gtsam_sdp.plain import finite_or_none
from gtsam_sdp.progress import tell
from gtsam_sdp.results.certificate import Certificate
from gtsam_sdp.results.notes import Note
from gtsam_sdp.search.local import Optimization, OptimizationInterrupted, optimise
from gtsam_sdp.show.rows import row_lines

_MANY_ITERATIONS = 20
_LONG = 5.0
"""An optimisation that takes longer tells of another way [s]."""


def certified(arguments: argparse.Namespace, name: str) -> Answer:
    """Reads a file, optimises from its values, and certifies where that ends."""
    file = read_for_result(arguments, name)
    check_graph(file, arguments)
    certificate = None
    try:
        optimization = None if arguments.no_optimize else _optimised(file, arguments, name)
    except OptimizationInterrupted as interrupt:
        optimization, was_interrupted = interrupt.found, True
    else:
        was_interrupted = False
    values = _own_values(file) if optimization is None else optimization.values
    if not was_interrupted:
        try:
            certificate = certify(
                file.graph,
                values,
                tolerance=arguments.tolerance,
                on_unsupported=on_unsupported(arguments),
                verbose=arguments.verbose,
            )
        except KeyboardInterrupt:
            was_interrupted = True
    if certificate is not None:
        notes = tuple(Note(note.said(words(name)), kind=note.kind) for note in certificate.notes)
        certificate = replace(certificate, notes=notes)
    status = INTERRUPTED if was_interrupted else CERTIFIED if certificate else NOT_CERTIFIED
    told = "interrupted: not certified" if certificate is None else str(certificate)
    start = _start_text(name, file, optimization)
    answer = Answer(
        name,
        status,
        text=f"{start}\n{told}",
        facts={**size_facts(file), **_facts(file, optimization, certificate)},
    )
    return written(answer, start, arguments, file, values, certificate)


def _own_values(file: PoseGraphFile) -> gtsam.Values:
    if not file.has_values:
        raise DatasetError(f"{file.path} does not hold a value for every key: --no-optimize has nothing to certify.")
    return file.initial


def _optimised(file: PoseGraphFile, arguments: argparse.Namespace, name: str) -> Optimization:
    """Levenberg-Marquardt from the file's values; tells if it is slow."""
    began, hinted = time.perf_counter(), False

    def told(iterations: int, cost: float) -> bool:
        nonlocal hinted
        if arguments.verbose:
            tell(f"  iteration {iterations}: cost {cost:.10g}")
        if not hinted and iterations >= _MANY_ITERATIONS and time.perf_counter() - began > _LONG:
            hinted = True
            tell(f"  {_slow(iterations, name)}; it ends after {arguments.max_iterations} iterations")
        return True

    try:
        return optimise(file.graph, file.initial, max_iterations=arguments.max_iterations, go_on=told)
    except RuntimeError as error:
        raise InvalidGraphError(f"GTSAM cannot optimise {file.path}: {error}") from error


def _slow(iterations: int, name: str) -> str:
    return (
        f"Levenberg-Marquardt from this start has not converged after {iterations} iterations: "
        f"{solve_command(name)} starts from the chordal initialisation"
    )


def _start_text(name: str, file: PoseGraphFile, optimization: Optimization | None) -> str:
    """Where the values come from."""
    what, notes = "no, as asked for", []
    if optimization is not None:
        what = (
            f"cost {optimization.initial_cost:.6g} -> {optimization.cost:.10g}, "
            f"{optimization.iterations} iterations of Levenberg-Marquardt, {optimization.seconds:.2f} s"
        )
        if not optimization.converged:
            notes = [f"  note: {_slow(optimization.iterations, name)}; --max-iterations lets it go on"]
    return "\n".join([head(file), *row_lines([("start", file.start, ""), ("optimised", what, "")]), *notes])


def _facts(file: PoseGraphFile, optimization: Optimization | None, certificate: Certificate | None) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "start": file.start,
        "optimization": None,
        "certificate": None if certificate is None else certificate.to_dict(),
    }
    if optimization is not None:
        facts["optimization"] = {
            "initial_cost": finite_or_none(optimization.initial_cost),
            "cost": finite_or_none(optimization.cost),
            "iterations": optimization.iterations,
            "converged": optimization.converged,
            "seconds": optimization.seconds,
        }
    return facts
