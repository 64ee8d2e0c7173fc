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


def test_there_and_back_and_there_again(way: RoundTrip) -> None:
    topic = way.topics[0]
    producers = [
        ProducerProcess(
            library, way.gateway.bootstrap, topic, partitions=PARTITIONS, name=f"{library}-{topic}", transactional=True
        )
        for library in ("java", "librdkafka", "aiokafka")
    ]

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
    judge(producers, read_committed(way.target.bootstrap, topic, PARTITIONS))
