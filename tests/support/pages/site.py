"""The site of docs/: what a reader could stumble over is found before them: `python -m tests.support.pages.site`.

It reads the pages, and what mkdocs has made of them in build/site. A link leads somewhere, every page and picture is
reached, each page begins with when one needs it, and a command that a page shows is one that the CLI has, with its
options. What a page shows in a block is run here when it needs no cluster, or by a test that the page names:

    <!-- run -->                                   each line of the next block; it must end with 0
    <!-- run: 2 -->                                 with 2
    <!-- run by tests/quickstart/test_quickstart.py -->   that file, or one of several (A, B), has each command's words

A block of `text` right behind a block that is run is what it prints; a line `…` in it stands for any lines.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import typer

from gateway.cli.main import app
from tests.support.pages.metrics_page import families, shown_name

ROOT: Final = Path(__file__).resolve().parents[3]
DOCS: Final = ROOT / "docs"
SITE: Final = ROOT / "build" / "site"
_BLOCK: Final = re.compile(
    r"(?:^<!-- run(?P<how>[^>\n]*?) *-->\n)?^```(?P<kind>\w*)[^\n]*\n(?P<text>.*?)^```$"
    r"(?:\n\n?```text\n(?P<printed>.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)
_BEGINS: Final = re.compile(r"^(\*\*)?(Read|Use|Come) (this|here)\b")
_MOST_S: Final = 60.0
OTHERS: Final = frozenset({"lockgate_map", "lockgate_producers", "lockgate_state", "lockgate_workers"})
"""Topics of the gateways, which are named alike, and the metric that only a gateway of several processes has."""


@dataclass(frozen=True, slots=True)
class Block:
    """Commands that a page shows together: `how` is None, or what its mark says; `printed` is what they print."""

    page: str
    how: str | None
    lines: Sequence[str]
    printed: str | None


def pages() -> list[Path]:
    """Every page of docs/."""
    return sorted(DOCS.rglob("*.md"))


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page that show commands."""
    text = page.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        if found["kind"] in ("sh", "bash", "console"):
            lines = [line for line in map(_command, _joined(found["text"])) if line]
            yield Block(_named(page), found["how"], lines, found["printed"])


def unknown_commands(page: Path) -> list[str]:
    """What a page has of `lockgate …` that the CLI has not, in blocks and in the text."""
    text = page.read_text(encoding="utf-8")
    shown = [line for block in blocks(page) for line in block.lines]
    shown += re.findall(r"(?<!`)`(lockgate [^`\n]+)`", text)
    return [f"{_named(page)}: {line}: {wrong}" for line in shown for wrong in _unknown(line)]


def wrong_marks(page: Path) -> list[str]:
    """Marks of blocks that name a test which is not there, or has not the words of a command of the block."""
    wrong = []
    for block in blocks(page):
        how = (block.how or "").strip()
        if how.startswith("by "):
            named = [ROOT / name.strip() for name in how.removeprefix("by ").split(",")]
            texts = [path.read_text(encoding="utf-8") if path.is_file() else "" for path in named]
            told = [line for line in block.lines if _words(line)]
            missed = [line for line in told if not any(_has(text, line) for text in texts)]
            wrong += [f"{block.page}: {how}: not there: {line}" for line in missed]
            wrong += [f"{block.page}: {how}: no such file" for text in texts if not text]
        elif block.how is not None and not re.fullmatch(r"(: \d+)?", block.how):
            wrong.append(f"{block.page}: what does 'run{block.how}' mean?")
    return wrong


def unknown_metrics(page: Path) -> list[str]:
    """Metrics that a page names and no gateway has."""
    known = {shown_name(family) for family in families()} | OTHERS
    named = re.findall(r"\b(lockgate_[a-z_]+[a-z])(?![a-z_]*[*…])", page.read_text(encoding="utf-8"))
    return [f"{_named(page)}: no metric {name}" for name in sorted(set(named) - known) if not _begins_one(name, known)]


def run_here(page: Path) -> tuple[int, list[str]]:
    """Run what a page marks so: how many commands, and what went wrong."""
    count, wrong = 0, []
    for block in blocks(page):
        if block.how is None or block.how.strip().startswith("by "):
            continue
        expected = int(block.how.removeprefix(":") or 0)
        printed = ""
        for line in block.lines:
            code, said = _run(line)
            count, printed = count + 1, printed + said
            if code != expected:
                wrong.append(f"{block.page}: {line}: ended with {code}\n{said}")
        if block.printed is not None and not _alike(block.printed, printed):
            wrong.append(f"{block.page}: {block.lines}: prints\n{printed}")
    return count, wrong


def without_beginning(page: Path) -> list[str]:
    """A page that does not begin with when one needs it."""
    lines = page.read_text(encoding="utf-8").split("\n")
    first = next((line for line in lines[1:] if line.strip()), "")
    fine = lines[0].startswith("# ") and _BEGINS.match(first)
    return [] if fine else [f"{_named(page)}: begins with '{first[:60]}', not with 'Read this …'"]


def orphans() -> list[str]:
    """Pages that the navigation has not, and pictures that no page shows."""
    listed = set(
        re.findall(r"^\s*- (?:[^:\n]+: )?([\w/.-]+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    )
    lost = [f"{_named(page)}: not in mkdocs.yml" for page in pages() if str(page.relative_to(DOCS)) not in listed]
    shown = "\n".join(path.read_text(encoding="utf-8") for path in [*pages(), ROOT / "README.md"])
    pictures = (path for path in DOCS.rglob("*") if path.suffix in (".svg", ".png"))
    return lost + [f"{_named(path)}: on no page" for path in sorted(pictures) if path.name not in shown]


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


def _named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _joined(text: str) -> list[str]:
    return text.replace("\\\n", " ").split("\n")


def _command(line: str) -> str:
    """What of a line is a command: without its comment, its prompt and what sends it to the background."""
    bare = re.sub(r"\s#.*$|^#.*$", "", line).strip().removeprefix("$ ")
    return bare.removesuffix("&").strip()


def _words(line: str) -> list[str]:
    """The words of the `lockgate` command in a line, none when there is none."""
    found = re.search(r"(?:^|/bin/|\$\(| -- |\bexec \S+ |^\w+=\S* )lockgate( .*)?$", line)
    if found is None:
        return []
    try:
        words = shlex.split((found[1] or "").split(" | ")[0].split(" && ")[0].split(" > ")[0])
    except ValueError:  # a quote that ends on another line
        return []
    return words


def _unknown(line: str) -> Iterator[str]:
    path, command = _found(_words(line))
    words = _words(line)[len(path) :]
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


def _found(words: Sequence[str]) -> tuple[list[str], Any]:
    command: Any = typer.main.get_command(app)
    path: list[str] = []
    for word in words:
        inner = command.get_command(None, word) if hasattr(command, "get_command") else None
        if inner is None:
            break
        path, command = [*path, word], inner
    return path, command


def _has(test: str, line: str) -> bool:
    """Whether a test has the words of a command: in a row, or each as an argument where a helper adds some."""
    path, _ = _found(_words(line))
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


def _alike(shown: str, printed: str) -> bool:
    """Whether what is printed is what a page shows, line by line; a line `…` is any lines, `…` in one any words."""
    lines = [line.rstrip() for line in shown.strip("\n").split("\n")]
    pattern = "\n".join(".*" if line.strip() == "…" else re.escape(line).replace("…", "[^\n]*") for line in lines)
    printed_lines = "\n".join(line.rstrip() for line in printed.strip("\n").split("\n"))
    return re.fullmatch(pattern, printed_lines, re.DOTALL) is not None


def main() -> int:
    """Check everything; the last line says how it went."""
    wrong, ran = [], 0
    for page in pages():
        count, failed = run_here(page)
        ran += count
        wrong += [
            *failed,
            *unknown_commands(page),
            *unknown_metrics(page),
            *wrong_marks(page),
            *without_beginning(page),
        ]
    broken, lost = broken_links(), orphans()
    sys.stderr.writelines(f"{line}\n" for line in [*wrong, *(f"broken: {line}" for line in broken), *lost])
    verdict = "FAIL" if wrong or broken or lost else "PASS"
    sys.stdout.write(
        f"docs: {verdict} pages={len(pages())} commands_run={ran} broken_links={len(broken)} orphans={len(lost)}\n"
    )
    return 0 if verdict == "PASS" else 1


if __name__ == "__main__":
    sys.exit(main())
