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

from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from gateway.jobs.audit.compare import Comparison
from gateway.jobs.audit.evidence import record as shown
from gateway.jobs.audit.kinds import Kind
from gateway.jobs.audit.pieces import Piece
from gateway.jobs.audit.side import Feed
from gateway.jobs.audit.sums import Difference, SideSums, Sums
from protocol.record_reader import Record

RECORDS_PER_BUCKET: Final = 2_000_000
_KEY_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class _Open:
    """A record that the other side lacks, `at` a target offset."""

    at: int
    record: Record

    @property
    def is_tombstone(self) -> bool:
        return self.record.value is None


def buckets_for(records: int) -> int:
    """In how many parts, by key, a partition is looked at; each reads both logs."""
    return max(1, -(-records // RECORDS_PER_BUCKET))


class KeyedComparison:
    """The comparison of one compacted partition, of the keys in one of `buckets` parts.

    `walk`, then `look` at each log of `to_look_at`, then `finish`.
    """

    def __init__(self, piece: Piece, bucket: int, buckets: int) -> None:
        self._piece = piece
        self._bucket = bucket
        self._buckets = buckets
        self._open: dict[bool, dict[bytes, list[_Open]]] = {True: {}, False: {}}  # by whether the source has them
        self._found: dict[bool, dict[bytes, int]] = {True: {}, False: {}}  # the last place of a key on the other side
        self._settled = {True: 0, False: 0}
        self._sums = Sums()

    def walk(self, source: Feed, target: Feed) -> None:
        """The first pass."""
        walk = Comparison(
            self._piece, source, target, undecided=self._undecided, seen=self._seen, wanted=self._is_wanted
        )
        self._sums = walk.run()

    def _is_wanted(self, record: Record) -> bool:
        return self._buckets == 1 or _hash(record)[0] % self._buckets == self._bucket

    def _undecided(self, is_source: bool, at: int, record: Record) -> None:
        self._open[is_source].setdefault(_hash(record), []).append(_Open(at, record))

    def _seen(self, is_source: bool, at: int, record: Record) -> None:
        """A record on one side settles what the other side alone has before it."""
        others = self._open[not is_source]
        if others and record.key is not None:
            self._settled[not is_source] += len(others.pop(_hash(record), ()))

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

    def finish(self) -> Sums:
        """What both passes found."""
        sums = self._sums
        for is_source, kinds in ((True, sums.source_only), (False, sums.target_only)):
            kinds[Kind.COMPACTION] += self._settled[is_source]
            for key, records in self._open[is_source].items():
                self._judge(is_source, self._found[not is_source].get(key), records)
            del kinds[Kind.UNDECIDED]
            for kind in [kind for kind, count in kinds.items() if not count]:
                del kinds[kind]
        if self._bucket:  # the offsets are counted once
            sums.source = SideSums(records=sums.source.records)
            sums.target = SideSums(records=sums.target.records)
        return sums

    def _judge(self, is_source: bool, last: int | None, records: list[_Open]) -> None:
        missing = Kind.MISSING_ON_TARGET if is_source else Kind.MISSING_ON_SOURCE
        kinds = self._sums.source_only if is_source else self._sums.target_only
        deleted = last is None and records[-1].is_tombstone and records[-1].record.key is not None
        unknown = is_source and last is None and self._piece.rules.written_since
        for one in records:
            if deleted or unknown or (last is not None and last > one.at):
                kinds[Kind.KEY_GONE if unknown and not deleted else Kind.COMPACTION] += 1
                continue
            kinds[missing] += 1
            here, there = (one.record, None) if is_source else (None, one.record)
            self._sums.note(
                Difference(
                    at=one.at,
                    kind=missing,
                    source_offset=None if here is None else here.offset,
                    target_offset=None if there is None else there.offset,
                    source=shown(here),
                    target=shown(there),
                )
            )


def _hash(record: Record) -> bytes:
    return sha256(record.key or b"").digest()[:_KEY_BYTES]
