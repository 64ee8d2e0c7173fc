"""A gateway process in front of the target, with a link to the source."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import create_topic
from tests.support.clients.writer import Writer
from tests.support.gateways.gateway import GatewayProcess, running_gateway
from tests.support.waiting import wait_until

PARTITIONS = 3


@dataclass
class Mirrored:
    """One mirrored topic of one gateway."""

    gateway: GatewayProcess
    link: str
    topic: str
    source: DevCluster
    target: DevCluster

    def writer(self, bootstrap: str = "", rate: int = 500) -> Writer:
        """A producer on the gateway, or wherever `bootstrap` says."""
        return Writer(bootstrap or self.gateway.bootstrap, self.topic, partitions=PARTITIONS, rate=rate)

    def state(self) -> str:
        """State of the mirror topic."""
        state: str = self.gateway.mirror(self.link, self.topic)["mirror_status"]
        return state

    def wait_for(self, state: str, deadline: float = 30.0) -> None:
        """Wait until the mirror topic is in this state."""
        wait_until(lambda: self.state() == state, deadline, what=f"state {state}")

    def pause_seconds(self, outcome: str) -> float:
        """How long promotes of the link have held writes, by how they ended."""
        name = f'lockgate_write_pause_duration_seconds_sum{{link="{self.link}",outcome="{outcome}"}} '
        text = self.gateway.api.get("/metrics").text
        return sum(float(line.removeprefix(name)) for line in text.splitlines() if line.startswith(name))


Mirror = Callable[..., Mirrored]


@pytest.fixture
def mirror(
    request: pytest.FixtureRequest, tmp_path: Path, source: DevCluster, target: DevCluster, topic: str
) -> Iterator[Mirror]:
    """Makes the link (link options as keywords) and the mirror of a topic that the test may have filled before.

    Parametrised indirectly it takes sections of the gateway's settings.
    """
    link = f"link-{topic}"
    create_topic(source.bootstrap, topic, partitions=PARTITIONS)
    with running_gateway(tmp_path, target.bootstrap, link, **getattr(request, "param", {})) as gateway:

        def make(**configs: str) -> Mirrored:
            gateway.create_link(link, source.bootstrap, **configs)
            gateway.create_mirror(link, topic)
            return Mirrored(gateway, link, topic, source, target)

        yield make
