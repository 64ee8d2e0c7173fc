"""Measures the two waits that the application notices: writers during the promote, readers at the switch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from demo.history import Ack, Departure, ReadBatch, Side


class Window(NamedTuple):
    """A span of wall-clock time, milliseconds, both ends included."""

    start_ms: int
    end_ms: int


def promote_gap_ms(acks: Sequence[Ack], promote: Window) -> int:
    """The longest time between two acknowledgements of one producer that touches the promote.

    A producer that fell silent before the window's end is charged up to that end, one without any
    acknowledgement for the whole window.
    """
    times = sorted(ack.at_ms for ack in acks)
    before = [t for t in times if t < promote.start_ms][-1:] or [promote.start_ms]
    within = [t for t in times if promote.start_ms <= t <= promote.end_ms]
    after = [t for t in times if t > promote.end_ms][:1] or [promote.end_ms]
    return max(later - earlier for earlier, later in pairwise(before + within + after))


def group_switch_ms(departures: Iterable[Departure], batches: Iterable[ReadBatch]) -> int | None:
    """From the last member's leaving the source to the first record read on the target.

    None when either never happened. Negative when the target was read while a member was still on the source.
    """
    left = max((d.at_ms for d in departures if d.side is Side.SOURCE), default=None)
    read = min((b.at_ms for b in batches if b.side is Side.TARGET), default=None)
    return None if left is None or read is None else read - left


def silent_since(acks: Sequence[Ack], at_ms: int) -> bool:
    """True when nothing was acknowledged after a moment."""
    return all(ack.at_ms <= at_ms for ack in acks)
