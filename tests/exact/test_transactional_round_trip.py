"""Transactional producers live through a promote, the way home, and a second promote, without a restart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.devcluster import DevCluster
from tests.support.gateway import running_gateway
from tests.support.logs import create_topic
from tests.support.producer_lab import mirror_with_transaction, transactional
from tests.support.producers import ProducerProcess, judge, read_committed, writing
from tests.support.way_back import PARTITIONS, RoundTrip


@pytest.fixture
def way(tmp_path: Path, source: DevCluster, target: DevCluster, topic: str) -> Iterator[RoundTrip]:
    link = f"link-{topic}"
    with running_gateway(tmp_path, target.bootstrap, link) as gateway:
        gateway.create_link(link, source.bootstrap)
        mirror_with_transaction(gateway, link, source, topic)
        yield RoundTrip(gateway, link, (topic,), source, target)


def cast(way: RoundTrip) -> list[ProducerProcess]:
    return [transactional(way, library) for library in ("java", "librdkafka", "aiokafka")]


def test_there_and_back_and_there_again(way: RoundTrip) -> None:
    producers = cast(way)
    with writing(producers) as traffic:
        traffic(50)
        for step in (way.promote, way.reverse, way.home, way.promote):
            step()
            traffic(50)
    judge(producers, read_committed(way.target.bootstrap, way.topics[0], PARTITIONS))


def test_another_topic_goes_home_before(way: RoundTrip) -> None:
    """Producers are met under another id on the target from then on, and under yet another one when they come again."""
    other = RoundTrip(way.gateway, way.link, (f"{way.topics[0]}-other",), way.source, way.target)
    create_topic(way.source.bootstrap, other.topics[0], partitions=PARTITIONS)
    way.gateway.create_mirror(way.link, other.topics[0])
    producers = cast(way)
    with writing(producers) as traffic:
        for each in (way, other):
            each.promote()
            each.reverse()
        traffic(50)
        for step in (other.home, way.home, way.promote):
            step()
            traffic(50)
    judge(producers, read_committed(way.target.bootstrap, way.topics[0], PARTITIONS))
