"""A partition: its replicas, who leads, and the way of a batch from the leader to all of the ISR.

What the coordinators need (all of it works on the leader that the controller knows; the error is what that broker
would answer): `append_marker`, `append_internal`, `ongoing`, `producers`, `leader_id`, `leader_epoch`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from tests.simulation.kafka.cluster import ClusterModel
    from tests.simulation.kafka.topics import Topic


class LeaderState(NamedTuple):
    """What the controller decided: `leader` is -1 when there is none."""

    leader: int
    epoch: int
    isr: tuple[int, ...]
    version: int


class ActiveProducer(NamedTuple):
    """A producer that a partition knows, as DescribeProducers shows it. Absent values are -1."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


class Partition:
    """See the module."""

    def __init__(self, cluster: ClusterModel, topic: Topic, index: int, replicas: Sequence[int]) -> None:
        self.cluster = cluster
        self.topic = topic
        self.index = index
        self.assignment = list(replicas)
        self.state = LeaderState(replicas[0], 0, tuple(replicas), 0)

    @property
    def leader_id(self) -> int:
        """The broker that leads, -1 for none, as the controller knows it."""
        return self.state.leader

    @property
    def leader_epoch(self) -> int:
        """The current leader epoch."""
        return self.state.epoch

    def append_marker(self, producer_id: int, epoch: int, commit: bool, coordinator_epoch: int) -> ErrorCode:
        """End a producer's transaction here (WriteTxnMarkers on the leader, at once).

        NONE (also when nothing was open), NOT_LEADER_OR_FOLLOWER or LEADER_NOT_AVAILABLE (try again later),
        INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.
        """
        raise NotImplementedError

    async def append_internal(self, records: bytes, timeout_s: float = 5.0) -> ErrorCode:
        """Append record batches of the broker's own with acks=all; NONE when they are in all of the ISR."""
        raise NotImplementedError

    def ongoing(self, producer_id: int) -> int | None:
        """First offset of the producer's open transaction here, None without one."""
        raise NotImplementedError

    def producers(self) -> list[ActiveProducer]:
        """The producers that the leader knows."""
        raise NotImplementedError

    def log_start(self) -> int:
        """First offset of the leader's log."""
        raise NotImplementedError

    def delete_records(self, before: int) -> tuple[ErrorCode, int]:
        """DeleteRecords on the leader: the error and the new low watermark; -1 as `before` is the high watermark."""
        raise NotImplementedError

    def delete(self) -> None:
        """The topic is gone: whoever waits is told."""
        raise NotImplementedError
