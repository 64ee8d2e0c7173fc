"""DeleteRecords on the target for one partition. Every answer is an input of the runner, also a refusal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from gateway.kafka.acts import ActRefused, permitted
from gateway.kafka.connection.errors import NetError
from gateway.kafka.offsets import delete_records

if TYPE_CHECKING:
    from gateway.kafka.cluster import Cluster
    from gateway.mirror.partition.runner import PartitionRunner

_DELETE_S: Final = 10.0


async def trim(
    target: Cluster, runner: PartitionRunner, offset: int, delay_s: float, may_append: Callable[[], bool]
) -> None:
    """After `delay_s` seconds, delete the records below `offset`; then call `runner.deleted` with the error or "".

    Right before each try it is checked again that this gateway still mirrors the partition, in this mirror period, and
    may append to it. Until that has ended neither another gateway nor a promote has the partition.
    """

    def still_mirrored() -> None:
        if runner.mirror.ended:
            raise ActRefused("the partition is not mirrored here any more")
        if not may_append():
            raise ActRefused("the write lease of this gateway is over")

    await asyncio.sleep(delay_s)
    try:
        with permitted(still_mirrored):
            await delete_records(target, {runner.key: offset}, timeout_s=_DELETE_S)
    except NetError as exc:
        runner.deleted(str(exc))
    else:
        runner.deleted("")
