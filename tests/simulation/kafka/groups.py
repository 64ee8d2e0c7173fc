"""Groups and their offsets (classic protocol)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.kafka.cluster import ClusterModel


class GroupCoordinators:
    """All groups of a cluster."""

    def __init__(self, cluster: ClusterModel) -> None:
        self.cluster = cluster

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """A group's offsets."""
        return {}
