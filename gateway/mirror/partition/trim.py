"""DeleteRecords on the target for one partition: the answer is the runner's input, also when the cluster refused."""

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
    """After `delay_s`, delete what is below `offset`; then `runner.deleted`, with the error if there is one.

    Asked again right before each try: this gateway still mirrors the partition, for this period of its mirror, and may
    append to it. Nobody else has the partition before that has ended, nor does a promote.
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
