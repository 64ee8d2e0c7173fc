"""Producers of every library on mirrored topics, and the promotes that they must live through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import Log, create_topic, read_logs
from tests.support.brokers.toxiproxy import Proxy
from tests.support.clients.producers import ProducerProcess, judge, writing
from tests.support.clients.transactions import transact, transactional_producer
from tests.support.gateways.failback import PARTITIONS, RoundTrip
from tests.support.gateways.gateway import GatewayProcess
from tests.support.waiting import wait_until


@dataclass
class ProducerLab(RoundTrip):
    """Topics of one promote set; producers write to the first. The link reaches its source through a toxiproxy."""

    source_proxy: Proxy

    def states(self) -> set[str]:
        """Of all topics."""
        return {self.mirror(topic)["mirror_status"] for topic in self.topics}

    def cutover_under_load(self, producers: Sequence[ProducerProcess], records: int) -> None:
        """Promote; each producer writes that many records before, and that many after."""
        with writing(producers) as traffic:
            traffic(records)
            self.promote()
            traffic(records)

    def cutover_while_cut(self, producers: Sequence[ProducerProcess], records: int) -> None:
        """So too, with connections to the source cut as the promote begins, until one gets through."""
        with writing(producers) as traffic:
            traffic(records)
            for _ in range(5):
                self.post("promote")
                with self.source_proxy.being_cut():
                    pass
                wait_until(lambda: self.states() in ({"STOPPED"}, {"ACTIVE"}), 60.0, what="the end of the promote")
                traffic(20)
                if self.states() == {"STOPPED"}:
                    break
            self.wait_for("STOPPED")
            traffic(records)

    def cutover_around_kills(self, producers: Sequence[ProducerProcess], records: int) -> None:
        """So too, with the gateway killed under the write pause, and again right after the cutover."""
        with writing(producers) as traffic:
            traffic(records)
            self.post("promote")
            self.gateway.kill()
            self.gateway.start()
            self.wait_for("STOPPED")
            self.gateway.kill()
            self.gateway.start()
            traffic(records)

    def judge(
        self, producers: Sequence[ProducerProcess], read: Callable[[str, str, int], list[Log]] = read_logs
    ) -> None:
        """The target has what was acknowledged, once and in order; the source has its beginning, and not all of it."""
        source, target = (read(each.bootstrap, self.topics[0], PARTITIONS) for each in (self.source, self.target))
        judge(producers, target)
        for before, after in zip(source, target, strict=True):
            assert [r[1:] for r in before] == [r[1:] for r in after[: len(before)]]  # all but the offset
            assert len(before) < len(after), "nothing was written after the promote"


def transactional(period: RoundTrip, library: str, **options: object) -> ProducerProcess:
    """A transactional producer on the first topic, under an id of its own."""
    topic = period.topics[0]
    return ProducerProcess(
        library,
        period.gateway.bootstrap,
        topic,
        partitions=PARTITIONS,
        name=f"{library}-{topic}",
        transactional=True,
        **options,  # type: ignore[arg-type]
    )


def mirror_with_transaction(gateway: GatewayProcess, link: str, source: DevCluster, topic: str) -> None:
    """Create a topic on the source, and mirror it. A transaction in it tells the mirror that its offsets have gaps."""
    create_topic(source.bootstrap, topic, partitions=PARTITIONS)
    transact(transactional_producer(source.bootstrap, f"seed-{topic}"), {topic: ["before"]})
    gateway.create_mirror(link, topic)
