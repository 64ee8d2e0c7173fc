"""Where a mirror begins: the first offset to show, and the batch that holds it.

A log can start inside a batch (after DeleteRecords, or at a timestamp in the middle of one). Batches are copied whole,
so the mirror begins at the batch's base offset and trims the records before the start on the target.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from gateway.kafka.cluster import CONTROL_LANE, BrokerError, Cluster, ClusterUnavailable
from gateway.kafka.offsets import EARLIEST, LATEST, list_offsets
from gateway.state.records import PartitionStart
from gateway.transport.backoff import Backoff
from protocol.apis import ApiKey
from protocol.batch.header import BatchHeader, OldFormat, iter_batches
from protocol.errors import ErrorCode, error_name, is_retriable
from protocol.fetch import FetchedPartition, FetchPartition, build_request_body, scan_response

_BY_NAME: Final = 12  # the last Fetch version that names topics
_AT_ONCE: Final = 32


async def plan_start(
    source: Cluster, topic: str, spec: int, *, partitions: Iterable[int] | None = None, timeout_s: float | None = None
) -> tuple[PartitionStart, ...]:
    """Find where each partition's mirror begins.

    Args:
        spec: EARLIEST (-2), LATEST (-1) or milliseconds since the epoch: the first record not older than that, or the
            end of the log if there is none.
        partitions: the partitions, in order; default all.

    Raises:
        BrokerError: the source does not know the topic, or refuses to read it.
        PartitionErrors, ClusterUnavailable: the source gave no offsets within the deadline.
    """
    if partitions is None:
        view = await source.refresh((topic,), timeout_s)
        if topic not in view.topics:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the source has no topic {topic}")
        partitions = sorted(view.topics[topic].partitions)
    indexes = list(partitions)
    starts = await _offsets(source, topic, dict.fromkeys(indexes, spec), timeout_s)
    young = {index: LATEST for index, offset in starts.items() if offset < 0}  # every record is older than asked
    starts |= await _offsets(source, topic, young, timeout_s)
    ends = await _offsets(source, topic, dict.fromkeys(indexes, LATEST), timeout_s)
    slots = asyncio.Semaphore(_AT_ONCE)

    async def plan(index: int) -> PartitionStart:
        offset = starts[index]
        if offset >= ends[index]:
            return PartitionStart(offset, offset)
        async with slots:
            return await start_at(source, topic, index, offset, timeout_s=timeout_s)

    return tuple(await asyncio.gather(*map(plan, indexes)))


async def _offsets(source: Cluster, topic: str, wanted: dict[int, int], timeout_s: float | None) -> dict[int, int]:
    if not wanted:
        return {}
    found = await list_offsets(source, {topic: wanted}, timeout_s=timeout_s)
    return {index: found[topic, index].offset for index in wanted}


async def start_at(
    source: Cluster, topic: str, partition: int, offset: int, *, timeout_s: float | None = None
) -> PartitionStart:
    """The start of one partition's mirror that is to begin at `offset`. Raises as `batch_at` does.

    Records of formats v0 and v1 are re-encoded one by one, so nothing below the offset needs to be copied.
    """
    try:
        header = await batch_at(source, topic, partition, offset, timeout_s=timeout_s)
    except OldFormat:
        return PartitionStart(offset, offset)
    return PartitionStart(offset, offset if header is None else min(offset, header.base_offset))


async def earliest_start(source: Cluster, topic: str, partition: int) -> PartitionStart:
    """Where one partition's log starts now. Raises as `plan_start` does."""
    return (await plan_start(source, topic, EARLIEST, partitions=(partition,)))[0]


async def batch_at(
    cluster: Cluster, topic: str, partition: int, offset: int, *, timeout_s: float | None = None
) -> BatchHeader | None:
    """The header of the batch that holds an offset, or of the next batch after it; None at the end of the log.

    Raises as `whole_batch_at` does.
    """
    found = await whole_batch_at(cluster, topic, partition, offset, timeout_s=timeout_s)
    return None if found is None else found[0]


async def whole_batch_at(
    cluster: Cluster, topic: str, partition: int, offset: int, *, timeout_s: float | None = None
) -> tuple[BatchHeader, memoryview] | None:
    """Same as `batch_at`, with the batch's bytes, header included.

    Raises:
        BrokerError: the broker returned an error that a retry does not cure, such as OFFSET_OUT_OF_RANGE.
        ClusterUnavailable: no answer within the deadline.
        OldFormat: the batch is of format v0 or v1.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + (cluster.config.api_timeout_s if timeout_s is None else timeout_s)
    backoff = Backoff(*cluster.config.retry_backoff_s, cluster.rng)
    what = f"{topic}-{partition} at offset {offset}"
    while True:
        code = int(ErrorCode.LEADER_NOT_AVAILABLE)
        leader = cluster.leader(topic, partition)
        if leader is not None:
            wanted = FetchPartition(partition, offset, 1, leader_epoch=cluster.leader_epoch(topic, partition))
            part = await _fetch_one(cluster, leader, topic, wanted, deadline)
            code = part.error_code  # any number: a broker may be newer than the table of codes
            if not code:
                return next(iter_batches(part.records), None)
        if not is_retriable(code):
            raise BrokerError(code, f"{what}: {error_name(code)}")
        wait_s = backoff.next()
        if loop.time() + wait_s >= deadline:
            raise ClusterUnavailable(f"{what}: {error_name(code)}")
        cluster.invalidate(topic)
        await asyncio.sleep(wait_s)


async def _fetch_one(
    cluster: Cluster, leader: int, topic: str, wanted: FetchPartition, deadline: float
) -> FetchedPartition:
    """Fetch one batch: a broker sends the first batch whole, whatever the limits (KIP-74)."""
    loop = asyncio.get_running_loop()
    connection = await cluster.connection(leader, CONTROL_LANE, deadline - loop.time())
    version = connection.version(ApiKey.FETCH, _BY_NAME)
    body = build_request_body(version, {topic: [wanted]}, max_wait_ms=0, min_bytes=0, max_bytes=1)
    left_s = max(0.001, deadline - loop.time())
    response = await connection.exchange(connection.send, ApiKey.FETCH, version, body, left_s)
    view = scan_response(response, version)
    if view.error_code or not view.parts:
        raise BrokerError(view.error_code, f"Fetch: {error_name(view.error_code)}")
    return view.parts[0]
