"""Reads the newest records of Kafka's own compacted topics, where the link may: who wrote what in which transaction.

What lies further back than `RECORDS` of a partition, or comes after the time is up, is not read: discovery is asked
again when more is wanted, and the newest records are those of the applications that run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Final

from gateway.kafka.cluster import Cluster
from gateway.kafka.logs.range_reader import RangeReader
from gateway.kafka.offsets import EARLIEST, LATEST, list_offsets
from gateway.migration.rules.internal_records import (
    CONSUMER_OFFSETS,
    TRANSACTION_STATE,
    OffsetKey,
    TransactionEntry,
    offset_key,
    transaction_entry,
)
from protocol.batch.header import BatchHeader
from protocol.batch.record_reader import read_records
from protocol.errors import MalformedFrame

RECORDS: Final = 20_000
"""Offsets that are looked at, at the end of each partition."""
_KEPT: Final = 64
"""Different sets of partitions that are kept of one transactional id."""
_FETCH_BYTES: Final = 1024 * 1024
_PARALLEL: Final = 8

_Take = Callable[[BatchHeader, memoryview], None]


async def transactions_logged(
    cluster: Cluster, partitions: int, limit_s: float
) -> Mapping[str, Sequence[TransactionEntry]]:
    """Transactional id -> what `__transaction_state` still has of its transactions.

    Raises:
        ClusterUnavailable, BrokerError, PartitionErrors: it cannot be read.
    """
    found: dict[str, dict[object, TransactionEntry]] = {}

    def take(header: BatchHeader, batch: memoryview) -> None:
        for record in read_records(header, batch):
            if record.key is None or record.value is None:
                continue
            with suppress(MalformedFrame):
                entry = transaction_entry(record.key, record.value)
                if entry is not None:
                    of_id = found.setdefault(entry.transactional_id, {})
                    if len(of_id) < _KEPT:
                        of_id[entry.producer_id, tuple(sorted(entry.partitions.items()))] = entry

    await _tail(cluster, TRANSACTION_STATE, range(partitions), limit_s, take)
    return {name: list(entries.values()) for name, entries in found.items()}


async def offset_owners(
    cluster: Cluster, partitions: Sequence[int], producers: Collection[int], limit_s: float
) -> Mapping[int, frozenset[OffsetKey]]:
    """Producer id -> the offsets that it has committed in transactions, as `__consumer_offsets` has them.

    Args:
        producers: whose batches are looked into; of all others only the header is.

    Raises:
        as `transactions_logged`.
    """
    found: dict[int, set[OffsetKey]] = {}

    def take(header: BatchHeader, batch: memoryview) -> None:
        if not header.is_transactional or header.producer_id not in producers:
            return
        for record in read_records(header, batch):
            with suppress(MalformedFrame):
                key = None if record.key is None else offset_key(record.key)
                if key is not None:
                    found.setdefault(header.producer_id, set()).add(key)

    await _tail(cluster, CONSUMER_OFFSETS, partitions, limit_s, take)
    return {producer: frozenset(keys) for producer, keys in found.items()}


async def _tail(cluster: Cluster, topic: str, partitions: Collection[int], limit_s: float, take: _Take) -> None:
    """Give every data batch at the end of these partitions to `take`, until the time is up."""
    if not partitions:
        return
    starts = await list_offsets(cluster, {topic: dict.fromkeys(partitions, EARLIEST)}, timeout_s=limit_s)
    ends = await list_offsets(cluster, {topic: dict.fromkeys(partitions, LATEST)}, timeout_s=limit_s)
    slots = asyncio.Semaphore(_PARALLEL)

    async def one(index: int) -> None:
        end = ends[topic, index].offset
        start = max(starts[topic, index].offset, end - RECORDS)
        async with slots:
            async for header, batch in _batches(cluster, topic, index, start, end, limit_s):
                take(header, batch)

    with suppress(TimeoutError):  # the newest of what is read by then tells most
        async with asyncio.timeout(limit_s):
            await asyncio.gather(*(one(index) for index in partitions))


async def _batches(
    cluster: Cluster, topic: str, index: int, start: int, end: int, limit_s: float
) -> AsyncIterator[tuple[BatchHeader, memoryview]]:
    reader = RangeReader(
        cluster, topic, index, start, end, read_committed=False, fetch_bytes=_FETCH_BYTES, patience_s=limit_s
    )
    while (chunk := await reader.next()) is not None:
        for at, header in enumerate(chunk.headers):
            if not header.is_control:
                yield header, chunk.records[chunk.bounds[at] : chunk.bounds[at + 1]]
