"""The documentation site builds without a warning, and its API page has every public name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import gtsam_sdp
from gtsam_sdp import plot

_ROOT = Path(__file__).parent.parent


def test_site_builds_strictly(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]  # --quiet would hide warnings from --strict
    command += ["--config-file", str(_ROOT / "docs" / "site" / "mkdocs.yml"), "--site-dir", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    page = (tmp_path / "site" / "api.html").read_text()
    named = {name for name in gtsam_sdp.__all__ if re.search(rf'id="gtsam_sdp\.(\w+\.)?{name}"', page)}
    assert named == set(gtsam_sdp.__all__) - {"plot"}  # a module, whose functions are there
    assert "{{" not in (tmp_path / "site" / "index.html").read_text()


def test_every_page_is_in_the_menu() -> None:
    menu = (_ROOT / "docs" / "site" / "mkdocs.yml").read_text()
    for page in (_ROOT / "docs").rglob("*.md"):
        name = page.relative_to(_ROOT / "docs").as_posix()
        assert f" {name}\n" in menu, f"{name} is missing in docs/site/mkdocs.yml"


def test_names_in_lists_exist() -> None:
    pictures = re.findall(r"`(plot_\w+)\(", (_ROOT / "docs" / "notebooks.md").read_text())
    assert sorted(pictures) == sorted(plot.__all__)
    notebooks = re.findall(r"`(\w+\.ipynb)`", (_ROOT / "docs" / "notebooks.md").read_text())
    assert set(notebooks) <= {path.name for path in (_ROOT / "notebooks").glob("*.ipynb")}
