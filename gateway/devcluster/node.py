"""One node: its storage is formatted, its process started, and asked whether it answers.

Kafka's own tool formats the storage, so that each version gets the features it finalises. Below is the ZooKeeper of a
cluster whose Kafka has no controllers of its own (before 3.3).

Whether a broker answers is one request over a plain socket. A KRaft broker opens its client listeners only once the
controller has resumed it, so an answer to ApiVersions means that the broker takes part in the cluster. A broker of a
ZooKeeper answers before: it is asked for the controller.
"""

import socket
import ssl
import struct
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from gateway.devcluster.jars import archive_options, archiving_options, class_path
from gateway.devcluster.java import java_binary, jvm_options, long_lived_jvm_options
from gateway.devcluster.process import ServerProcess
from gateway.devcluster.properties import log_options
from gateway.devcluster.spec import HOST, ClusterSpec, DevClusterError, NodeSpec, NodeStatus


class NodeProcess(ServerProcess):
    """The process of one node, whoever started it. `archive`: where it is to write its classes when it ends."""

    def __init__(self, spec: ClusterSpec, node: NodeSpec, folder: Path) -> None:
        super().__init__(folder, f"node-{node.node_id}")
        self.spec = spec
        self.node = node
        self.archive: Path | None = None
        self._config_folder = folder / "config"

    def command(self, main_class: str, *args: str) -> list[str]:
        """Java command of this node's version, with the broker's log settings."""
        version, heap_mb = self.spec.kafka_version, self.spec.heap_mb
        jvm = (
            long_lived_jvm_options(heap_mb)
            if self.spec.long_lived
            else [*jvm_options(heap_mb), *archive_options(version)]
        )
        options = [*jvm, *log_options(self._config_folder)]
        return [java_binary(), *options, "-cp", class_path(version), main_class, *args]

    def start(self) -> None:
        """Start the broker unless it runs."""
        java, *rest = self.command("kafka.Kafka", str(self.config))
        archiving = [] if self.archive is None else archiving_options(self.archive)
        self.start_command([java, *archiving, *rest])

    def answers(self) -> bool:
        """Whether the broker answers its clients."""
        probe = knows_controller if self.spec.has_zookeeper else answers
        return probe(HOST, self.node.client_port, certificate=self.spec.certificate)

    def status(self) -> NodeStatus:
        """What `status` shows of this node."""
        pid = self.pid()
        return NodeStatus(
            node_id=self.node.node_id,
            pid=pid,
            up=pid is not None and self.answers(),
            client_port=self.node.client_port,
            internal_port=self.node.internal_port,
            controller_port=self.node.controller_port,
            proxied_port=self.node.proxied_port,
            advertised_port=self.node.advertised_port,
            log=str(self.log),
        )


_CORRELATION_ID: Final = 7
_REQUEST: Final = struct.pack(">ihhih", 10, 18, 0, _CORRELATION_ID, -1)
"""ApiVersions v0: size, api key, version, correlation id, null client id; no body."""

_EXPECTED: Final = struct.pack(">ih", _CORRELATION_ID, 0)
"""After the size: correlation id, no error."""


_METADATA: Final = struct.pack(">ihhihi", 14, 3, 1, _CORRELATION_ID, -1, 0)
"""Metadata v1 of no topics."""

_NO_CONTROLLER: Final = -1


def answers(host: str, port: int, timeout_s: float = 1.0, *, certificate: str = "") -> bool:
    """Whether a Kafka broker answers ApiVersions without an error at this address within `timeout_s` seconds.

    `certificate`: PEM file with a client's certificate and key, for a listener that speaks TLS.
    """
    return _exchange(host, port, _REQUEST, timeout_s, certificate)[:6] == _EXPECTED


def knows_controller(host: str, port: int, timeout_s: float = 1.0, *, certificate: str = "") -> bool:
    """Whether a Kafka broker at this address names itself or others as brokers, and one as the controller."""
    answer = _exchange(host, port, _METADATA, timeout_s, certificate)[4:]
    try:
        (brokers,) = struct.unpack_from(">i", answer)
        at = 4
        for _ in range(brokers):
            at = _after_string(answer, _after_string(answer, at + 4) + 4)  # id, host, port, rack
        (controller,) = struct.unpack_from(">i", answer, at)
    except struct.error:
        return False
    return bool(brokers > 0 and controller != _NO_CONTROLLER)


def _after_string(data: bytes, at: int) -> int:
    (size,) = struct.unpack_from(">h", data, at)
    return int(at + 2 + max(0, size))


def _exchange(host: str, port: int, request: bytes, timeout_s: float, certificate: str) -> bytes:
    """The answer after its size; empty when there is none."""
    try:
        with _connected(host, port, timeout_s, certificate) as connection:
            connection.sendall(request)
            head = _receive(connection, 4)
            return _receive(connection, int.from_bytes(head, "big")) if len(head) == 4 else b""
    except OSError:
        return b""


def _connected(host: str, port: int, timeout_s: float, certificate: str) -> socket.socket:
    connection = socket.create_connection((host, port), timeout=timeout_s)
    if not certificate:
        return connection
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # it is asked whether it is up, and no more
        context.load_cert_chain(certificate)
        return context.wrap_socket(connection)
    except BaseException:
        connection.close()
        raise


def _receive(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            break
        data += piece
    return data


_FORMAT_TIMEOUT_S: Final = 180


def format_storage(processes: Iterable[NodeProcess]) -> None:
    """Format the storage of each node that has none yet, all at once.

    Raises:
        DevClusterError: the tool failed; the message names its log.
    """
    running: list[tuple[NodeProcess, Path, subprocess.Popen[bytes]]] = []
    for process in processes:
        if (process.data / "meta.properties").exists():
            continue
        log = process.log.with_name(f"format-{process.node.node_id}.log")
        arguments = ["format", "--cluster-id", process.spec.cluster_id, "--config", str(process.config)]
        with log.open("wb") as output:
            command = process.command("kafka.tools.StorageTool", *arguments)
            started = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        running.append((process, log, started))
    for process, log, started in running:
        try:
            code = started.wait(_FORMAT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()
            code = -1
        if code != 0:
            raise DevClusterError(f"the storage of node {process.node.node_id} could not be formatted: see {log}")


_HEAP_MB: Final = 128
_POLL_S: Final = 0.05


class ZooKeeperProcess(ServerProcess):
    """One ZooKeeper server, from the same jars as its brokers. It listens on the first node's controller port."""

    def __init__(self, spec: ClusterSpec, folder: Path) -> None:
        super().__init__(folder, "zookeeper")
        self.spec = spec
        self.port = spec.zookeeper_port
        self._config_folder = folder / "config"

    def write_config(self) -> None:
        """Write its settings."""
        settings = {
            "dataDir": str(self.data),
            "clientPortAddress": HOST,
            "clientPort": str(self.port),
            "admin.enableServer": "false",
            "tickTime": "500",
        }
        text = "".join(f"{key}={value}\n" for key, value in settings.items())
        self.config.write_text(text, encoding="utf-8")

    def start(self) -> None:
        """Start it unless it runs."""
        options = [*jvm_options(_HEAP_MB), *log_options(self._config_folder)]
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        self.start_command(
            [java_binary(), *options, "-cp", class_path(self.spec.kafka_version), main, str(self.config)]
        )

    def wait_up(self, timeout_s: float) -> None:
        """Wait until it takes connections.

        Raises:
            DevClusterError: it ended, or does not.
        """
        deadline = time.monotonic() + timeout_s
        while not self._listens():
            if self.pid() is None or time.monotonic() >= deadline:
                raise DevClusterError(f"ZooKeeper of {self.spec.name} is not up: {self.last_error()} (log: {self.log})")
            time.sleep(_POLL_S)

    def _listens(self) -> bool:
        try:
            socket.create_connection((HOST, self.port), timeout=1.0).close()
        except OSError:
            return False
        return True
