"""What a catch-up goes on without: records that the source deleted before they were copied, where the link says skip.

The gateway counts them in the mirror's `records_lost`. It must not depend on how the job ends: once a breakpoint says
that the mirror is behind them, nobody can see any more that they were not transaction markers. So a task tells the
driver, the driver tells the gateway with its next heartbeat, and only when the gateway has noted it the task is
answered and writes the breakpoint. Whoever is killed before that finds the same loss again; told twice it counts once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

AT_ONCE: Final = 1_000
"""Losses in one word to the gateway, at most: its answer has seconds, and a request body a limit."""


@dataclass(frozen=True, slots=True)
class LostRange:
    """Source offsets `first` to `following` - 1, deleted there before they were copied; the link says to go on."""

    topic: str
    partition: int
    first: int
    following: int


TellLost: TypeAlias = Callable[[LostRange, Callable[[], None]], None]
"""Takes a loss, and what to call once whoever counts it has noted it."""


def notify_immediately(lost: LostRange, told: Callable[[], None]) -> None:
    """Where nobody counts it: it is in the report alone."""
    told()


class LostRecordLog:
    """The losses of one job. From any thread.

    Args:
        is_counted: False when there is no gateway that is told.
    """

    def __init__(self, *, is_counted: bool = True) -> None:
        self._is_counted = is_counted
        self._lock = threading.Lock()
        self._all: list[LostRange] = []
        self._untold: list[tuple[LostRange, Callable[[], None]]] = []

    def add(self, lost: LostRange, told: Callable[[], None]) -> None:
        """A task has found a loss; `told` is called when the gateway knows of it. A `TellLost`."""
        with self._lock:
            self._all.append(lost)
            if self._is_counted:
                self._untold.append((lost, told))
                return
        told()

    def tell(self, say: Callable[[Sequence[LostRange]], bool]) -> bool:
        """Say what is not told yet, at most `AT_ONCE`; True when `say` was heard. By one thread at a time."""
        with self._lock:
            saying = self._untold[:AT_ONCE]
        if not say([lost for lost, _ in saying]):
            return False
        with self._lock:
            del self._untold[: len(saying)]
        for _, told in saying:
            told()
        return True

    @property
    def all(self) -> tuple[LostRange, ...]:
        """By topic, partition and offset; each offset once, however many attempts of a task have found it."""
        with self._lock:
            return each_once(self._all)


def each_once(found: Sequence[LostRange]) -> tuple[LostRange, ...]:
    """The same offsets in as few stretches as possible, in order."""
    merged: list[LostRange] = []
    for lost in sorted(found, key=lambda one: (one.topic, one.partition, one.first)):
        last = merged[-1] if merged else None
        if last is None or (last.topic, last.partition) != (lost.topic, lost.partition) or lost.first > last.following:
            merged.append(lost)
        else:
            merged[-1] = LostRange(last.topic, last.partition, last.first, max(last.following, lost.following))
    return tuple(merged)
