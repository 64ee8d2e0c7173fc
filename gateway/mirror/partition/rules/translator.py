"""The slow path of one partition's mirror, for mode translate: appends the source's records under other offsets.

It leaves out offset gaps (compacted, aborted, markers) and re-encodes batches that cannot be copied as they are
(`protocol/batch/reencode/`). Wherever source and target offsets stop growing in step, it plans a breakpoint, and holds
back the batch that needs it until the breakpoint is durable.

More than one appender at once
------------------------------
The target's broker accepts a batch only as the exact continuation of its log. If it already has a batch with these
sequence numbers, it answers with that batch's offset. In a log that is not compacted, two appenders put the same
records at the same target offset, however they cut their batches: then that answer is true. In a log compacted while it
is copied, a record that one appender has read may be gone when the other one reads; the broker would tell both that
"their" batch is there. Three rules keep that from doing harm:

* A repeated success is recognized by its log append time (a broker sets it only for repeated batches, while the topic's
  type is CreateTime). It counts as an unknown outcome: the mirror forgets its queue and reads log end and map again.
* Where records can vanish, one append is in flight at a time. So an appender knows the log below each batch it sends.
* The log decides which breakpoints hold (`mirror/offset_map/rules/ledger.py`), not the order in which they were
  written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from gateway.mirror.offset_map.rules.codec import Chunk
from gateway.mirror.offset_map.rules.ledger import AHEAD, Change, OffsetLedger
from gateway.mirror.offset_map.rules.offset_map import Breakpoint
from gateway.mirror.partition.rules.append_window import NOT_HELD, AppendWindow, Pending
from protocol.batch.header import mirror_sequence, rewrite_batch
from protocol.batch.reencode import Piece, Skip

_CRC: Final = Struct(">I")
_CRC_AT: Final = 17


class PlannedBreakpoints(NamedTuple):
    """Breakpoints to make durable, for the batches up to the target offset `up_to`; `run`: see `Translator`."""

    changes: tuple[Change, ...]
    up_to: int
    run: int


class Translator:
    """Args: the partition's ledger, its window, and the producer id of the mirror.

    Attributes:
        reason: the first reason why offsets differ; "" while they do not.
        run: counts starts and unknown outcomes; an answer to an earlier run is stale.
    """

    __slots__ = (
        "_first_skip",
        "_given",
        "_last",
        "_planned",
        "_producer_id",
        "_read_to",
        "_undurable",
        "_window",
        "ledger",
        "reason",
        "run",
    )

    def __init__(self, ledger: OffsetLedger, window: AppendWindow, producer_id: int) -> None:
        self.ledger = ledger
        self._window = window
        self._producer_id = producer_id
        self._last = Breakpoint(0, 0)
        self._read_to = 0
        self._planned: deque[tuple[int, Change]] = deque()  # by target offset of the batch, not given out yet
        self._given: deque[int] = deque()  # target offsets of batches whose breakpoints were given out, unacknowledged
        self._undurable: deque[int] = deque()  # target offsets of batches that wait for their breakpoints
        self._first_skip = -1  # source offset at which the first offset gap ends, while that is not durable
        self.reason = ""
        self.run = 0

    def begin_run(self) -> None:
        """Begin a run after a start or an unknown outcome: earlier plans are void."""
        self.run += 1
        self.ledger.begin_run()
        self._planned.clear()
        self._given.clear()
        self._first_skip = -1
        self._undurable.clear()

    def go_on(self, source_position: int) -> None:
        """The ledger is decided: resume at this source offset."""
        self._last = self.ledger.map.last or Breakpoint(0, 0)
        self._read_to = source_position

    def put(self, item: Piece | Skip) -> None:
        """Queue the next piece of the source's log, or skip an offset gap."""
        if isinstance(item, Piece):
            self._push(item)
        else:
            self.reason = self.reason or f"source offset {self._read_to}: transaction markers or aborted records"
            self._skip(item.next_source)
        self._read_to = item.next_source

    def _skip(self, source: int) -> None:
        """Skip an offset gap that ends at `source`. The first one must be durable before anyone takes offsets for
        equal."""
        window = self._window
        if self._first_skip >= 0:
            self._first_skip = source
            return
        end = window.newest.following if window.newest else window.position
        change = None if self.ledger.used else self.ledger.read_to(end, source)
        if change is None:
            window.read_up_to(source)
        else:
            self._first_skip = source
            self._planned.append((end - 1, change))

    def read_so_far(self) -> Change | None:
        """The change for the map topic when the source's log ends in gaps; None when there is nothing new."""
        window = self._window
        if not self.ledger.used or len(window) or window.outcome_unknown:
            return None
        return self.ledger.read_to(window.position, window.source_position)

    def _push(self, piece: Piece) -> None:
        window = self._window
        base = window.newest.following if window.newest else window.position
        data = memoryview(piece.data)
        found = self._breakpoints(piece, base)
        if found:
            data = memoryview(rewrite_batch(data, producer_id=self._producer_id, sequence=mirror_sequence(base)))
            crc = _CRC.unpack_from(data, _CRC_AT)[0]
            self._planned.append((base, self.ledger.plan(base, Chunk.of(piece.count, crc, found))))
            self._undurable.append(base)
            window.held_at = min(window.held_at, base)
        self._first_skip = -1  # the batch's breakpoints imply the gap
        window.push(
            Pending(base, base + piece.count, data, piece.max_timestamp, piece.next_source, stamped=bool(found))
        )

    def _breakpoints(self, piece: Piece, base: int) -> Sequence[Breakpoint]:
        found: list[Breakpoint] = []
        last, at, expected = self._last, base, self._read_to
        for source, count in piece.runs:
            if source - last.source != at - last.target:
                last = Breakpoint(source, at)
                found.append(last)
            if source > expected:  # neither markers nor aborted records: compaction
                self._window.most_in_flight = 1
                self.reason = self.reason or f"source offsets {expected}..{source - 1} have no record: compacted"
            at += count
            expected = source + count
        self._last = last
        return found

    def planned(self) -> PlannedBreakpoints | None:
        """The next breakpoints to make durable; None if there are none now, or enough are being written."""
        planned, given = self._planned, self._given
        if not planned or len(given) >= AHEAD:
            return None
        changes: list[Change] = []
        while planned and len(given) < AHEAD:
            base, change = planned.popleft()
            given.append(base)
            changes.append(change)
        return PlannedBreakpoints(tuple(changes), given[-1], self.run)

    def acknowledged(self, position: int) -> None:
        """The target has everything below `position`."""
        given = self._given
        while given and given[0] < position:
            given.popleft()
        self.ledger.acknowledged(position)

    def durable(self, up_to: int, run: int) -> None:
        """The breakpoints that `planned` returned are in the map topic."""
        if run != self.run:
            return
        waiting = self._undurable
        while waiting and waiting[0] <= up_to:
            waiting.popleft()
        self._window.held_at = waiting[0] if waiting else NOT_HELD
        if self._first_skip >= 0:
            self._window.read_up_to(self._first_skip)
            self._first_skip = -1
