"""DeleteRecords on the target for one partition: the answer is the runner's input, also when the cluster refused."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from gateway.kafka.connection.errors import NetError
from gateway.kafka.offsets import delete_records

if TYPE_CHECKING:
    from gateway.kafka.cluster import Cluster
    from gateway.mirror.partition.runner import PartitionRunner

_DELETE_S: Final = 10.0


async def trim(target: Cluster, runner: PartitionRunner, offset: int, delay_s: float) -> None:
    """After `delay_s`, delete what is below `offset`; then `runner.deleted`, with the error if there is one."""
    await asyncio.sleep(delay_s)
    try:
        await delete_records(target, {runner.key: offset}, timeout_s=_DELETE_S)
    except NetError as exc:
        runner.deleted(str(exc))
    else:
        runner.deleted("")
