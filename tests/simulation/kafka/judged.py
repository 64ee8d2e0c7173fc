"""What a log holds, record by record, for judges: no protocol, no faults."""

from __future__ import annotations

from typing import NamedTuple

from protocol.batch.aborted import AbortedTransactions
from protocol.batch.header import SEQUENCES
from protocol.batch.record_reader import read_records
from tests.simulation.kafka.log import ReplicaLog


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
    found = []
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
        for record in read_records(header, memoryview(batch.data)):
            if record.offset < log.start:
                continue
            sequence = -1
            if header.base_sequence >= 0:
                sequence = (header.base_sequence + record.offset - header.base_offset) % SEQUENCES
            found.append(
                ModelRecord(
                    record.offset,
                    record.key,
                    record.value,
                    record.headers,
                    record.timestamp_ms,
                    header.producer_id,
                    header.producer_epoch,
                    sequence,
                    header.is_transactional,
                    header.is_control,
                    is_aborted,
                )
            )
    return found
