"""server.properties of a node. Pure text; nothing is read or written here.

Log settings for the brokers and tools: one console appender, in the words of both log4j generations.

Kafka 3.9 reads log4j.properties (reload4j), Kafka 4 reads log4j2.properties; the other file is harmless.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

from gateway.devcluster.spec import HOST, ClusterSpec, NodeSpec


def server_properties(spec: ClusterSpec, node: NodeSpec, data_folder: Path) -> str:
    """The text of a node's server.properties."""
    properties = {
        **_identity(spec, node),
        "log.dirs": str(data_folder),
        **_listeners(node, with_controller=not spec.has_zookeeper),
        **_sizes(spec),
        **_rack(spec, node),
        **spec.properties,
    }
    return "".join(f"{key}={value}\n" for key, value in properties.items())


def _identity(spec: ClusterSpec, node: NodeSpec) -> dict[str, str]:
    if spec.has_zookeeper:
        return {"broker.id": str(node.node_id), "zookeeper.connect": f"{HOST}:{spec.zookeeper_port}"}
    return {
        "process.roles": "broker,controller",
        "node.id": str(node.node_id),
        "controller.quorum.voters": ",".join(f"{n.node_id}@{HOST}:{n.controller_port}" for n in spec.nodes),
    }


def _rack(spec: ClusterSpec, node: NodeSpec) -> dict[str, str]:
    """A rack of its own for each broker, and clients that name theirs are sent there (KIP-392)."""
    if not spec.racks:
        return {}
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    return {"broker.rack": spec.racks[node.node_id - 1], "replica.selector.class": selector}


def _listeners(node: NodeSpec, *, with_controller: bool) -> dict[str, str]:
    """Clients, brokers and controllers have a listener each.

    Brokers must never be told a proxy's address for their own traffic: a transaction coordinator would send its
    markers through the proxy.
    """
    listen = {"PLAINTEXT": node.client_port, "INTERNAL": node.internal_port}
    advertise = dict(listen)
    if node.proxied_port is not None and node.advertised_port is not None:
        listen["PROXIED"] = node.proxied_port
        advertise["PROXIED"] = node.advertised_port
    if with_controller:
        listen["CONTROLLER"] = node.controller_port
    return {
        "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in listen.items()),
        "advertised.listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in advertise.items()),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in listen),
        "inter.broker.listener.name": "INTERNAL",
        **({"controller.listener.names": "CONTROLLER"} if with_controller else {}),
    }


def _sizes(spec: ClusterSpec) -> dict[str, str]:
    """Small internal topics and buffers, no waiting for more members: the cluster serves one machine's tests."""
    replicas = str(min(3, len(spec.nodes)))
    in_sync = str(min(2, len(spec.nodes)))
    sizes = {
        "offsets.topic.num.partitions": "8",
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.num.partitions": "8",
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "group.initial.rebalance.delay.ms": "0",
        "num.network.threads": "2",
        "num.io.threads": "4",
        # The default of 128 MiB would take half of the heap.
        "log.cleaner.dedupe.buffer.size": str(4 * 1024 * 1024),
    }
    if spec.kafka_version.startswith("4."):
        sizes |= {
            "share.coordinator.state.topic.num.partitions": "4",
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": in_sync,
        }
    return sizes


Stream = Literal["stdout", "stderr"]

_PATTERN: Final = "[%d] %p %m (%c)%n"


_NONE: Final[Mapping[str, str]] = MappingProxyType({})


def write_log_config(folder: Path, level: str, stream: Stream, loggers: Mapping[str, str] = _NONE) -> None:
    """Write both files into `folder`. `loggers`: levels of single loggers."""
    target = "System.out" if stream == "stdout" else "System.err"
    (folder / "log4j.properties").write_text(
        f"log4j.rootLogger={level}, console\n"
        "log4j.appender.console=org.apache.log4j.ConsoleAppender\n"
        f"log4j.appender.console.target={target}\n"
        "log4j.appender.console.layout=org.apache.log4j.PatternLayout\n"
        f"log4j.appender.console.layout.ConversionPattern={_PATTERN}\n"
        + "".join(f"log4j.logger.{name}={own}\n" for name, own in loggers.items()),
        encoding="utf-8",
    )
    (folder / "log4j2.properties").write_text(
        "status=error\n"
        "appender.console.type=Console\n"
        "appender.console.name=console\n"
        f"appender.console.target={'SYSTEM_OUT' if stream == 'stdout' else 'SYSTEM_ERR'}\n"
        "appender.console.layout.type=PatternLayout\n"
        f"appender.console.layout.pattern={_PATTERN}\n"
        f"rootLogger.level={level}\n"
        "rootLogger.appenderRef.console.ref=console\n"
        + "".join(f"logger.{n}.name={name}\nlogger.{n}.level={own}\n" for n, (name, own) in enumerate(loggers.items())),
        encoding="utf-8",
    )


def log_options(folder: Path) -> list[str]:
    """JVM options that make a process use the files of `folder`."""
    return [
        f"-Dlog4j.configuration=file:{folder / 'log4j.properties'}",
        f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
    ]
