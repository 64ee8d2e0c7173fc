"""What takes longer than two seconds says how far it is, on stderr: a bar on a terminal, in a pipe a line now and then.

A request that has no answer yet says for how long it has been waited for; what is looked at again and again, such as a
promote, how much is left, how fast it becomes less, and about when it is done.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar
from types import TracebackType
from typing import Final, Self

import typer
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn

from gateway.cli.output import console, duration
from gateway.cli.rules.pace import Pace

SILENT_S: Final = 2.0
_LINE_EVERY_S: Final = 10.0
_CLEAR: Final = "\r\x1b[K"
_SHOWN: ContextVar[bool] = ContextVar("_SHOWN", default=False)

_now = time.monotonic


class Bar:
    """Shown inside the block. `more`: columns of the bar on a terminal."""

    def __init__(self, what: str, *more: ProgressColumn) -> None:
        self._what = what
        self._is_terminal = console(stderr=True).is_terminal
        self._next_line = _now() + SILENT_S
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            *more,
            TextColumn("{task.fields[detail]}"),
            console=console(stderr=True),
            transient=True,
            disable=not self._is_terminal,
        )
        self._task = self._bar.add_task(what, total=None, detail="")

    def __enter__(self) -> Self:
        self._before = _SHOWN.set(True)
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
        _SHOWN.reset(self._before)

    def tell(self, done: float, total: float, words: str) -> None:
        """The latest numbers, and what they mean in words. `total`: 0 when it is not known."""
        self._bar.update(self._task, total=total or None, completed=done, detail=words)
        if not self._is_terminal and _now() >= self._next_line:
            self._next_line = _now() + _LINE_EVERY_S
            typer.echo(f"{self._what}: {words}", err=True)


class ProgressView(Bar):
    """Of what is looked at again and again: it foretells the end by itself."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self._pace = Pace()

    def show(self, done: float, total: float, detail: str, *, left: float | None = None) -> None:
        """The latest numbers. `left`: by which the end is foretold, when it is not `total - done`."""
        self._pace.seen(_now(), total - done if left is None else left)
        to_go = self._pace.to_go_s
        eta = "" if to_go is None else f"about {duration(to_go)} to go"
        self.tell(done, total, ", ".join(part for part in (f"{done:,.0f} of {total:,.0f}", detail, eta) if part))


@contextlib.contextmanager
def patience(what: str) -> Iterator[None]:
    """While an answer is waited for: from two seconds on it says so, unless something else shows how far it is."""
    if _SHOWN.get():
        yield
        return
    done = threading.Event()
    teller = threading.Thread(target=_tell, args=(what, done), name="patience", daemon=True)
    teller.start()
    before = _SHOWN.set(True)
    try:
        yield
    finally:
        _SHOWN.reset(before)
        done.set()
        teller.join()


def _tell(what: str, done: threading.Event) -> None:
    began, is_terminal = _now(), sys.stderr.isatty()
    wait_s = SILENT_S
    while not done.wait(wait_s):
        words = f"{what}: {duration(round(_now() - began))}"
        sys.stderr.write(f"{_CLEAR}{words}" if is_terminal else f"{words}\n")
        sys.stderr.flush()
        wait_s = 1.0 if is_terminal else _LINE_EVERY_S
    if is_terminal and _now() - began >= SILENT_S:
        sys.stderr.write(_CLEAR)
        sys.stderr.flush()
