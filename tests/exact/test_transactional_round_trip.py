"""Transactional producers live through a promote, the failback, and a second promote, without a restart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import create_topic
from tests.support.clients.producer_lab import mirror_with_transaction, transactional
from tests.support.clients.producers import ProducerProcess, judge, read_committed, writing
from tests.support.gateways.failback import PARTITIONS, RoundTrip
from tests.support.gateways.gateway import running_gateway


@pytest.fixture
def period(tmp_path: Path, source: DevCluster, target: DevCluster, topic: str) -> Iterator[RoundTrip]:
    link = f"link-{topic}"
    with running_gateway(tmp_path, target.bootstrap, link) as gateway:
        gateway.create_link(link, source.bootstrap)
        mirror_with_transaction(gateway, link, source, topic)
        yield RoundTrip(gateway, link, (topic,), source, target)


def cast(period: RoundTrip) -> list[ProducerProcess]:
    return [transactional(period, library) for library in ("java", "librdkafka", "aiokafka")]


def test_there_and_back_and_there_again(period: RoundTrip) -> None:
    producers = cast(period)
    with writing(producers) as traffic:
        traffic(50)
        for step in (period.promote, period.reverse, period.home, period.promote):
            step()
            traffic(50)
    judge(producers, read_committed(period.target.bootstrap, period.topics[0], PARTITIONS))


def test_another_topic_fails_back_before(period: RoundTrip) -> None:
    """Producers are met under another id on the target from then on, and under yet another one when they come again."""
    other = RoundTrip(period.gateway, period.link, (f"{period.topics[0]}-other",), period.source, period.target)
    create_topic(period.source.bootstrap, other.topics[0], partitions=PARTITIONS)
    period.gateway.create_mirror(period.link, other.topics[0])
    producers = cast(period)
    with writing(producers) as traffic:
        for each in (period, other):
            each.promote()
            each.reverse()
        traffic(50)
        for step in (other.home, period.home, period.promote):
            step()
            traffic(50)
    judge(producers, read_committed(period.target.bootstrap, period.topics[0], PARTITIONS))
