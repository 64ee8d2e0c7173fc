"""The site of docs/: what a reader could stumble over is found before them: `python -m tests.support.pages.site`.

It reads the pages, and what mkdocs has made of them in build/site. A link leads somewhere, every page and picture is
reached, each page begins with when one needs it, and a command that a page shows is one that the CLI has, with its
options. What a page shows in a block is run here when it needs no cluster, or by a test that the page names, or by
`make test-docs`; `shown.py` has the marks that say so. A block without one is a mistake.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Set
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from tests.support.pages.metrics_page import families, shown_name
from tests.support.pages.shown import ROOT, alike, blocks, command_of, place_of, words_of

DOCS: Final = ROOT / "docs"
SITE: Final = ROOT / "build" / "site"
_BEGINS: Final = re.compile(r"^(\*\*)?(Read|Use|Come) (this|here)\b")
_HERE: Final = re.compile(r"(?:: (\d+))?")
"""How a block is run by `make docs`: with which exit code it ends."""
_MOST_S: Final = 60.0
OTHERS: Final = frozenset({"lockgate_map", "lockgate_producers", "lockgate_state", "lockgate_workers"})
"""Topics of the gateways, which are named alike, and the metric that only a gateway of several processes has."""


def pages() -> list[Path]:
    """Every page of docs/."""
    return sorted(DOCS.rglob("*.md"))


def with_commands() -> list[Path]:
    """Every page that shows commands to users: those of docs/, and the first one of all."""
    return [*pages(), ROOT / "README.md"]


def unknown_commands(page: Path) -> list[str]:
    """What a page has of `lockgate …` that the CLI has not, in blocks and in the text."""
    text = page.read_text(encoding="utf-8")
    shown = [line for block in blocks(page) if not block.in_text for line in block.lines]
    shown += re.findall(r"(?<!`)`(lockgate [^`\n]+)`", text)
    return [f"{place_of(page)}: {line}: {wrong}" for line in shown for wrong in _unknown(line)]


def wrong_marks(page: Path) -> list[str]:
    """Blocks without a mark, and marks that mean nothing, give no reason, or name a test that is not there or has not
    the words of a command of the block."""
    wrong = []
    for block in blocks(page):
        how, where = (block.how or "").strip(), f"{block.page}:{block.line}"
        if block.how is None:
            wrong.append(f"{where}: no mark says how these commands are run: {block.lines[0] if block.lines else ''}")
        elif how.startswith("by "):
            tests = [ROOT / name.strip() for name in how.removeprefix("by ").split(",")]
            texts = [path.read_text(encoding="utf-8") if path.is_file() else "" for path in tests]
            told = [line for line in block.lines if words_of(line)]
            missed = [line for line in told if not any(_has(text, line) for text in texts)]
            wrong += [f"{where}: {how}: not there: {line}" for line in missed]
            wrong += [f"{where}: {how}: no such file" for text in texts if not text]
        elif block.reason is not None:
            wrong += [] if block.reason.strip() else [f"{where}: not run, without a reason"]
        elif block.on_clusters is None and not _HERE.fullmatch(how):
            wrong.append(f"{where}: what does 'run {how}' mean?")
        if block.setups and block.on_clusters is None:
            wrong.append(f"{where}: a setup is of a block that is run on clusters")
    return wrong


def unknown_metrics(page: Path) -> list[str]:
    """Metrics that a page names and no gateway has."""
    known = {shown_name(family) for family in families()} | OTHERS
    named = re.findall(r"\b(lockgate_[a-z_]+[a-z])(?![a-z_]*[*…])", page.read_text(encoding="utf-8"))
    return [
        f"{place_of(page)}: no metric {name}" for name in sorted(set(named) - known) if not _begins_one(name, known)
    ]


def run_here(page: Path) -> tuple[int, list[str]]:
    """Run what a page marks so: how many commands, and what went wrong."""
    count, wrong = 0, []
    for block in blocks(page):
        if block.how is None or not (here := _HERE.fullmatch(block.how.strip())):
            continue
        expected = int(here[1] or 0)
        printed = ""
        for line in block.lines:
            code, said = _run(line)
            count, printed = count + 1, printed + said
            if code != expected:
                wrong.append(f"{block.page}: {line}: ended with {code}\n{said}")
        if block.printed is not None and not alike(block.printed, printed, block.differs):
            wrong.append(f"{block.page}: {block.lines}: prints\n{printed}")
    return count, wrong


def without_beginning(page: Path) -> list[str]:
    """A page that does not begin with when one needs it."""
    lines = page.read_text(encoding="utf-8").split("\n")
    first = next((line for line in lines[1:] if line.strip()), "")
    fine = lines[0].startswith("# ") and _BEGINS.match(first)
    return [] if fine else [f"{place_of(page)}: begins with '{first[:60]}', not with 'Read this …'"]


def orphans() -> list[str]:
    """Pages that the navigation has not, and pictures that no page shows."""
    listed = set(
        re.findall(r"^\s*- (?:[^:\n]+: )?([\w/.-]+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    )
    lost = [f"{place_of(page)}: not in mkdocs.yml" for page in pages() if str(page.relative_to(DOCS)) not in listed]
    shown = "\n".join(path.read_text(encoding="utf-8") for path in [*pages(), ROOT / "README.md"])
    pictures = (path for path in DOCS.rglob("*") if path.suffix in (".svg", ".png"))
    return lost + [f"{place_of(path)}: on no page" for path in sorted(pictures) if path.name not in shown]


def broken_links() -> list[str]:
    """Links of the built site that lead to no file of it, or to no place in one."""
    read = {path: _Page.of(path) for path in sorted(SITE.rglob("*.html")) if path.name != "404.html"}
    return [
        f"{path.relative_to(SITE)}: {link}"
        for path, page in read.items()
        for link in sorted(page.links)
        if not _leads(path, link, read)
    ]


class _Page(HTMLParser):
    """The links and the places of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.places: set[str] = set()

    @classmethod
    def of(cls, path: Path) -> _Page:
        page = cls()
        page.feed(path.read_text(encoding="utf-8"))
        return page

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.places.add(value)
            elif value and (name == "href" or (name == "src" and tag != "iframe")):
                self.links.add(value)


def _begins_one(name: str, known: Set[str]) -> bool:
    """Whether it is a histogram's or a counter's name without its ending."""
    return any(one.startswith(f"{name}_") for one in known)


def _leads(page: Path, link: str, read: Mapping[Path, _Page]) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return False
    return not parts.fragment or target not in read or unquote(parts.fragment) in read[target].places


def _unknown(line: str) -> Iterator[str]:
    path, command = command_of(words_of(line))
    words = words_of(line)[len(path) :]
    if hasattr(command, "get_command"):  # of a group
        if words and not words[0].startswith("-") and words[0] not in ("…", "...") and not words[0].isupper():
            yield f"no command '{' '.join([*path, words[0]])}'"
        return
    takes_value = {name: not getattr(one, "is_flag", True) for one in command.params for name in one.opts}
    options = {name for one in command.params for name in [*one.opts, *one.secondary_opts]} | {"--help", "-h"}
    before = ""
    for word in words:
        name = word.split("=")[0]
        if re.match(r"--?[a-z]", name) and name not in options and not takes_value.get(before):
            yield f"no option {name}"
        before = word


def _has(test: str, line: str) -> bool:
    """Whether a test has the words of a command: in a row, or each as an argument where a helper adds some."""
    path, _ = command_of(words_of(line))
    together = re.search(r"""["', \n(\[*]+""".join(map(re.escape, path)), test)
    return bool(together) or (bool(test) and all(f'"{word}"' in test for word in path))


def _run(line: str) -> tuple[int, str]:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "120"}
    environment |= {"PYTHONPATH": str(ROOT), "NO_COLOR": "1", "TERM": "dumb"}
    environment = {name: value for name, value in environment.items() if not name.startswith("LOCKGATE_")}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "configs").symlink_to(ROOT / "configs")
        done = subprocess.run(
            ["sh", "-c", line], cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=_MOST_S, check=False,
        )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def main() -> int:
    """Check everything; the last line says how it went."""
    wrong, ran = [], 0
    for page in with_commands():
        count, failed = run_here(page)
        ran += count
        wrong += [*failed, *unknown_commands(page), *unknown_metrics(page), *wrong_marks(page)]
    wrong += [line for page in pages() for line in without_beginning(page)]
    broken, lost = broken_links(), orphans()
    sys.stderr.writelines(f"{line}\n" for line in [*wrong, *(f"broken: {line}" for line in broken), *lost])
    verdict = "FAIL" if wrong or broken or lost else "PASS"
    sys.stdout.write(
        f"docs: {verdict} pages={len(pages())} commands_run={ran} broken_links={len(broken)} orphans={len(lost)}\n"
    )
    return 0 if verdict == "PASS" else 1


if __name__ == "__main__":
    sys.exit(main())
