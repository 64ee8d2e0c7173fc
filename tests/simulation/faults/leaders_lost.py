"""Target leaders that are lost between what a mirror appends and its replication, at any time of a run.

At a mirror's append, drawn by dice, the followers of that partition stop to fetch; some milliseconds later one of them
leads. What the old leader has got since is gone: nobody was promised it. The same of the offset map's topic, whose
breakpoints are to be durable before a batch goes by them. Nothing else of the cluster notices, so that it can be done
again and again within one run.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from gateway.mirror.offset_map.topic import PREFIX as MAP_PREFIX
from gateway.state.producer_ids import mirror_of
from tests.simulation.kafka.cluster import ClusterModel
from tests.simulation.kafka.logs.log import Batch
from tests.simulation.kafka.logs.partition import Partition

_EACH: Final = 0.1
"""How likely an append is to be struck. A run has some hundred, so that the strokes lie apart."""
_ALONE_S: Final = 0.08
"""For how long at most what is appended stays on the leader alone."""


class LeadersLost:
    """Args: the cluster, dice, how often at most, and who is told of each in words."""

    def __init__(self, cluster: ClusterModel, dice: random.Random, most: int, tell: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._dice = dice
        self._left = most
        self._tell = tell
        self._struck: dict[Partition, None] = {}
        if most:
            cluster.on_append.append(self._appended)

    def stop(self) -> None:
        """Strike no more: a run comes to rest."""
        self._left = 0

    def _appended(self, partition: Partition, batch: Batch) -> None:
        if self._left <= 0 or partition in self._struck or not is_promised(partition, batch):
            return
        if self._dice.random() >= _EACH or len(partition.state.isr) < 2:
            return
        self._left -= 1
        self._struck[partition] = None
        self._cluster.lag_followers(partition.topic.name, partition.index, 2 * _ALONE_S)
        self._cluster.loop.call_later(self._dice.uniform(0.0, _ALONE_S), self._strike, partition, partition.state.epoch)

    def _strike(self, partition: Partition, epoch: int) -> None:
        del self._struck[partition]
        if partition.topic.deleted or partition.state.epoch != epoch:
            return
        before = partition.state.leader
        able = [each for each in partition.state.isr if each != before and self._cluster.brokers[each].connected]
        if able and self._cluster.controller.move_leader(partition, self._dice.choice(able), 0, False) is not None:
            self._tell(f"the leader {before} of {partition} is lost")
        for replica in partition.replicas.values():
            replica.lag_until = 0.0
        partition.catch_up()


def is_promised(partition: Partition, batch: Batch) -> bool:
    """A mirror's append, or one to an offset map: of which it is said some time that it is there."""
    return mirror_of(batch.header.producer_id) is not None or partition.topic.name.startswith(MAP_PREFIX)
