"""What `status` tells about a cluster: plain values, ready for JSON."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One node. `pid` is None when no process of it runs; `up` means that it answers its clients."""

    node_id: int
    pid: int | None
    up: bool
    client_port: int
    internal_port: int
    controller_port: int
    proxied_port: int | None
    advertised_port: int | None
    log: str


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """A cluster. It is up when each of its nodes is."""

    name: str
    kafka_version: str
    cluster_id: str
    folder: str
    bootstrap: str
    nodes: tuple[NodeStatus, ...]

    @property
    def up(self) -> bool:
        """Whether every node answers."""
        return all(node.up for node in self.nodes)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, with `up` and Kafka's own name for the bootstrap list."""
        values = asdict(self)
        nodes = values.pop("nodes")
        bootstrap = values.pop("bootstrap")
        return {**values, "up": self.up, "bootstrap.servers": bootstrap, "nodes": list(nodes)}
