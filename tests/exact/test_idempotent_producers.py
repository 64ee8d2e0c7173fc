"""Idempotent producers of every library live through a promote: none is restarted, none is shown an error."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import create_topic
from tests.support.brokers.toxiproxy import Proxy
from tests.support.clients.producer_lab import ProducerLab
from tests.support.clients.producers import ProducerProcess
from tests.support.gateways.failback import PARTITIONS
from tests.support.gateways.gateway import running_gateway

MAX_BYTES = 200_000
BIGGEST = MAX_BYTES - 200  # a value that fills a batch of max.message.bytes but for its framing
SIZES = (100, 0, 1000, 0)


@pytest.fixture
def lab(
    tmp_path: Path, source: DevCluster, target: DevCluster, source_proxy: Proxy, topic: str
) -> Iterator[ProducerLab]:
    link = f"link-{topic}"
    create_topic(source.bootstrap, topic, partitions=PARTITIONS, max_message_bytes=str(MAX_BYTES))
    with running_gateway(tmp_path, target.bootstrap, link) as gateway:
        gateway.create_link(link, source.proxied_bootstrap)
        gateway.create_mirror(link, topic)
        yield ProducerLab(gateway, link, (topic,), source, target, source_proxy)


def producer(lab: ProducerLab, library: str, **options: object) -> ProducerProcess:
    return ProducerProcess(library, lab.gateway.bootstrap, lab.topics[0], partitions=PARTITIONS, **options)  # type: ignore[arg-type]


def cast(lab: ProducerLab) -> list[ProducerProcess]:
    """Every library with its own idempotent producer, five requests in flight where it can, each with a codec."""
    return [
        producer(lab, "java", sizes=SIZES, config={"compression.type": "zstd", "batch.size": 2000}),
        producer(
            lab,
            "librdkafka",
            sizes=SIZES,
            config={"enable.idempotence": True, "compression.type": "lz4", "linger.ms": 1},
        ),
        producer(lab, "kafka-python", sizes=SIZES, config={"enable_idempotence": True, "compression_type": "gzip"}),
        producer(lab, "aiokafka", sizes=SIZES, config={"enable_idempotence": True, "compression_type": "snappy"}),
    ]


def test_a_promote_under_load(lab: ProducerLab) -> None:
    producers = cast(lab)
    lab.cutover_under_load(producers, 100)
    lab.judge(producers)


def test_connections_to_the_source_cut_in_the_moment_of_the_cutover(lab: ProducerLab) -> None:
    """Acknowledgements are lost under the write pause: what was written is answered from the table, the rest sent."""
    producers = cast(lab)
    lab.cutover_while_cut(producers, 100)
    lab.judge(producers)


def test_the_gateway_killed_and_started_around_the_cutover(lab: ProducerLab) -> None:
    """Every connection of every client is cut at once, under the write pause and right after the cutover."""
    producers = cast(lab)
    lab.cutover_around_kills(producers, 100)
    lab.judge(producers)


def test_producers_without_an_identity_and_with_fewer_acknowledgements(lab: ProducerLab) -> None:
    """acks=0 and acks=1, other codecs, timestamps of the broker's and the client's making, the smallest and biggest."""
    plain = {"enable.idempotence": False, "max.in.flight.requests.per.connection": 1}
    producers = [
        producer(lab, "librdkafka", name="acks-0", config={**plain, "acks": 0, "compression.type": "zstd"}),
        producer(lab, "librdkafka", name="acks-1", sizes=(0,), config={**plain, "acks": 1, "compression.type": "none"}),
        producer(lab, "java", name="biggest", rate=20, sizes=(BIGGEST, 0), config={"compression.type": "none"}),
        producer(lab, "kafka-python", name="python-1", config={"enable_idempotence": False, "acks": 1}),
    ]
    lab.cutover_under_load(producers, 50)
    lab.judge(producers)
