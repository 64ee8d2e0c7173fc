"""The same for a log with offset gaps: transactions on the source, whose markers no copy has. The values are the
same."""

from __future__ import annotations

import threading

import pytest

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import create_topic
from tests.support.clients.transactions import committed_values, transactional_producer
from tests.support.mirror.mirror_fleet import NODES, PARTITIONS, MirrorFleet
from tests.support.waiting import wait_until


class Transactions:
    """Writes transactions of three records each to every partition in turn, every third of them aborted."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.written: list[list[str]] = [[] for _ in range(PARTITIONS)]
        self._topic = topic
        self._producer = transactional_producer(bootstrap, f"tx-{topic}")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    @property
    def count(self) -> int:
        return sum(map(len, self.written))

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            partition, number = number % PARTITIONS, number + 1
            values = [f"{number}.{index}" for index in range(3)]
            self._producer.begin_transaction()
            for value in values:
                self._producer.produce(self._topic, value.encode(), partition=partition)
            if number % 4:  # so that each partition gets some
                self._producer.commit_transaction(30)
                self.written[partition] += values
            else:
                self._producer.flush(30)  # else librdkafka may end a transaction that the broker does not know yet
                self._producer.abort_transaction(30)


@pytest.mark.slow
def test_killed_and_handed_over_amid_transactions(source: DevCluster, target: DevCluster, topic: str) -> None:
    for cluster in (source, target):
        create_topic(cluster.bootstrap, topic, partitions=PARTITIONS)
    made, writer = MirrorFleet(source, target, topic), Transactions(source.bootstrap, topic)

    def copied() -> list[list[str]]:
        return committed_values(target.bootstrap, topic, PARTITIONS)

    def goes_on() -> None:
        """Every partition gets what is written from now on."""
        since = [each[-1:] for each in writer.written]
        wait_until(lambda: all(a[-1:] != b for a, b in zip(writer.written, since, strict=True)), 60.0, what="records")
        wanted = [each[-1] for each in writer.written]
        wait_until(lambda: all(w in log for w, log in zip(wanted, copied(), strict=True)), 60.0, what="their copies")

    with made.stack:
        for name in NODES:
            made.start(name)
        writer.start()
        try:
            for victim in ("b", "a"):
                made.assign(a=(0, 1), b=(2, 3), c=(4, 5))
                wait_until(made.readable, 20.0, what="the owners")
                goes_on()
                made.assign(a=(0, 2), b=(1, 3), c=(4, 5))
                goes_on()
                made.nodes[victim].kill()
                goes_on()
                made.start(victim)
        finally:
            writer.stop()
        wait_until(lambda: copied() == writer.written, 30.0, what="a copy of all that was committed, in order")
