"""Idempotent producers of every library live through a promote: none is restarted, none is shown an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.devcluster import DevCluster
from tests.support.gateway import GatewayProcess
from tests.support.logs import create_topic, read_logs
from tests.support.producers import ProducerProcess, judge
from tests.support.toxiproxy import Proxy
from tests.support.waiting import wait_until

PARTITIONS = 3
MAX_BYTES = 200_000
BIGGEST = MAX_BYTES - 200  # a value that fills a batch of max.message.bytes but for its framing
SIZES = (100, 0, 1000, 0)


@dataclass
class Lab:
    """One mirrored topic. The link reaches its source through a toxiproxy."""

    gateway: GatewayProcess
    link: str
    topic: str
    source: DevCluster
    target: DevCluster
    source_proxy: Proxy

    def producer(self, library: str, **options: object) -> ProducerProcess:
        return ProducerProcess(library, self.gateway.bootstrap, self.topic, partitions=PARTITIONS, **options)  # type: ignore[arg-type]

    def state(self) -> str:
        state: str = self.gateway.mirror(self.link, self.topic)["mirror_status"]
        return state

    def promote(self) -> None:
        self.gateway.promote(self.link, self.topic)

    def wait_for(self, state: str) -> None:
        wait_until(lambda: self.state() == state, 60.0, what=f"state {state}")

    def judge(self, producers: list[ProducerProcess], *, exact: bool = True) -> None:
        """The target has what was acknowledged, once and in order; the source has its beginning."""
        target = read_logs(self.target.bootstrap, self.topic, PARTITIONS)
        judge(producers, target, exact=exact)
        source = read_logs(self.source.bootstrap, self.topic, PARTITIONS)
        for before, after in zip(source, target, strict=True):
            assert [(r.key, r.value, r.timestamp) for r in before] == [
                (r.key, r.value, r.timestamp) for r in after[: len(before)]
            ]
            assert len(before) < len(after), "nothing was written after the promote"


@pytest.fixture
def lab(tmp_path: Path, source: DevCluster, target: DevCluster, source_proxy: Proxy, topic: str) -> Iterator[Lab]:
    gateway = GatewayProcess(tmp_path, target.bootstrap)
    link = f"link-{topic}"
    create_topic(source.bootstrap, topic, partitions=PARTITIONS, max_message_bytes=str(MAX_BYTES))
    try:
        gateway.start()
        gateway.create_link(link, source.proxied_bootstrap)
        gateway.create_mirror(link, topic)
        yield Lab(gateway, link, topic, source, target, source_proxy)
        gateway.delete_link(link)
        assert gateway.stop() == 0
    finally:
        gateway.close()
        print(gateway.log.read_text(errors="replace")[-6000:])  # noqa: T201 - pytest shows it when the test failed


def cast(lab: Lab) -> list[ProducerProcess]:
    """Every library with its own idempotent producer, five requests in flight where it can, each with a codec."""
    return [
        lab.producer("java", sizes=SIZES, config={"compression.type": "zstd", "batch.size": 2000}),
        lab.producer(
            "librdkafka", sizes=SIZES, config={"enable.idempotence": True, "compression.type": "lz4", "linger.ms": 1}
        ),
        lab.producer("kafka-python", sizes=SIZES, config={"enable_idempotence": True, "compression_type": "gzip"}),
        lab.producer("aiokafka", sizes=SIZES, config={"enable_idempotence": True, "compression_type": "snappy"}),
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


def test_connections_to_the_source_cut_in_the_moment_of_the_flip(lab: Lab) -> None:
    """Acknowledgements are lost under the fence: what was written is answered from the table, what was not is sent."""
    producers = cast(lab)
    with ExitStack() as running:
        for producer in producers:
            running.enter_context(producer)
        for producer in producers:
            producer.wait_for(100)
        for _ in range(3):
            lab.promote()
            with lab.source_proxy.being_cut():
                pass
            wait_until(lambda: lab.state() in ("STOPPED", "ACTIVE"), 60.0, what="the end of the promote")
            if lab.state() == "STOPPED":
                break
            for producer in producers:
                producer.wait_for(20)
        lab.wait_for("STOPPED")
        for producer in producers:
            producer.wait_for(100)
    lab.judge(producers)


def test_the_gateway_killed_and_started_around_the_flip(lab: Lab) -> None:
    """Every connection of every client is cut at once, under the fence and right after the flip."""
    producers = cast(lab)
    with ExitStack() as running:
        for producer in producers:
            running.enter_context(producer)
        for producer in producers:
            producer.wait_for(100)
        lab.promote()
        lab.gateway.kill()
        lab.gateway.start()
        lab.wait_for("STOPPED")
        lab.gateway.kill()
        lab.gateway.start()
        for producer in producers:
            producer.wait_for(100)
    lab.judge(producers)


def test_producers_without_an_identity_and_with_fewer_acknowledgements(lab: Lab) -> None:
    """acks=0 and acks=1, other codecs, timestamps of the broker's and the client's making, the smallest and biggest."""
    plain = {"enable.idempotence": False, "max.in.flight.requests.per.connection": 1}
    producers = [
        lab.producer("librdkafka", name="acks-0", config={**plain, "acks": 0, "compression.type": "zstd"}),
        lab.producer("librdkafka", name="acks-1", sizes=(0,), config={**plain, "acks": 1, "compression.type": "none"}),
        lab.producer("java", name="biggest", rate=20, sizes=(BIGGEST, 0), config={"compression.type": "none"}),
        lab.producer("kafka-python", name="python-1", config={"enable_idempotence": False, "acks": 1}),
    ]
    with ExitStack() as running:
        for producer in producers:
            running.enter_context(producer)
        for producer in producers:
            producer.wait_for(50)
        lab.promote()
        lab.wait_for("STOPPED")
        for producer in producers:
            producer.wait_for(50)
    lab.judge(producers)
