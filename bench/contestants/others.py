"""Other proxies that speak Kafka's protocol, where the user names their programs: `--kroxylicious`, `--kafka-proxy`.

Both stand before the target's ordinary listener and rewrite its address, as the gateway does. They run as they come:
no filter, no plug-in, and the JVM of kroxylicious as its start script starts it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import psutil
import yaml

from bench.errors import BenchError
from bench.process import Server
from bench.waiting import wait_until
from gateway.devcluster import claim_ports, release_ports
from gateway.devcluster.node import answers

HOST: Final = "127.0.0.1"
_STARTED_S: Final = 60.0


class OtherProxy(ABC):
    """Args: where logs and settings go, the program, bootstrap.servers of the target, and ids of its brokers.

    Raises:
        BenchError: the program is not there.
    """

    name: str

    def __init__(self, folder: Path, program: Path, target: str, node_ids: Sequence[int]) -> None:
        if not program.is_file():
            raise BenchError(f"--{self.name.replace('_', '-')} {program}: there is no such file")
        self.folder = folder
        self.program = program.absolute()
        self.target = target
        self.node_ids = tuple(node_ids)
        self._ports = claim_ports(1 + len(self.node_ids), consecutive=True)
        self.port = self._ports[0]
        self._server: Server | None = None

    @property
    def bootstrap(self) -> str:
        """See `Contestant`."""
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The process that serves: a start script may have one below it."""
        if self._server is None:
            return None
        below = psutil.Process(self._server.pid).children(recursive=True)
        return below[-1].pid if below else self._server.pid

    @abstractmethod
    def command(self) -> Sequence[str]:
        """What starts it."""

    def start(self) -> None:
        """See `Contestant`."""
        server = self._server = Server(self.name, self.command(), self.folder)

        def serves() -> bool:
            server.check_alive()
            return answers(HOST, self.port)

        wait_until(serves, _STARTED_S, f"{self.name} to serve", poll_s=0.1)

    def stop(self) -> None:
        """See `Contestant`."""
        if self._server is not None:
            self._server.end(10.0)
            self._server = None

    def close(self) -> None:
        """Stop, and give the ports back."""
        self.stop()
        release_ports(self._ports)


class Kroxylicious(OtherProxy):
    """`bin/kroxylicious-start.sh` of its binary distribution."""

    name = "kroxylicious"

    def command(self) -> Sequence[str]:
        """See `OtherProxy`."""
        ids = {"name": "brokers", "start": min(self.node_ids), "end": max(self.node_ids)}
        by_port = {"bootstrapAddress": self.bootstrap, "nodeIdRanges": [ids]}
        cluster = {
            "name": "bench",
            "targetCluster": {"bootstrapServers": self.target},
            "gateways": [{"name": "default", "portIdentifiesNode": by_port}],
        }
        config = self.folder / "kroxylicious.yaml"
        config.write_text(yaml.safe_dump({"virtualClusters": [cluster]}), encoding="utf-8")
        return [str(self.program), "--config", str(config)]


class KafkaProxy(OtherProxy):
    """The program of github.com/grepplabs/kafka-proxy."""

    name = "kafka_proxy"

    def command(self) -> Sequence[str]:
        """See `OtherProxy`."""
        brokers = self.target.split(",")
        mapped = [f"{broker},{HOST}:{self.port + number}" for number, broker in enumerate(brokers)]
        mappings = [option for each in mapped for option in ("--bootstrap-server-mapping", each)]
        return [
            str(self.program),
            "server",
            *mappings,
            "--dynamic-listeners-disable",
            "--http-disable",
            "--log-level=warn",
        ]
