"""The ZooKeeper of a cluster whose Kafka has no controllers of its own (before 3.3)."""

import socket
import time
from pathlib import Path
from typing import Final

from gateway.devcluster.errors import DevClusterError
from gateway.devcluster.jars import class_path
from gateway.devcluster.java import java_binary, jvm_options
from gateway.devcluster.logconfig import log_options
from gateway.devcluster.process import ServerProcess
from gateway.devcluster.spec import HOST, ClusterSpec

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
