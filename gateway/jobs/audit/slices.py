"""Which source offsets an audit looks at: all of them, or a sample that can be drawn again. Pure."""

from __future__ import annotations

import itertools
from hashlib import sha256
from typing import Final

from gateway.jobs.audit.verdict import Compared

PARTS: Final = 8
"""A sampled partition is cut into so many parts; a piece of each is compared, the last offsets always."""

Slice = tuple[int, int]
"""First offset, and the offset after the last."""


def slices(compared: Compared, fraction: float, seed: int) -> list[Slice]:
    """The ranges of one partition to compare, in order.

    Args:
        fraction: of the offsets, above 0; 1 is all of them in one range.
        seed: draws the same sample again.
    """
    start, end = compared.start, compared.end
    if start >= end:
        return []
    if fraction >= 1 or end - start < PARTS:
        return [(start, end)]
    cuts = [start + (end - start) * index // PARTS for index in range(PARTS + 1)]
    found = []
    for index, (low, high) in enumerate(itertools.pairwise(cuts)):
        length = max(1, round((high - low) * fraction))
        room = high - low - length
        at = high - length if index == PARTS - 1 else low + _draw(compared, index, seed) % (room + 1)
        found.append((at, at + length))
    return found


def _draw(compared: Compared, index: int, seed: int) -> int:
    text = f"{seed}/{compared.topic}/{compared.partition}/{index}"
    return int.from_bytes(sha256(text.encode()).digest()[:8])
