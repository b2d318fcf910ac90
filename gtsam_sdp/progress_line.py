"""The line of a terminal that shows what is done now: run as a program, which reads JSON lines until they end.

It imports nothing of the package, so that it is there at once.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from typing import Any

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

_A_SECOND = 4
"""Times that the line is drawn."""

_BAR = 20
"""Characters."""


class Line:
    """The line, drawn from the latest state."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {}
        self._spinner = Spinner("dots")
        self._began = time.time()

    def __rich__(self) -> RenderableType:
        """Spinner, time, bar, step, cost and bound."""
        state = self.state
        seconds = int(max(time.time() - state.get("began", self._began), 0.0))
        row: list[RenderableType] = [self._spinner, f"{seconds // 60}:{seconds % 60:02d}"]
        if state.get("total"):
            done, total = state["done"], state["total"]
            row += [ProgressBar(total=total, completed=done, width=_BAR), f"{done} of {total}"]
        row.append(" · ".join(part for part in (state.get("task"), state.get("step")) if part))
        row += [f"{name} {state[name]:.8g}" for name in ("cost", "bound") if state.get(name, 0.0) > 0]
        grid = Table.grid(padding=(0, 2), expand=False)
        for _ in row:
            grid.add_column(no_wrap=True, overflow="ellipsis")
        grid.add_row(
            *(Text(cell, no_wrap=True, overflow="ellipsis") if isinstance(cell, str) else cell for cell in row)
        )
        return grid


def main() -> None:
    """Draws until standard input ends; who reads Ctrl-C is the program that was asked to work."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    line, console = Line(), Console(file=sys.stdout, highlight=False)
    time.sleep(float(sys.argv[1]))
    with Live(line, console=console, refresh_per_second=_A_SECOND, transient=True) as live:
        for message in map(json.loads, sys.stdin):
            if "say" in message:
                console.print(message["say"], markup=False, highlight=False, soft_wrap=True)
            else:
                line.state = message["state"]
        live.stop()


if __name__ == "__main__":
    main()
