"""How the offsets of one partition relate on the two clusters: segments in which both count in step. Pure.

Between two segments is an offset gap, on either side: offsets that have no counterpart. In the direction of a mirror
gaps are on its origin (compacted records, transaction markers, aborted data); the copy has none.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Self


class Point(NamedTuple):
    """An offset of the source, and the one that belongs to it on the target."""

    source: int
    target: int


_NOWHERE: Final = Point(0, 0)


class Relation:
    """Segments in order. Offsets outside of `begin` .. `end` (not in it) are not known of; inside, they are in gaps.

    Args:
        segments: (source base, target base, count); those of count 0 only move the end.
        begin, end: how far it tells, when that is more than the segments do.

    Raises:
        ValueError: segments that overlap, or go backwards on either side.
    """

    __slots__ = ("_counts", "_sources", "_targets", "begin", "end")

    def __init__(
        self, segments: Iterable[tuple[int, int, int]], *, begin: Point | None = None, end: Point | None = None
    ) -> None:
        self._sources, self._targets, self._counts = array("q"), array("q"), array("q")
        last = first = None
        for source, target, count in segments:
            if last is not None and (source < last.source or target < last.target):
                raise ValueError(f"the map goes backwards at source offset {source}, target offset {target}")
            self._add(source, target, count, last)
            first = first or Point(source, target)
            last = Point(source + count, target + count)
        self.begin = begin or first or _NOWHERE
        self.end = end or last or self.begin

    def _add(self, source: int, target: int, count: int, last: Point | None) -> None:
        if not count:
            return
        if self._counts and last == (source, target) and self._end_of(len(self._counts) - 1) == last:
            self._counts[-1] += count
            return
        self._sources.append(source)
        self._targets.append(target)
        self._counts.append(count)

    def _end_of(self, index: int) -> Point:
        count = self._counts[index]
        return Point(self._sources[index] + count, self._targets[index] + count)

    @classmethod
    def identity(cls, low: int, high: int) -> Self:
        """Equal offsets from `low` up to `high`."""
        high = max(low, high)
        return cls([(low, low, high - low)], begin=Point(low, low), end=Point(high, high))

    def __len__(self) -> int:
        return len(self._counts)

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        return zip(self._sources, self._targets, self._counts, strict=True)

    def on_target(self, source: int) -> int | None:
        """Where a source offset is on the target; None in an offset gap and outside."""
        return _across(source, self._sources, self._targets, self._counts)

    def on_source(self, target: int) -> int | None:
        """Where a target offset is on the source; None in an offset gap and outside."""
        return _across(target, self._targets, self._sources, self._counts)

    def next_on_target(self, source: int) -> int:
        """The target offset of the first source offset from here on that has one; the end when there is none."""
        return self.cut(source).target

    def cut(self, source: int) -> Point:
        """Where both logs can be cut so that what belongs together stays together, at or after a source offset."""
        if source >= self.end.source:
            return Point(source, self.end.target)
        index = bisect_right(self._sources, source) - 1
        if index >= 0 and source < self._sources[index] + self._counts[index]:
            return Point(source, self._targets[index] + source - self._sources[index])
        if index + 1 < len(self._counts):
            return Point(self._sources[index + 1], self._targets[index + 1])
        return self.end

    def cut_at_target(self, target: int) -> Point:
        """As `cut`, at or after a target offset."""
        if target >= self.end.target:
            return Point(self.end.source, target)
        index = bisect_right(self._targets, target) - 1
        if index >= 0 and target < self._targets[index] + self._counts[index]:
            return Point(self._sources[index] + target - self._targets[index], target)
        if index + 1 < len(self._counts):
            return Point(self._sources[index + 1], self._targets[index + 1])
        return self.end

    def limited(self, end: Point) -> Relation:
        """Without what lies at or beyond either offset of `end`."""
        source, target = min(self.end.source, end.source), min(self.end.target, end.target)
        if target < self.end.target:
            source = min(source, self.cut_at_target(target).source)
        if source < self.end.source:
            target = min(target, self.cut(source).target)
        if (source, target) == self.end:
            return self
        low = Point(min(self.begin.source, source), min(self.begin.target, target))
        last = Point(source, target)
        return Relation(self._between(0, low, last), begin=low, end=last)

    def clipped(self, low: Point, high: Point) -> Relation:
        """What lies between two points, and tells of nothing else."""
        return Relation(self._between(0, low, high), begin=low, end=Point(*map(max, low, high)))

    def part(self, low: Point, high: Point) -> Relation:
        """What lies between two cuts; it still knows how far the whole reaches."""
        index = max(0, bisect_right(self._sources, low.source) - 1)
        return Relation(self._between(index, low, high), begin=self.begin, end=self.end)

    def _between(self, index: int, low: Point, high: Point) -> Iterator[tuple[int, int, int]]:
        for at in range(index, len(self._counts)):
            source, target, count = self._sources[at], self._targets[at], self._counts[at]
            if source >= high.source or target >= high.target:
                return
            skip = max(0, low.source - source, low.target - target)
            count = min(count, high.source - source, high.target - target)
            if skip < count:
                yield source + skip, target + skip, count - skip


def _across(offset: int, bases: array[int], others: array[int], counts: array[int]) -> int | None:
    index = bisect_right(bases, offset) - 1
    if index < 0 or offset - bases[index] >= counts[index]:
        return None
    return others[index] + offset - bases[index]


def joined(parts: Iterable[Relation]) -> Relation:
    """Relations that follow one another, as one.

    Raises:
        ValueError: they do not follow one another.
    """
    parts = list(parts)
    if len(parts) == 1:  # there may be millions of segments
        return parts[0]
    segments = [segment for part in parts for segment in part]
    return Relation(segments, begin=parts[0].begin, end=parts[-1].end) if parts else Relation(())
