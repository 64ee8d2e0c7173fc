"""server.properties of a node. Pure text; nothing is read or written here."""

from pathlib import Path

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
