"""The command itself: its subcommands, one graph or many, and the exit status."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from gtsam_sdp.cli.answer import BAD_INPUT, INTERRUPTED, Answer, failed
from gtsam_sdp.cli.certifying import certified
from gtsam_sdp.cli.inputs import expanded
from gtsam_sdp.cli.listing import described, list_shipped
from gtsam_sdp.cli.options import build_parser
from gtsam_sdp.cli.pictures import page
from gtsam_sdp.cli.results import check_places
from gtsam_sdp.cli.rows import COLUMNS, Row, cells, csv_line, done_text, row_of, summary, table
from gtsam_sdp.cli.solving import solved
from gtsam_sdp.cli.streams import AnswerLostError, discard_output, tell_error, warnings_as_lines, write
from gtsam_sdp.errors import DatasetError, GtsamSdpError
from gtsam_sdp.progress import report_task, showing_progress, tell

Work = Callable[[argparse.Namespace, str], Answer]
_WORK: Mapping[str, Work] = {"certify": certified, "solve": solved, "info": described}


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns the exit status (0 certified, 1 not certified, 2 bad input, 130 interrupted)."""
    try:
        arguments = build_parser().parse_args(argv)
        return list_shipped(arguments) if arguments.command == "list" else _run(arguments)
    except GtsamSdpError as error:
        tell_error(failed(argparse.Namespace(), "", error).errors[0])
        return BAD_INPUT
    except AnswerLostError as error:
        if error.was_closed:
            return 1
        tell_error(f"{error}.")
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        try:
            sys.stdout.flush()
        except (OSError, ValueError):  # argparse's help, for a reader that is gone
            discard_output()


def _run(arguments: argparse.Namespace) -> int:
    names, are_many = expanded(arguments.files)
    if arguments.command != "info":
        for option in ("output", "plot"):
            if are_many and getattr(arguments, option) is not None:
                raise DatasetError(f"--{option} takes the result of one file, and {len(names)} are given.")
        check_places(arguments)
    if are_many:
        return _many(arguments, names)
    with warnings_as_lines(), showing_progress(getattr(arguments, "verbose", False), live=True):
        answer = answered(arguments, names[0])
    status = max(answer.status, _write_page(arguments, [answer]))
    if answer.text:
        write(_form(arguments, answer))
    for error in answer.errors:
        tell_error(error)
    return status


def answered(arguments: argparse.Namespace, name: str) -> Answer:
    """The answer about one file, whatever it is."""
    began = time.perf_counter()
    try:
        answer = _WORK[arguments.command](arguments, name)
    except GtsamSdpError as error:
        answer = failed(arguments, name, error)
    if arguments.command == "info":
        return answer
    return replace(answer, facts={**answer.facts, "seconds": time.perf_counter() - began})


def _form(arguments: argparse.Namespace, answer: Answer) -> str:
    """One answer as it was asked for."""
    if arguments.json:
        return json.dumps(answer.facts, indent=2, allow_nan=False)
    if arguments.csv:
        columns = COLUMNS[arguments.command]
        return "\n".join([csv_line(columns), csv_line(row_of(answer).get(name) for name in columns)])
    return answer.text


def _many(arguments: argparse.Namespace, names: Sequence[str]) -> int:
    """A row for each file as it is done, and a table of all at the end."""
    columns, began = COLUMNS[arguments.command], time.perf_counter()
    answers: list[Answer] = []
    rows: list[Row] = []
    if arguments.csv:
        write(csv_line(columns))
    with warnings_as_lines(), showing_progress(getattr(arguments, "verbose", False), live=True):
        try:
            for answer in _each(arguments, names):
                row = row_of(answer)
                if arguments.json:
                    write(json.dumps({**answer.facts, "errors": answer.errors}, allow_nan=False))
                elif arguments.csv:
                    write(csv_line(row.get(name) for name in columns))
                for error in answer.errors:
                    tell_error(error)
                if not answer.errors and not (arguments.json or arguments.csv):
                    tell(done_text(row))
                rows.append(row)
                answers.append(answer if arguments.command != "info" and arguments.report else replace(answer, text=""))
        except KeyboardInterrupt:
            answers.append(Answer("", INTERRUPTED))
    done = [answer for answer in answers if answer.name]
    if not (arguments.json or arguments.csv):
        write(table(rows, columns))
        ended = f", interrupted before the other {len(names) - len(done)}" if len(done) < len(names) else ""
        if arguments.command != "info":
            write(f"{len(done)} files: {summary(done)}; {time.perf_counter() - began:.1f} s{ended}")
    worst = max(answer.status for answer in answers)
    return max(worst, _write_page(arguments, done, rows))


def _each(arguments: argparse.Namespace, names: Sequence[str]) -> Iterator[Answer]:
    """The answers, one after the other; Ctrl-C ends them with the one that it interrupts."""
    for number, name in enumerate(names):
        report_task(name, number, len(names))
        answer = answered(arguments, name)
        yield answer
        if answer.status == INTERRUPTED:
            return


def _write_page(arguments: argparse.Namespace, answers: Sequence[Answer], rows: Sequence[Row] = ()) -> int:
    """Writes the page that was asked for; the exit status for that."""
    if arguments.command == "info" or arguments.report is None:
        return 0
    columns = COLUMNS[arguments.command]
    heads = [name.replace("_", " ") for name in columns]
    title = f"gtsam-sdp {arguments.command}: " + (answers[0].name if len(answers) == 1 else f"{len(answers)} files")
    try:
        arguments.report.write_text(page(title, answers, heads, [cells(row, columns) for row in rows]))
    except OSError as error:
        tell_error(f"--report {arguments.report} cannot be written: {error.strerror}.")
        return BAD_INPUT
    return 0
