"""Results as files, in the format that the name of the file says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import gtsam

from gtsam_sdp.errors import DatasetError
from gtsam_sdp.files.pyfg_writing import pyfg_lines, rewrite_pyfg
from gtsam_sdp.files.writing import g2o_lines, write_lines

if TYPE_CHECKING:
    from gtsam_sdp.files.datasets import PoseGraphFile

_FORMATS: dict[str, Literal["g2o", "PyFG"]] = {".g2o": "g2o", ".g2o.gz": "g2o", ".pyfg": "PyFG", ".pyfg.gz": "PyFG"}


def output_format(path: Path) -> Literal["g2o", "PyFG"]:
    """The format that the name of an output file says.

    Raises:
        DatasetError: it says none.
    """
    endings = [ending for ending in _FORMATS if path.name.lower().endswith(ending)]
    if not endings:
        raise DatasetError(
            f"--output {path}: the format is told by the name, which has to end with {', '.join(_FORMATS)}."
        )
    return _FORMATS[endings[0]]


def check_place(option: str, path: Path) -> None:
    """Raises where a file cannot be written, by opening it; what is in it stays, and where there was none is none.

    Raises:
        DatasetError: names the option.
    """
    try:
        if path.is_dir() or not path.absolute().parent.is_dir():
            raise DatasetError(f"{option} {path}: give a file in a folder that exists.")
        is_new = not path.exists()
        with path.open("ab"):
            pass
        if is_new:
            path.unlink()
    except PermissionError:
        raise DatasetError(f"{option} {path}: no permission to write there; give another file.") from None
    except OSError as error:
        raise DatasetError(f"{option} {path} cannot be written: {error.strerror}.") from None


def check_writable(path: Path, file: PoseGraphFile) -> None:
    """Raises where the graph of a file cannot be written in the format of the output: before the long work.

    Raises:
        DatasetError: names the factor or the key, and says which format holds it.
    """
    if not _keeps_lines(path, file):
        _lines(path, file, file.initial)


def write_result(path: Path, file: PoseGraphFile, values: gtsam.Values) -> None:
    """Writes the measurements of a file with other values; from PyFG to PyFG all other words stay as they are."""
    if file.pyfg and _keeps_lines(path, file):
        rewrite_pyfg(path, file.pyfg, values)
    else:
        write_lines(path, _lines(path, file, values))


def _keeps_lines(path: Path, file: PoseGraphFile) -> bool:
    return file.pyfg is not None and output_format(path) == "PyFG"


def _lines(path: Path, file: PoseGraphFile, values: gtsam.Values) -> list[str]:
    if output_format(path) == "PyFG":
        return pyfg_lines(path, file.measured, values)
    return g2o_lines(path, file.measured, values, file.fixed)
