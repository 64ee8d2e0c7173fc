"""Groups between two real clusters: what they have committed where, and members that come and go."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import create_topic
from tests.support.gateways.asking import carried_out
from tests.support.gateways.gateway import GatewayProcess, running_gateway
from tests.support.waiting import wait_until

Partition = tuple[str, int]
_LOADING = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE)


class Offset(NamedTuple):
    """A committed offset. `epoch` is -1 where none was committed."""

    offset: int
    metadata: str = ""
    epoch: int = -1


def commit(bootstrap: str, group: str, offsets: Mapping[Partition, Offset]) -> None:
    """Commit without being a member, as tools and consumers that assign their partitions themselves do."""
    parts = [
        TopicPartition(topic, index, one.offset, one.metadata, one.epoch if one.epoch >= 0 else None)
        if one.epoch >= 0
        else TopicPartition(topic, index, one.offset, one.metadata)
        for (topic, index), one in offsets.items()
    ]
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def is_done() -> bool:  # the tool does not try again while a new cluster's coordinator is still being loaded
        done = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, parts)])[group].result(60)
        errors = [part.error for part in done.topic_partitions or [] if part.error is not None]
        assert all(error.code() in _LOADING for error in errors), errors[0]
        return not errors

    wait_until(is_done, 60, what=f"a commit for {group}")


def committed(bootstrap: str, group: str) -> dict[Partition, Offset]:
    """All that the group has committed on a cluster."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(60)
    return {
        (part.topic, part.partition): Offset(
            part.offset, part.metadata or "", -1 if part.leader_epoch is None else part.leader_epoch
        )
        for part in found.topic_partitions or []
        if part.offset >= 0
    }


def fill(bootstrap: str, topic: str, records: int, *, partitions: int = 1, start: int = 0) -> None:
    """Write numbered records, round robin over the partitions, and wait for their acknowledgement."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    for number in range(start, start + records):
        producer.produce(topic, value=str(number).encode(), partition=number % partitions)
        producer.poll(0)
    assert producer.flush(60) == 0


class Reader:
    """A consumer that reads and commits in the background. `read`: (topic, partition, offset) in order.

    `assign`: partitions it assigns itself instead of joining the group. `config` is merged over its settings.
    """

    def __init__(
        self,
        bootstrap: str,
        group: str,
        *topics: str,
        assign: tuple[Partition, ...] = (),
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.read: list[tuple[str, int, int]] = []
        self.values: list[bytes] = []
        self.errors: list[str] = []
        self._stopping = threading.Event()
        self._topics, self._assign = list(topics), assign
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": f"reader-{group}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
            **(config or {}),
        }
        if settings.get("group.protocol") != "consumer":
            settings.setdefault("session.timeout.ms", 6000)
        self._consumer = Consumer(settings)
        self._thread = threading.Thread(target=self._run, name="reader", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Commit and leave."""
        self._stopping.set()
        self._thread.join()

    def wait_for(self, records: int, deadline: float = 60.0) -> None:
        """Wait until it has read this many in all."""
        wait_until(lambda: len(self.read) >= records, deadline, what=f"{records} records read")

    def offsets(self, topic: str, partition: int = 0) -> list[int]:
        """What it has read of one partition."""
        return [offset for name, index, offset in self.read if (name, index) == (topic, partition)]

    def _run(self) -> None:
        if self._assign:
            parts = [TopicPartition(topic, index) for topic, index in self._assign]
            self._consumer.assign(self._consumer.committed(parts, timeout=60))
        else:
            self._consumer.subscribe(self._topics)
        while not self._stopping.is_set():
            got = self._consumer.consume(100, timeout=0.1)
            for message in got:
                if message.error() is None:
                    self.read.append((message.topic() or "", message.partition() or 0, message.offset() or 0))
                    self.values.append(message.value() or b"")
                else:
                    self.errors.append(str(message.error()))
            if any(message.error() is None for message in got):
                self._consumer.commit(asynchronous=False)
        self._consumer.close()


class GroupLab:
    """A gateway with one link. `topics` are created on the source by `mirrored`."""

    def __init__(self, gateway: GatewayProcess, source: DevCluster, target: DevCluster, link: str) -> None:
        self.gateway, self.source, self.target, self.link = gateway, source, target, link

    def connect(self, **configs: str) -> None:
        """Make the link; options take `_` for `.`."""
        self.gateway.create_link(self.link, self.source.bootstrap, **configs)

    def mirrored(self, topic: str, *, partitions: int = 1, records: int = 0, mirror: str = "", **configs: str) -> None:
        """Create a topic on the source, fill it and mirror it; returns when all of it is on the target."""
        create_topic(self.source.bootstrap, topic, partitions=partitions, **configs)
        if records:
            fill(self.source.bootstrap, topic, records, partitions=partitions)
        self.gateway.create_mirror(self.link, topic)
        self.level(mirror or topic)

    def level(self, mirror: str, deadline: float = 120.0) -> None:
        """Wait until the mirror has no lag and may be read."""

        def is_level() -> bool:
            shown = self.gateway.mirror(self.link, mirror)
            copying = all(lag["phase"] == "copying" and lag["lag"] == 0 for lag in shown["mirror_lags"])
            return bool(shown["readable"] and shown["mirror_lags"] and copying)

        wait_until(is_level, deadline, what=f"{mirror} to be level")

    def declare(self, group: str) -> None:
        """Declare it a mirror group."""
        path = f"/v3/links/{self.link}/groups"
        carried_out(lambda: self.gateway.api.post(path, json={"group": group}), lambda: self.state(group) != "")

    def group(self, group: str) -> dict[str, Any]:
        """What `group describe` shows."""
        answer = self.gateway.api.get(f"/v3/links/{self.link}/groups/{group}")
        assert answer.is_success, answer.text
        value: dict[str, Any] = answer.json()
        return value

    def state(self, group: str) -> str:
        """Its state, '' while there is no such mirror group."""
        answer = self.gateway.api.get(f"/v3/links/{self.link}/groups/{group}")
        return str(answer.json()["state"]) if answer.is_success else ""

    def wait_for(self, group: str, state: str, deadline: float = 60.0) -> None:
        """Wait for a state of the group."""
        try:
            wait_until(lambda: self.state(group) == state, deadline, what=f"group {state}")
        except AssertionError as exc:
            raise AssertionError(f"{exc}: {self.group(group)}") from None

    def wait_for_reason(self, group: str, text: str, deadline: float = 60.0) -> None:
        """Wait until `describe` says why the group is not promoted."""
        wait_until(lambda: self.state(group) != "", deadline, what=f"mirror group {group}")
        wait_until(lambda: text in self.group(group)["waits_for"], deadline, what=f"waits_for to say {text!r}")

    def post(self, group: str, verb: str) -> tuple[int, dict[str, Any]]:
        """`promote` or `demote`: HTTP status and answer."""
        answer = self.gateway.api.post(f"/v3/links/{self.link}/groups/{group}:{verb}", json={})
        return answer.status_code, answer.json()

    def promote(self, group: str) -> dict[str, Any]:
        """Promote the group; fails the test when it is refused."""
        status, answer = self.post(group, "promote")
        assert status == 200, answer
        return answer

    def demote(self, group: str) -> dict[str, Any]:
        """Demote the group; fails the test when it is refused."""
        status, answer = self.post(group, "demote")
        assert status == 200, answer
        return answer

    def promote_topic(self, mirror: str, deadline: float = 60.0) -> None:
        """Promote a topic and wait until it is STOPPED."""
        self.gateway.promote(self.link, mirror)
        wait_until(
            lambda: self.gateway.mirror(self.link, mirror)["mirror_status"] == "STOPPED", deadline, what="STOPPED"
        )


@contextmanager
def group_lab(folder: Path, source: DevCluster, target: DevCluster, name: str, **sections: Any) -> Iterator[GroupLab]:
    """A lab whose gateway runs; its log is printed at the end, for a test that failed."""
    link = f"link-{name}"
    with running_gateway(folder, target.bootstrap, link, **sections) as gateway:
        yield GroupLab(gateway, source, target, link)
