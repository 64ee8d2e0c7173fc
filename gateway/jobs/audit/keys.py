"""Compacted topics: what one log lacks because its cleaner took it. Pure.

A log cleaner takes a record when there is a later one with its key, and a tombstone some time after all before it with
its key are gone. So of a record that one side alone has, either

* the other side has a later record with its key, or
* it is, or is followed by, a tombstone, and the other side has no record with its key at all.

Anything else is missing; but of a target that was written since its topic's promote nobody can know whether it was
deleted by a tombstone that is gone by now, too. *Two passes*: the first walks both logs in step and settles what it can
by what it comes upon later. What is left it looks up in the second one, up to the other log's end as of then: a cleaner
may have gone by a record that came after the audit began.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from typing import Final, NamedTuple

from gateway.jobs.audit.compare import Comparison
from gateway.jobs.audit.kinds import DifferenceKind
from gateway.jobs.audit.kinds import record as shown
from gateway.jobs.audit.pieces import AuditPiece
from gateway.jobs.audit.side import BatchFeed
from gateway.jobs.audit.sums import Difference, SideSums, Sums
from protocol.batch.record_reader import Record

RECORDS_PER_BUCKET: Final = 1_000_000
_KEY_BYTES: Final = 16

Find = Callable[[bool, int], Record | None]
"""Reads one record of the source's log (True) or the target's, by its offset."""


class _Open(NamedTuple):
    """A record that the other side lacks, `at` a target offset. Its content is not kept: there may be many."""

    at: int
    offset: int
    is_tombstone: bool


def buckets_for(records: int) -> int:
    """In how many parts, by key, a partition is looked at; each reads both logs."""
    return max(1, -(-records // RECORDS_PER_BUCKET))


class KeyedComparison:
    """The comparison of one compacted partition, of the keys in one of `buckets` parts.

    `walk`, then `look` at each log of `to_look_at`, then `finish`.
    """

    def __init__(self, piece: AuditPiece, bucket: int, buckets: int) -> None:
        self._piece = piece
        self._bucket = bucket
        self._buckets = buckets
        self._open: dict[bool, dict[bytes, list[_Open]]] = {True: {}, False: {}}  # by whether the source has them
        self._found: dict[bool, dict[bytes, int]] = {True: {}, False: {}}  # the last place of a key on the other side
        self._matched = {True: 0, False: 0}
        self._sums = Sums()

    def walk(self, source: BatchFeed, target: BatchFeed) -> None:
        """The first pass."""
        walk = Comparison(
            self._piece, source, target, undecided=self._undecided, seen=self._seen, wanted=self._is_wanted
        )
        self._sums = walk.run()

    def _is_wanted(self, record: Record) -> bool:
        return self._buckets == 1 or _hash(record)[0] % self._buckets == self._bucket

    def _undecided(self, is_source: bool, at: int, record: Record) -> None:
        self._open[is_source].setdefault(_hash(record), []).append(
            _Open(at, record.offset, record.value is None and record.key is not None)
        )

    def _seen(self, is_source: bool, at: int, record: Record) -> None:
        """A record on one side settles what the other side alone has before it."""
        others = self._open[not is_source]
        if others and record.key is not None:
            self._matched[not is_source] += len(others.pop(_hash(record), ()))

    @property
    def to_look_at(self) -> tuple[bool, ...]:
        """The logs that have to be read once more: True the source, False the target."""
        return tuple(is_source for is_source in (True, False) if self._open[not is_source])

    def look(self, is_source: bool, record: Record) -> None:
        """A record of the second pass, which reads a log from its start to its end as of now."""
        key = _hash(record)
        if record.key is not None and key in self._open[not is_source]:
            at = self._piece.relation.next_on_target(record.offset) if is_source else record.offset
            self._found[is_source][key] = max(at, self._found[is_source].get(key, -1))

    def finish(self, find: Find) -> Sums:
        """What both passes found."""
        sums = self._sums
        missing: list[tuple[int, bool, int]] = []
        for is_source, kinds in ((True, sums.source_only), (False, sums.target_only)):
            kinds[DifferenceKind.COMPACTION] += self._matched[is_source]
            for key, records in self._open[is_source].items():
                missing += self._judge(is_source, kinds, self._found[not is_source].get(key), records)
            del kinds[DifferenceKind.UNDECIDED]
            for kind in [kind for kind, count in kinds.items() if not count]:
                del kinds[kind]
        if missing:
            self._note(*min(missing), find)
        if self._bucket:  # the offsets are counted once
            sums.source = SideSums(records=sums.source.records)
            sums.target = SideSums(records=sums.target.records)
        return sums

    def _judge(
        self, is_source: bool, kinds: Counter[DifferenceKind], last: int | None, records: list[_Open]
    ) -> list[tuple[int, bool, int]]:
        """Count the open records of one key; the first that is missing, if one is."""
        deleted = last is None and records[-1].is_tombstone
        unknown = is_source and last is None and self._piece.rules.written_since
        missing = []
        for one in records:
            if deleted or (last is not None and last > one.at):
                kinds[DifferenceKind.COMPACTION] += 1
            elif unknown:
                kinds[DifferenceKind.KEY_GONE] += 1
            else:
                kinds[DifferenceKind.MISSING_ON_TARGET if is_source else DifferenceKind.MISSING_ON_SOURCE] += 1
                missing.append((one.at, is_source, one.offset))
        return missing[:1]

    def _note(self, at: int, is_source: bool, offset: int, find: Find) -> None:
        record = shown(find(is_source, offset))
        self._sums.note(
            Difference(
                at=at,
                kind=DifferenceKind.MISSING_ON_TARGET if is_source else DifferenceKind.MISSING_ON_SOURCE,
                source_offset=offset if is_source else None,
                target_offset=None if is_source else offset,
                source=record if is_source else None,
                target=None if is_source else record,
            )
        )


def _hash(record: Record) -> bytes:
    key = b"" if record.key is None else b"k" + record.key
    return sha256(key).digest()[:_KEY_BYTES]
