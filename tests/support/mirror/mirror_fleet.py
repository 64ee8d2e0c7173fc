"""Nodes that mirror one topic between them, as a fleet's assignments say; no gateway is there."""

from __future__ import annotations

from contextlib import ExitStack

from gateway.devcluster import DevCluster
from gateway.mirror.rules.period import MirrorPartition
from tests.support.mirror.mirror_lab import LINK
from tests.support.mirror.mirror_node import MirrorNode, assign

PARTITIONS = 6
NODES = ("a", "b", "c")


class MirrorFleet:
    """Some nodes between two clusters, and who owns which partition of the topic."""

    def __init__(self, source: DevCluster, target: DevCluster, topic: str) -> None:
        self.source, self.target, self.topic = source, target, topic
        self.nodes: dict[str, MirrorNode] = {}
        self.owners: dict[str, frozenset[MirrorPartition]] = {}
        self.leader = NODES[0]
        self.stack = ExitStack()

    def start(self, name: str) -> None:
        """Start a node; it ends with `stack`."""
        self.nodes[name] = self.stack.enter_context(
            MirrorNode(name, self.source.bootstrap, self.target.bootstrap, {self.topic: PARTITIONS})
        )

    def assign(self, **owners: tuple[int, ...]) -> None:
        """Tell every node who owns which partitions from now on."""
        self.owners = {
            name: frozenset(MirrorPartition(LINK, self.topic, index) for index in held) for name, held in owners.items()
        }
        assign(self.nodes, self.owners, self.leader if self.leader in owners else next(iter(owners)))

    def readable(self) -> bool:
        """Every node mirrors what it owns."""
        return all(self.nodes[name].here == held for name, held in self.owners.items())
