"""Transactional producers live through a promote, the way home, and a second promote, without a restart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from gateway.devcluster import DevCluster
from tests.support.gateway import GatewayProcess
from tests.support.logs import create_topic
from tests.support.producers import ProducerProcess, judge, read_committed
from tests.support.transactions import transact, transactional_producer
from tests.support.way_back import PARTITIONS, RoundTrip


@pytest.fixture
def way(tmp_path: Path, source: DevCluster, target: DevCluster, topic: str) -> Iterator[RoundTrip]:
    gateway = GatewayProcess(tmp_path, target.bootstrap)
    link = f"link-{topic}"
    try:
        gateway.start()
        gateway.create_link(link, source.bootstrap)
        create_topic(source.bootstrap, topic, partitions=PARTITIONS)
        transact(transactional_producer(source.bootstrap, f"seed-{topic}"), {topic: ["before"]})
        gateway.create_mirror(link, topic)
        yield RoundTrip(gateway, link, (topic,), source, target)
        gateway.delete_link(link)
        assert gateway.stop() == 0
    finally:
        gateway.close()
        print(gateway.log.read_text(errors="replace")[-8000:])  # noqa: T201 - pytest shows it when the test failed


def writers(way: RoundTrip) -> list[ProducerProcess]:
    topic = way.topics[0]
    return [
        ProducerProcess(
            library, way.gateway.bootstrap, topic, partitions=PARTITIONS, name=f"{library}-{topic}", transactional=True
        )
        for library in ("java", "librdkafka", "aiokafka")
    ]


def test_there_and_back_and_there_again(way: RoundTrip) -> None:
    producers = writers(way)

    def traffic() -> None:
        for producer in producers:
            producer.wait_for(50)

    with ExitStack() as running:
        for producer in producers:
            running.enter_context(producer)
        traffic()
        way.promote()
        traffic()
        way.reverse()
        traffic()
        way.home()
        traffic()
        way.promote()
        traffic()
    judge(producers, read_committed(way.target.bootstrap, way.topics[0], PARTITIONS))


def test_another_topic_goes_home_before(way: RoundTrip) -> None:
    """Producers are met under another id on the target from then on, and under yet another one when they come again."""
    other = RoundTrip(way.gateway, way.link, (f"{way.topics[0]}-other",), way.source, way.target)
    create_topic(way.source.bootstrap, other.topics[0], partitions=PARTITIONS)
    way.gateway.create_mirror(way.link, other.topics[0])
    producers = writers(way)

    def traffic() -> None:
        for producer in producers:
            producer.wait_for(50)

    with ExitStack() as running:
        for producer in producers:
            running.enter_context(producer)
        for each in (way, other):
            each.promote()
            each.reverse()
        traffic()
        other.home()
        traffic()
        way.home()
        traffic()
        way.promote()
        traffic()
    judge(producers, read_committed(way.target.bootstrap, way.topics[0], PARTITIONS))
