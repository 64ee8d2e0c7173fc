"""A Kafka cluster on this machine: made, started, stopped and killed.

Makes the class archive of a Kafka version: a broker is started, and stopped (see `class_archive`).
"""

import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from gateway.devcluster.jars import class_archive, clusters_folder, ensure_jars
from gateway.devcluster.node import NodeProcess, ZooKeeperProcess, format_storage
from gateway.devcluster.ports import claim_ports, is_port_free
from gateway.devcluster.properties import server_properties, write_log_config
from gateway.devcluster.spec import (
    KAFKA_VERSIONS,
    ClusterSpec,
    ClusterStatus,
    DevClusterError,
    check_name,
    check_version,
    new_cluster_id,
    plan_nodes,
)

_POLL_S: Final = 0.05
_SPEC_FILE: Final = "cluster.json"


class DevCluster:
    """One cluster in a folder of its own: configuration, data, logs, process ids.

    The object is a handle: another process may make one for the same folder by `DevCluster.open` and stop the cluster.
    """

    def __init__(self, spec: ClusterSpec, folder: Path, warn: Callable[[str], None] = lambda _: None) -> None:
        self.spec = spec
        self.folder = folder
        self._warn = warn
        self.nodes = {node.node_id: NodeProcess(spec, node, folder) for node in spec.nodes}
        self.zookeeper = ZooKeeperProcess(spec, folder) if spec.has_zookeeper else None

    @classmethod
    def create(
        cls,
        name: str,
        *,
        kafka: str = KAFKA_VERSIONS[0],
        brokers: int = 1,
        port: int | None = None,
        parent: Path | None = None,
        properties: Mapping[str, str] | None = None,
        advertised_ports: Sequence[int] = (),
        heap_mb: int = 256,
        long_lived: bool = False,
        loggers: Mapping[str, str] | None = None,
        certificate: Path | None = None,
        racks: Sequence[str] = (),
        warn: Callable[[str], None] = lambda _: None,
    ) -> "DevCluster":
        """Describe a new cluster in the folder `parent`/`name`; nothing is started yet.

        Args:
            kafka: one of KAFKA_VERSIONS.
            brokers: 1 or 3 nodes, each broker and controller in one (or brokers beside one ZooKeeper, for versions that
                need one); their ids are 1, 2, 3.
            port: first of the ports in use: client ports first, then internal, controller and proxied ones. None:
                free ports.
            parent: default `build/clusters`.
            properties: broker properties that win over the built-in ones.
            advertised_ports: one per broker: adds a listener that advertises these ports, where a TCP proxy listens.
            heap_mb: largest heap of each broker, in MiB.
            long_lived: run the brokers as Kafka's start script does, rather than small and soon up.
            loggers: levels of single loggers in the brokers' logs.
            certificate: PEM file with a client's certificate and key, when `properties` make the client listener TLS.
            racks: one per broker, whose nearest replicas clients then read from (KIP-392).
            warn: takes one line when something had to be forced.

        Raises:
            DevClusterError: bad argument, port in use, or the folder already holds a cluster.
        """
        check_name(name)
        check_version(kafka)
        if brokers not in (1, 3):
            raise DevClusterError(f"a cluster has 1 or 3 brokers, not {brokers}")
        if advertised_ports and len(advertised_ports) != brokers:
            raise DevClusterError(f"{brokers} advertised ports are needed, not {len(advertised_ports)}")
        if racks and len(racks) != brokers:
            raise DevClusterError(f"{brokers} racks are needed, not {len(racks)}")
        folder = (parent or clusters_folder()).absolute() / name
        if (folder / _SPEC_FILE).exists():
            raise DevClusterError(f"{folder} already holds a cluster")
        spec = ClusterSpec(
            name=name,
            kafka_version=kafka,
            cluster_id=new_cluster_id(),
            nodes=plan_nodes(_ports(port, brokers * (4 if advertised_ports else 3)), brokers, advertised_ports),
            heap_mb=heap_mb,
            properties=dict(properties or {}),
            long_lived=long_lived,
            loggers=dict(loggers or {}),
            certificate="" if certificate is None else str(certificate),
            racks=tuple(racks),
        )
        return cls(spec, folder, warn)

    @classmethod
    def open(
        cls, name: str, *, parent: Path | None = None, warn: Callable[[str], None] = lambda _: None
    ) -> "DevCluster":
        """The cluster that an earlier `up` left in the folder `parent`/`name`, running or not.

        Raises:
            DevClusterError: there is none.
        """
        check_name(name)
        folder = (parent or clusters_folder()).absolute() / name
        try:
            text = (folder / _SPEC_FILE).read_text(encoding="utf-8")
        except FileNotFoundError as error:
            raise DevClusterError(f"there is no cluster {name} in {folder.parent}") from error
        return cls(ClusterSpec.from_json(text), folder, warn)

    @property
    def bootstrap(self) -> str:
        """`bootstrap.servers` of the plain listener."""
        return self.spec.bootstrap

    @property
    def proxied_bootstrap(self) -> str:
        """`bootstrap.servers` through the TCP proxies; empty without a proxied listener."""
        return self.spec.proxied_bootstrap

    def up(self, timeout_s: float = 60.0) -> None:
        """Start every node that does not run and wait until all answer their clients.

        Raises:
            DevClusterError: a node ended or did not answer in time; the message names its log.
        """
        ensure_jars(self.spec.kafka_version)
        self.write_files()
        stopped = [process for process in self.nodes.values() if process.pid() is None]
        self._start_zookeeper(timeout_s)
        for process in stopped:
            for port in process.node.ports:
                if not self._is_free(port):
                    raise DevClusterError(f"port {port} of cluster {self.spec.name} is in use by another process")
        if self.zookeeper is None:
            format_storage(stopped)
        for process in stopped:
            process.start()
        self.wait_up(timeout_s)

    def _start_zookeeper(self, timeout_s: float) -> None:
        if self.zookeeper is not None:
            self.zookeeper.start()
            self.zookeeper.wait_up(timeout_s)

    def _is_free(self, port: int) -> bool:
        return is_port_free(port) or (self.zookeeper is not None and port == self.zookeeper.port)

    def wait_up(self, timeout_s: float = 60.0) -> None:
        """Wait until every node answers its clients. Raises DevClusterError as `up` does."""
        deadline = time.monotonic() + timeout_s
        for node_id, process in self.nodes.items():
            while not process.answers():
                if process.pid() is None:
                    raise DevClusterError(f"node {node_id} of {self.spec.name} ended: {_why(process)}")
                if time.monotonic() >= deadline:
                    raise DevClusterError(
                        f"node {node_id} of {self.spec.name} does not answer after {timeout_s:.0f} s: {_why(process)}"
                    )
                time.sleep(_POLL_S)

    def down(self, timeout_s: float = 30.0) -> None:
        """Stop every node: SIGTERM, wait up to `timeout_s` seconds for all, then SIGKILL with a warning."""
        for process in self.nodes.values():
            process.signal(signal.SIGTERM)
        deadline = time.monotonic() + timeout_s
        for node_id, process in self.nodes.items():
            if not process.wait_stopped(max(0.0, deadline - time.monotonic())):
                self._warn(f"node {node_id} of {self.spec.name} did not stop within {timeout_s:.0f} s and was killed")
                process.signal(signal.SIGKILL)
                process.wait_stopped(timeout_s)
        self._kill_zookeeper()

    def _kill_zookeeper(self) -> None:
        """Its log is written before it answers, so there is no better way to stop it."""
        if self.zookeeper is not None:
            self.zookeeper.signal(signal.SIGKILL)
            self.zookeeper.wait_stopped(10.0)

    def kill(self) -> None:
        """Kill every node with SIGKILL, as a power cut would."""
        for process in self.nodes.values():
            process.signal(signal.SIGKILL)
        for process in self.nodes.values():
            process.wait_stopped(10.0)
        self._kill_zookeeper()

    def status(self) -> ClusterStatus:
        """What runs, where, and whether it answers."""
        return ClusterStatus(
            name=self.spec.name,
            kafka_version=self.spec.kafka_version,
            cluster_id=self.spec.cluster_id,
            folder=str(self.folder),
            bootstrap=self.bootstrap,
            nodes=tuple(process.status() for process in self.nodes.values()),
        )

    def delete(self) -> None:
        """Remove the folder of a stopped cluster: data, configuration and logs.

        Raises:
            DevClusterError: a node still runs.
        """
        if any(process.pid() is not None for process in self.nodes.values()):
            raise DevClusterError(f"cluster {self.spec.name} runs: stop it first")
        shutil.rmtree(self.folder, ignore_errors=True)

    def write_files(self) -> None:
        """Write the cluster's description and its nodes' settings into its folder; `up` does this by itself."""
        for part in ("config", "data", "logs"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        (self.folder / _SPEC_FILE).write_text(self.spec.to_json(), encoding="utf-8")
        write_log_config(self.folder / "config", level="INFO", stream="stdout", loggers=self.spec.loggers)
        if self.zookeeper is not None:
            self.zookeeper.write_config()
        for process in self.nodes.values():
            text = server_properties(self.spec, process.node, process.data)
            process.config.write_text(text, encoding="utf-8")


def _ports(first: int | None, count: int) -> list[int]:
    if first is None:
        return claim_ports(count, consecutive=True)
    ports = list(range(first, first + count))
    busy = [port for port in ports if not 0 < port < 65536 or not is_port_free(port)]
    if busy:
        raise DevClusterError(f"port {busy[0]} cannot be used: it is taken or out of range")
    return ports


def _why(process: NodeProcess) -> str:
    return f"{process.last_error()} (log: {process.log})"


_DOWN_S = 120.0
"""A broker that writes its classes takes seconds more to end."""


def ensure_class_archive(kafka_version: str, warn: Callable[[str], None] = lambda _: None) -> None:
    """Make the archive unless it is there. Takes some ten seconds; brokers start without it, too, if more slowly.

    Args:
        warn: takes one line when it cannot be made.

    Raises:
        DevClusterError: no such version, or its jars cannot be resolved.
    """
    ensure_jars(kafka_version)
    archive = class_archive(kafka_version)
    if archive.is_file():
        return
    folder = Path(tempfile.mkdtemp(prefix="lockgate-classes-"))
    made = folder / archive.name
    try:
        cluster = DevCluster.create("classes", kafka=kafka_version, parent=folder)
        (node,) = cluster.nodes.values()
        node.archive = made
        try:
            cluster.up()
        finally:
            cluster.down(_DOWN_S)
        if not made.is_file():
            raise DevClusterError("the JVM wrote none")
        beside = archive.with_name(f"{archive.name}.{folder.name}")  # the same file system: it is there whole, or not
        shutil.move(made, beside)
        beside.replace(archive)
    except (DevClusterError, OSError) as error:
        warn(f"no class archive for Kafka {kafka_version}: {error}; its brokers start more slowly")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
