"""What stays up for a run: two clusters of three brokers, what stands between them, a gateway, MirrorMaker 2."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from bench.contestants.lockgate import Lockgate
from bench.contestants.mirrormaker import MirrorMaker
from bench.lab import SOURCE_KAFKA, TARGET_KAFKA, allow_many_files, remove_left_over
from bench.production.distance import Distance
from bench.production.sizes import Sizes
from bench.topics import Topics
from gateway.devcluster import DevCluster, DevClusterError

REPLICAS: Final = 3
_BROKER: Final = {
    "log.segment.delete.delay.ms": "1000",
    "log.retention.check.interval.ms": "3600000",
    "default.replication.factor": str(REPLICAS),
    "min.insync.replicas": "2",
}


class ProductionLab:
    """Args: how much is done, and where logs and data go.

    Attributes:
        source, target: the clusters; `far_source`: bootstrap.servers of the source behind `to_source`.
        to_source: between the gateway and the source's brokers.
        between_replicas: between the target's brokers, for what they replicate.
    """

    def __init__(self, sizes: Sizes, folder: Path) -> None:
        self.sizes = sizes
        self.folder = folder
        for name in ("source", "target"):
            remove_left_over(name, folder)
        folder.mkdir(parents=True, exist_ok=True)
        for log in folder.glob("*.log"):
            log.unlink()
        self._open = contextlib.ExitStack()
        self.mirror_makers: list[MirrorMaker] = []

    def start(self) -> None:
        """Start everything.

        Raises:
            DevClusterError, BenchError: something did not come up.
        """
        allow_many_files()
        self.to_source, self.between_replicas = (Distance(self._folder(name), 3) for name in ("far", "replicas"))
        self._open.callback(self.to_source.close)
        self._open.callback(self.between_replicas.close)
        self.source = self._cluster("source", SOURCE_KAFKA, self.to_source)
        self.target = self._cluster(
            "target", TARGET_KAFKA, self.between_replicas, **{"inter.broker.listener.name": "PROXIED"}
        )
        with ThreadPoolExecutor() as pool:
            for started in [pool.submit(cluster.up, 180.0) for cluster in (self.source, self.target)]:
                started.result()
        self.far_source = ",".join(f"127.0.0.1:{port}" for port in self.to_source.ports)
        self.on_source, self.on_target = (
            Topics(cluster.bootstrap, replicas=REPLICAS) for cluster in (self.source, self.target)
        )
        self.gateway = Lockgate(self.folder, self.target.bootstrap)
        self._open.callback(self.gateway.close)
        self.gateway.start()

    def start_mirror_makers(self, topics: Mapping[str, int]) -> None:
        """MirrorMaker 2 with its defaults, and tuned if the run has it; both stand still afterwards.

        Args:
            topics: name -> partitions, each with one record.
        """
        for tuned in (False, True) if self.sizes.mm2_tuned else (False,):
            made = MirrorMaker(
                self.folder, self.source.bootstrap, self.target.bootstrap, list(topics), tuned=tuned, replicas=REPLICAS
            )
            self.mirror_makers.append(made)
            made.start()
            for topic, partitions in topics.items():
                copy = made.copy_of(topic)
                self.on_target.wait_for_records(copy, partitions, 180.0, partitions=partitions, poll_s=0.5)
            made.pause()

    def stop_mirror_makers(self) -> None:
        """End them."""
        while self.mirror_makers:
            self.mirror_makers.pop().stop()

    def close(self) -> None:
        """End everything."""
        self.stop_mirror_makers()
        self._open.close()

    def _folder(self, name: str) -> Path:
        made = self.folder / name
        made.mkdir(exist_ok=True)
        return made

    def _cluster(self, name: str, kafka: str, distance: Distance, **properties: str) -> DevCluster:
        cluster = DevCluster.create(
            name,
            kafka=kafka,
            brokers=REPLICAS,
            parent=self.folder,
            properties={**_BROKER, **properties},
            heap_mb=768,
            long_lived=True,
            advertised_ports=distance.ports,
        )
        proxied = [node.proxied_port for node in cluster.spec.nodes if node.proxied_port is not None]
        distance.stand_before(proxied)
        self._open.callback(_remove, cluster)
        return cluster


def _remove(cluster: DevCluster) -> None:
    with contextlib.suppress(DevClusterError):
        cluster.kill()
        cluster.delete()
