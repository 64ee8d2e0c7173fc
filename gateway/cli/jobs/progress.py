"""A job's progress on stderr: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Final, Self

from rich.progress import BarColumn, Progress, TextColumn

from gateway.cli.output import console, duration, rate
from gateway.jobs.catch_up_ends import Progress as Done

_LINE_EVERY_S: Final = 10.0


class ProgressView:
    """Shown inside the block."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._terminal = console(stderr=True).is_terminal
        self._next_line = time.monotonic() + _LINE_EVERY_S
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:.1f} %"),
            TextColumn("{task.fields[detail]}"),
            console=console(stderr=True),
            transient=True,
            disable=not self._terminal,
        )
        self._task = self._bar.add_task(what, total=None, detail="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def show(self, done: Done) -> None:
        """The latest numbers."""
        eta = "" if done.eta_s < 0 else f", {duration(done.eta_s)} to go"
        detail = f"{done.bytes_done / 1e6:,.0f} of {done.bytes_total / 1e6:,.0f} MB, {rate(done.bytes_per_s)}{eta}"
        if not done.bytes_total:  # a job that counts tasks
            detail = f"{done.records_done:,} of {done.records_total:,} tasks"
        self._bar.update(self._task, total=done.records_total, completed=done.records_done, detail=detail)
        if not self._terminal and time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + _LINE_EVERY_S
            console(stderr=True).print(f"{self._what}: {detail}")
