"""`--watch`: a command that only shows something, again and again until Ctrl-C.

Every command named `list`, `describe` or `status` has it, without naming it: `ApiTyper` in `connection.py` adds it. On
a terminal each look takes the place of the one before. In a pipe they follow one another: tables with an empty
line in between, YAML documents with `---`, JSON documents as they are. Ctrl-C ends it with 0. A gateway that refuses,
or is not there any more, ends it with the exit code of that.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

import typer

WATCHED: Final = ("list", "describe", "status")
OPTIONS: Final[dict[str, Any]] = {
    "watch": Annotated[bool, typer.Option("--watch", "-w", help="Show it again and again, until Ctrl-C.")],
    "every": Annotated[
        float, typer.Option("--every", metavar="SECONDS", min=0.5, max=3600.0, help="How often, with --watch.")
    ],
}
DEFAULTS: Final[Mapping[str, Any]] = {"watch": False, "every": 2.0}

_CLEAR: Final = "\x1b[H\x1b[2J\x1b[3J"
_sleep = time.sleep


def shown(look: Callable[[], None], output: str, *, watch: bool, every: float) -> None:
    """Look once, or every so many seconds from the end of one look to the next."""
    if not watch:
        look()
        return
    first = True
    try:
        while True:
            sys.stdout.write(_between(output, first=first))
            look()
            sys.stdout.flush()
            first = False
            _sleep(every)
    except KeyboardInterrupt:
        return


def _between(output: str, *, first: bool) -> str:
    if sys.stdout.isatty():
        return _CLEAR
    if first:
        return ""
    return {"json": "", "yaml": "---\n"}.get(output, "\n")
