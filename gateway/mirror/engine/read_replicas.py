"""The read replicas of one link's partitions (KIP-392): from the fetchers' answers to the replica that is read next.

`mirror/rules/read_replica.py` decides. This file gathers the facts: what a replica answers, that it is gone, and, by
asking the leaders, whether it lags. While a replica is read, the partition's end also comes from the leader: a lag of 0
by the replica's own high watermark would prove nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from enum import Enum
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import Final, NamedTuple

from gateway.kafka.cluster import Cluster
from gateway.mirror.partition.log_reader import LogBounds, LogReader
from gateway.mirror.partition.runner import PartitionRunner
from gateway.mirror.rules.read_replica import MAX_AGE_S, ReadReplica
from protocol.errors import error_name
from protocol.fetch import FetchedPartition

_log = logging.getLogger(__name__)


class Reads(Enum):
    """Which replica sent an answer. MOVED: do not use the answer; the partition is now fetched from another broker."""

    LEADER = "leader"
    FOLLOWER = "follower"
    MOVED = "moved"


class FetchNode(NamedTuple):
    """The broker a partition is fetched from, and whether the fetch sends the rack."""

    node: int
    asks: bool


_NO_RACK: Final = ""


class ReadReplicas:
    """Args.

    rack: of the link (`client.rack`); '' for none: then every partition is read from its leader, without any look.
    move: assigns a partition to the broker that `place` now returns.
    """

    def __init__(
        self,
        rack: str,
        source: Cluster,
        logs: LogReader,
        clock: Callable[[], float],
        move: Callable[[PartitionRunner], None],
    ) -> None:
        self.rack = rack
        self._source = source
        self._logs = logs
        self._clock = clock
        self._move = move
        self._of: dict[PartitionRunner, ReadReplica] = {}
        self._queue: list[tuple[float, int, PartitionRunner, ReadReplica]] = []  # by time, then by order
        self._order = count()

    def place(self, runner: PartitionRunner, leader: int) -> FetchNode:
        """Where to fetch a partition whose leader is node `leader`."""
        if self.rack == _NO_RACK:
            return FetchNode(leader, asks=False)
        replica = self._of.setdefault(runner, ReadReplica())
        replica.led_by(leader)
        if replica.node is not None and not self._is_there(runner, replica.node):
            self._leave(runner, replica, "it is gone")
        self._enqueue(runner, replica)
        return FetchNode(leader if replica.node is None else replica.node, replica.asks)

    def forget(self, runner: PartitionRunner) -> None:
        """Forget a partition that no longer runs here."""
        self._of.pop(runner, None)

    def answered(self, runner: PartitionRunner, node: int, part: FetchedPartition) -> Reads:
        """Judge a broker's fetch answer for a partition, before the partition sees it."""
        replica = self._of.get(runner)
        if replica is None:
            return Reads.LEADER
        named, reads = part.preferred_read_replica, Reads.LEADER if node == replica.leader else Reads.FOLLOWER
        if named >= 0 and named != node:
            self._named(runner, replica, named)
            return Reads.MOVED
        if reads is Reads.FOLLOWER:
            replica.replica_told(part.high_watermark)
            if part.error_code or part.diverging is not None:
                said = error_name(part.error_code) if part.error_code else "it has another history"
                self._leave(runner, replica, said)
                self._source.invalidate(runner.source_topic)
                self._move(runner)
                return Reads.MOVED
        return reads

    def used(self, runner: PartitionRunner) -> None:
        """Read the leader again if the partition could not read the replica's answer that it was just given."""
        replica, error = self._of.get(runner), runner.mirror.source.last_error
        if replica is not None and replica.node is not None and error:
            self._leave(runner, replica, error)
            self._move(runner)

    def lost(self, node: int, runners: Iterable[PartitionRunner]) -> None:
        """The connection to a broker is lost: partitions that read it as a replica read their leader again."""
        for runner in runners:
            replica = self._of.get(runner)
            if replica is not None and replica.node == node:
                self._leave(runner, replica, "it does not answer")
                self._move(runner)

    def tick(self, now: float) -> None:
        """Once a second: ask leaders again where that is due, and check whether replicas lag."""
        while self._queue and self._queue[0][0] <= now:
            at, _, runner, replica = heappop(self._queue)
            if self._of.get(runner) is not replica or replica.queued_at != at:
                continue  # superseded by a later entry
            replica.queued_at = -1.0
            if replica.is_due(now):
                self._move(runner)
            elif replica.node is not None and now >= replica.look_at:
                replica.look_at = float("inf")  # until there is an answer
                key = (runner.source_topic, runner.partition)
                self._logs.ask(key, 0.0, partial(self._looked, runner, replica))
            self._enqueue(runner, replica)

    def _enqueue(self, runner: PartitionRunner, replica: ReadReplica) -> None:
        at = replica.next_at
        if at != replica.queued_at and at != float("inf"):
            replica.queued_at = at
            heappush(self._queue, (at, next(self._order), runner, replica))

    def _looked(self, runner: PartitionRunner, replica: ReadReplica, found: LogBounds | str) -> None:
        now = self._clock()
        if self._of.get(runner) is not replica or replica.node is None or replica.look_at != float("inf"):
            return  # this answer belongs to an earlier choice
        if isinstance(found, str):
            replica.look_at = now + 1.0
            self._enqueue(runner, replica)
            return
        runner.leader_end(found.end)
        if replica.leader_told(found.end, now, fetching=runner.mirror.wants_fetch(now)):
            self._leave(runner, replica, f"it lags: the leader's log ends at {found.end}, its at {replica.replica_end}")
            self._move(runner)
        self._enqueue(runner, replica)

    def _named(self, runner: PartitionRunner, replica: ReadReplica, node: int) -> None:
        if self._is_there(runner, node):
            replica.named(node, self._clock(), MAX_AGE_S)
            _log.info("%s-%d is read from replica %d", runner.source_topic, runner.partition, node)
        else:
            self._leave(runner, replica, f"the leader names node {node}, which is not there")
            self._source.invalidate(runner.source_topic)  # or is not known to be yet
        self._move(runner)

    def _leave(self, runner: PartitionRunner, replica: ReadReplica, why: str) -> None:
        _log.info("%s-%d is read from its leader again: %s", runner.source_topic, runner.partition, why)
        replica.refused(self._clock(), MAX_AGE_S)

    def _is_there(self, runner: PartitionRunner, node: int) -> bool:
        view = self._source.view
        topic = view.topics.get(runner.source_topic)
        part = None if topic is None else topic.partitions.get(runner.partition)
        return node in view.brokers and part is not None and node in part.replicas
