"""Transactional producers of every library live through a promote: each flips between two of its transactions."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from gateway.devcluster import DevCluster
from tests.support.gateway import GatewayProcess
from tests.support.logs import Log, create_topic
from tests.support.producers import ProducerProcess, judge, read_committed
from tests.support.toxiproxy import Proxy
from tests.support.transactions import TIMEOUT_S, transact, transactional_producer
from tests.support.waiting import wait_until

PARTITIONS = 3


@dataclass
class Lab:
    """Topics of one promote set. The link reaches its source through a toxiproxy."""

    gateway: GatewayProcess
    link: str
    topics: list[str]
    source: DevCluster
    target: DevCluster
    source_proxy: Proxy

    def producer(self, library: str, **options: object) -> ProducerProcess:
        name = f"{library}-{self.topics[0]}"
        return ProducerProcess(
            library,
            self.gateway.bootstrap,
            self.topics[0],
            partitions=PARTITIONS,
            name=name,
            transactional=True,
            **options,  # type: ignore[arg-type]
        )

    def states(self) -> set[str]:
        return {self.gateway.mirror(self.link, topic)["mirror_status"] for topic in self.topics}

    def promote(self) -> None:
        answer = self.gateway.api.post(
            f"/v3/links/{self.link}/mirrors:promote", json={"mirror_topic_names": self.topics}
        )
        assert answer.is_success, answer.text

    def wait_for(self, state: str) -> None:
        wait_until(lambda: self.states() == {state}, 60.0, what=f"state {state}")

    def committed(self, cluster: DevCluster, topic: str) -> list[Log]:
        return read_committed(cluster.bootstrap, topic, PARTITIONS)

    def judge(self, producers: list[ProducerProcess]) -> None:
        target = self.committed(self.target, self.topics[0])
        judge(producers, target)
        source = self.committed(self.source, self.topics[0])
        for before, after in zip(source, target, strict=True):
            assert [(r.key, r.value, r.timestamp, r.headers) for r in before] == [
                (r.key, r.value, r.timestamp, r.headers) for r in after[: len(before)]
            ]
            assert len(before) < len(after), "nothing was written after the promote"
        for producer in producers:
            assert producer.aborted, f"{producer.name} aborted nothing"


@pytest.fixture
def lab(tmp_path: Path, source: DevCluster, target: DevCluster, source_proxy: Proxy, topic: str) -> Iterator[Lab]:
    gateway = GatewayProcess(tmp_path, target.bootstrap)
    link, topics = f"link-{topic}", [topic, f"{topic}-b"]
    try:
        gateway.start()
        gateway.create_link(link, source.proxied_bootstrap)
        for name in topics:
            create_topic(source.bootstrap, name, partitions=PARTITIONS)
            # A transaction in it tells the mirror that its offsets have holes.
            transact(transactional_producer(source.bootstrap, f"seed-{name}"), {name: ["before"]})
            gateway.create_mirror(link, name)
        yield Lab(gateway, link, topics, source, target, source_proxy)
        gateway.delete_link(link)
        assert gateway.stop() == 0
    finally:
        gateway.close()
        print(gateway.log.read_text(errors="replace")[-8000:])  # noqa: T201 - pytest shows it when the test failed


def cast(lab: Lab) -> list[ProducerProcess]:
    return [
        lab.producer("java", config={"compression.type": "zstd"}),
        lab.producer("librdkafka", config={"compression.type": "lz4"}),
        lab.producer("aiokafka"),
        lab.producer("kafka-python"),
    ]


def test_a_promote_under_load(lab: Lab) -> None:
    producers = cast(lab)
    with ExitStack() as running:
        for producer in producers:
            running.enter_context(producer)
        for producer in producers:
            producer.wait_for(100)
        lab.promote()
        lab.wait_for("STOPPED")
        for producer in producers:
            producer.wait_for(100)
    lab.judge(producers)


def test_connections_to_the_source_cut_around_the_flip(lab: Lab) -> None:
    """Ends and data whose answers are lost: nobody but the client tries them again, and at the same coordinator."""
    producers = [producer for producer in cast(lab) if producer.library != "kafka-python"]  # see below
    with ExitStack() as running:
        for producer in producers:
            running.enter_context(producer)
        for producer in producers:
            producer.wait_for(50)
        for _ in range(5):
            lab.promote()
            with lab.source_proxy.being_cut():
                pass
            wait_until(lambda: lab.states() in ({"STOPPED"}, {"ACTIVE"}), 60.0, what="the end of the promote")
            for producer in producers:
                producer.wait_for(20)
            if lab.states() == {"STOPPED"}:
                break
        lab.wait_for("STOPPED")
        for producer in producers:
            producer.wait_for(50)
    lab.judge(producers)


def test_the_gateway_killed_and_started_around_the_flip(lab: Lab) -> None:
    """Not with kafka-python: its transactional producer (3.0.12) stays silent once a request in flight was cut off."""
    producers = [producer for producer in cast(lab) if producer.library != "kafka-python"]
    with ExitStack() as running:
        for producer in producers:
            running.enter_context(producer)
        for producer in producers:
            producer.wait_for(50)
        lab.promote()
        lab.gateway.kill()
        lab.gateway.start()
        lab.wait_for("STOPPED")
        lab.gateway.kill()
        lab.gateway.start()
        for producer in producers:
            producer.wait_for(50)
    lab.judge(producers)


def test_a_transaction_that_outlasts_the_fence_ends_the_promote(lab: Lab) -> None:
    """… and not the transaction: the topics are ACTIVE again, and it commits on the source."""
    producer = transactional_producer(lab.gateway.bootstrap, f"long-{uuid.uuid4().hex[:8]}")
    topic = lab.topics[0]
    producer.begin_transaction()
    producer.produce(topic, b"1", key=b"k", partition=0)
    producer.flush(TIMEOUT_S)
    lab.promote()
    wait_until(lambda: lab.gateway.mirror(lab.link, topic)["promote_error"], 60.0, what="the end of the promote")
    assert lab.states() == {"ACTIVE"}
    assert "transaction" in lab.gateway.mirror(lab.link, topic)["promote_error"]
    producer.produce(topic, b"2", key=b"k", partition=0)
    producer.commit_transaction(TIMEOUT_S)
    lab.promote()
    lab.wait_for("STOPPED")
    transact(producer, {topic: ["3"]})
    values = [record.value for record in lab.committed(lab.target, topic)[0]]
    assert values == [b"before", b"1", b"2", b"3"]
    assert [r.value for r in lab.committed(lab.source, topic)[0]] == [b"before", b"1", b"2"]


def test_topics_of_one_set_flip_together(lab: Lab) -> None:
    """Transactions over both topics, all the time; each is wholly on one side."""
    producer = transactional_producer(lab.gateway.bootstrap, f"set-{uuid.uuid4().hex[:8]}")
    one, two = lab.topics
    for n in range(20):
        transact(producer, {one: [f"{n}"], two: [f"{n}"]}, commit=n % 4 != 3)
    lab.promote()
    turns = 20
    while lab.states() != {"STOPPED"}:
        transact(producer, {one: [f"{turns}"], two: [f"{turns}"]}, commit=turns % 4 != 3)
        turns += 1
        assert turns < 5000, "the promote does not end"
    for n in range(turns, turns + 20):
        transact(producer, {one: [f"{n}"], two: [f"{n}"]}, commit=n % 4 != 3)
    expected = [b"before", *(f"{n}".encode() for n in range(turns + 20) if n % 4 != 3)]
    on_source = [[record.value for record in lab.committed(lab.source, topic)[0]] for topic in lab.topics]
    on_target = [[record.value for record in lab.committed(lab.target, topic)[0]] for topic in lab.topics]
    assert on_source[0] == on_source[1] == expected[: len(on_source[0])]
    assert on_target == [expected, expected]


def test_a_set_is_promoted_whole_or_not_at_all(lab: Lab) -> None:
    path = f"/v3/links/{lab.link}/mirrors:promote"
    answer: httpx.Response = lab.gateway.api.post(path, json={"mirror_topic_names": [lab.topics[0], "absent"]})
    assert answer.status_code == 404
    assert lab.states() == {"ACTIVE"}
