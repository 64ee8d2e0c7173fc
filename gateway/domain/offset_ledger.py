"""Which breakpoints of a partition are in force, when more than one appender may have written some.

Theory of operation
-------------------
Breakpoints are written ahead: a *chunk* is durable in the map topic before the batch that needs it is appended. Which
batch comes to lie at a target offset is decided by the target's broker, which takes one continuation of its log and
refuses the others. So a chunk is a promise about a batch that may never be appended: its writer was killed, or another
appender was faster, and saw a source that compaction had thinned out further, so that the same target offset got
another record. The log itself tells: a chunk names its batch's base offset, record count and CRC-32C, and the batch in
the log either is that one or is not.

* Each run of a writer (from its start or a doubt to the next doubt) has its own random id: no two write one key.
* A writer has at most `AHEAD` chunks in the topic whose batches are not acknowledged. So of each writer only that many
  chunks, its last ones, are open to doubt.
* What a writer itself saw acknowledged is in force. Whoever starts, or is in doubt, first reads the target's log
  end L, then the map topic to its end, then looks up the batches below L that are not decided. (In this order: the
  breakpoints of all that lies below L were durable before it was appended.)
* What is found goes to the topic: chunks that lost are deleted, and the *mark* says that everything below L is decided,
  as far as the topic tells it below its offset `seen`. A chunk that turns up later for an offset below the mark is
  void: that offset had been taken when it was written.

With no chunk at all the map is the breakpoint that the mirror's record implies: equal offsets from the start of a
topic that is padded, (first source offset, 0) for one that is not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Final

from gateway.domain.map_codec import (
    MARK_BASE,
    READ_TO_BASE,
    Chunk,
    MapKey,
    Mark,
    PartitionKey,
    ReadTo,
    Value,
    encode_key,
    encode_value,
)
from gateway.domain.offset_map import Breakpoint, OffsetMap
from gateway.domain.promised import Promised, ascending

Change = tuple[bytes, bytes | None]
"""A record for the map topic: key and value; None deletes."""

AHEAD: Final = 64
"""How many chunks of one writer may be in the topic before their batches are acknowledged."""

_NOBODY: Final = 0
_NO_MARK: Final = Mark(0, 0)


class OffsetLedger:
    """The breakpoints of one partition: those in force (`map`), and those that are not decided yet.

    Args:
        implied: what holds without any chunk.
        new_writer: gives a random number of 64 bits, not 0.

    Attributes:
        used: something was read or written: the offsets are translated.
    """

    __slots__ = (
        "_acknowledged",
        "_decided",
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
        self._new_writer = new_writer
        self.map = OffsetMap([implied], end=implied.target)
        self._writer = new_writer()
        self._acknowledged: dict[int, int] = {}  # by own writer, below which target offset its chunks are in `map`
        self._own: deque[Promised] = deque()  # planned in this run, not acknowledged
        self._own_read: dict[int, tuple[int, Chunk]] = {}  # of this run, by base, as read back from the topic
        self._open: dict[int, list[Promised]] = {}  # by writer, ascending
        self._incoming: dict[tuple[int, int], tuple[int, Chunk]] = {}  # (base, writer) -> (offset in the topic, chunk)
        self._void: set[tuple[int, int]] = set()  # (base, writer)
        self._mark = Mark(0, 0)
        self._was_read = False
        self._decided = 0  # target offset; what is below it is in `map`, or lost
        self._seen = 0
        self._read_to = ReadTo(-1, -1)
        self.used = False

    @property
    def decided(self) -> int:
        """The copy's offset up to which the map is decided: the copy's log had come so far."""
        return self._decided

    # -- what the topic says ---------------------------------------------------------------------------------

    def read(self, offset: int, base: int, writer: int, value: Value | None) -> None:
        """A record of the topic at `offset`, in order. `absorb` ends a reading."""
        if isinstance(value, Mark):
            self._mark = value
        elif isinstance(value, ReadTo):
            self._read_to, self.used = value, True
        elif base < 0 or base < self._acknowledged.get(writer, 0):
            return
        elif writer == self._writer:
            if value is not None:
                self._own_read[base] = offset, value
        elif value is None:  # lost, as another appender found
            self._incoming.pop((base, writer), None)
            kept = [promised for promised in self._open.pop(writer, ()) if promised.base != base]
            if kept:
                self._open[writer] = kept
        else:
            self.used = True
            self._incoming[base, writer] = offset, value

    def absorb(self, seen: int) -> None:
        """The topic was read to its end, at `seen`.

        The mark counts at the first reading only. Later this process has looked up everything by itself up to where it
        stands, and goes on so.
        """
        self._seen = seen
        mark = _NO_MARK if self._was_read else self._mark
        self._was_read = True
        self._own_below(mark)
        settled: dict[int, Promised] = {}
        for (base, writer), (offset, chunk) in sorted(self._incoming.items()):
            below_mark = base < mark.settled_to
            if base < self._decided or (below_mark and offset >= mark.seen):
                if below_mark or not self._agrees(chunk):
                    self._void.add((base, writer))
            elif below_mark:
                settled[base] = Promised(base, chunk)
            else:
                self._open.setdefault(writer, []).append(Promised(base, chunk))
        self._incoming.clear()
        self._take(settled.values())
        self._decided = max(self._decided, mark.settled_to)

    def _own_below(self, mark: Mark) -> None:
        """Whoever left the mark has decided about chunks of this run, too, before it heard that they are in the log."""
        for base in [base for base in self._own_read if base < mark.settled_to]:
            self._incoming[base, self._writer] = self._own_read.pop(base)

    # -- what the log says -----------------------------------------------------------------------------------

    def undecided(self, log_end: int) -> list[Promised]:
        """The batches below the target's log end that may or may not be what is there."""
        return [promised for chunks in self._open.values() for promised in chunks[-AHEAD:] if promised.base < log_end]

    def settle(self, log_end: int, lost_ones: Collection[Promised]) -> list[Change]:
        """Decide everything below the target's log end.

        Args:
            lost_ones: those of `undecided` that are not in the log.

        Returns:
            What the map topic is to be told, in one batch.
        """
        won: dict[int, Promised] = {}
        lost = self._void
        for writer, chunks in self._open.items():
            for promised in chunks:
                base = promised.base
                if base < log_end and promised in lost_ones:
                    lost.add((base, writer))
                elif self._decided <= base < log_end:
                    # The same batch may have been planned twice. Both chunks stay in the topic: two appenders that each
                    # deleted the other's would leave none.
                    won[base] = promised
        still_open = {
            w: [promised for promised in chunks if promised.base >= log_end] for w, chunks in self._open.items()
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
        """The map says the same. In a log that is not compacted two appenders may both be right, and delete nothing."""
        pairs = zip(chunk.sources, chunk.targets, strict=True)
        return all(self.map.to_source(target).offset == source for source, target in pairs)

    def _take(self, promised: Iterable[Promised]) -> None:
        for target, source in ascending(promised):
            last = self.map.last
            if last is None or target > last.target or (target == last.target and source > last.source):
                self.map.append(source, target)

    def position(self, log_end: int) -> int:
        """The source offset to read on from when the copy's log ends at `log_end`. Raises as the map's does."""
        found = self.map.position(log_end)
        return max(found, self._read_to.source) if self._read_to.copy_end == log_end else found

    # -- what this appender does -----------------------------------------------------------------------------

    def begin_run(self) -> None:
        """A start, or a doubt: what was planned and not acknowledged may be in the log or not, or come there still.

        If it is, its chunk is in the topic, and will be read there like anybody's.
        """
        self._own.clear()
        for base, found in self._own_read.items():
            if base >= self._acknowledged.get(self._writer, 0):
                self._incoming[base, self._writer] = found
        self._own_read.clear()
        self._writer = self._new_writer()

    def plan(self, base: int, chunk: Chunk) -> Change:
        """The batch at `base` needs these breakpoints. Returns what must be durable before it is appended."""
        self.used = True
        self._own.append(Promised(base, chunk))
        return self._key(base, self._writer), encode_value(chunk)

    def read_to(self, copy_end: int, source: int) -> Change | None:
        """Nothing is to be copied between the copy's end and this source offset. None: the map says so already."""
        said = ReadTo(copy_end, source)
        if said == self._read_to or self.map.position(copy_end) >= source:
            return None
        self._read_to, self.used = said, True
        return self._key(READ_TO_BASE, _NOBODY), encode_value(said)

    def acknowledged(self, position: int) -> None:
        """What this run planned below `position` is in the log."""
        own = self._own
        while own and own[0].base < position:
            self._take((own.popleft(),))
        self._decided = self._acknowledged[self._writer] = position

    def _key(self, base: int, writer: int) -> bytes:
        return encode_key(MapKey(self._of, base, writer))
