"""Shows the steps as they happen: one line per finished step and, on a terminal, what goes on below them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

REFRESH_S = 0.25


@dataclass(slots=True)
class Step:
    """One step of the demo. `seconds` grows while it runs; `note` says how it went."""

    title: str
    started: float
    seconds: float = 0.0
    note: str = ""
    state: str = "running"  # running | done | failed


class View:
    """The steps so far, the backlog's bar, and a line on the traffic."""

    def __init__(self, console: Console, heading: str) -> None:
        self.steps: list[Step] = []
        self.traffic = ""
        self.console = console
        self._heading = heading
        self._progress = Progress(
            TextColumn("   backlog"),
            BarColumn(bar_width=48),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
        )
        self._bar: TaskID | None = None
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
        self._drawn = 0.0

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the view for as long as the block runs."""
        self.console.print(self._heading, style="bold")
        if self._live is None:
            yield
            return
        with self._live:
            yield

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """Run one step: timed, and marked as failed when the block raises."""
        step = Step(title, time.monotonic())
        self.steps.append(step)
        try:
            yield step
            step.state = "done"
        except BaseException:
            step.state = "failed"
            raise
        finally:
            step.seconds = time.monotonic() - step.started
            self.console.print(_line(step, step.seconds), soft_wrap=True)  # above what is live, for good
            self.draw(force=True)

    def backlog(self, done: int, total: int) -> None:
        """Move the backlog's bar."""
        if self._bar is None:
            self._bar = self._progress.add_task("backlog", total=total)
        self._progress.update(self._bar, completed=min(done, total), total=total)

    def draw(self, *, force: bool = False) -> None:
        """Redraw if the last time is long enough ago."""
        now = time.monotonic()
        if self._live is not None and (force or now - self._drawn >= REFRESH_S):
            self._drawn = now
            self._live.update(self._picture(now), refresh=True)

    def _picture(self, now: float) -> RenderableType:
        parts: list[RenderableType] = [
            _line(step, now - step.started) for step in self.steps if step.state == "running"
        ]
        if self._bar is not None:
            parts.append(self._progress)
        parts.append(Text(self.traffic, "cyan"))
        return Group(*parts)


def _line(step: Step, seconds: float) -> Text:
    mark, style = {"running": ("·", "bold"), "done": ("✓", ""), "failed": ("✗", "bold red")}[step.state]
    return Text.assemble((f" {mark} {seconds:6.1f} s  {step.title}", style), "  ", (step.note, "dim"))
