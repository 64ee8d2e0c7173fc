"""The two clusters of three brokers, with a listener of its own for each gateway, and what can be done to a broker."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as ConsumerPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._metadata import PartitionMetadata
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from gateway.devcluster import DevCluster, claim_ports
from tests.chaos.disks import SmallDisk
from tests.chaos.plan import SMALL_DISKS
from tests.support.waiting import wait_until

BROKERS: Final = 3
HEAP_MB: Final = 200
UP_S: Final = 90.0
Replicas = dict[tuple[str, int], list[int]]
_LISTENERS: Final = ("listeners", "advertised.listeners", "listener.security.protocol.map")
_PROPERTIES: Final = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "5000",
    "broker.session.timeout.ms": "6000",
    "controlled.shutdown.enable": "true",
    "num.network.threads": "2",
    "num.io.threads": "2",
    "num.replica.fetchers": "1",
    "background.threads": "2",
    "log.cleaner.threads": "1",
    "log.index.size.max.bytes": "1048576",
    "log.segment.bytes": "104857600",
    "transaction.max.timeout.ms": "900000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "8000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
}


class ChaosCluster(DevCluster):
    """A dev cluster whose brokers advertise other ports to each gateway, where a toxiproxy listens.

    `views`: gateway -> broker -> (port that the broker listens on, port that it tells). `disks`: of the brokers that
    have small ones; what is on the others is there after the run.
    """

    views: list[dict[int, tuple[int, int]]]
    disks: dict[int, SmallDisk]

    @classmethod
    def make(cls, name: str, kafka: str, parent: Path, gateways: int) -> ChaosCluster:
        """Describe it; `up` starts it."""
        cluster = cls.create(name, kafka=kafka, brokers=BROKERS, parent=parent, properties=_PROPERTIES, heap_mb=HEAP_MB)
        assert isinstance(cluster, cls)
        cluster.views = []
        cluster.disks = {broker: SmallDisk(cluster.nodes[broker]) for broker in SMALL_DISKS}
        for _ in range(gateways):
            ports = claim_ports(2 * BROKERS)
            cluster.views.append({i + 1: (ports[2 * i], ports[2 * i + 1]) for i in range(BROKERS)})
        return cluster

    def view(self, gateway: int) -> str:
        """`bootstrap.servers` for one gateway."""
        return ",".join(f"127.0.0.1:{told}" for _, told in self.views[gateway].values())

    def write_files(self) -> None:
        """Of two lines with one key in a properties file the last one counts."""
        super().write_files()
        for node_id, process in self.nodes.items():
            text = process.config.read_text(encoding="utf-8")
            lines = dict(line.split("=", 1) for line in text.splitlines() if line.split("=", 1)[0] in _LISTENERS)
            for number, view in enumerate(self.views):
                listen, told = view[node_id]
                name = f"GATEWAY{number}"
                lines["listeners"] += f",{name}://127.0.0.1:{listen}"
                lines["advertised.listeners"] += f",{name}://localhost:{told}"
                lines["listener.security.protocol.map"] += f",{name}:PLAINTEXT"
            process.config.write_text(text + "".join(f"{k}={v}\n" for k, v in lines.items()), encoding="utf-8")

    # -- what is done to a broker --------------------------------------------------------------------------

    def kill_broker(self, broker: int) -> None:
        """SIGKILL."""
        self.nodes[broker].signal(signal.SIGKILL)
        self.nodes[broker].wait_stopped(10.0)

    def fill_disk(self, broker: int) -> None:
        """From now on no write of it to a file succeeds."""
        self.disks[broker].fill()

    def empty_disk(self, broker: int) -> None:
        """It may write again, if it still runs."""
        self.disks[broker].empty()

    def restart_broker(self, broker: int) -> None:
        """Start what has ended, and wait until every replica is in sync again.

        Raises:
            AssertionError: it did not come up in time.
        """
        self.nodes[broker].start()
        self.wait_up(UP_S)
        wait_until(self.is_in_sync, UP_S, what=f"every replica of {self.spec.name} in sync")

    def is_in_sync(self) -> bool:
        """Whether every partition has a leader and all its replicas."""
        with suppress(KafkaException):
            found = self._admin().list_topics(timeout=5).topics.values()
            parts = [part for topic in found for part in topic.partitions.values()]
            return bool(parts) and all(p.leader >= 0 and len(p.isrs) == len(p.replicas) for p in parts)
        return False

    def controller(self) -> int:
        """The node that leads the metadata quorum; 1 when nobody tells."""
        with suppress(KafkaError, OSError):
            admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
            try:
                return int(admin.describe_metadata_quorum()["topics"][0]["partitions"][0]["leader_id"])
            finally:
                admin.close()
        return 1

    def leader(self, topic: str, partition: int = 0) -> int:
        """The node that leads a partition; 1 when nobody does."""
        with suppress(KafkaException):
            found = self._admin().list_topics(topic, timeout=5).topics[topic].partitions.get(partition)
            return max(1, found.leader) if found is not None else 1
        return 1

    def replicas(self, topic: str) -> list[int]:
        """Of partition 0, the preferred leader first; empty when there is no topic, or nobody tells."""
        part = self._partition(topic)
        return [] if part is None else list(part.replicas)

    def in_sync(self, topic: str) -> list[int]:
        """Replicas of partition 0 that are in sync; empty when nobody tells."""
        part = self._partition(topic)
        return [] if part is None else list(part.isrs)

    def is_led(self, topic: str) -> bool:
        """Whether somebody leads partition 0."""
        part = self._partition(topic)
        return part is not None and part.leader > 0

    def _partition(self, topic: str) -> PartitionMetadata | None:
        with suppress(KafkaException):
            found = self._admin().list_topics(timeout=5).topics.get(topic)
            return None if found is None else found.partitions.get(0)
        return None

    def reassign(self, topic: str, replicas: list[int]) -> None:
        """Give partition 0 these replicas; asked for, not awaited.

        Raises:
            KafkaError, OSError: not now.
        """
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            _reassign(admin, {(topic, 0): replicas})
        finally:
            admin.close()

    def elect_whoever_is_there(self, topic: str) -> None:
        """An unclean election of partition 0.

        Raises:
            KafkaError, OSError: not now.
        """
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            admin.elect_leaders(1, {topic: [0]}, raise_errors=False)
        finally:
            admin.close()

    def set_config(self, topic: str, name: str, value: str) -> None:
        """Again while the controller is away.

        Raises:
            AssertionError: it could not be set in time.
        """
        wait_until(lambda: self._has_set(topic, name, value), UP_S, what=f"{name} of {topic} on {self.spec.name}")

    def _has_set(self, topic: str, name: str, value: str) -> bool:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        with suppress(KafkaException):
            for done in self._admin().incremental_alter_configs([resource]).values():
                done.result(30)
            return True
        return False

    def has_committed(self, group: str) -> bool:
        """Whether the group has a committed offset; False when nobody tells.

        Asked by kafka-python: librdkafka 2.16 reads a null pointer when this is answered with NOT_COORDINATOR
        (librdkafka#5315), and it lives in our process.
        """
        with suppress(KafkaError, OSError):
            admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
            try:
                found = admin.list_group_offsets({group: None})[group]
                return any(one.offset >= 0 for one in found.values())
            finally:
                admin.close()
        return False

    def log_end(self, topic: str, partition: int = 0) -> int | None:
        """Where the partition's log ends, as its leader tells now; None when nobody tells."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "unused", "log_level": 0})
        try:
            with suppress(KafkaException):
                return int(consumer.get_watermark_offsets(ConsumerPartition(topic, partition), timeout=5)[1])
        finally:
            consumer.close()
        return None

    def move_leaders(self) -> None:
        """Put another replica at the head of each partition's list, and let the preferred one lead.

        Coordinators move with the leaders of `__consumer_offsets` and `__transaction_state`.
        """
        known = self._admin().list_topics(timeout=10).topics
        moved = {
            (name, index): [*part.replicas[1:], part.replicas[0]]
            for name, topic in known.items()
            for index, part in topic.partitions.items()
        }
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            _reassign(admin, moved)
            _elect(admin, moved)
        finally:
            admin.close()

    def _admin(self) -> AdminClient:
        if not hasattr(self, "_client"):
            self._client = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0, "socket.timeout.ms": 5000})
        return self._client

    def create_topic(self, topic: str, partitions: int) -> None:
        """With three replicas, two of which must have a record before it is acknowledged.

        Again while the controller is away.

        Raises:
            AssertionError: it could not be created in time.
        """
        wait_until(lambda: self._has_created(topic, partitions), UP_S, what=f"topic {topic} on {self.spec.name}")

    def delete_topic(self, topic: str) -> None:
        """Again while the controller is away.

        Raises:
            AssertionError: it is still there.
        """
        wait_until(lambda: self._has_deleted(topic), UP_S, what=f"topic {topic} gone from {self.spec.name}")

    def _has_deleted(self, topic: str) -> bool:
        try:
            self._admin().delete_topics([topic])[topic].result(30)
        except KafkaException as exc:
            return bool(exc.args[0].name() == "UNKNOWN_TOPIC_OR_PART")
        return True

    def write_by_hand(self, topic: str) -> None:
        """One record, past the gateways.

        Raises:
            AssertionError: nobody has taken it.
        """
        producer = Producer({"bootstrap.servers": self.bootstrap, "log_level": 0})
        producer.produce(topic, value=b"by hand", partition=0)
        assert not producer.flush(UP_S), f"nobody has taken a record to {topic} on {self.spec.name}"

    def _has_created(self, topic: str, partitions: int) -> bool:
        try:
            self._admin().create_topics([NewTopic(topic, partitions, BROKERS)])[topic].result(30)
        except KafkaException as exc:
            return bool(exc.args[0].name() == "TOPIC_ALREADY_EXISTS")
        return True


def _reassign(admin: KafkaAdminClient, moved: Replicas) -> None:
    admin.alter_partition_reassignments({TopicPartition(*key): replicas for key, replicas in moved.items()})


def _elect(admin: KafkaAdminClient, moved: Replicas) -> None:
    partitions: dict[str, list[int]] = {}
    for topic, index in moved:
        partitions.setdefault(topic, []).append(index)
    admin.elect_leaders(0, partitions, raise_errors=False)
