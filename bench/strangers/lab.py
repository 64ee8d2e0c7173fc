"""What stays up for a run: a source, a target that asks for logins and rights, a gateway with a listener in the clear
and one with TLS, registries that can do harm, and the honest client."""

from __future__ import annotations

import contextlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from bench.contestants.lockgate import Lockgate
from bench.lab import SOURCE_KAFKA, TARGET_KAFKA, allow_many_files, remove_left_over
from bench.proc import cpu_seconds
from bench.process import Conversation
from bench.strangers.registry import registry
from bench.strangers.strangers import MALLORY
from bench.tls import Certificate
from bench.topics import PARTITIONS, Topics
from bench.waiting import wait_until
from gateway.devcluster import DevCluster, DevClusterError

HONEST: Final = "honest"
GATEWAY: Final = "gateway"
BOMBS: Final = "bombs"
_VIEWER: Final = "viewer"
_USERS: Final = " ".join(f'user_{name}="{name}"' for name in (HONEST, GATEWAY, MALLORY))
_JAAS: Final = f"org.apache.kafka.common.security.plain.PlainLoginModule required {_USERS};"
_TARGET: Final = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": _JAAS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{GATEWAY};User:{HONEST};User:ANONYMOUS",
}
_ROUND_MS: Final = "2000"


class StrangersLab:
    """Args: where logs and data go."""

    def __init__(self, folder: Path) -> None:
        for name in ("source", "target"):
            remove_left_over(name, folder)
        folder.mkdir(parents=True, exist_ok=True)
        for log in folder.glob("*.log"):
            log.unlink()
        self._folder = folder
        self._open = contextlib.ExitStack()

    def start(self) -> None:
        """Start everything. Raises DevClusterError, BenchError: something did not come up."""
        allow_many_files()
        self.registry = self._open.enter_context(registry())
        self.source = self._cluster("source", SOURCE_KAFKA)
        self.target = self._cluster("target", TARGET_KAFKA, **_TARGET)
        with ThreadPoolExecutor() as pool:
            for started in [pool.submit(cluster.up, 120.0) for cluster in (self.source, self.target)]:
                started.result()
        on_source = Topics(self.source.bootstrap)
        on_source.create(HONEST)
        on_source.create(BOMBS, 1)
        self.certificate = Certificate(self._folder / "tls")
        self.gateway = self._gateway()
        self._open.callback(self.gateway.close)
        self.gateway.start()
        self._mirror()
        self.honest = Conversation("bench.strangers.honest", self._honest())
        self._open.callback(self.honest.end)
        self.honest.hear()

    def close(self) -> None:
        """End everything."""
        self._open.close()

    def attack(self, name: str) -> Conversation:
        """It is under way when this returns."""
        gateway = self.gateway
        ca, token = str(self.certificate.ca), str(self._folder / "viewer.token")
        where = [gateway.bootstrap, gateway.tls_bootstrap, ca, gateway.url, token, self.source.bootstrap, BOMBS]
        attack = Conversation("bench.strangers.strangers", [name, *where])
        attack.hear()
        return attack

    def burn(self, giving_way: float, beside: float) -> Conversation:
        """So many cores are burned when this returns: see `burn.py`."""
        burning = Conversation("bench.strangers.burn", [f"{giving_way:.2f}", f"{beside:.2f}"])
        burning.hear()
        return burning

    def felt(self, word: str = "seen") -> dict[str, Any]:
        """What the honest client felt since the last `mark`."""
        told: dict[str, Any] = json.loads(self.honest.ask(word))
        return told

    def cpu_seconds(self) -> dict[str, float]:
        """So far, of the gateway and of the brokers of either cluster."""
        gateway = self.gateway.pid
        assert gateway is not None
        pids = {"gateway": [gateway]}
        for name, cluster in (("source", self.source), ("target", self.target)):
            pids[name] = [pid for node in cluster.nodes.values() if (pid := node.pid()) is not None]
        return {name: sum(map(cpu_seconds, each)) for name, each in pids.items()}

    def log_bytes(self) -> int:
        """Of the gateway's log."""
        return (self._folder / "gateway.log").stat().st_size

    def _gateway(self) -> Lockgate:
        token = self._folder / "viewer.token"
        token.write_text("v" * 43 + "\n", encoding="utf-8")
        token.chmod(0o600)
        login = {"sasl.mechanism": "PLAIN", "sasl.username": GATEWAY, "sasl.password": GATEWAY}
        return Lockgate(
            self._folder,
            self.target.bootstrap,
            self.certificate,
            sections={
                "target": {"security.protocol": "SASL_PLAINTEXT", **login},
                "listener": {"protocol": "SASL_PLAINTEXT"},
                "api": {"principals": [{"name": _VIEWER, "role": "viewer", "token_file": str(token)}]},
            },
            tls_protocol="SASL_SSL",
        )

    def _mirror(self) -> None:
        gateway, source = self.gateway, self.source.bootstrap
        self._open.enter_context(gateway.link("west", source))
        gateway.mirror("west", HONEST)
        filters = {"topicFilters": [{"name": BOMBS, "patternType": "LITERAL", "filterType": "INCLUDE"}]}
        registries = {f"schema.{side}.registry.url": self.registry.url for side in ("source", "target")}
        schemas = {
            "schema.sync.enable": "true",
            "schema.sync.ms": _ROUND_MS,
            "schema.ids": "translate",
            "schema.translate.topic.filters": json.dumps(filters),
        }
        self._open.enter_context(gateway.link("registries", source, **registries, **schemas))
        gateway.mirror("registries", BOMBS)
        for link in ("west", "registries"):
            wait_until(lambda link=link: gateway.ready(link) == 1, 60.0, f"the mirror of {link}")  # type: ignore[misc]

    def _honest(self) -> list[str]:
        where = [self.gateway.tls_bootstrap, str(self.certificate.ca), HONEST, HONEST]
        return [*where, "--partitions", str(PARTITIONS)]

    def _cluster(self, name: str, kafka: str, **properties: str) -> DevCluster:
        cluster = DevCluster.create(
            name, kafka=kafka, parent=self._folder, properties=properties, heap_mb=768, long_lived=True
        )
        self._open.callback(_remove, cluster)
        return cluster


def _remove(cluster: DevCluster) -> None:
    with contextlib.suppress(DevClusterError):
        cluster.kill()
        cluster.delete()
