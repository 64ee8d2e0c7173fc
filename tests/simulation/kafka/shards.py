"""Which broker runs which part of the coordinators: one shard per partition of an internal topic.

A broker runs a shard from when it has learned that it leads the partition (and has loaded it, `LOAD_S`) until it has
learned that it does not: a broker that was paused meanwhile answers for a moment as if it still did, from what it
remembers. What a shard keeps beside the log (members' sessions, rebalances under way) is gone when it ends. Timers of a
shard run on its broker: they stand still while it is paused, and are lost when it is killed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from tests.simulation.kafka.broker import Broker
    from tests.simulation.kafka.cluster import ClusterModel
    from tests.simulation.kafka.logs.partition import Partition

LOAD_S: Final = 0.03
"""How long a broker reads a partition before it coordinates what is in it."""

State = TypeVar("State")


class NodeTimers:
    """Timers of one shard, by key; a new one replaces the old one."""

    def __init__(self, cluster: ClusterModel, host: str) -> None:
        self._cluster = cluster
        self._host = host
        self._running: dict[tuple[str, ...], asyncio.TimerHandle] = {}

    def schedule(self, key: tuple[str, ...], delay_ms: int, action: Callable[[], None]) -> None:
        """Run `action` in `delay_ms`."""
        self.cancel(key)
        self._running[key] = self._cluster.later(self._host, delay_ms / 1000, self._run, key, action)

    def cancel(self, key: tuple[str, ...]) -> None:
        """Forget it, if there is one."""
        timer = self._running.pop(key, None)
        if timer is not None:
            timer.cancel()

    def clear(self) -> None:
        """Forget all."""
        for key in list(self._running):
            self.cancel(key)

    def _run(self, key: tuple[str, ...], action: Callable[[], None]) -> None:
        self._running.pop(key, None)
        action()


class Shard(Generic[State]):
    """A partition as its broker coordinates it. `state` is None while it is being loaded."""

    def __init__(self, partition: Partition, broker: Broker, epoch: int) -> None:
        self.partition = partition
        self.broker = broker
        self.epoch = epoch
        self.timers = NodeTimers(broker.cluster, broker.host)
        self.state: State | None = None

    @property
    def is_current(self) -> bool:
        """No other broker leads the partition by now."""
        return self.partition.state.leader == self.broker.id and self.partition.state.epoch == self.epoch

    @property
    def write_error(self) -> ErrorCode:
        """Why the coordinator cannot write into its log, or NONE."""
        if self.broker.cut_off:  # what it appends nobody else has
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if not self.is_current:
            return ErrorCode.NOT_COORDINATOR
        if len(self.partition.state.isr) < self.partition.topic.settings.min_insync_replicas:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode.NONE


class Shards(Generic[State]):
    """All shards of one kind of coordinator.

    Args:
        kind: "group" or "transaction".
        load: makes a shard's state from what the log has.
        unload: told a shard that ends.
    """

    def __init__(
        self,
        cluster: ClusterModel,
        kind: str,
        topic: str,
        load: Callable[[Shard[State]], State],
        unload: Callable[[State], None],
    ) -> None:
        self._cluster = cluster
        self._kind = kind
        self._topic = topic
        self._load = load
        self._unload = unload
        self._shards: dict[tuple[int, int], Shard[State]] = {}
        cluster.on_leader.append(self._heard)

    def find(self, broker: Broker, key: str) -> Shard[State] | ErrorCode:
        """The shard that has the key on this broker: NOT_COORDINATOR, or COORDINATOR_LOAD_IN_PROGRESS."""
        return self._at(broker, self._cluster.coordinator(self._kind, key))

    def on(self, broker: Broker) -> list[Shard[State]] | ErrorCode:
        """Every shard of the broker, or COORDINATOR_LOAD_IN_PROGRESS."""
        topic = self._cluster.topics.get(self._topic)
        found = [self._at(broker, partition) for partition in topic.partitions] if topic is not None else []
        if ErrorCode.COORDINATOR_LOAD_IN_PROGRESS in found:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return [shard for shard in found if isinstance(shard, Shard)]

    def all(self) -> list[Shard[State]]:
        """Every shard that a broker runs."""
        return list(self._shards.values())

    def _at(self, broker: Broker, partition: Partition) -> Shard[State] | ErrorCode:
        shard = self._shards.get((broker.id, partition.index))
        if shard is None and partition.leader_id == broker.id and partition.leader_epoch == 0:
            shard = self._begin(partition, broker, 0)  # the first leader of a partition that was just made
            self._loaded(shard)
        if shard is None:
            return ErrorCode.NOT_COORDINATOR
        return shard if shard.state is not None else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def _heard(self, partition: Partition, broker_id: int, _: int) -> None:
        """A broker hears who leads a partition."""
        if partition.topic.name != self._topic:
            return
        broker = self._cluster.brokers[broker_id]
        known = self._shards.get((broker_id, partition.index))
        if known is not None and not known.is_current:
            self._end(known)
            known = None
        if known is None and partition.leader_id == broker_id and partition.leader_epoch > 0:
            shard = self._begin(partition, broker, partition.leader_epoch)
            self._cluster.later(broker.host, LOAD_S, self._loaded, shard)

    def _begin(self, partition: Partition, broker: Broker, epoch: int) -> Shard[State]:
        shard: Shard[State] = Shard(partition, broker, epoch)
        self._shards[broker.id, partition.index] = shard
        return shard

    def _loaded(self, shard: Shard[State]) -> None:
        if self._shards.get((shard.broker.id, shard.partition.index)) is shard and shard.is_current:
            shard.state = self._load(shard)

    def _end(self, shard: Shard[State]) -> None:
        del self._shards[shard.broker.id, shard.partition.index]
        shard.timers.clear()
        if shard.state is not None:
            self._unload(shard.state)
