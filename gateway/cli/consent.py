"""Asking before something changes sides: on a terminal, with a word that must be typed; never in a pipe.

Who types the word has read what it is about. A script says `--yes`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from gateway.cli.api import REFUSED, USAGE, fail

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before something changes sides, or is deleted.")]


_NAMED: Final = 10
"""Topics that are named one by one."""


def named(topics: Sequence[str]) -> str:
    """How many topics, and which."""
    more = f" and {len(topics) - _NAMED} more" if len(topics) > _NAMED else ""
    return f"{len(topics)} topic{'' if len(topics) == 1 else 's'} ({', '.join(topics[:_NAMED])}{more})"


def require_consent(what: str, word: str, *, yes: bool) -> None:
    """Ask for `word`, having told `what` would happen. Ends the command with 2 where nobody can be asked, with 1 when
    something else is typed."""
    if yes or not what:
        return
    if not _is_terminal():
        fail(f"{what}: nobody can be asked here, so nothing was changed; --yes goes on without asking", USAGE)
    typer.echo(f"{what}.", err=True)
    if typer.prompt(f"Type {word} to go on", default="", show_default=False, err=True).strip() != word:
        fail("nothing was changed", REFUSED)


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()
