"""Importing the package is quick: what only some of its functions need is imported there."""

from __future__ import annotations

import subprocess
import sys


def test_what_importing_the_package_does_not_import() -> None:
    heavy = ["matplotlib", "mosek", "scipy.sparse", "scipy.spatial"]
    code = f"import sys, gtsam_sdp; print([name for name in {heavy} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.strip() == "[]"
