"""Reads the newest records of Kafka's own compacted topics, where the link may: who wrote what in which transaction.

What lies further back than `RECORDS` of a partition, or comes after the time is up, is not read, and said to be so
(`Tail`): discovery is asked again when more is wanted, and the newest records are those of the applications that run.
A partition that cannot be read costs what is in it, and no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.errors import NetError, PartitionErrors
from gateway.kafka.logs.range_reader import RangeReader
from gateway.kafka.offsets import EARLIEST, LATEST, list_offsets
from gateway.migration.rules.internal_records import (
    CONSUMER_OFFSETS,
    TRANSACTION_STATE,
    OffsetKey,
    offset_key,
    transaction_entry,
)
from protocol.batch.header import BatchHeader
from protocol.batch.record_reader import read_records
from protocol.errors import MalformedFrame, ProtocolError

RECORDS: Final = 20_000
"""Offsets that are looked at, at the end of each partition."""
_FETCH_BYTES: Final = 1024 * 1024
_PARALLEL: Final = 8
_NO_LEADER: Final = "its leader does not tell where it ends"

_Take = Callable[[BatchHeader, memoryview], None]


class Tail(NamedTuple):
    """What was not read: partitions whose end was not reached, the first reason ('': the time was up), and partitions
    of which the front was left out."""

    unread: Sequence[int] = ()
    why: str = ""
    older: Sequence[int] = ()


@dataclass(slots=True)
class Logged:
    """All that the log has of one transactional id: in any of its transactions, topic -> partitions. As much as the
    source has partitions, however many transactions there were."""

    producer_ids: set[int] = field(default_factory=set)
    partitions: dict[str, set[int]] = field(default_factory=dict)


async def transactions_logged(cluster: Cluster, partitions: int, limit_s: float) -> tuple[Mapping[str, Logged], Tail]:
    """Transactional id -> what `__transaction_state` still has of its transactions.

    Raises:
        ClusterUnavailable, BrokerError, PartitionErrors: nothing of it can be read.
    """
    found: dict[str, Logged] = {}

    def take(header: BatchHeader, batch: memoryview) -> None:
        for record in read_records(header, batch):
            if record.key is None or record.value is None:
                continue
            with suppress(MalformedFrame):
                entry = transaction_entry(record.key, record.value)
                if entry is not None:
                    of_id = found.setdefault(entry.transactional_id, Logged())
                    of_id.producer_ids.add(entry.producer_id)
                    for topic, indexes in entry.partitions.items():
                        of_id.partitions.setdefault(topic, set()).update(indexes)

    return found, await _tail(cluster, TRANSACTION_STATE, range(partitions), limit_s, take)


async def offset_owners(
    cluster: Cluster, partitions: Sequence[int], producers: Collection[int], limit_s: float
) -> tuple[Mapping[int, frozenset[OffsetKey]], Tail]:
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

    tail = await _tail(cluster, CONSUMER_OFFSETS, partitions, limit_s, take)
    return {producer: frozenset(keys) for producer, keys in found.items()}, tail


async def _tail(cluster: Cluster, topic: str, partitions: Collection[int], limit_s: float, take: _Take) -> Tail:
    """Give every data batch at the end of these partitions to `take`, until the time is up."""
    if not partitions:
        return Tail()
    starts = await _offsets(cluster, topic, partitions, EARLIEST, limit_s)
    ends = await _offsets(cluster, topic, partitions, LATEST, limit_s)
    slots, read, failures = asyncio.Semaphore(_PARALLEL), set[int](), list[Exception]()

    async def one(index: int) -> None:
        start = max(starts[index], ends[index] - RECORDS)
        try:
            async with slots:
                async for header, batch in _batches(cluster, topic, index, start, ends[index], limit_s):
                    take(header, batch)
            read.add(index)
        except (NetError, ProtocolError, OSError) as exc:
            failures.append(exc)

    told = starts.keys() & ends.keys()
    with suppress(TimeoutError):  # the newest of what is read by then tells most
        async with asyncio.timeout(limit_s):
            await asyncio.gather(*(one(index) for index in sorted(told)))
    if len(failures) == len(partitions):
        raise failures[0]
    unread = [index for index in partitions if index not in read]
    why = str(failures[0]) if failures else _NO_LEADER if set(partitions) - told else ""
    return Tail(unread, why if unread else "", sorted(i for i in told if ends[i] - RECORDS > starts[i]))


async def _offsets(
    cluster: Cluster, topic: str, partitions: Collection[int], at: int, limit_s: float
) -> Mapping[int, int]:
    """Of the partitions that tell; raises as `list_offsets` when none does."""
    try:
        found = await list_offsets(cluster, {topic: dict.fromkeys(partitions, at)}, timeout_s=limit_s)
    except PartitionErrors as exc:
        if not exc.partial:
            raise
        found = exc.partial
    return {index: one.offset for (_, index), one in found.items()}


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
