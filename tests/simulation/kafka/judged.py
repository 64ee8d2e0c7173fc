"""What a log holds, record by record, for judges: no protocol, no faults."""

from __future__ import annotations

from typing import NamedTuple

from protocol.batch.aborted import AbortedTransactions
from protocol.batch.header import SEQUENCES
from protocol.batch.record_reader import read_records
from tests.simulation.kafka.logs.log import Batch, ReplicaLog


class ModelRecord(NamedTuple):
    """A record with what its batch says of it. `aborted`: its transaction ended so."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int
    producer_id: int
    producer_epoch: int
    sequence: int
    transactional: bool
    control: bool
    aborted: bool


def records_of(log: ReplicaLog, committed_only: bool = False) -> list[ModelRecord]:
    """All records from the log start on.

    `committed_only`: what a reader of committed records is given once the log's end is replicated. Not up to the high
    watermark: a new leader's is behind for a moment, and a judge would miss what readers were given before.
    """
    found: list[ModelRecord] = []
    table = log.producers
    aborted = AbortedTransactions((entry.producer_id, entry.first_offset) for entry in table.aborted)
    limit = min((*table.open, log.end)) if committed_only else log.end
    for batch in log.batches:
        header = batch.header
        is_aborted = aborted.is_aborted(header)
        if header.base_offset >= limit:
            break
        if committed_only and (is_aborted or header.is_control):
            continue
        records = _decoded(batch)
        if records and records[0].offset < log.start:
            records = [record for record in records if record.offset >= log.start]
        found += [record._replace(aborted=True) for record in records] if is_aborted else records
    return found


def _decoded(batch: Batch) -> list[ModelRecord]:
    """All of a batch, as if it was committed. A judge comes back to a log again and again, and no batch changes."""
    records: list[ModelRecord] | None = batch.decoded
    if records is None:
        header = batch.header
        first = header.base_sequence - header.base_offset
        records = batch.decoded = [
            ModelRecord(
                record.offset,
                record.key,
                record.value,
                record.headers,
                record.timestamp_ms,
                header.producer_id,
                header.producer_epoch,
                (first + record.offset) % SEQUENCES if header.base_sequence >= 0 else -1,
                header.is_transactional,
                header.is_control,
                False,
            )
            for record in read_records(header, memoryview(batch.data))
        ]
    return records
