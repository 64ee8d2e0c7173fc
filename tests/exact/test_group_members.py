"""Members of every kind move to the gateway: static ones, of the new protocol, in a rebalance, and none at all."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from gateway.devcluster import DevCluster
from tests.support.brokers.clusters import running_cluster
from tests.support.clients.group_lab import GroupLab, Offset, Reader, commit, committed, fill, group_lab
from tests.support.waiting import wait_until

NEW_PROTOCOL = {"group.protocol": "consumer"}


@pytest.fixture
def lab(tmp_path: Path, source: DevCluster, target: DevCluster, topic: str) -> Iterator[GroupLab]:
    with group_lab(tmp_path, source, target, topic) as lab:
        yield lab


@pytest.fixture
def new_protocol_lab(tmp_path: Path, target: DevCluster, topic: str) -> Iterator[GroupLab]:
    """Its source takes groups of the new protocol (KIP-848): 4.0 is the first that does."""
    with (
        running_cluster("source848", "4.3.1", tmp_path) as source,
        group_lab(tmp_path, source, target, topic) as lab,
    ):
        yield lab


def at(cluster: DevCluster, group: str) -> dict[tuple[str, int], int]:
    """What the group has committed there, offsets alone."""
    return {key: one.offset for key, one in committed(cluster.bootstrap, group).items()}


def assert_all_read_once(topic: str, records: int, *readers: Reader) -> None:
    offsets = [offset for reader in readers for offset in reader.offsets(topic)]
    assert offsets == list(range(records))


def test_a_group_of_the_new_protocol(new_protocol_lab: GroupLab, topic: str) -> None:
    lab = new_protocol_lab
    lab.connect()
    lab.mirrored(topic, records=100)
    group = f"g-{topic}"
    with Reader(lab.source.bootstrap, group, topic, config=NEW_PROTOCOL) as old:
        old.wait_for(100)
        with Reader(lab.gateway.bootstrap, group, topic, config=NEW_PROTOCOL) as new:
            lab.wait_for_reason(group, "the group still has 1 member(s) on the source")
            fill(lab.source.bootstrap, topic, 20, start=100)
            old.wait_for(120)
            old.stop()
            lab.wait_for(group, "PROMOTED")
            fill(lab.gateway.bootstrap, topic, 20, start=120)
            new.wait_for(20)
            assert lab.post(group, "demote")[0] == 409  # it names its member
    assert_all_read_once(topic, 140, old, new)
    lab.demote(group)
    assert committed(lab.source.bootstrap, group) == {(topic, 0): Offset(140)}


def test_a_static_member_stays_a_member_until_its_session_times_out(lab: GroupLab, topic: str) -> None:
    """It does not leave when it is closed (KIP-345), so its group waits, and says for whom."""
    lab.connect()
    lab.mirrored(topic, records=100)
    group = f"g-{topic}"
    static = {"group.instance.id": "pod-0", "session.timeout.ms": 8000}
    with Reader(lab.source.bootstrap, group, topic, config=static) as old:
        old.wait_for(100)
    with Reader(lab.gateway.bootstrap, group, topic, config=static) as new:
        lab.wait_for_reason(group, "static members (pod-0) stay until their session times out or they are removed")
        assert lab.state(group) == "ACTIVE"
        lab.wait_for(group, "PROMOTED", 60)
        fill(lab.gateway.bootstrap, topic, 10, start=100)
        new.wait_for(10)
    assert_all_read_once(topic, 110, old, new)


def test_a_group_in_the_middle_of_a_rebalance_is_not_empty(lab: GroupLab, topic: str) -> None:
    """A member that does not come back holds the rebalance open; nobody is promoted under it."""
    lab.connect()
    lab.mirrored(topic, partitions=2, records=100)
    group = f"g-{topic}"
    stays, leaves = (Reader(lab.source.bootstrap, group, topic) for _ in range(2))
    with stays:
        stays.wait_for(100)
        lab.declare(group)
        with Reader(lab.gateway.bootstrap, group, topic) as new:
            for _ in range(3):
                with Reader(lab.source.bootstrap, group, topic) as leaves:
                    wait_until(lambda: len(lab.group(group)["members"] or ()) == 2, 60, what="two members")
                    assert lab.post(group, "promote")[0] == 409
                assert lab.state(group) == "ACTIVE"
            assert not new.read
            stays.stop()
            lab.wait_for(group, "PROMOTED")
            fill(lab.gateway.bootstrap, topic, 10, partitions=2, start=100)
            new.wait_for(10)
    for partition in range(2):
        read = [o for reader in (stays, leaves, new) for o in reader.offsets(topic, partition)]
        assert read == list(range(55))


def test_a_consumer_that_is_no_member_moves_like_one(lab: GroupLab, topic: str) -> None:
    """It assigns its partitions itself and commits: gated at the gateway; on the source it is seen by its commits."""
    lab.connect()
    lab.mirrored(topic, records=100)
    group, parts = f"g-{topic}", ((topic, 0),)
    commit(lab.source.bootstrap, group, {(topic, 0): Offset(0)})
    lab.declare(group)
    with (
        Reader(lab.source.bootstrap, group, assign=parts) as old,
        Reader(lab.gateway.bootstrap, group, assign=parts) as new,
    ):
        old.wait_for(100)
        number, seen = 100, 0
        while seen < 8 and number < 200:  # it lives: a commit every now and then, which a look sees behind another one
            fill(lab.source.bootstrap, topic, 1, start=number)
            number += 1
            old.wait_for(number)
            wait_until(
                lambda want=number: at(lab.source, group) == {(topic, 0): want},  # type: ignore[misc]
                30,
                what="its commit",
            )
            seen += "without a member: a consumer that assigns its partitions itself" in lab.group(group)["waits_for"]
            assert (lab.state(group), new.read) == ("ACTIVE", [])
        assert seen == 8
        old.stop()
        lab.wait_for_reason(group, "promote the group by hand")  # 15 s after its last commit
        status, answer = lab.post(group, "promote")  # what waits asks for offsets, as lag exporters do
        assert status == 200, answer
        fill(lab.gateway.bootstrap, topic, 10, start=number)
        new.wait_for(10)
    assert_all_read_once(topic, number + 10, old, new)
    assert at(lab.target, group) == {(topic, 0): number + 10}


class Exporter:
    """A lag exporter: asks for the offsets of a group again and again, and names the partition, as a consumer does."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._settings = {"bootstrap.servers": bootstrap, "group.id": group, "client.id": "exporter"}
        self._partition = TopicPartition(topic, 0)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="exporter", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            consumer = Consumer(self._settings)
            with suppress(KafkaException):  # it times out, as scrapes do
                consumer.committed([self._partition], timeout=5)
            consumer.close()


def test_a_lag_exporter_promotes_no_group_that_is_read_on_the_source(lab: GroupLab, topic: str) -> None:
    """Its consumer assigns its partitions itself, and is seen by its commits alone, which come now and then."""
    lab.connect()
    lab.mirrored(topic, records=100)
    group, parts = f"g-{topic}", ((topic, 0),)
    commit(lab.source.bootstrap, group, {(topic, 0): Offset(0)})
    lab.declare(group)
    with Reader(lab.source.bootstrap, group, assign=parts) as old:
        with Exporter(lab.gateway.bootstrap, group, topic):
            old.wait_for(100)
            lab.wait_for_reason(group, "request(s) for its offsets wait there")  # 15 s without a commit are over
            assert lab.state(group) == "ACTIVE"
            fill(lab.source.bootstrap, topic, 10, start=100)
            lab.wait_for_reason(group, "its last commits came up to")
            old.wait_for(110)
            old.stop()
            lab.wait_for_reason(group, "request(s) for its offsets wait there", 90)
            assert lab.state(group) == "ACTIVE"
        with Reader(lab.gateway.bootstrap, group, assign=parts) as new:
            lab.promote(group)
            fill(lab.gateway.bootstrap, topic, 10, start=110)
            new.wait_for(10)
    assert_all_read_once(topic, 120, old, new)


def test_commits_of_a_consumer_that_is_no_member_never_cross_those_of_a_promote(lab: GroupLab, topic: str) -> None:
    """One with a stale position commits at the gateway again and again while its group is promoted and demoted."""
    lab.connect()
    lab.mirrored(topic, records=100)
    group, parts = f"g-{topic}", ((topic, 0),)
    commit(lab.source.bootstrap, group, {(topic, 0): Offset(50)})
    lab.declare(group)
    with Reader(lab.gateway.bootstrap, group, assign=parts) as new:
        lab.wait_for_reason(group, "promote the group by hand")
        status, answer = lab.post(group, "promote")
        assert status == 200, answer
        new.wait_for(50)
        status, answer = lab.post(group, "demote")  # nobody is a member: it is taken at its word
        assert status == 200, answer
        assert committed(lab.source.bootstrap, group) == {(topic, 0): Offset(100)}
        fill(lab.gateway.bootstrap, topic, 10, start=100)  # gated now: none of these is read
        lab.level(topic)
        assert len(new.read) == 50
        lab.wait_for_reason(group, "it was demoted")
    assert at(lab.target, group) == {(topic, 0): 100}


def test_a_static_member_that_waits_at_the_gateway_is_removed_from_the_source(lab: GroupLab, topic: str) -> None:
    """Asked for, it does not have to wait for its session timeout, which is longer than this test."""
    lab.connect()
    lab.mirrored(topic, records=100)
    group = f"g-{topic}"
    static = {"group.instance.id": "pod-0", "session.timeout.ms": 300_000, "max.poll.interval.ms": 300_000}
    with Reader(lab.source.bootstrap, group, topic, config=static) as old:
        old.wait_for(100)
    with Reader(lab.gateway.bootstrap, group, topic, config=static) as new:
        lab.wait_for_reason(group, "static members (pod-0) stay until their session times out or they are removed")
        code, answer = lab.post(group, "remove-members")
        (removed,) = answer["data"]
        assert (code, removed["error"]) == (200, "")
        assert (removed["member"]["instance_id"], removed["member"]["session_timeout_ms"]) == ("pod-0", 300_000)
        lab.wait_for(group, "PROMOTED", 60)
        fill(lab.gateway.bootstrap, topic, 10, start=100)
        new.wait_for(10)
    assert_all_read_once(topic, 110, old, new)
