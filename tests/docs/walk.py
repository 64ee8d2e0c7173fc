"""A page from its top to its end: each block that is run on clusters, behind its scenes, and what it prints."""

from __future__ import annotations

import re
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.docs.scenes import play
from tests.docs.stage import Stage
from tests.support.pages.shown import Block, alike, blocks, words_of
from tests.support.waiting import wait_until

LOOKED_S: Final = 90.0
"""For how long what a page shows may need to come true, of commands that only look."""
_LOOKS: Final = re.compile(r"(\S+ )?(describe|list|status|ready|plan|check|candidates|health)\b")


@dataclass(slots=True)
class Walked:
    """Of a page: commands that were run, outputs that were compared, commands that its marks leave out, mistakes."""

    commands: int = 0
    outputs: int = 0
    left_out: int = 0
    wrong: str = ""


def runs_on_clusters(page: Path) -> bool:
    """Whether anything of a page is."""
    return any(block.on_clusters for block in blocks(page))


def walk(page: Path, stage: Stage, *, shows: bool = False) -> Walked:
    """Run what the page has, until something goes wrong: what follows stands on what was before. `shows`: on stdout."""
    walked = Walked()
    for block in blocks(page):
        if block.reason is not None:
            walked.left_out += len(block.lines)
        if block.on_clusters is None:
            continue
        try:
            _run(block, stage, walked, shows=shows)
        except (AssertionError, KeyError) as exc:
            walked.wrong = f"{block.page}:{block.line}: {type(exc).__name__}: {exc}"
            break
    return walked


def _run(block: Block, stage: Stage, walked: Walked, *, shows: bool) -> None:
    how = block.on_clusters
    assert how is not None
    for scene in block.setups:
        play(stage, scene)
    printed: list[str] = []
    for line in block.lines:
        is_last = line is block.lines[-1]
        if line.endswith("&") or (is_last and how["left"]):
            stage.leave_running(line.removesuffix("&"))
            walked.commands += 1
            continue
        wanted = int(how["code"] or 0) if is_last else 0
        began = time.monotonic()
        code, shown = _typed(line, stage, wanted, how["until"] if is_last else None)
        walked.commands += 1
        printed.append(shown)
        if shows:
            sys.stdout.write(f"$ {line}   ({time.monotonic() - began:.1f} s)\n{shown}")
        assert code == wanted, f"{line}: ended with {code}\n{shown}"
    if block.printed is not None:
        _compare(block, stage, printed)
        walked.outputs += 1


def _typed(line: str, stage: Stage, wanted: int, until: str | None) -> tuple[int, str]:
    """Its exit code, and what was shown. What only looks is asked again until it ends as it should."""
    last = stage.type_it(line, until)
    if last[0] == wanted or not _looks(line):
        return last

    def is_so() -> bool:
        nonlocal last
        last = stage.type_it(line, until)
        return last[0] == wanted

    with suppress(AssertionError):
        wait_until(is_so, LOOKED_S)
    return last


def _compare(block: Block, stage: Stage, printed: list[str]) -> None:
    """The last commands, if they only look, look again until they show it, as a reader does who waits for it."""
    assert block.printed is not None
    wanted = stage.meant(block.printed)
    acts = next((n for n, line in reversed(list(enumerate(block.lines, 1))) if not _looks(line)), 0)
    is_first = True

    def is_shown() -> bool:
        nonlocal is_first
        if not is_first:
            printed[acts:] = [stage.type_it(line)[1] for line in block.lines[acts:]]
        is_first = False
        return alike(wanted, "".join(printed), block.differs)

    try:
        wait_until(is_shown, LOOKED_S if acts < len(block.lines) else 0.0, what="what the page shows")
    except AssertionError:
        raise AssertionError(f"the page shows\n{wanted}\nand this was printed:\n{''.join(printed)}") from None


def _looks(line: str) -> bool:
    words = [word for word in words_of(line) if not word.startswith("-")]
    return _LOOKS.match(" ".join(words[:2])) is not None
