"""A mirrored topic under way from one real cluster to the other, with a toxiproxy on each side of the gateway."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import assert_equal, assert_nothing_lost, log_ends, read_logs
from tests.support.brokers.toxiproxy import Proxy
from tests.support.clients.writer import Writer
from tests.support.gateways.gateway import GatewayProcess
from tests.support.waiting import wait_until

PARTITIONS = 3


@dataclass
class Migration:
    """A mirrored topic between the clusters, the gateway before it, and the two places where it can be hurt."""

    gateway: GatewayProcess
    topic: str
    link: str
    source: DevCluster
    target: DevCluster
    source_proxy: Proxy
    target_proxy: Proxy

    def writer(self, size: int = 200) -> Writer:
        """A producer on the gateway; `size` is the padding of its records in bytes."""
        return Writer(self.gateway.bootstrap, self.topic, partitions=PARTITIONS, size=size)

    def target_ends(self) -> list[int]:
        """Where the target's logs end, asked of the target itself."""
        return log_ends(self.target.bootstrap, self.topic, PARTITIONS)

    def state(self) -> str:
        """State of the mirror topic."""
        state: str = self.gateway.mirror(self.link, self.topic)["mirror_status"]
        return state

    def waits_for(self) -> str:
        """What the mirror topic waits for, as `mirror describe` shows it."""
        waits: str = self.gateway.mirror(self.link, self.topic)["waiting_for"]
        return waits

    def assert_level(self, writer: Writer) -> None:
        """Wait for the mirror's end, then hold both logs against the writer and against each other."""
        ends = log_ends(self.source.bootstrap, self.topic, PARTITIONS)
        try:
            wait_until(lambda: self.target_ends() == ends, 60.0)
        except AssertionError:
            mirror = self.gateway.mirror(self.link, self.topic)
            raise AssertionError(
                f"the target's logs end at {self.target_ends()}, the source's at {ends}; the mirror is "
                f"{mirror['mirror_status']} {mirror['error_message']}"
            ) from None
        source = read_logs(self.source.bootstrap, self.topic, PARTITIONS)
        assert_nothing_lost(writer, source)
        assert_equal(source, read_logs(self.target.bootstrap, self.topic, PARTITIONS))

    def assert_promoted(self, writer: Writer) -> None:
        """After STOPPED the target has everything, and what the source has is its beginning."""
        source = read_logs(self.source.bootstrap, self.topic, PARTITIONS)
        target = read_logs(self.target.bootstrap, self.topic, PARTITIONS)
        assert_nothing_lost(writer, target)
        assert_equal(source, [log[: len(source[partition])] for partition, log in enumerate(target)])
