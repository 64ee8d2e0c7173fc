"""What a cluster is: its name, version, nodes and ports, kept as `cluster.json` in the cluster's folder.

`status` describes one that was made, in plain values, ready for JSON.
"""

import base64
import json
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final


class DevClusterError(Exception):
    """A cluster cannot be made, started or stopped. The message is one line for the person at the terminal."""


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


KAFKA_VERSIONS: Final = ("4.3.1", "3.9.1", "2.8.2")
"""Versions of Apache Kafka that the pom resolves. The first is the default target, the second the default source; the
third still writes records of formats v0 and v1 (`log.message.format.version`)."""

ZOOKEEPER_VERSIONS: Final = ("2.8.2",)
"""Those whose brokers need a ZooKeeper."""

HOST: Final = "127.0.0.1"

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One combined node (broker and controller).

    `proxied_port` and `advertised_port` belong to an extra listener: the broker listens on the first and tells its
    clients the second, where a TCP proxy of the tests listens. Both None: no such listener.
    """

    node_id: int
    client_port: int
    internal_port: int
    controller_port: int
    proxied_port: int | None = None
    advertised_port: int | None = None

    @property
    def ports(self) -> list[int]:
        """Every port the node itself listens on."""
        ports = [self.client_port, self.internal_port, self.controller_port]
        return ports if self.proxied_port is None else [*ports, self.proxied_port]


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """A cluster's fixed facts. `properties` are broker properties that win over the built-in ones.

    `long_lived`: the brokers' JVMs have the options of Kafka's own start script, for measuring; see `java.py`.
    `loggers`: levels of single loggers, such as `kafka.authorizer.logger`. `certificate`: PEM file with a client's
    certificate and key, where the client listener speaks TLS; '' where it does not. `racks`: of the nodes, in their
    order; empty for none.
    """

    name: str
    kafka_version: str
    cluster_id: str
    nodes: tuple[NodeSpec, ...]
    heap_mb: int = 256
    properties: Mapping[str, str] = field(default_factory=dict)
    long_lived: bool = False
    loggers: Mapping[str, str] = field(default_factory=dict)
    certificate: str = ""
    racks: tuple[str, ...] = ()

    @property
    def bootstrap(self) -> str:
        """`bootstrap.servers` of the plain listener."""
        return ",".join(f"{HOST}:{node.client_port}" for node in self.nodes)

    @property
    def proxied_bootstrap(self) -> str:
        """`bootstrap.servers` through the TCP proxies; empty when the cluster has no proxied listener."""
        ports = [node.advertised_port for node in self.nodes if node.advertised_port is not None]
        return ",".join(f"{HOST}:{port}" for port in ports)

    @property
    def has_zookeeper(self) -> bool:
        """Whether a ZooKeeper belongs to the cluster; otherwise each node is a controller, too."""
        return self.kafka_version in ZOOKEEPER_VERSIONS

    @property
    def zookeeper_port(self) -> int:
        """Where ZooKeeper listens: no node needs its controller port then."""
        return self.nodes[0].controller_port

    def node(self, node_id: int) -> NodeSpec:
        """The node with this id.

        Raises:
            DevClusterError: there is none.
        """
        for node in self.nodes:
            if node.node_id == node_id:
                return node
        raise DevClusterError(f"cluster {self.name} has no node {node_id}")

    def to_json(self) -> str:
        """The text of `cluster.json`."""
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "ClusterSpec":
        """Read the text of `cluster.json`."""
        fields = json.loads(text)
        nodes = tuple(NodeSpec(**node) for node in fields.pop("nodes"))
        racks = tuple(fields.pop("racks", ()))
        return cls(nodes=nodes, racks=racks, **fields)


def check_version(kafka_version: str) -> None:
    """Raise DevClusterError unless the version is one of KAFKA_VERSIONS."""
    if kafka_version not in KAFKA_VERSIONS:
        raise DevClusterError(f"Kafka {kafka_version} is not known here: choose one of {', '.join(KAFKA_VERSIONS)}")


def check_name(name: str) -> None:
    """Raise DevClusterError unless the name can be a folder's name."""
    if not _NAME.fullmatch(name):
        raise DevClusterError(f"{name!r} is not a cluster name: letters, digits, '.', '_' and '-' only")


def plan_nodes(ports: Sequence[int], brokers: int, advertised_ports: Sequence[int] = ()) -> tuple[NodeSpec, ...]:
    """Give each node its ports: first all client ports, then internal, controller and proxied ones.

    Node ids are 1, 2, 3. `ports` holds 3 ports per broker, or 4 when `advertised_ports` names one per broker.
    """
    rows = [ports[at : at + brokers] for at in range(0, len(ports), brokers)]
    return tuple(
        NodeSpec(
            node_id=index + 1,
            client_port=rows[0][index],
            internal_port=rows[1][index],
            controller_port=rows[2][index],
            proxied_port=rows[3][index] if advertised_ports else None,
            advertised_port=advertised_ports[index] if advertised_ports else None,
        )
        for index in range(brokers)
    )


def new_cluster_id() -> str:
    """A random cluster id in Kafka's form: a UUID in 22 characters of URL-safe base64, not starting with a dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii").rstrip("=")
        if not text.startswith("-"):
            return text
