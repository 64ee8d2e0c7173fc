"""Everything that stays up for a whole run: two clusters, and the contestants before the target."""

from __future__ import annotations

import contextlib
import resource
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import Final

from bench.contestants.contestant import Behind, Contestant, Direct
from bench.contestants.haproxy import HAProxy, haproxy_binary
from bench.contestants.lockgate import Lockgate
from bench.contestants.mirrormaker import MirrorMaker
from bench.contestants.others import KafkaProxy, Kroxylicious, OtherProxy
from bench.settings import Profile
from bench.tls import Certificate
from bench.topics import Topics
from gateway.devcluster import DevCluster, DevClusterError, claim_ports, release_ports

SOURCE_KAFKA: Final = "3.9.1"
TARGET_KAFKA: Final = "4.3.1"
OTHERS: Final[Mapping[str, type[OtherProxy]]] = {each.name: each for each in (Kroxylicious, KafkaProxy)}
_BROKER: Final = {"log.segment.delete.delay.ms": "1000", "log.retention.check.interval.ms": "3600000"}


class Lab:
    """The clusters `source` and `target`, and who may stand before the target."""

    def __init__(self, profile: Profile, folder: Path, others: Mapping[str, Path] = MappingProxyType({})) -> None:
        """`others`: programs of `OTHERS`, by name."""
        self.profile = profile
        self.folder = folder
        self._ports = claim_ports(1)
        for name in ("source", "target"):
            remove_left_over(name, folder)
        folder.mkdir(parents=True, exist_ok=True)
        for log in folder.glob("*.log"):
            log.unlink()
        self.source = DevCluster.create(
            "source",
            kafka=SOURCE_KAFKA,
            parent=folder,
            properties=_BROKER,
            heap_mb=512,
            long_lived=profile.long_lived,
        )
        self.target = DevCluster.create(
            "target",
            kafka=TARGET_KAFKA,
            parent=folder,
            properties=_BROKER,
            heap_mb=768,
            long_lived=profile.long_lived,
            advertised_ports=self._ports,
        )
        self.certificate = Certificate(folder / "tls")
        self.gateway = Lockgate(folder, self.target.bootstrap, self.certificate)
        self.haproxies = self._new_haproxies()
        direct = Direct(self.target.bootstrap)
        ids = [node.node_id for node in self.target.spec.nodes]
        self.others = [OTHERS[name](folder, program, self.target.bootstrap, ids) for name, program in others.items()]
        self.tls_passers: list[Contestant] = [Behind(self.gateway, "gateway_tls", self.gateway.tls_bootstrap)]
        if self.haproxies:
            self.tls_passers.insert(0, self.haproxies.pop())
        self.passers: list[Contestant] = [direct, *self.haproxies[:1], *self.others, self.gateway]
        self.all_passers: list[Contestant] = [direct, *self.haproxies, *self.others, self.gateway]
        self.mirror_makers: list[MirrorMaker] = []
        self.on_source = Topics(self.source.bootstrap)
        self.on_target = Topics(self.target.bootstrap)

    def start(self) -> None:
        """Start the clusters, then the contestants.

        Raises:
            DevClusterError, BenchError: something did not come up.
        """
        allow_many_files()
        with ThreadPoolExecutor() as pool:
            for started in [pool.submit(cluster.up, 120.0) for cluster in (self.source, self.target)]:
                started.result()
        self.gateway.start()

    def ready(self, contestant: Contestant) -> Contestant:
        """The contestant, serving: the HAProxies share one port, so one of them runs at a time."""
        if isinstance(contestant, HAProxy) and contestant.pid is None:
            for other in (*self.haproxies, *self.tls_passers):
                if isinstance(other, HAProxy):
                    other.stop()
            contestant.start()
        if isinstance(contestant, OtherProxy) and contestant.pid is None:
            contestant.start()
        return contestant

    def restart(self, contestant: Contestant) -> None:
        """A fresh process, for what is measured against a small memory."""
        contestant.stop()
        if contestant is self.gateway:
            contestant.start()

    def close(self) -> None:
        """End everything. The clusters are killed: what they hold is not needed, and a clean end takes its time."""
        for mirror_maker in self.mirror_makers:
            mirror_maker.stop()
        for contestant in (*self.all_passers, *self.tls_passers):
            contestant.stop()
        for other in self.others:
            other.close()
        self.gateway.close()
        for cluster in (self.source, self.target):
            with contextlib.suppress(DevClusterError):
                cluster.kill()
                cluster.delete()
        release_ports(self._ports)

    def _new_haproxies(self) -> list[HAProxy]:
        broker_port = self.target.spec.nodes[0].proxied_port
        if haproxy_binary() is None or broker_port is None:
            return []
        port = self._ports[0]
        made = [HAProxy(self.folder, port, broker_port, splicing=splicing) for splicing in (True, False)]
        return [*made, HAProxy(self.folder, port, broker_port, tls=self.certificate.both)]


def remove_left_over(name: str, folder: Path) -> None:
    """End and remove the cluster of a run that was cut off."""
    try:
        left = DevCluster.open(name, parent=folder)
    except DevClusterError:
        shutil.rmtree(folder / name, ignore_errors=True)
    else:
        left.kill()
        left.delete()


def allow_many_files() -> None:
    """As many open files as the system lets us: a thousand connections need two thousand in a proxy."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
