"""A cluster of brokers in memory: topics, leaders, the controller's decisions, and the faults a test asks for.

The controller is the source of truth: `Partition.state` is what it decided last. Brokers learn of it a little later
(`metadata_delay_s`), one by one, so that for a moment two may think that they lead; a paused broker learns when it
wakes up. A killed or paused broker is fenced after `session_timeout_s` without heartbeats: it leaves every ISR, and
what it led goes to a member of the ISR. Times are the loop's seconds.
"""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from random import Random
from typing import Any, Final
from uuid import UUID

from tests.simulation.kafka.acls import Authorizer
from tests.simulation.kafka.api_ranges import served
from tests.simulation.kafka.broker import PORT, Between, Broker
from tests.simulation.kafka.controller import Controller
from tests.simulation.kafka.groups.groups import GroupCoordinators
from tests.simulation.kafka.judged import ModelRecord, records_of
from tests.simulation.kafka.logs.cleaner import clean
from tests.simulation.kafka.logs.fetch_session import FetchSessions
from tests.simulation.kafka.logs.log import Batch
from tests.simulation.kafka.logs.partition import Partition
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
from tests.simulation.kernel.loop import SimLoop

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
        self.sim = loop if isinstance(loop, SimLoop) else None
        self.name = name
        self.version = version
        self.served = served(version)
        self.rng = rng
        self.configs: dict[str, str] = {**_DEFAULTS, **(configs or {})}
        self.replica_lag_s = replica_lag_s
        self.metadata_delay_s = metadata_delay_s
        self.id = urlsafe_b64encode(rng.getrandbits(128).to_bytes(16, "big"))[:22].decode()
        slots = int(self.configs["max.incremental.fetch.session.cache.slots"])
        self.brokers = {n: Broker(self, n, FetchSessions(loop, rng, slots)) for n in range(1, brokers + 1)}
        self.fenced: set[int] = set()  # brokers that the controller takes for dead
        self.replica_lag_max_s = self.config_int("replica.lag.time.max.ms") / 1000
        self.controller = Controller(self)
        self.changes = 0  # how often something changed that Metadata tells
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[UUID, Topic] = {}
        self.on_trace: Callable[[str], None] | None = None
        self.on_leader: list[Callable[[Partition, int, int], None]] = []  # (partition, broker that heard, new leader)
        self.between: list[Between] = []  # requests and their handlers, the last one first
        self.on_append: list[Callable[[Partition, Batch], None]] = []
        self.on_lost: list[Callable[[Partition, list[Batch], int], None]] = []
        """(partition, what the leader before had and the new one has not, what the former knew to be replicated)."""
        self.issued_ids = 0
        self.groups = GroupCoordinators(self)
        self.transactions = TransactionCoordinators(self)
        self.authorizer: Authorizer | None = None
        self.on_delete_records: list[Callable[[Partition, int, str], None]] = []
        """(partition, where its log began before, client id): of requests that have moved it."""

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
        if host is not None and self.sim is not None:
            return self.sim.wall_ms(self.sim.node(host))
        return EPOCH_MS + int(self.loop.time() * 1000)

    def new_producer_id(self) -> int:
        """A producer id that nobody has had."""
        self.issued_ids += 1
        return self.issued_ids - 1 + 1000

    def trace(self, text: str) -> None:
        """Tell whoever listens what happened."""
        if self.on_trace is not None:
            self.on_trace(text)

    def context(self, host: str) -> Context | None:
        """The context whose callbacks belong to a node; None on a loop that has no nodes."""
        return None if self.sim is None else self.sim.node(host).context

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
        self.changes += 1
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
        self.changes += 1
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

    # -- starting, and faults -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the brokers' ports (on a loop that has nodes) and start what they do now and then."""
        for broker in self.brokers.values():
            await self.controller.boot(broker)

    def kill_broker(self, broker_id: int) -> None:
        """SIGKILL: connections break, the controller notices when the session times out."""
        self.controller.kill(self.brokers[broker_id])

    async def stop_broker(self, broker_id: int) -> None:
        """SIGTERM: it gives away what it leads, then goes."""
        await self.controller.shut_down(self.brokers[broker_id])

    async def start_broker(self, broker_id: int) -> None:
        """Start a broker that was killed or stopped."""
        await self.controller.restart(self.brokers[broker_id])

    def pause_broker(self, broker_id: int) -> None:
        """SIGSTOP: it does nothing, and is fenced when the session times out."""
        self.controller.pause(self.brokers[broker_id])

    def wake_broker(self, broker_id: int) -> None:
        """SIGCONT: it goes on, and hears a moment later what it missed."""
        self.controller.wake(self.brokers[broker_id])

    def cut_broker_off(self, broker_id: int, *, groups: bool = False) -> None:
        """It loses the controller and all other brokers, and not its clients.

        Fenced when its session times out, it goes on to say that it leads what it did, and where its own log ends; with
        `groups` to coordinate them from memory, too, for which it can write nothing.
        """
        self.controller.cut_off(self.brokers[broker_id], groups=groups)

    def rejoin_broker(self, broker_id: int) -> None:
        """The end of `cut_broker_off`: it hears a moment later who leads, and follows."""
        self.controller.rejoin(self.brokers[broker_id])

    def move_leader(
        self, topic: str, partition: int, to: int | None = None, lose: int = 0, unclean: bool = False
    ) -> int | None:
        """Move a leader to `to`, else to another member of the ISR; the new leader, None when nobody can lead.

        `lose`: the new one lacks so many of the last records (whole batches), which are gone from then on.
        `unclean`: it need not be in the ISR.
        """
        return self.controller.move_leader(self.partition(topic, partition), to, lose, unclean)

    def move_coordinator(self, key: str, kind: str = "group") -> int | None:
        """Move the coordinator of a group or a transactional id to another broker."""
        return self.controller.move_leader(self.coordinator(kind, key), None, 0, False)

    def lag_followers(self, topic: str, partition: int, seconds: float) -> None:
        """Followers fetch nothing for so long."""
        found = self.partition(topic, partition)
        for broker_id in found.assignment:
            if broker_id != found.leader_id:
                found.replicas[broker_id].lag_until = self.loop.time() + seconds

    def set_min_isr(self, topic: str, count: int) -> None:
        """min.insync.replicas of a topic."""
        self.configure_topic(topic, {"min.insync.replicas": str(count)})

    def configure_topic(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Set topic configurations; None takes one back to the default."""
        topic = self.topics[name]
        topic.configure(changes)
        for partition in topic.partitions:
            partition.configured()

    def alter_topic(self, name: str, changes: Mapping[str, str | None]) -> None:
        """As a client's request does: the controller sets them, and each broker hears of that a little later.

        Until then its leaders check and stamp what they append as before.
        """
        topic = self.topics[name]
        before = topic.settings
        self.configure_topic(name, changes)
        for broker in self.brokers.values():
            topic.unheard(broker.id, before)
        self.controller.announce_configs(topic)

    # -- for judges -----------------------------------------------------------------------------------------------

    def records(self, topic: str, partition: int, committed_only: bool = False) -> list[ModelRecord]:
        """All records of the leader's log; `committed_only`: without markers, aborted and open transactions."""
        return records_of(self.partition(topic, partition).best.log, committed_only)

    def log_range(self, topic: str, partition: int) -> tuple[int, int, int, int]:
        """(log start, log end, high watermark, last stable offset) of the leader's log."""
        log = self.partition(topic, partition).best.log
        return log.start, log.end, log.high_watermark, log.last_stable_offset

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """A group's committed offsets."""
        return self.groups.committed(group)

    def retain(self, topic: str) -> None:
        """Let retention do its work on a topic now."""
        for partition in self.topics[topic].partitions:
            if partition.leader is not None:
                partition.apply_retention(partition.leader, self.wall_ms(self.brokers[partition.leader_id].host))

    def compact(self, topic: str) -> None:
        """Let the log cleaner do its work on a topic now, as if its active segment had just been rolled."""
        for partition in self.topics[topic].partitions:
            for replica in partition.replicas.values():
                clean(replica.log, partition.topic.settings, self.wall_ms(self.brokers[replica.broker_id].host))

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
