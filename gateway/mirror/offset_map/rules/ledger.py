"""Decides which breakpoints of a partition are in force when more than one appender may have written some.

Theory of operation
-------------------
Breakpoints are written ahead: a *chunk* is durable in the map topic before the batch that needs it is appended. The
target's broker decides which batch gets a target offset: it accepts one continuation of its log and refuses the others.
So a chunk is a promise about a batch that may never be appended: its writer was killed, or another appender was faster,
and read a source that compaction had thinned out further, so that the same target offset got another record. The log
itself tells: a chunk names its batch's base offset, record count and CRC-32C, and the batch in the log either is that
one or is not.

* Each run of a writer (from its start or an unknown outcome to the next unknown outcome) has its own random id: no
  two runs write the same key.
* A writer has at most `AHEAD` chunks in the topic whose batches are not acknowledged. So only that many chunks of each
  writer, its last ones, are open.
* Chunks whose batches a writer itself saw acknowledged are in force. An appender that starts, or has an unknown
  outcome, first reads the target's log end L, then the map topic to its end, then looks up the undecided batches below
  L. (In this order: the breakpoints of every batch below L were durable before it was appended.)
* It writes the result to the topic: it deletes chunks that lost, and the *mark* says that everything below L is
  decided, by the topic's records below its offset `seen`. A chunk that appears later for an offset below the mark is
  void: that offset was taken before the chunk was written.

A copy may lose acknowledged records (by an unclean election, or with a single replica). Its mirror appends them again,
and a source that was compacted meanwhile gives other records for the same target offsets. So the mirror first writes a
*cut* to the topic: all earlier entries for offsets from the log's end on are void. A copy is known to be too short if
its log has certainly been longer (`reached`).

With no chunk at all the map is the breakpoint that the mirror's record implies: equal offsets from the start of a
padded topic, (first source offset, 0) for one that is not padded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Final

from gateway.mirror.offset_map.rules.codec import (
    CUT_BASE,
    MARK_BASE,
    READ_TO_BASE,
    Chunk,
    Cut,
    MapKey,
    Mark,
    PartitionKey,
    ReadTo,
    Value,
    encode_key,
    encode_value,
)
from gateway.mirror.offset_map.rules.offset_map import Breakpoint, OffsetMap
from gateway.mirror.offset_map.rules.tentative import TentativeChunk, ascending

Change = tuple[bytes, bytes | None]
"""A record for the map topic: key and value; None deletes."""

AHEAD: Final = 64
"""How many chunks of one writer may be in the topic before their batches are acknowledged."""

_NOBODY: Final = 0
_NO_MARK: Final = Mark(0, 0)


class OffsetLedger:
    """The breakpoints of one partition: those in force (`map`), and those that are not decided yet.

    Args:
        implied: the breakpoint that holds without any chunk.
        new_writer: returns a random number of 64 bits, not 0.

    Attributes:
        used: a chunk or a read-to was read or written, so the offsets are translated.
    """

    __slots__ = (
        "_acknowledged",
        "_cuts",
        "_decided",
        "_implied",
        "_incoming",
        "_mark",
        "_new_writer",
        "_of",
        "_open",
        "_own",
        "_own_read",
        "_read_to",
        "_seen",
        "_void",
        "_was_read",
        "_writer",
        "map",
        "used",
    )

    def __init__(self, of: PartitionKey, implied: Breakpoint, new_writer: Callable[[], int]) -> None:
        self._of = of
        self._implied = implied
        self._new_writer = new_writer
        self.map = OffsetMap([implied], end=implied.target)
        self._writer = new_writer()
        self._acknowledged: dict[int, int] = {}  # by own writer: below this target offset its chunks are in `map`
        self._own: deque[TentativeChunk] = deque()  # planned in this run, not acknowledged
        self._own_read: dict[int, tuple[int, Chunk]] = {}  # of this run, by base, as read back from the topic
        self._open: dict[int, list[TentativeChunk]] = {}  # by writer, ascending
        self._incoming: dict[tuple[int, int], tuple[int, Chunk]] = {}  # (base, writer) -> (offset in the topic, chunk)
        self._void: set[tuple[int, int]] = set()  # (base, writer)
        self._mark = Mark(0, 0)
        self._was_read = False
        self._decided = 0  # target offset; chunks below it are in `map`, or lost
        self._seen = 0
        self._read_to = ReadTo(-1, -1)
        self._cuts: list[Cut] = []
        self.used = False

    @property
    def reached(self) -> int:
        """The copy's log has certainly been this long: the map is decided up to there, or a chunk proves it.

        A writer with more than `AHEAD` chunks in the topic saw the batches of all but its last ones acknowledged.
        """
        acknowledged = (chunks[-AHEAD - 1] for chunks in self._open.values() if len(chunks) > AHEAD)
        return max([self._decided, *(one.base + one.chunk.records for one in acknowledged)])

    # -- what the topic says ---------------------------------------------------------------------------------

    def read(self, offset: int, base: int, writer: int, value: Value | None) -> None:
        """Take a record of the topic at `offset`, in order. `absorb` ends a reading."""
        if isinstance(value, Mark):
            self._mark = self._uncut(value)
        elif isinstance(value, Cut):
            self._read_cut(value)
        elif isinstance(value, ReadTo):
            self._read_to, self.used = value, True
        elif base < 0 or base < self._acknowledged.get(writer, 0):
            return
        elif writer == self._writer:
            if value is not None:
                self._own_read[base] = offset, value
        elif value is None:  # lost, as another appender found
            self._incoming.pop((base, writer), None)
            kept = [tentative for tentative in self._open.pop(writer, ()) if tentative.base != base]
            if kept:
                self._open[writer] = kept
        else:
            self.used = True
            self._incoming[base, writer] = offset, value

    def absorb(self, seen: int) -> None:
        """The topic was read to its end, at `seen`.

        The mark counts at the first reading only. Later this process itself has looked up everything up to its
        position.
        """
        self._seen = seen
        mark = _NO_MARK if self._was_read else self._mark
        self._was_read = True
        self._own_below(mark)
        below: dict[int, TentativeChunk] = {}
        for (base, writer), (offset, chunk) in sorted(self._incoming.items()):
            below_mark = base < mark.decided_to
            if base < self._decided or (below_mark and offset >= mark.seen):
                if below_mark or not self._agrees(chunk):
                    self._void.add((base, writer))
            elif below_mark:
                below[base] = TentativeChunk(base, chunk)
            else:
                self._open.setdefault(writer, []).append(TentativeChunk(base, chunk))
        self._incoming.clear()
        self._take(below.values())
        self._decided = max(self._decided, mark.decided_to)

    def _own_below(self, mark: Mark) -> None:
        """The writer of the mark also decided chunks of this run, before this run heard that they are in the log."""
        for base in [base for base in self._own_read if base < mark.decided_to]:
            self._incoming[base, self._writer] = self._own_read.pop(base)

    # -- what the copy has lost ------------------------------------------------------------------------------

    def cut(self, log_end: int) -> Change:
        """The copy's log ends at `log_end` for good. Returns the change that must be durable before any append there.

        To be called after the topic was read to its end.
        """
        found = Cut(log_end, self._seen)
        self._read_cut(found)
        return self._key(CUT_BASE, self._writer), encode_value(found)

    def _read_cut(self, cut: Cut) -> None:
        end, seen = cut
        self._cuts.append(cut)
        self._mark = self._uncut(self._mark)
        self._incoming = {k: found for k, found in self._incoming.items() if k[0] < end or found[0] >= seen}
        self._own_read = {base: found for base, found in self._own_read.items() if base < end or found[0] >= seen}
        if self._seen > seen:  # the cut is old: this process knows newer facts
            return
        kept = {w: [tentative for tentative in chunks if tentative.base < end] for w, chunks in self._open.items()}
        self._open = {writer: chunks for writer, chunks in kept.items() if chunks}
        self._acknowledged = {writer: min(at, end) for writer, at in self._acknowledged.items()}
        self._decided = min(self._decided, end)
        if self._read_to.copy_end > end:
            self._read_to = ReadTo(-1, -1)
        self.map.truncate(end)
        if not len(self.map):
            self.map.append(*self._implied)
        self.map.advance(max(end, self._implied.target), -1)

    def _uncut(self, mark: Mark) -> Mark:
        """The part of a mark that still holds: its writer may not have known of a cut."""
        ends = [cut.copy_end for cut in self._cuts if mark.seen <= cut.seen]
        return Mark(min([mark.decided_to, *ends]), mark.seen)

    # -- what the log says -----------------------------------------------------------------------------------

    def undecided(self, log_end: int) -> list[TentativeChunk]:
        """The chunks below the target's log end whose batches may or may not be in the log."""
        return [
            tentative for chunks in self._open.values() for tentative in chunks[-AHEAD:] if tentative.base < log_end
        ]

    def decide_below(self, log_end: int, lost_ones: Collection[TentativeChunk]) -> list[Change]:
        """Decide everything below the target's log end.

        Args:
            lost_ones: the chunks of `undecided` whose batches are not in the log.

        Returns:
            The changes for the map topic, in one batch.
        """
        won: dict[int, TentativeChunk] = {}
        lost = self._void
        for writer, chunks in self._open.items():
            for tentative in chunks:
                base = tentative.base
                if base < log_end and tentative in lost_ones:
                    lost.add((base, writer))
                elif self._decided <= base < log_end:
                    # The same batch may have been planned twice. Both chunks stay in the topic: if two appenders each
                    # deleted the other's, none would be left.
                    won[base] = tentative
        still_open = {
            w: [tentative for tentative in chunks if tentative.base >= log_end] for w, chunks in self._open.items()
        }
        self._open = {writer: chunks for writer, chunks in still_open.items() if chunks}
        self._void = set()
        self._take(won.values())
        self._decided = max(self._decided, log_end)
        self.map.end = max(self.map.end, log_end)
        changes: list[Change] = [(self._key(*key), None) for key in sorted(lost)]
        if won or changes:
            mark = Mark(self._decided, self._seen)
            changes.append((self._key(MARK_BASE, _NOBODY), encode_value(mark)))
        return changes

    def _agrees(self, chunk: Chunk) -> bool:
        """The map agrees with the chunk. In a log that is not compacted two appenders may both be right; delete
        neither."""
        pairs = zip(chunk.sources, chunk.targets, strict=True)
        return all(self.map.to_source(target).offset == source for source, target in pairs)

    def _take(self, tentative: Iterable[TentativeChunk]) -> None:
        for target, source in ascending(tentative):
            last = self.map.last
            if last is None or target > last.target or (target == last.target and source > last.source):
                self.map.append(source, target)

    def position(self, log_end: int) -> int:
        """The source offset to resume from when the copy's log ends at `log_end`. Raises as `OffsetMap.position`."""
        found = self.map.position(log_end)
        return max(found, self._read_to.source) if self._read_to.copy_end == log_end else found

    # -- what this appender does -----------------------------------------------------------------------------

    def begin_run(self) -> None:
        """Begin a run, after a start or an unknown outcome: unacknowledged batches may be in the log, or may still get
        there.

        If one does, its chunk is in the topic, and is read from there like any other.
        """
        self._own.clear()
        for base, found in self._own_read.items():
            if base >= self._acknowledged.get(self._writer, 0):
                self._incoming[base, self._writer] = found
        self._own_read.clear()
        self._writer = self._new_writer()

    def plan(self, base: int, chunk: Chunk) -> Change:
        """The batch at `base` needs these breakpoints. Returns the change to make durable before it is appended."""
        self.used = True
        self._own.append(TentativeChunk(base, chunk))
        return self._key(base, self._writer), encode_value(chunk)

    def read_to(self, copy_end: int, source: int) -> Change | None:
        """There is nothing to copy between the copy's end and this source offset. None: the map says so already."""
        said = ReadTo(copy_end, source)
        if said == self._read_to or self.map.position(copy_end) >= source:
            return None
        self._read_to, self.used = said, True
        return self._key(READ_TO_BASE, _NOBODY), encode_value(said)

    def acknowledged(self, position: int) -> None:
        """The batches of this run below `position` are in the log."""
        own = self._own
        while own and own[0].base < position:
            self._take((own.popleft(),))
        self._decided = self._acknowledged[self._writer] = position

    def _key(self, base: int, writer: int) -> bytes:
        return encode_key(MapKey(self._of, base, writer))
