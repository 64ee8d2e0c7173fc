"""Pieces of partitions: what one task compares. Pure.

Both logs are cut where what belongs together stays together (`Relation.cut`), at any offset: a batch that lies across a
border is read on both sides of it, and each side compares its own records of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from typing import Final, NamedTuple

from gateway.jobs.audit.kinds import DifferenceKind
from gateway.jobs.audit.relation import Point, Relation

PARTS: Final = 8
"""A sampled partition is cut into so many parts; a piece of each is compared, the last offsets always."""


class Span(NamedTuple):
    """Offsets low .. high - 1."""

    low: int
    high: int

    @property
    def size(self) -> int:
        """How many offsets."""
        return max(0, self.high - self.low)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a record without a partner is.

    source_start, target_start: the log starts when the audit began. source_beyond, target_beyond: behind the relation's
    end; source_before, target_before: before its begin. written_since: the target has records of its own behind the
    cutover. source_compacted, target_compacted: that log is cleaned.
    """

    source_start: int = 0
    target_start: int = 0
    source_before: DifferenceKind = DifferenceKind.NOT_IN_MAP
    target_before: DifferenceKind = DifferenceKind.NOT_IN_MAP
    source_beyond: DifferenceKind = DifferenceKind.BEHIND
    target_beyond: DifferenceKind = DifferenceKind.BEYOND_END
    written_since: bool = False
    source_compacted: bool = False
    target_compacted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPiece:
    """One part of one partition: the offsets of both logs, and how they relate. `topic`: its name on the source,
    `target_topic` the one on the target."""

    topic: str
    target_topic: str
    partition: int
    number: int
    source: Span
    target: Span
    relation: Relation
    rules: Rules


def whole(source: Span, target: Span) -> tuple[Point, Point]:
    """The two ends of what is asked."""
    return Point(source.low, target.low), Point(source.high, target.high)


def cuts(source: Span, target: Span, relation: Relation, parts: int) -> list[tuple[Point, Point]]:
    """All of both spans in about so many parts of equal length, in order: (begin, end) of each."""
    low, high = whole(source, target)
    if source.size >= target.size:
        points = (relation.cut(source.low + source.size * n // parts) for n in range(1, parts))
    else:
        points = (relation.cut_at_target(target.low + target.size * n // parts) for n in range(1, parts))
    inner = sorted({point for point in points if _between(low, point, high)})
    return [(begin, end) for begin, end in pairwise((low, *inner, high)) if begin != end]


def sample(source: Span, target: Span, relation: Relation, fraction: float, draw: str) -> list[tuple[Point, Point]]:
    """Some of both spans, in order; all of it when there is little, or when `fraction` is 1.

    Args:
        fraction: of the offsets, above 0 up to 1.
        draw: the same text draws the same sample again.
    """
    if fraction >= 1 or max(source.size, target.size) < PARTS:
        return cuts(source, target, relation, 1)
    found = []
    for index, (low, high) in enumerate(cuts(source, target, relation, PARTS)):
        length = max(1, round((high.source - low.source) * fraction))
        room = max(0, high.source - low.source - length)
        at = low.source + (_number(f"{draw}/{index}") % (room + 1))
        begin = relation.cut(at) if at > low.source else low
        last = high == whole(source, target)[1]
        if last:
            begin = relation.cut(max(low.source, high.source - length))
        begin = begin if _between(low, begin, high) else low
        end = high if last else relation.cut(begin.source + length)
        end = end if _between(begin, end, high) else high
        if begin != end:
            found.append((begin, end))
    return found


def _between(low: Point, point: Point, high: Point) -> bool:
    inside = low.source <= point.source <= high.source and low.target <= point.target <= high.target
    return inside and point not in (low, high)


def _number(text: str) -> int:
    return int.from_bytes(sha256(text.encode()).digest()[:8])
