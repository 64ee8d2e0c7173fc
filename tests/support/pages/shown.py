"""What a page shows in blocks of commands, how each block is run, and whether what was printed is what the page shows.

A mark in front of a block, a comment that no reader sees, says how its commands are run:

    <!-- run -->                    each line of the block, by `make docs`; it must end with 0
    <!-- run: 2 -->                 with 2
    <!-- run on clusters -->        each line, in the order of the page, between real clusters, by `make test-docs`
    <!-- run on clusters: 1 -->     the last line ends with 1, those before it with 0
    <!-- run on clusters, left running -->   the last line is left running; the page goes on once it serves,
                                             as it does behind a line that ends in `&`
    <!-- run on clusters, until WORDS -->    Ctrl-C ends the last line once it has shown these words
    <!-- run by tests/quickstart/test_quickstart.py -->   that file, or one of several (A, B), runs each command
    <!-- not run: REASON -->        nobody runs it here

    <!-- setup: topics orders payments, link -->   what is so before the block: scenes of tests/docs, done in this order
    <!-- run what follows on clusters -->          each whole command that the text has in backquotes, down to the next
                                                   heading or mark, as it stands there

A block of `text` right behind a block that is run is what it prints. A line `…` in it stands for any lines, `…` in a
line for any words; spaces count once. Durations, times and addresses stand for any of their kind, and so do the words
that a mark in front of that block names:

    <!-- differs: 38, billing-7 -->
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import typer

from gateway.cli.main import app

ROOT: Final = Path(__file__).resolve().parents[3]
COMMANDS: Final = ("sh", "bash", "console")
_MARK: Final = re.compile(r"^<!-- (setup: |run\b|not run\b|differs: )(.*?) *-->$")
_FENCE: Final = re.compile(r"^```(\w*)")
_NAMED: Final = re.compile(r"(?<!`)`(lockgate [^`\n]+)`")
_ON_CLUSTERS: Final = re.compile(r"on clusters(?:: (?P<code>\d+)|, (?P<left>left running)|, until (?P<until>.+))?")
IN_TEXT: Final = "what follows on clusters"
_KINDS: Final = (
    r"\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d)?",
    r"\d+\.\d+\.\d+\.\d+(?::\d+)?",
    r"\d+(?:\.\d+)? (?:ms|s|min|h)\b",
)
"""Times of day, addresses, durations."""


@dataclass(frozen=True, slots=True)
class Block:
    """Commands that a page shows together.

    line: where in the page. how: None, or what its mark says behind `run`; `not: REASON` of one that is not run.
    setups: scenes before it. printed: what it prints, None where the page does not show it. differs: words of that
    which stand for any others. in_text: commands of the text, not of a block.
    """

    page: str
    line: int
    how: str | None
    lines: Sequence[str]
    setups: Sequence[str] = ()
    printed: str | None = None
    differs: Sequence[str] = ()
    in_text: bool = False

    @property
    def on_clusters(self) -> re.Match[str] | None:
        """Its groups are `code`, `left` and `until`; None of one that is run otherwise, or not."""
        how = (self.how or "").strip()
        return _ON_CLUSTERS.match("on clusters") if how == IN_TEXT else _ON_CLUSTERS.fullmatch(how)

    @property
    def reason(self) -> str | None:
        """Why it is not run."""
        how = self.how or ""
        return how.removeprefix("not: ") if how.startswith("not: ") else None


@dataclass(slots=True)
class _Reading:
    """Where a reader of a page is."""

    page: str
    setups: list[str] = field(default_factory=list)
    how: str | None = None
    differs: list[str] = field(default_factory=list)
    found: list[Block] = field(default_factory=list)
    is_fresh: bool = False  # nothing but marks and blank lines since the last block of commands


def blocks(page: Path) -> list[Block]:
    """The blocks of a page that show commands, in its order, with what its text names where a mark says so."""
    reading = _Reading(place_of(page))
    lines = page.read_text(encoding="utf-8").split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        if mark := _MARK.match(line):
            _take_mark(reading, mark)
        elif fence := _FENCE.match(line):
            end = next((n for n in range(at + 1, len(lines)) if lines[n] == "```"), len(lines))
            _take_fence(reading, fence[1], lines[at + 1 : end], at + 1)
            at = end
        elif line.strip():
            _take_text(reading, line, at + 1)
        at += 1
    return reading.found


def place_of(page: Path) -> str:
    """By its place in the project."""
    return str(page.relative_to(ROOT))


def _take_mark(reading: _Reading, mark: re.Match[str]) -> None:
    kind, rest = mark[1].strip(), mark[2]
    if kind == "setup:":
        reading.setups += [one.strip() for one in rest.split(",")]
    elif kind == "differs:":
        reading.differs += [one.strip() for one in rest.split(",")]
    else:
        reading.how = "not: " + rest.removeprefix(": ") if kind == "not run" else rest


def _take_fence(reading: _Reading, kind: str, lines: Sequence[str], at: int) -> None:
    text = "\n".join(lines)
    if kind in COMMANDS:
        commands = [line for line in map(_command, joined(text)) if line]
        reading.found.append(Block(reading.page, at, reading.how, commands, tuple(reading.setups)))
        reading.setups, reading.how = [], None
    elif kind == "text" and reading.is_fresh and reading.found:
        last = reading.found[-1]
        reading.found[-1] = Block(
            last.page, last.line, last.how, last.lines, last.setups, text, tuple(reading.differs)
        )  # fmt: skip
    reading.is_fresh = kind in COMMANDS
    reading.differs = []


def _take_text(reading: _Reading, line: str, at: int) -> None:
    reading.is_fresh = False
    if (reading.how or "").strip() != IN_TEXT:
        return
    if line.startswith("#"):
        reading.how = None
        return
    for command in _NAMED.findall(line):
        if is_whole(command):
            reading.found.append(Block(reading.page, at, IN_TEXT, [command], tuple(reading.setups), in_text=True))
            reading.setups = []


def joined(text: str) -> list[str]:
    """The lines of a block; one that goes on in the next line, by its end or inside quotes, is one line."""
    lines: list[str] = []
    for line in text.replace("\\\n", " ").split("\n"):
        if lines and _is_open(lines[-1]):
            lines[-1] += "\n" + line
        else:
            lines.append(line)
    return lines


def _is_open(line: str) -> bool:
    """Whether a quote of it ends on another line."""
    try:
        shlex.split(line, comments=True)
    except ValueError:
        return True
    return False


def _command(line: str) -> str:
    """What of a line is a command: without its comment and its prompt."""
    return re.sub(r"\s#.*$|^#.*$", "", line).strip().removeprefix("$ ")


def words_of(line: str) -> list[str]:
    """The words of the `lockgate` command in a line, none when there is none."""
    found = re.search(r"(?:^|/bin/|\$\(| -- |\bexec \S+ |^\w+=\S* )lockgate( .*)?$", line, re.DOTALL)
    if found is None:
        return []
    try:
        words = shlex.split((found[1] or "").split(" | ")[0].split(" && ")[0].split(" > ")[0])
    except ValueError:  # a quote that ends on another line
        return []
    return words


def command_of(words: Sequence[str]) -> tuple[list[str], Any]:
    """The command that words begin with: its name, and itself or the group that they end in."""
    command: Any = _whole_command()
    path: list[str] = []
    for word in words:
        inner = command.get_command(None, word) if hasattr(command, "get_command") else None
        if inner is None:
            break
        path, command = [*path, word], inner
    return path, command


@cache
def _whole_command() -> Any:
    return typer.main.get_command(app)


def is_whole(line: str) -> bool:
    """Whether a command can be run as it stands: one that lacks an argument only names a command."""
    words = words_of(line)
    path, command = command_of(words)
    if not path or hasattr(command, "get_command") or "…" in words:
        return False
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    if arguments and len(words) == len(path):
        return False
    options = {name: one for one in command.params for name in (*one.opts, *one.secondary_opts)}
    given, before = 0, None
    for word in words[len(path) :]:
        if word.startswith("-"):
            before = options.get(word)
            continue
        if before is None or getattr(before, "is_flag", False):
            given += 1
        before = None
    return bool(given >= sum(one.required for one in arguments))


def alike(shown: str, printed: str, differs: Sequence[str] = ()) -> bool:
    """Whether what is printed is what a page shows: see the top of this file."""
    wanted = [" ".join(line.split()) for line in shown.strip("\n").split("\n")]
    got = "\n".join(" ".join(line.split()) for line in printed.strip("\n").split("\n"))
    pattern = "\n".join(".*" if line == "…" else "".join(_pieces(line, differs)) for line in wanted)
    return re.fullmatch(pattern, got, re.DOTALL) is not None


def _pieces(line: str, differs: Sequence[str]) -> Iterator[str]:
    """Patterns of a line, piece by piece."""
    words = [re.escape(word) for word in sorted(differs, key=len, reverse=True)]
    any_of = re.compile("|".join(f"({pattern})" for pattern in (*words, *_KINDS, "…")))
    end = 0
    for found in any_of.finditer(line):
        yield re.escape(line[end : found.start()])
        end = found.end()
        number = found.lastindex or 0
        if number <= len(words):
            yield r"[^\n]+?"
        else:
            yield (*_KINDS, r"[^\n]*")[number - len(words) - 1]
    yield re.escape(line[end:])
