"""`gtsam-sdp info` and `gtsam-sdp list`: what files hold, and which ones ship with GTSAM."""

from __future__ import annotations

import argparse
import json

from gtsam_sdp.cli.answer import Answer
from gtsam_sdp.cli.inputs import read_file
from gtsam_sdp.cli.rows import COLUMNS, csv_line, table
from gtsam_sdp.cli.streams import write
from gtsam_sdp.files.info import describe, info_text
from gtsam_sdp.files.shipped import shipped_datasets
from gtsam_sdp.progress import showing_progress


def described(arguments: argparse.Namespace, name: str) -> Answer:
    """What a graph holds."""
    facts = describe(read_file(arguments, name))
    return Answer(name, 0, info_text(facts), facts)


def list_shipped(arguments: argparse.Namespace) -> int:
    """Shows the data sets that ship with GTSAM."""
    with showing_progress(False, live=True):
        rows = [shipped.to_dict() for shipped in shipped_datasets()]
    columns = COLUMNS["list"]
    if arguments.json:
        write(json.dumps(rows, indent=2))
    elif arguments.csv:
        write("\n".join([csv_line(columns), *(csv_line(row[name] for name in columns) for row in rows)]))
    else:
        write(table(rows, columns))
    return 0
