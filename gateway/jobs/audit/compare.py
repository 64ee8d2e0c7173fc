"""Compares one piece of a partition: batches of both logs in, sums out. Pure; this is what a task runs.

A mirrored batch is the source's own bytes but for header fields that a copy has of its own. So where both logs have a
batch at the same place with equal bytes, nothing is decoded. Anything else is compared record by record, in one walk
through both logs; what has no partner gets a kind by the piece's rules.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Final

from gateway.jobs.audit.kinds import DIFFERENT, OPEN, DifferenceKind
from gateway.jobs.audit.kinds import record as shown
from gateway.jobs.audit.pieces import AuditPiece
from gateway.jobs.audit.side import BatchFeed, Data, LogSide
from gateway.jobs.audit.sums import Difference, SideSums, Sums
from protocol.batch.header import CODEC_MASK, HEADER_BYTES, LOG_APPEND_TIME, BatchHeader, batch_digest
from protocol.batch.record_reader import Record

_KEPT_ATTRIBUTES: Final = CODEC_MASK | LOG_APPEND_TIME
_NOTHING: Final = 1 << 63

Undecided = Callable[[bool, int, Record], None]
"""Told of each record of a compacted topic without a partner: whether it is the source's, and where it is, as a target
offset."""

Filter = Callable[[Record], bool]
"""Which records are compared; then nothing is told of the others, and they are in no count of records."""


def compare(piece: AuditPiece, source: BatchFeed, target: BatchFeed) -> Sums:
    """The sums of a piece.

    Raises:
        MalformedFrame: a batch that cannot be decoded.
        Whatever the feeds raise.
    """
    return Comparison(piece, source, target).run()


class Comparison:
    """One walk through both logs.

    Args:
        undecided: for the second pass over a compacted topic (`keys.py`); without, such records are only counted.
        wanted: for the same; every batch is decoded then, and `seen` is told of every wanted record of either side, in
            the order of target offsets.
    """

    def __init__(
        self,
        piece: AuditPiece,
        source: BatchFeed,
        target: BatchFeed,
        *,
        undecided: Undecided | None = None,
        wanted: Filter | None = None,
        seen: Undecided | None = None,
    ) -> None:
        self._piece = piece
        self._relation = piece.relation
        self._rules = piece.rules
        self._undecided = undecided
        self._wanted = wanted
        self._seen = seen
        self.sums = Sums()
        self._source = LogSide(source, piece.source, self.sums.source)
        self._target = LogSide(target, piece.target, self.sums.target)
        self._here: deque[tuple[int, Record]] = deque()  # source records with their target offsets
        self._there: deque[Record] = deque()

    def run(self) -> Sums:
        """All of it."""
        sources, targets = iter(self._source), iter(self._target)
        here, there = self._next_source(sources), self._next_target(targets)
        while here or there or self._here or self._there:
            if here and there and not self._here and not self._there and self._equal(here, there):
                here, there = self._next_source(sources), self._next_target(targets)
                continue
            while here and not self._here:
                self._decode_source(here)
                here = self._next_source(sources)
            while there and not self._there:
                self._decode_target(there)
                there = self._next_target(targets)
            self._walk(source_ended=here is None, target_ended=there is None)
        self.sums.source_start, self.sums.target_start = self._source.log_start, self._target.log_start
        return self.sums

    # -- batches ---------------------------------------------------------------------------------------------

    def _next_source(self, batches: Iterator[Data]) -> Data | None:
        """The next source batch that has to be looked at. Beside records of the target that were read, and wait for
        their partners, every one has to be: the log's front may have gone by them since."""
        for batch in batches:
            header = batch.header
            kind = self._kind_of_source_batch(batch) if self._wanted is None and not self._there else None
            if kind is None:
                return batch
            self._digest_source(batch)
            self.sums.source_only[kind] += header.count
            if kind is DifferenceKind.TARGET_RETENTION:
                self.sums.newest_source = max(self.sums.newest_source, header.max_timestamp)
            elif self.sums.open_at is None:
                self.sums.open_at = header.base_offset
        return None

    def _next_target(self, batches: Iterator[Data]) -> Data | None:
        for batch in batches:
            header = batch.header
            if self._wanted is None and not self._here and batch.is_whole and self._is_gone_from_source(header):
                self._digest_target(batch)
                self.sums.target_only[DifferenceKind.SOURCE_RETENTION] += header.count
                self.sums.newest_target = max(self.sums.newest_target, header.max_timestamp)
                continue
            return batch
        return None

    def _kind_of_source_batch(self, batch: Data) -> DifferenceKind | None:
        """Where one thing can be said of a whole batch that has no partner."""
        header = batch.header
        if not batch.is_whole:
            return None
        if header.base_offset >= self._relation.end.source and self._rules.source_beyond in OPEN:
            return self._rules.source_beyond
        first, last = self._relation.on_target(header.base_offset), self._relation.on_target(header.last_offset)
        in_step = first is not None and last is not None and last - first == header.last_offset_delta
        return DifferenceKind.TARGET_RETENTION if in_step and (last or 0) < self._target_start else None

    def _is_gone_from_source(self, header: BatchHeader) -> bool:
        first, last = self._relation.on_source(header.base_offset), self._relation.on_source(header.last_offset)
        in_step = first is not None and last is not None and last - first == header.last_offset_delta
        return in_step and (last or 0) < self._source_start

    def _equal(self, here: Data, there: Data) -> bool:
        """Count two batches that are equal."""
        if self._wanted is not None or not (here.is_whole and there.is_whole):
            return False
        a, b = here.header, there.header
        if self._relation.on_target(a.base_offset) != b.base_offset or not (a.is_dense or self._in_step(a)):
            return False
        if self._relation.on_target(a.last_offset) != b.last_offset or not same_batch(here, there):
            return False
        self.sums.compared += a.count
        self.sums.equal_batches += 1
        digest = _digest(here, b.last_offset)
        self.sums.source.add_batch(digest)
        self.sums.target.add_batch(digest)
        return True

    def _digest_source(self, batch: Data) -> None:
        """A batch belongs to the piece that its last offset is in."""
        last = batch.header.last_offset
        if self._piece.source.low <= last < self._piece.source.high:
            self.sums.source.add_batch(_digest(batch, self._relation.next_on_target(last)))

    def _digest_target(self, batch: Data) -> None:
        last = batch.header.last_offset
        if self._piece.target.low <= last < self._piece.target.high:
            self.sums.target.add_batch(_digest(batch, last))

    def _in_step(self, header: BatchHeader) -> bool:
        """No segment ends inside of the batch. (Of a dense one it is enough to look at both ends.)"""
        at = self._relation.cut(header.base_offset)
        piece = self._relation.part(at, self._relation.cut(header.last_offset + 1))
        return len(piece) == 1

    # -- records ---------------------------------------------------------------------------------------------

    def _decode_source(self, batch: Data) -> None:
        self._digest_source(batch)
        on_target = self._relation.on_target
        for record in self._records(batch, self.sums.source):
            at = on_target(record.offset)
            if at is None:
                self._source_only(record, None)
            else:
                self._here.append((at, record))

    def _decode_target(self, batch: Data) -> None:
        self._digest_target(batch)
        self._there.extend(self._records(batch, self.sums.target))

    def _records(self, batch: Data, sums: SideSums) -> list[Record]:
        found = batch.records()
        if self._wanted is None:
            return found
        kept = [record for record in found if self._wanted(record)]
        sums.records -= len(found) - len(kept)
        return kept

    def _walk(self, *, source_ended: bool, target_ended: bool) -> None:
        """Pair what both queues have, until one is empty whose log goes on."""
        here, there = self._here, self._there
        while (here or source_ended) and (there or target_ended) and (here or there):
            at = here[0][0] if here else _NOTHING
            other = there[0].offset if there else _NOTHING
            if at == other:
                self._pair(here.popleft()[1], there.popleft())
            elif at < other:
                self._source_only(here.popleft()[1], at)
            else:
                self._target_only(there.popleft())

    def _pair(self, record: Record, other: Record) -> None:
        self.sums.decoded += 1
        if self._seen is not None:
            self._seen(True, other.offset, record)
            self._seen(False, other.offset, other)
        kind = difference(record, other)
        if kind is None:
            self.sums.compared += 1
            return
        self.sums.pairs[kind] += 1
        self._note(kind, other.offset, record, other)

    def _source_only(self, record: Record, at: int | None) -> None:
        kind = self._kind_of_source(record, at)
        near = self._relation.next_on_target(record.offset) if at is None else at
        self.sums.source_only[kind] += 1
        if self._seen is not None:
            self._seen(True, near, record)
        if kind is DifferenceKind.TARGET_RETENTION:
            self.sums.newest_source = max(self.sums.newest_source, record.timestamp_ms)
        elif kind is DifferenceKind.UNDECIDED and self._undecided is not None:
            self._undecided(True, near, record)
        elif kind in OPEN and (self.sums.open_at is None or record.offset < self.sums.open_at):
            self.sums.open_at = record.offset
        elif kind in DIFFERENT:
            self._note(kind, near, record, None)

    def _kind_of_source(self, record: Record, at: int | None) -> DifferenceKind:
        rules = self._rules
        if at is not None:
            if at < self._target_start:
                return DifferenceKind.TARGET_RETENTION
            return DifferenceKind.UNDECIDED if rules.target_compacted else DifferenceKind.MISSING_ON_TARGET
        if record.offset >= self._relation.end.source:
            return rules.source_beyond
        return rules.source_before if record.offset < self._relation.begin.source else DifferenceKind.RECORD_IN_GAP

    def _target_only(self, record: Record) -> None:
        kind = self._kind_of_target(record)
        self.sums.target_only[kind] += 1
        if self._seen is not None:
            self._seen(False, record.offset, record)
        if kind is DifferenceKind.SOURCE_RETENTION:
            self.sums.newest_target = max(self.sums.newest_target, record.timestamp_ms)
        elif kind is DifferenceKind.UNDECIDED and self._undecided is not None:
            self._undecided(False, record.offset, record)
        elif kind in OPEN:
            at = self._relation.cut_at_target(record.offset).source
            self.sums.open_at = at if self.sums.open_at is None else min(self.sums.open_at, at)
        elif kind in DIFFERENT:
            self._note(kind, record.offset, None, record)

    def _kind_of_target(self, record: Record) -> DifferenceKind:
        rules, at = self._rules, self._relation.on_source(record.offset)
        if at is not None:
            if at < self._source_start:
                return DifferenceKind.SOURCE_RETENTION
            return DifferenceKind.UNDECIDED if rules.source_compacted else DifferenceKind.MISSING_ON_SOURCE
        if record.offset >= self._relation.end.target:
            return rules.target_beyond
        return rules.target_before if record.offset < self._relation.begin.target else DifferenceKind.RECORD_IN_GAP

    @property
    def _source_start(self) -> int:
        return max(self._rules.source_start, self._source.log_start)

    @property
    def _target_start(self) -> int:
        return max(self._rules.target_start, self._target.log_start)

    def _note(self, kind: DifferenceKind, at: int, source: Record | None, target: Record | None) -> None:
        first = self.sums.first
        if first is not None and first.at < at:
            return
        self.sums.note(
            Difference(
                at=at,
                kind=kind,
                source_offset=None if source is None else source.offset,
                target_offset=None if target is None else target.offset,
                source=shown(source),
                target=shown(target),
            )
        )


def same_batch(here: Data, there: Data) -> bool:
    """Equal in all that a copy must not change (`protocol.batch.header.batch_digest`)."""
    a, b = here.header, there.header
    return (
        a.count == b.count
        and a.length == b.length
        and a.last_offset_delta == b.last_offset_delta
        and a.base_timestamp == b.base_timestamp
        and a.max_timestamp == b.max_timestamp
        and a.attributes & _KEPT_ATTRIBUTES == b.attributes & _KEPT_ATTRIBUTES
        and here.data[HEADER_BYTES:].tobytes() == there.data[HEADER_BYTES:].tobytes()
    )


def difference(record: Record, other: Record) -> DifferenceKind | None:
    """The first thing in which two records differ; offsets aside."""
    if record.key != other.key:
        return DifferenceKind.KEY
    if record.value != other.value:
        return DifferenceKind.VALUE
    if record.headers != other.headers:
        return DifferenceKind.HEADERS
    return None if record.timestamp_ms == other.timestamp_ms else DifferenceKind.TIMESTAMP


def _digest(batch: Data, at: int) -> int:
    """Of a batch whose last offset is `at` on the target."""
    return int.from_bytes(sha256(batch_digest(batch.data, batch.header) + at.to_bytes(8)).digest())
