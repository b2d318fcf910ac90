"""How tests run the command."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gtsam_sdp import cli

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command; gives its exit status and what it wrote to standard output and error."""

    def command(*words: object) -> tuple[int, str, str]:
        try:
            status = cli.main([str(word) for word in words])
        except SystemExit as end:
            assert isinstance(end.code, int)
            status = end.code
        written = capsys.readouterr()
        return status, written.out, written.err

    return command
