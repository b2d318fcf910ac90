"""SE-Sync's command line program: what it prints is all that is known of its run."""

from __future__ import annotations

import math
import re
import resource
import subprocess
import time
from pathlib import Path

from tests.benchmarks.race.finish import Finish, Seconds

_NUMBER = r"([-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)"


def race_se_sync(program: Path, path: Path, limit: float) -> Finish:
    """Runs the program on a file; the time is the one that it prints, without reading the file."""
    began = time.perf_counter()
    done = subprocess.run([str(program), str(path)], capture_output=True, text=True, check=True, timeout=limit)
    elapsed = time.perf_counter() - began
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    printed = _last(r"total .*time", done.stdout)
    cost = _last(r"rounded", done.stdout) or _last(r"F\(", done.stdout)
    value = float(cost) if cost else math.nan
    certified = "global optimum" in done.stdout.lower()
    seconds = Seconds(float(printed) if printed else elapsed, math.nan)
    verdict = "certified" if certified else "not certified"
    return Finish(seconds, certified, verdict, value, rounding=_rounding(cost), megabytes=usage.ru_maxrss / 1024)


def _last(words: str, text: str) -> str:
    """The number after the last mention of some words, on its line and after a colon or an equals sign."""
    found = re.findall(rf"{words}[^\n]*?[:=]\s*{_NUMBER}", text, flags=re.IGNORECASE)
    return found[-1] if found else ""


def _rounding(number: str) -> float:
    """Relative error of a number that was rounded to the digits given, 0 if there is none."""
    digits = re.sub(r"[eE].*|\D", "", number).lstrip("0")
    return 0.5 * 10.0 ** (1 - len(digits)) if digits else 0.0
