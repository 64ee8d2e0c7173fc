"""What mkdocs is told beside mkdocs.yml: pages of the project that are not under docs/ belong to the site, too.

A page of docs/ may link to any file of the project, as it is read on a disk or in a forge. Files that are linked to
become files of the site under `project/`: pages where they are Markdown, with the links in them, else as they are.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCS = "docs"
OUTSIDE = "project"
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)(?=[)#\s])")
_FENCE = re.compile(r"(^```.*?^```|`[^`\n]*`)", re.DOTALL | re.MULTILINE)


def on_files(files: Any, config: Any) -> Any:
    """Add what pages of docs/, and what those add, link to."""
    from mkdocs.structure.files import File

    left = [f"{DOCS}/{file.src_uri}" for file in files.documentation_pages()]
    seen = set(left)
    while left:
        page = left.pop()
        for target in _targets(page):
            if target in seen or target.startswith(f"{DOCS}/"):
                continue
            seen.add(target)
            files.append(File.generated(config, f"{OUTSIDE}/{target}", abs_src_path=str(ROOT / target)))
            if target.endswith(".md"):
                left.append(target)
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Point its links to where the site has what they mean."""
    there = page.file.src_uri
    here = there.removeprefix(f"{OUTSIDE}/") if there.startswith(f"{OUTSIDE}/") else f"{DOCS}/{there}"

    def moved(found: re.Match[str]) -> str:
        target = _real(here, found[1])
        if target is None:
            return found[1]
        placed = target.removeprefix(f"{DOCS}/") if target.startswith(f"{DOCS}/") else f"{OUTSIDE}/{target}"
        return os.path.relpath(placed, Path(there).parent)

    parts = _FENCE.split(markdown)
    return "".join(part if odd % 2 else _LINK.sub(moved, part) for odd, part in enumerate(parts))


def _targets(page: str) -> list[str]:
    text = _FENCE.sub("", (ROOT / page).read_text(encoding="utf-8"))
    found = (_real(page, link) for link in _LINK.findall(text))
    return [target for target in found if target is not None]


def _real(page: str, link: str) -> str | None:
    """The file of the project that a link means, None when there is none; of a folder its README or the list of it."""
    target = os.path.normpath(Path(page).parent / link)
    if (ROOT / target).is_dir():
        target = f"{target}/README.md"
    return target if (ROOT / target).is_file() else None
