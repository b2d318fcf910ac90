"""The documentation site builds without a warning, has no dead link and no script error, and fits a phone."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag

import pytest

import gtsam_sdp
from gtsam_sdp import plot

_ROOT = Path(__file__).parent.parent
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built with warnings as errors."""
    built = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]  # --quiet would hide warnings from --strict
    command += ["--config-file", str(_ROOT / "docs" / "site" / "mkdocs.yml"), "--site-dir", str(built)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    run = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return built


def test_every_public_name_is_on_the_site(site: Path) -> None:
    page = (site / "api.html").read_text()
    named = {name for name in gtsam_sdp.__all__ if re.search(rf'id="gtsam_sdp\.(\w+\.)?{name}"', page)}
    assert named == set(gtsam_sdp.__all__) - {"plot"}  # a module, whose functions are there
    assert "{{" not in (site / "index.html").read_text()


class _Page(HTMLParser):
    """What a page leads to, loads, and can be led to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.names: set[str] = {"", "__skip"}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value is not None}
        self.names |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif "src" in given or (tag == "link" and given.get("rel") in ("stylesheet", "icon")):
            self.loaded.append(given["src"] if "src" in given else given["href"])


def dead_links(site: Path) -> list[str]:
    """Links of the site to pages, files or headings that are not there, and what is loaded from elsewhere."""
    pages = {path: _Page(path.read_text()) for path in site.rglob("*.html")}
    dead = []
    for path, page in pages.items():
        loaded = [link for link in page.loaded if not link.startswith("data:")]
        dead += [f"{path.name} loads {link}" for link in loaded if re.match(r"(https?:)?//", link)]
        for link in page.links + loaded:
            if re.match(r"[a-z]+:|//", link):
                continue
            place, heading = urldefrag(unquote(link))
            base = site if place.startswith("/") else path.parent
            target = (base / place.lstrip("/")).resolve() if place else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists() or (target in pages and heading not in pages[target].names):
                dead.append(f"{path.name} leads to {link}")
    return dead


def test_no_dead_link(site: Path) -> None:
    assert dead_links(site.resolve()) == []


def test_dead_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<p id="x"><a href="b.html">b</a><a href="#x">x</a><a href="#y">y</a></p>')
    (tmp_path / "c.html").write_text(
        '<a href="a.html#x">x</a><img src="d.png"><script src="https://e.org/f.js"></script>'
    )
    assert sorted(dead_links(tmp_path.resolve())) == [
        "a.html leads to #y", "a.html leads to b.html", "c.html leads to d.png", "c.html loads https://e.org/f.js",
    ]  # fmt: skip


def test_notebooks_and_formulas_are_pages(site: Path) -> None:
    for notebook in (_ROOT / "notebooks").glob("*.ipynb"):
        page = (site / "notebooks" / f"{notebook.stem}.html").read_text()
        assert "data:image/png" in page, "the pictures of the notebook"
        assert '<script src="http' not in page
    proof = (site / "maths" / "proof.html").read_text()
    assert "<math" in proof
    assert "\\mathrm" not in proof
    for page in site.rglob("*.html"):
        assert 'class="arithmatex">' not in page.read_text(), "a formula that was left as it is"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Nothing: the test's output is its own."""


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def browser() -> Iterator[Any]:
    found = next((path for name in _BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"no browser: install one of {', '.join(_BROWSERS)} to see the site as its readers do")
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    with api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")], ids=["phone", "window"])
def test_pages_in_a_browser(site: Path, address: str, browser: Any, width: int, scheme: str) -> None:
    """No script error, nothing that is not found, and no page that is wider than the window."""
    wrong: list[str] = []
    tab = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    tab.on("pageerror", lambda error: wrong.append(f"{tab.url}: {error}"))
    tab.on("console", lambda said: wrong.append(f"{tab.url}: {said.text}") if said.type == "error" else None)
    tab.on("response", lambda answer: wrong.append(f"{answer.url}: {answer.status}") if answer.status >= 400 else None)
    tab.on("request", lambda asked: None if asked.url.startswith((address, "data:")) else wrong.append(asked.url))
    for path in sorted(site.rglob("*.html")):
        tab.goto(f"{address}/{path.relative_to(site).as_posix()}", wait_until="load")
        wide = tab.evaluate("document.documentElement.scrollWidth")
        if wide > width:
            wrong.append(f"{path.name} is {wide} pixels wide")
        is_dark = tab.evaluate("document.body.getAttribute('data-md-color-scheme')") == "slate"
        if is_dark != (scheme == "dark"):
            wrong.append(f"{path.name} is not {scheme}")
    assert wrong == []


def test_every_page_is_in_the_menu() -> None:
    menu = (_ROOT / "docs" / "site" / "mkdocs.yml").read_text()
    pages = [page.relative_to(_ROOT / "docs") for page in (_ROOT / "docs").rglob("*.md")]
    pages += [page.relative_to(_ROOT) for page in (_ROOT / "notebooks").glob("*.ipynb")]
    for page in pages:
        assert f" {page.as_posix()}\n" in menu, f"{page} is missing in docs/site/mkdocs.yml"


def test_names_in_lists_exist() -> None:
    pictures = re.findall(r"`(plot_\w+)\(", (_ROOT / "docs" / "notebooks.md").read_text())
    assert sorted(pictures) == sorted(plot.__all__)
    notebooks = re.findall(r"`(\w+\.ipynb)`", (_ROOT / "docs" / "notebooks.md").read_text())
    assert set(notebooks) == {path.name for path in (_ROOT / "notebooks").glob("*.ipynb")}
