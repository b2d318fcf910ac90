"""Results as files: graphs, pictures and pages, whose places are looked at before the work."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gtsam

from gtsam_sdp.cli.answer import BAD_INPUT, Answer
from gtsam_sdp.cli.inputs import read_file
from gtsam_sdp.cli.pictures import check_pictures, save_picture, section
from gtsam_sdp.errors import GtsamSdpError
from gtsam_sdp.files.datasets import PoseGraphFile
from gtsam_sdp.files.output import check_place, check_writable, output_format, write_result
from gtsam_sdp.progress import report_now


def check_places(arguments: argparse.Namespace) -> None:
    """Raises where a result cannot be written: before the long work.

    Raises:
        DatasetError, MatplotlibNotInstalledError: names the option.
    """
    if arguments.output is not None:
        output_format(arguments.output)
        check_place("--output", arguments.output)
    if arguments.plot is not None:
        check_pictures(arguments.plot)
        check_place("--plot", arguments.plot)
    if arguments.report is not None:
        check_pictures(None)
        check_place("--report", arguments.report)


def read_for_result(arguments: argparse.Namespace, name: str) -> PoseGraphFile:
    """The graph; refuses what the format of the output cannot hold."""
    file = read_file(arguments, name)
    if arguments.output is not None:
        check_writable(arguments.output, file)
    return file


def written(
    answer: Answer, start: str, arguments: argparse.Namespace, file: PoseGraphFile, values: gtsam.Values, found: Any
) -> Answer:
    """The answer after its files were written; what cannot be written is told after the report.

    Args:
        answer: the answer.
        start: where the values come from, for the page.
        arguments: which files.
        file: the graph.
        values: the values that were found.
        found: the certificate or the solution; None if there is none.
    """
    errors = list(answer.errors)

    def attempt(work: Callable[[], Any]) -> Any:
        try:
            return work()
        except GtsamSdpError as error:
            errors.append(str(error))
        except OSError as error:
            errors.append(f"{error.filename} cannot be written: {error.strerror}.")
        return None

    output, plot = arguments.output, arguments.plot
    if output is not None:
        attempt(lambda: write_result(output, file, values))
    if plot is not None:
        report_now("drawing")
        attempt(lambda: save_picture(plot, file.graph, values, found))
    text = section(start, file, values, found) if arguments.report is not None else ""
    return replace(answer, errors=tuple(errors), section=text, status=max(answer.status, BAD_INPUT if errors else 0))
