"""A group moves from the source to the gateway, and back."""

from __future__ import annotations

import threading
import time
from typing import Self

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from tests.integration.promote.conftest import PARTITIONS, Mirror, Mirrored
from tests.support.waiting import wait_until


class Reader:
    """A member of a group; reads and commits in the background. `read`: (partition, offset) in order, `times` when."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.read: list[tuple[int, int]] = []
        self.times: list[float] = []
        self._stopping = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "client.id": f"reader-{group}",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 6000,
                "log_level": 0,
            }
        )
        self._topic = topic
        self._thread = threading.Thread(target=self._run, name="reader", daemon=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Join the group."""
        self._thread.start()

    def stop(self) -> None:
        """Leave the group."""
        self._stopping.set()
        self._thread.join()

    def wait_for(self, more: int) -> None:
        """Wait until it has read `more` records than now."""
        wanted = len(self.read) + more
        wait_until(lambda: len(self.read) >= wanted, 30, what=f"{wanted} records read")

    def _run(self) -> None:
        self._consumer.subscribe([self._topic])
        while not self._stopping.is_set():
            for message in self._consumer.consume(50, timeout=0.1):
                if message.error() is None:
                    self.read.append((message.partition() or 0, message.offset() or 0))
                    self.times.append(time.monotonic())
            if self.read:
                self._consumer.commit(asynchronous=True)
        if self.read:
            try:
                self._consumer.commit(asynchronous=False)
            except KafkaException as error:
                if error.args[0].code() != KafkaError._NO_OFFSET:  # all that was read is committed already
                    raise
        self._consumer.close()


def committed(bootstrap: str, topic: str, group: str) -> dict[int, int]:
    """What the group has committed on a cluster, by partition."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(10)
    return {p.partition: p.offset for p in found.topic_partitions or [] if p.topic == topic and p.offset >= 0}


def group_state(mirrored: Mirrored, group: str) -> str:
    answer = mirrored.gateway.api.get(f"/v3/links/{mirrored.link}/groups/{group}")
    return str(answer.json()["state"]) if answer.is_success else ""


def post(mirrored: Mirrored, group: str, operation: str) -> tuple[int, str]:
    answer = mirrored.gateway.api.post(f"/v3/links/{mirrored.link}/groups/{group}:{operation}", json={})
    return answer.status_code, answer.text


def test_there_and_back(mirror: Mirror) -> None:
    mirrored = mirror()
    topic, group = mirrored.topic, f"group-{mirrored.topic}"
    with mirrored.writer(rate=200) as writer:
        writer.wait_for_acks(100)
        old, new = (
            Reader(bootstrap, topic, group) for bootstrap in (mirrored.source.bootstrap, mirrored.gateway.bootstrap)
        )
        with old:
            old.wait_for(200)
            new.start()  # a group that the source did not know when it made its first request would be no mirror group
            wait_until(lambda: group_state(mirrored, group) == "ACTIVE", 30, what="the group to be gated")
            assert post(mirrored, group, "promote")[0] == 409  # it still has a member on the source
            assert not new.read
        left = time.monotonic()
        new.wait_for(1)
        switched_s = new.times[0] - left
        new.wait_for(200)
        status, text = post(mirrored, group, "demote")
        assert (status, f"reader-{group}" in text) == (409, True)  # it names who must leave first
        new.stop()
        status, text = post(mirrored, group, "demote")
        assert status == 200, text
        on_target = committed(mirrored.target.bootstrap, topic, group)
        assert committed(mirrored.source.bootstrap, topic, group) == on_target
        with Reader(mirrored.source.bootstrap, topic, group) as back:
            back.wait_for(100)
    read = old.read + new.read + back.read
    for partition in range(PARTITIONS):
        offsets = [offset for index, offset in read if index == partition]
        assert offsets == list(range(len(offsets))), f"partition {partition}: missed, read twice or out of order"
    print(f"from the last member's leaving to the first record: {switched_s * 1000:.0f} ms")  # noqa: T201
    assert switched_s < 5.0
