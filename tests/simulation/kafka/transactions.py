"""Transactional ids, their producers and their transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from tests.simulation.kafka.cluster import ClusterModel


class TransactionCoordinators:
    """All transactional ids of a cluster."""

    def __init__(self, cluster: ClusterModel) -> None:
        self.cluster = cluster

    def verify(self, transactional_id: str, producer_id: int, epoch: int, topic: str, partition: int) -> ErrorCode:
        """What the leader asks the coordinator before a transaction's first batch (KIP-890): is the partition in it?"""
        return ErrorCode.NONE
