"""A cluster of brokers in memory: topics, leaders, the controller's decisions, and the faults a test asks for.

The controller is the source of truth: `Partition.state` is what it decided last. Brokers learn of it a little later
(`metadata_delay_s`), one by one, so that for a moment two may think that they lead; a paused broker learns when it
wakes up. A killed or paused broker is fenced after `session_timeout_s` without heartbeats: it leaves every ISR, and
what it led goes to a member of the ISR. Times are the loop's seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context, copy_context
from random import Random
from typing import Any, Final
from uuid import UUID

from tests.simulation.kafka.broker import PORT, Broker
from tests.simulation.kafka.fetch_session import FetchSessions
from tests.simulation.kafka.groups import GroupCoordinators
from tests.simulation.kafka.partition import Partition
from tests.simulation.kafka.topics import (
    BROKER_NAMES,
    GROUPS_TOPIC,
    INTERNAL,
    TOPIC_DEFAULTS,
    TRANSACTIONS_TOPIC,
    Topic,
    java_hash,
)
from tests.simulation.kafka.transactions import TransactionCoordinators

EPOCH_MS: Final = 1_700_000_000_000
"""The wall clock's milliseconds where the loop's clock is 0."""

_DEFAULTS: Final[Mapping[str, str]] = {
    "broker.session.timeout.ms": "9000",
    "default.replication.factor": "1",
    "log.retention.check.interval.ms": "300000",
    "max.incremental.fetch.session.cache.slots": "1000",
    "num.partitions": "1",
    "offsets.topic.num.partitions": "8",
    "producer.id.expiration.check.interval.ms": "600000",
    "producer.id.expiration.ms": "86400000",
    "replica.lag.time.max.ms": "30000",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "8",
}


class ClusterModel:
    """See the module. `configs` are broker configurations, the same for all brokers."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        name: str = "source",
        brokers: int = 3,
        version: str = "4.3.1",
        rng: Random,
        configs: Mapping[str, str] | None = None,
        replica_lag_s: float = 0.005,
        metadata_delay_s: float = 0.02,
    ) -> None:
        self.loop = loop
        self.name = name
        self.version = version
        self.rng = rng
        self.configs: dict[str, str] = {**_DEFAULTS, **(configs or {})}
        self.replica_lag_s = replica_lag_s
        self.metadata_delay_s = metadata_delay_s
        self.id = str(UUID(int=rng.getrandbits(128), version=4))
        slots = int(self.configs["max.incremental.fetch.session.cache.slots"])
        self.brokers = {n: Broker(self, n, FetchSessions(loop, rng, slots)) for n in range(1, brokers + 1)}
        self.controller_id = 1
        self.fenced: set[int] = set()
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[UUID, Topic] = {}
        self.on_trace: Callable[[str], None] | None = None
        self.on_leader: list[Callable[[Partition, int, int], None]] = []
        self._producer_ids = 0
        self._contexts: dict[str, Context] = {}
        self.groups = GroupCoordinators(self)
        self.transactions = TransactionCoordinators(self)

    # -- clocks, ids, where callbacks run -------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        """bootstrap.servers."""
        return ",".join(f"{broker.host}:{PORT}" for broker in self.brokers.values())

    def config_int(self, name: str) -> int:
        """A broker configuration that is a number."""
        return int(self.configs[name])

    def wall_ms(self, host: str | None = None) -> int:
        """The wall clock of a node, milliseconds since 1970."""
        offset = 0
        if host is not None and hasattr(self.loop, "node"):
            offset = self.loop.node(host).wall_offset_ms
        return EPOCH_MS + offset + int(self.loop.time() * 1000)

    def new_producer_id(self) -> int:
        """A producer id that nobody has had."""
        self._producer_ids += 1
        return self._producer_ids - 1 + 1000

    def trace(self, text: str) -> None:
        """Tell whoever listens what happened."""
        if self.on_trace is not None:
            self.on_trace(text)

    def context(self, host: str) -> Context | None:
        """The context whose callbacks belong to a node; None on a loop that has no nodes."""
        if not hasattr(self.loop, "node"):
            return None
        context = self._contexts.get(host)
        if context is None:
            from tests.simulation.kernel.loop import CURRENT  # the kernel is not needed to test brokers without it

            context = self._contexts[host] = copy_context()
            context.run(CURRENT.set, self.loop.node(host))
        return context

    def later(self, host: str, delay_s: float, call: Callable[..., object], *args: Any) -> asyncio.TimerHandle:
        """Call something on a node after a while; the call is lost when the node is killed before."""
        return self.loop.call_later(delay_s, call, *args, context=self.context(host))

    def controller_later(self, delay_s: float, call: Callable[..., object], *args: Any) -> asyncio.TimerHandle:
        """Call something on the controller, which no fault hits."""
        return self.later(f"{self.name}-controller", delay_s, call, *args)

    # -- topics ---------------------------------------------------------------------------------------------------

    def topic_defaults(self) -> Mapping[str, str]:
        """Topic configurations nobody set, with the brokers' own in place."""
        defaults = dict(TOPIC_DEFAULTS[self.version])
        for topic_config, broker_config in BROKER_NAMES.items():
            if broker_config in self.configs:
                defaults[topic_config] = self.configs[broker_config]
        return defaults

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = 1,
        configs: Mapping[str, str] | None = None,
        assignments: Sequence[Sequence[int]] | None = None,
    ) -> Topic:
        """Create a topic at once. `assignments`: broker ids of each partition, the preferred leader first.

        Raises:
            ValueError: it exists, or there are fewer brokers than replicas.
        """
        if name in self.topics:
            raise ValueError(f"topic {name} exists in {self.name}: choose another name or delete it first")
        if replication_factor > len(self.brokers):
            raise ValueError(
                f"topic {name} wants {replication_factor} replicas of {len(self.brokers)} brokers: ask for fewer"
            )
        topic_id = UUID(int=self.rng.getrandbits(128), version=4)
        topic = Topic(name, topic_id, replication_factor, self.topic_defaults(), dict(configs or {}))
        self.topics[name] = topic
        self.topics_by_id[topic_id] = topic
        self.add_partitions(topic, partitions, assignments)
        return topic

    def add_partitions(self, topic: Topic, total: int, assignments: Sequence[Sequence[int]] | None = None) -> None:
        """Grow a topic to `total` partitions; `assignments` are those of the new ones."""
        first = len(topic.partitions)
        ids = sorted(self.brokers)
        start = self.rng.randrange(len(ids))
        for index in range(first, total):
            if assignments is not None:
                replicas = list(assignments[index - first])
            else:
                replicas = [ids[(start + index + n) % len(ids)] for n in range(topic.replication_factor)]
            topic.partitions.append(Partition(self, topic, index, replicas))

    def delete_topic(self, name: str) -> None:
        """Delete a topic; whoever waits on one of its partitions is told."""
        topic = self.topics.pop(name)
        del self.topics_by_id[topic.id]
        topic.deleted = True
        for partition in topic.partitions:
            partition.delete()

    def lookup(self, topic: str, index: int) -> Partition | None:
        """A partition, None when there is no such."""
        found = self.topics.get(topic)
        if found is None or not 0 <= index < len(found.partitions):
            return None
        return found.partitions[index]

    def partition(self, topic: str, index: int) -> Partition:
        """A partition that is known to exist.

        Raises:
            KeyError: it does not.
        """
        found = self.lookup(topic, index)
        if found is None:
            raise KeyError(f"{topic}-{index} does not exist in {self.name}")
        return found

    def topic_names(self) -> list[str]:
        """Names of all topics but the brokers' own, sorted."""
        return sorted(name for name in self.topics if name not in INTERNAL)

    # -- coordinators ---------------------------------------------------------------------------------------------

    def coordinator(self, kind: str, key: str) -> Partition:
        """The partition of the internal topic whose leader coordinates a group or a transactional id.

        `kind` is "group" or "transaction". The topic is made when it is first asked for.
        """
        name = GROUPS_TOPIC if kind == "group" else TRANSACTIONS_TOPIC
        topic = self.topics.get(name) or self._internal_topic(name)
        return topic.partitions[java_hash(key) % len(topic.partitions)]

    def _internal_topic(self, name: str) -> Topic:
        replicas = min(3, len(self.brokers))
        if name == GROUPS_TOPIC:
            count, extra = self.config_int("offsets.topic.num.partitions"), {"segment.bytes": "104857600"}
        else:
            in_sync = min(replicas, self.config_int("transaction.state.log.min.isr"))
            count = self.config_int("transaction.state.log.num.partitions")
            extra = {"segment.bytes": "104857600", "min.insync.replicas": str(in_sync)}
        return self.create_topic(name, count, replicas, {"cleanup.policy": "compact", **extra})
