"""The log cleaner: one round over a log (LogCleaner.scala, MemoryRecords.filterTo).

Of each key the last record stays; records without a key and those of aborted transactions go; a tombstone and the
marker of an emptied transaction get a delete horizon in the round that first sees them and go after it. A batch keeps
its base and last offset, so that offsets are missing inside; one without records goes, unless it is the last of its
producer or of the round: then it stays empty. Nothing from the first open transaction on is touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from protocol.batch.compression import compress
from protocol.batch.header import CODEC_MASK, DELETE_HORIZON, HEADER_BYTES, BatchHeader
from protocol.batch.record_reader import Record, read_records
from protocol.batch.varints import varint
from tests.simulation.kafka.logs.log import Batch, ReplicaLog
from tests.simulation.kafka.logs.producer_state import Aborted, Producer
from tests.simulation.kafka.topics import Settings

_PREFIX: Final = Struct(">qiib")
_CRC: Final = Struct(">I")
_CHECKED: Final = Struct(">hiqqqhii")
_LENGTH_BASE: Final = 12
_NULL: Final = varint(-1)


class _Transactions:
    """Which transactions are met on the way through the log, and how they end (CleanedTransactionMetadata)."""

    def __init__(self, aborted: Iterable[Aborted]) -> None:
        self._waiting = sorted(aborted, key=lambda entry: entry.first_offset, reverse=True)
        self._aborting: dict[int, tuple[Aborted, bool]] = {}
        self._committing: set[int] = set()
        self.kept: list[Aborted] = []

    def may_go(self, batch: Batch) -> bool:
        """True for data of an aborted transaction, and for a marker whose transaction has no batch left."""
        header = batch.header
        while self._waiting and self._waiting[-1].first_offset <= batch.last:
            entry = self._waiting.pop()
            self._aborting.setdefault(entry.producer_id, (entry, False))
        producer_id = header.producer_id
        if not header.is_control:
            if not header.is_transactional:
                return False
            if producer_id in self._aborting:
                self._aborting[producer_id] = (self._aborting[producer_id][0], True)
                return True
            self._committing.add(producer_id)
            return False
        if batch.marker is None:
            return True
        if batch.marker.commit:
            met = producer_id in self._committing
            self._committing.discard(producer_id)
            return not met
        aborting = self._aborting.pop(producer_id, None)
        if aborting is None or not aborting[1]:
            return True
        self.kept.append(aborting[0])
        return False


class _Round(NamedTuple):
    latest: dict[bytes, int]
    limit: int
    last_of: dict[int, Producer]
    now_ms: int
    horizon_ms: int


def clean(log: ReplicaLog, settings: Settings, now_ms: int) -> None:
    """Clean a log up to its high watermark or first open transaction, as if its active segment had just been rolled."""
    if not settings.compacted:
        return
    table = log.producers
    limit = log.last_stable_offset
    latest: dict[bytes, int] = {}
    transactions = _Transactions(table.aborted)
    for batch in log.batches:
        if batch.last >= limit:
            break
        if not transactions.may_go(batch) and not batch.header.is_control:
            for record in _records(batch):
                if record.key is not None:
                    latest[record.key] = record.offset
    transactions = _Transactions(table.aborted)
    retention = int(settings.values["delete.retention.ms"])
    job = _Round(latest, limit, table.producers, now_ms, now_ms + retention)
    cleaned: list[Batch] = []
    for batch in log.batches:
        if batch.last >= limit:
            cleaned.append(batch)
            continue
        kept = _filtered(job, batch, transactions.may_go(batch))
        if kept is not None:
            cleaned.append(kept)
    beyond = [entry for entry in table.aborted if entry.last_offset >= limit]
    table.aborted = sorted({*transactions.kept, *beyond}, key=lambda entry: entry.last_offset)
    log.replace(cleaned)


def _records(batch: Batch) -> list[Record]:
    return list(read_records(batch.header, memoryview(batch.data)))


def _horizon(header: BatchHeader) -> int | None:
    return header.base_timestamp if header.attributes & DELETE_HORIZON else None


def _filtered(job: _Round, batch: Batch, may_go: bool) -> Batch | None:
    header = batch.header
    horizon = _horizon(header)
    discard = may_go and (not header.is_control or (horizon is not None and horizon <= job.now_ms))
    records = _records(batch)
    kept = [] if discard else [record for record in records if _stays(job, header, horizon, record)]
    if not kept:
        return _emptied(batch) if _needed(job, batch) else None
    marks = horizon is None and ((may_go and header.is_control) or any(record.value is None for record in kept))
    if len(kept) == len(records) and not marks:
        return batch
    return _rewritten(batch, kept, job.horizon_ms if marks else horizon)


def _stays(job: _Round, header: BatchHeader, horizon: int | None, record: Record) -> bool:
    if header.is_control:
        return True
    if record.key is None or record.offset < job.latest.get(record.key, -1):
        return False
    return record.value is not None or horizon is None or job.now_ms < horizon


def _needed(job: _Round, batch: Batch) -> bool:
    """An empty batch stays for its producer's last sequence (or epoch), and at the end of the round."""
    if batch.last + 1 == job.limit:
        return True
    header = batch.header
    producer = job.last_of.get(header.producer_id)
    if producer is None:
        return False
    if producer.batches:
        return batch.last == producer.batches[-1].last_offset
    return header.is_control and header.producer_epoch == producer.epoch


def _emptied(batch: Batch) -> Batch:
    header = batch.header
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON)
    return _built(header, attributes, -1, header.max_timestamp, 0, b"")


def _rewritten(batch: Batch, kept: Sequence[Record], horizon: int | None) -> Batch:
    header = batch.header
    base = kept[0].timestamp_ms if horizon is None else horizon
    attributes = header.attributes if horizon is None else header.attributes | DELETE_HORIZON
    newest = header.max_timestamp if header.is_log_append_time else max(record.timestamp_ms for record in kept)
    body = b"".join(encoded_record(record, header.base_offset, base) for record in kept)
    if header.codec:
        body = bytes(compress(header.codec, body, memoryview(batch.data)[HEADER_BYTES:]))
    return _built(header, attributes, base, newest, len(kept), body)


def encoded_record(record: Record, base_offset: int, base_timestamp: int) -> bytes:
    """A record as it is in a batch with this base offset and base timestamp."""
    pieces = [b"\0", varint(record.timestamp_ms - base_timestamp), varint(record.offset - base_offset)]
    pieces += [_field(record.key), _field(record.value), varint(len(record.headers))]
    for name, value in record.headers:
        pieces += [_field(name.encode()), _field(value)]
    body = b"".join(pieces)
    return varint(len(body)) + body


def _field(data: bytes | None) -> bytes:
    return _NULL if data is None else varint(len(data)) + data


def _built(header: BatchHeader, attributes: int, base_ms: int, newest_ms: int, count: int, body: bytes) -> Batch:
    checked = _CHECKED.pack(
        attributes,
        header.last_offset_delta,
        base_ms,
        newest_ms,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        count,
    )
    crc = crc32c(body, crc32c(checked))
    length = HEADER_BYTES + len(body) - _LENGTH_BASE
    prefix = _PREFIX.pack(header.base_offset, length, header.partition_leader_epoch, 2)
    return Batch.parsed(prefix + _CRC.pack(crc) + checked + body)
