"""A whole gateway before a target that loses leaders between append and replication: nothing that it has said is taken
back.

As in `test_leader_loss.py` both followers are stopped, and the leader is killed with what it has alone. Written down
meanwhile is all that a client or an operator can be told: acknowledgements of `ack=both`, what `describe` says of each
partition, and where the offset map says that offsets are. Each is held against the log that the next leader begins
with, and against both whole logs at the end.
"""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx
import pytest
from confluent_kafka.admin import AdminClient

from gateway.devcluster import DevCluster
from tests.support.brokers.clusters import SOON_MISSED, running_cluster
from tests.support.brokers.logs import Log, assert_equal, create_topic, numbers, read_logs
from tests.support.brokers.replicas import epoch_starts, in_sync, log_end
from tests.support.clients.writer import Writer
from tests.support.gateways.mirror_gateway import MirrorGateway, mirror_gateway
from tests.support.waiting import wait_until

PARTITIONS: Final = 12
DOZEN: Final = 12
ROUNDS: Final = 24
"""At most; each is to lose some partitions."""
_CONFIGS: Final = [{"name": "min.insync.replicas", "value": "2"}]


@dataclass
class Promises:
    """What was told of a topic: by partition the offset up to which everything is on the target, and where the map has
    source offsets."""

    mirror: MirrorGateway
    topic: str
    writer: Writer
    ends: dict[int, int] = field(default_factory=dict)
    places: dict[tuple[int, int], int] = field(default_factory=dict)

    def listen(self) -> dict[int, int]:
        """Ask once more. Brokers are stopped, so it may be that nobody answers: then nothing was told."""
        try:
            lags = self.mirror.mirror(self.topic)["mirror_lags"]
        except (httpx.HTTPError, AssertionError, KeyError):
            lags = []
        for lag in lags:
            self._tell(lag["partition"], max(lag["target_end"], lag["mirrored_to"] or 0))
        for ack in tuple(self.writer.acknowledged.values()):
            self._tell(ack.partition, ack.offset + 1)
        return dict(self.ends)

    def look_up(self) -> None:
        """Where the map has the last record that each partition is said to have."""
        for partition, end in self.listen().items():
            if end > 0:
                path = f"/{self.topic}/partitions/{partition}:translate"
                found = self.mirror.ask("GET", path, params={"offset": end - 1})
                if found["rule"] == "exact":
                    self.places[partition, end - 1] = found["translated"]

    def _tell(self, partition: int, end: int) -> None:
        self.ends[partition] = max(end, self.ends.get(partition, 0))

    def assert_kept(self, source: list[Log], target: list[Log]) -> None:
        """Against both whole logs."""
        for partition, end in self.ends.items():
            assert target[partition][-1].offset + 1 >= end, (partition, end)
        for (partition, offset), place in self.places.items():
            there = {record.offset: record.value for record in target[partition]}
            assert there[place] == source[partition][offset - source[partition][0].offset].value, (partition, offset)


def assert_where_told(writer: Writer, logs: list[Log]) -> None:
    """Every record was acknowledged, and is where its producer was told."""
    assert not writer.failed
    assert len(writer.acknowledged) == writer.sent
    there = [dict(zip((record.offset for record in log), numbers(log), strict=True)) for log in logs]
    for number, ack in writer.acknowledged.items():
        assert there[ack.partition].get(ack.offset) == number, (number, ack)


def led_most(target: DevCluster, topic: str) -> tuple[int, list[int]]:
    """The broker that leads most partitions, and which."""
    found = AdminClient({"bootstrap.servers": target.bootstrap, "log_level": 0}).list_topics(topic, timeout=10)
    of = {index: one.leader for index, one in found.topics[topic].partitions.items()}
    number = max(set(of.values()), key=list(of.values()).count)
    return number, [index for index, leader in of.items() if leader == number]


def lose_a_leader(target: DevCluster, promises: Promises) -> list[str]:
    """Returns the partitions of which something was lost, in words."""
    topic = promises.topic
    number, led = led_most(target, topic)
    leader, followers = target.nodes[number], [node for at, node in target.nodes.items() if at != number]
    for node in followers:
        node.signal(signal.SIGSTOP)
    try:
        theirs = {index: max(log_end(node, topic, index) for node in followers) for index in led}
        with suppress(AssertionError):  # then something else is lost in this round, or nothing
            wait_until(
                lambda: any(log_end(leader, topic, index) > theirs[index] for index in led),
                3.0,
                what=f"appends to {led} at node {number} alone",
            )
        said = promises.listen()
        leader.signal(signal.SIGKILL)
        leader.wait_stopped(10.0)
        said = promises.listen()  # and what was on its way to whoever asks
    finally:
        for node in followers:
            node.signal(signal.SIGCONT)
    ends = {index: log_end(leader, topic, index) for index in led}
    known = {index: len(epoch_starts(leader, topic, index)) for index in led}

    def begun(index: int) -> int | None:
        """Where the next leader's part begins, once something was appended to it."""
        starts = max((epoch_starts(node, topic, index) for node in followers), key=len)
        return starts[known[index]] if len(starts) > known[index] else None

    wait_until(lambda: all(begun(index) is not None for index in led), 90.0, what=f"leaders of {led}")
    lost = []
    for index in led:
        start = begun(index)
        assert start is not None
        assert said.get(index, 0) <= start, f"partition {index} was said to be there up to {said[index]}, not {start}"
        if start < ends[index]:
            lost.append(f"{index}: {start} of {ends[index]}")
    target.up()
    return lost


@pytest.mark.timeout(1_800)
def test_what_was_said_of_a_copy_is_kept(source: DevCluster, topic: str, tmp_path: Path) -> None:
    create_topic(source.bootstrap, topic, partitions=PARTITIONS)
    lost: list[str] = []
    with (
        running_cluster("three", "4.3.1", tmp_path, brokers=3, properties=SOON_MISSED) as target,
        mirror_gateway(tmp_path, source, target, ack="both") as mirror,
    ):
        mirror.create(topic, replication_factor=3, configs=_CONFIGS)
        mirror.until(topic, "ACTIVE")
        with (
            Writer(source.bootstrap, topic, partitions=PARTITIONS, rate=300) as beside,  # it waits for nobody
            Writer(mirror.gateway.bootstrap, topic, partitions=PARTITIONS, rate=300) as writer,
        ):
            promises = Promises(mirror, topic, writer)
            for _ in range(ROUNDS):
                writer.wait_for_acks(300, 120.0)
                wait_until(lambda: in_sync(target, topic), 90.0, what="all in sync")
                promises.look_up()
                lost += lose_a_leader(target, promises)
                if len(lost) >= DOZEN:
                    break
            writer.wait_for_acks(300, 120.0)
        promises.look_up()
        mirror.level(topic, PARTITIONS)
        one, two = (read_logs(each.bootstrap, topic, PARTITIONS) for each in (source, target))
    sys.stdout.write(
        f"leader-loss: partitions={len(lost)} told={len(promises.places)} acks={len(writer.acknowledged)}\n"
    )
    assert_equal(one, two)
    for each in (writer, beside):
        assert_where_told(each, two)
    promises.assert_kept(one, two)
    assert len(lost) >= DOZEN, lost
