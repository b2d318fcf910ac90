"""Makes pages of the notebooks, as they were saved: they are in a folder beside `docs/`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from formulas import mathml
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files

_ROOT = Path(__file__).parent.parent.parent
_SCRIPT = re.compile(r"<script\b(?![^>]*application/json).*?</script>", re.DOTALL)
_INLINE = re.compile(r"\$([^$<>]+)\$")


@event_priority(100)  # before the plugin that turns notebooks into pages
def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Called by MkDocs with the files of `docs/`."""
    for path in sorted((_ROOT / "notebooks").glob("*.ipynb")):
        files.append(File(f"notebooks/{path.name}", str(_ROOT), config["site_dir"], use_directory_urls=False))
    return files


def on_page_content(content: str, page: Any, **_: Any) -> str:
    """Links of notebooks as the site has them, formulas as MathML, and no scripts, which would load others."""
    if not page.file.src_uri.endswith(".ipynb"):
        return content
    content = _SCRIPT.sub("", content)
    content = re.sub(r'href="\.\./docs/([\w/-]+)\.md', r'href="../\1.html', content)
    content = re.sub(r'href="(\w+)\.ipynb', r'href="\1.html', content)
    text = re.compile(r"<p>.*?</p>", re.DOTALL)
    return text.sub(lambda p: _INLINE.sub(lambda f: mathml(f.group(1), is_block=False), p.group()), content)
