"""Null records that fill the target up to the source's first offset, so that offsets are equal from there on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gateway.mirror.partition.rules.append_window import MAX_IN_FLIGHT, AppendWindow, Pending

PADDING_BATCH: Final = 1_000_000
"""Records in one batch of padding, unless the target's max.message.bytes is too small for that."""


class Padding:
    """Of one partition. `wall_ms`: the time of day in milliseconds, for the timestamps."""

    __slots__ = ("_batch", "_wall_ms", "_window")

    def __init__(self, window: AppendWindow, wall_ms: Callable[[], int]) -> None:
        self._window = window
        self._wall_ms = wall_ms
        self._batch = PADDING_BATCH

    def queue(self, pad_to: int) -> None:
        """Queue as many batches as may travel at a time, up to the target offset `pad_to`."""
        window = self._window
        while len(window) < MAX_IN_FLIGHT:
            base = window.newest.following if window.newest else window.position
            if base >= pad_to:
                return
            window.push(Pending(base, min(base + self._batch, pad_to), None, self._wall_ms()))

    def halve(self) -> bool:
        """From now on in batches of half the size; False when they are of one record already."""
        if self._batch == 1:
            return False
        self._batch //= 2
        return True
