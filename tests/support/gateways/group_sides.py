"""Two clusters of a version that knows every type of group, a link between them, and a gateway before the target."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from gateway.devcluster import DevCluster
from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.config import ClusterConfig
from tests.support.brokers.clusters import running_cluster
from tests.support.brokers.quick_clusters import asked
from tests.support.gateways.gateway import GatewayProcess
from tests.support.waiting import wait_until

T = TypeVar("T")


class GroupSides(NamedTuple):
    """The link is `west`."""

    source: DevCluster
    target: DevCluster
    gateway: GatewayProcess

    def ask(self, bootstrap: str, question: Callable[[Cluster], Awaitable[T]]) -> T:
        """Of a cluster, or of the gateway as a client meets it."""
        return asked(ClusterConfig.from_client_properties({"bootstrap.servers": bootstrap}), question)

    def group(self, group: str) -> dict[str, Any]:
        """What `group describe` shows; empty for none."""
        answer = self.gateway.api.get(f"/v3/links/west/groups/{group}")
        return dict(answer.json()) if answer.is_success else {}

    def mirrored(self, topic: str) -> None:
        """Mirror a topic, and wait until it can be read."""
        self.gateway.create_mirror("west", topic)
        wait_until(lambda: self.gateway.mirror("west", topic)["readable"], 60, what=f"{topic} to be readable")


@contextmanager
def group_sides(folder: Path, name: str) -> Iterator[GroupSides]:
    """For the time of the block. `name`: of the clusters."""
    with (
        running_cluster(f"{name}-source", "4.3.1", folder) as source,
        running_cluster(f"{name}-target", "4.3.1", folder) as target,
    ):
        gateway = GatewayProcess(folder, target.bootstrap, groups={"quiet_period_s": 1.0})
        try:
            gateway.start()
            gateway.create_link("west", source.bootstrap)
            yield GroupSides(source, target, gateway)
            gateway.assert_runs()
        finally:
            gateway.close()
            print(gateway.log.read_text(errors="replace")[-8000:])  # noqa: T201 - pytest shows it when a test failed
