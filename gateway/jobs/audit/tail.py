"""Whether a log has anything for consumers in some offsets: the last ones of a log are often transaction markers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from gateway.net.cluster import Cluster
from gateway.net.range_reader import RangeReader
from gateway.net.routed import Partition

_AT_ONCE = 16


async def without_data(cluster: Cluster, spans: Mapping[Partition, tuple[int, int]]) -> set[Partition]:
    """Those of the spans (first offset, offset after the last) that hold no record that a consumer would see.

    Raises as `RangeReader.next`.
    """
    slots = asyncio.Semaphore(_AT_ONCE)
    found: set[Partition] = set()

    async def look(key: Partition, low: int, high: int) -> None:
        async with slots:
            if low >= high or not await _has_data(cluster, key, low, high):
                found.add(key)

    async with asyncio.TaskGroup() as group:
        for key, span in spans.items():
            group.create_task(look(key, *span))
    return found


async def _has_data(cluster: Cluster, key: Partition, low: int, high: int) -> bool:
    reader = RangeReader(cluster, *key, low, high, with_last=True)
    while (chunk := await reader.next()) is not None:
        for header, aborted in zip(chunk.headers, chunk.aborted, strict=True):
            if not header.is_control and not aborted and header.count > 0:
                return True
    return False
