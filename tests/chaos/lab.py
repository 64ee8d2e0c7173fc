"""The machines of a run: two clusters, gateways, and the network between them."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

from gateway.devcluster import DevCluster, claim_ports, release_ports
from tests.chaos.clusters import HEAP_MB, UP_S, ChaosCluster
from tests.chaos.gateways import GatewayNode, Operator
from tests.chaos.network import Network
from tests.chaos.seeds import Seeds
from tests.chaos.ways import THIRD

TARGET_KAFKA = "4.3.1"
_PORTS = 8


class Lab:
    """Started by `up`, taken down by `down`, whatever state it is in.

    Attributes:
        seeds: secrets that must be found nowhere.
        third: a cluster of one broker, for topologies; None in a run without.
        far, far_operator: the one gateway before it, which no proxy stands around.
        told: number of a fault -> what it has done beside what was planned.
    """

    def __init__(
        self, folder: Path, gateways: int, source_kafka: str, patch: str = "", *, topologies: bool = False
    ) -> None:
        self.folder = folder
        self.source = ChaosCluster.make("source", source_kafka, folder, gateways)
        self.target = ChaosCluster.make("target", TARGET_KAFKA, folder, gateways)
        self.network = Network(folder, patch)
        self.seeds = Seeds(folder)
        self._claimed = claim_ports(_PORTS, consecutive=True)
        self.gateways = [
            GatewayNode(number, folder, self._claimed, self.target.view(number), self.seeds, alone=gateways == 1)
            for number in range(gateways)
        ]
        self.operator = Operator(self.gateways)
        self.told: dict[int, dict[str, Any]] = {}
        self.third: DevCluster | None = None
        self.far: GatewayNode | None = None
        self.far_operator: Operator | None = None
        if topologies:
            self.third = DevCluster.create(THIRD, kafka=TARGET_KAFKA, parent=folder, heap_mb=HEAP_MB)
            third = self.third.bootstrap
            self.far = GatewayNode(gateways, folder, self._claimed, third, self.seeds, alone=True, straight=True)
            self.far_operator = Operator([self.far])

    def bootstrap_of(self, name: str) -> str:
        """Of `source`, `target` or `third`."""
        if name == THIRD:
            assert self.third is not None
            return self.third.bootstrap
        return self.side(name).bootstrap

    def side(self, name: str) -> ChaosCluster:
        """`source` or `target`."""
        return self.source if name == "source" else self.target

    @property
    def gateway_bootstrap(self) -> str:
        """`bootstrap.servers` of clients of the gateways."""
        return ",".join(gateway.bootstrap for gateway in self.gateways)

    def up(self) -> None:
        """Start the clusters at once, then proxies and gateways."""
        for cluster in (self.source, self.target):
            for disk in cluster.disks.values():
                disk.mount()
        clusters = [self.source, self.target, *([self.third] if self.third else [])]
        threads = [threading.Thread(target=c.up, args=(UP_S,), daemon=True) for c in clusters]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for gateway in self.gateways:
            others = [other for other in self.gateways if other is not gateway]
            self.network.join(gateway, self.source, self.target, others)
            gateway.start()
        if self.far is not None:
            self.far.bend({}, "")
            self.far.start()
        for gateway in self._all_gateways():
            gateway.wait_up()

    def _all_gateways(self) -> list[GatewayNode]:
        return [*self.gateways, *([self.far] if self.far else [])]

    def heal(self) -> None:
        """Everything runs and everything reaches everything."""
        self.network.mend()
        for cluster in (self.source, self.target):
            for broker in cluster.disks:
                cluster.empty_disk(broker)
            for node in cluster.nodes.values():
                node.signal(signal.SIGCONT)
            for node in cluster.nodes.values():
                node.start()
        for cluster in (self.source, self.target):
            cluster.wait_up(UP_S)
        for gateway in self.gateways:
            gateway.signal(signal.SIGCONT)
            gateway.names.unlink(missing_ok=True)
            gateway.wait_up()

    def down(self) -> None:
        """End every process."""
        for operator in (self.operator, self.far_operator):
            if operator is not None:
                operator.close()
        for gateway in self._all_gateways():
            gateway.kill()
        self.network.close()
        for each in (self.source, self.target, self.third):
            if each is not None:
                each.kill()
        for cluster in (self.source, self.target):
            for disk in cluster.disks.values():
                disk.unmount()
        release_ports(self._claimed)
