"""Clusters, gateway and clients of a quickstart, in one folder."""

from __future__ import annotations

import secrets
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from gateway.devcluster import KAFKA_VERSIONS, DevCluster, DevClusterError, claim_ports, java_command
from gateway.devcluster.jars import dev_home
from gateway.devcluster.ports import is_port_free
from gateway.devcluster.process import ServerProcess
from gateway.quickstart.judge import Count, has_partitions, judge

SOURCE: Final = "blue"
TARGET: Final = "green"
TOPIC: Final = "orders"
GROUP: Final = "billing"
SOURCE_KAFKA: Final = "3.9.1"
CLIENT_KAFKA: Final = KAFKA_VERSIONS[0]
RATE: Final = 50
"""Records a second."""
_API_PORT: Final = 8642
_CLIENT_PORT: Final = 9292
_BROKERS: Final = 4
"""Ports behind the bootstrap port that the gateway may need for brokers."""
_POLL_S: Final = 0.1
_STOP_S: Final = 20.0
_PRODUCER: Final = "org.apache.kafka.tools.VerifiableProducer"
_CONSUMER: Final = "org.apache.kafka.tools.VerifiableConsumer"


class QuickstartError(Exception):
    """One line that says what is wrong, and what to do."""


class Lab:
    """Args: the folder of all its files. Nothing is started yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._clusters: dict[str, DevCluster] = {}
        self.producers: list[ServerProcess] = []
        self.consumers: list[ServerProcess] = []
        self._gateway = ServerProcess(folder, "gateway")
        self._api = self._clients = 0

    @property
    def url(self) -> str:
        """Of the gateway's REST API."""
        return f"http://127.0.0.1:{self._api}"

    @property
    def environment(self) -> Mapping[str, str]:
        """What `lockgate` commands of a shell need to find the gateway."""
        return {
            "LOCKGATE_URL": self.url,
            "LOCKGATE_TOKEN_FILE": str(self.folder / "api.token"),
            "LOCKGATE_LINK": SOURCE,
        }

    @property
    def gateway_bootstrap(self) -> str:
        """`bootstrap.servers` of clients that have moved."""
        return f"127.0.0.1:{self._clients}"

    def bootstrap(self, cluster: str) -> str:
        """`bootstrap.servers` of SOURCE or TARGET."""
        return self._clusters[cluster].bootstrap

    # -- clusters and gateway ------------------------------------------------------------------------------------

    def start_clusters(self) -> None:
        """Both at once.

        Raises:
            DevClusterError: they do not come up.
        """
        for path in (self.folder / "config", self.folder / "logs"):
            path.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        for name, kafka in ((SOURCE, SOURCE_KAFKA), (TARGET, CLIENT_KAFKA)):
            properties = {"num.partitions": "3", "auto.create.topics.enable": "true"} if name == SOURCE else {}
            self._clusters[name] = DevCluster.create(name, kafka=kafka, parent=self.folder, properties=properties)
        with ThreadPoolExecutor() as threads:
            for done in [threads.submit(cluster.up) for cluster in self._clusters.values()]:
                done.result()

    def configure_gateway(self) -> Path:
        """Write the gateway's settings; the file."""
        wanted = [_API_PORT, *range(_CLIENT_PORT, _CLIENT_PORT + 1 + _BROKERS)]
        if not all(is_port_free(port) for port in wanted):  # another gateway runs
            wanted = claim_ports(len(wanted), consecutive=True)
        self._api, self._clients = wanted[0], wanted[1]
        token = self.folder / "api.token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_urlsafe(32) + "\n", encoding="ascii")
        self._gateway.config.write_text(
            f"target:\n  bootstrap.servers: {self.bootstrap(TARGET)}\n"
            f"listener:\n  bootstrap_port: {self._clients}\n  base_port: {self._clients + 1}\n"
            f"api:\n  port: {self._api}\n  token_file: {token}\n  audit_file: {self.folder / 'logs' / 'audit.log'}\n",
            encoding="utf-8",
        )
        return self._gateway.config

    def start_gateway(self) -> None:
        """Start it, and wait until it serves clients.

        Raises:
            QuickstartError: it does not.
        """
        self._gateway.start_command([*LOCKGATE, "serve", "--config", str(self._gateway.config)])
        self._wait(lambda: not is_port_free(self._clients), 30.0, "the gateway", self._gateway)

    # -- clients -------------------------------------------------------------------------------------------------

    def start_producer(self, bootstrap: str) -> None:
        """One more, which writes until it is stopped; the records of no two are alike."""
        number = len(self.producers) + 1
        options = ["--topic", TOPIC, "--throughput", str(RATE), "--acks", "-1", "--value-prefix", str(number)]
        self.producers.append(self._client(_PRODUCER, f"producer-{number}", bootstrap, options))

    def start_consumer(self, bootstrap: str) -> ServerProcess:
        """One more member of the group."""
        name = f"consumer-{len(self.consumers) + 1}"
        options = ["--topic", TOPIC, "--group-id", GROUP, "--reset-policy", "earliest", "--verbose"]
        self.consumers.append(self._client(_CONSUMER, name, bootstrap, options))
        return self.consumers[-1]

    def _client(self, tool: str, name: str, bootstrap: str, options: list[str]) -> ServerProcess:
        process = ServerProcess(self.folder, name)
        process.config.write_text(f"client.id={name}\n", encoding="utf-8")
        arguments = ["--bootstrap-server", bootstrap, *options, "--command-config", str(process.config)]
        process.start_command(java_command(CLIENT_KAFKA, tool, *arguments))
        return process

    def stop_client(self, process: ServerProcess) -> None:
        """As a deployment does it: by SIGTERM, so that it ends what it does, commits and leaves.

        Raises:
            QuickstartError: it does not end.
        """
        process.signal(signal.SIGTERM)
        if not process.wait_stopped(_STOP_S):
            raise QuickstartError(f"{process.config.stem} does not stop within {_STOP_S:g} s: see {process.log}")

    def wait_read(self, process: ServerProcess, wanted: bool = True) -> None:
        """Until a consumer has partitions.

        Raises:
            QuickstartError: it has none.
        """
        self._wait(lambda: has_partitions(_lines(process)) is wanted, 60.0, f"{process.config.stem}", process)

    def wait_count(self, done: Callable[[Count], bool], timeout_s: float) -> Count:
        """Until what was counted is so, or for so long; what was counted last."""
        deadline = time.monotonic() + timeout_s
        while not done(found := self.count()) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return found

    def count(self) -> Count:
        """What has become of the records until now."""
        return judge(
            (line for each in self.producers for line in _lines(each)),
            (line for each in self.consumers for line in _lines(each)),
        )

    def _wait(self, done: Callable[[], bool], timeout_s: float, who: str, process: ServerProcess) -> None:
        deadline = time.monotonic() + timeout_s
        while not done():
            if process.pid() is None:
                raise QuickstartError(f"{who} has ended: {process.last_error()} (all of it: {process.log})")
            if time.monotonic() >= deadline:
                raise QuickstartError(f"{who} is not ready after {timeout_s:g} s: see {process.log}")
            time.sleep(_POLL_S)

    # -- the end -------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """End whatever runs of it, this process's or an earlier one's. Its files stay. Nothing when there are none."""
        processes = [ServerProcess(self.folder, path.stem) for path in (self.folder / "config").glob("*.properties")]
        for process in processes:
            process.signal(signal.SIGKILL)  # nobody needs what it would still write
        for process in processes:
            process.wait_stopped(_STOP_S)
        for name in (SOURCE, TARGET):
            try:
                DevCluster.open(name, parent=self.folder).kill()
            except DevClusterError:  # it was not made yet
                continue

    def clean(self) -> None:
        """End it, and remove its folder."""
        self.end()
        if self.folder.is_dir():
            shutil.rmtree(self.folder)


LOCKGATE: Final = (sys.executable, "-c", "from gateway.cli.main import main; main()")
"""The command line of this very installation, wherever its script is."""


def default_folder() -> Path:
    """Where a quickstart has its files unless it is told otherwise."""
    return dev_home() / "quickstart"


def _lines(process: ServerProcess) -> list[str]:
    try:
        return process.log.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
