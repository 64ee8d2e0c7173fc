"""A replica: one broker's copy of a partition, what it believes about the leader, and what it knows while it leads."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from protocol.errors import ErrorCode
from tests.simulation.kafka.logs.log import ReplicaLog

if TYPE_CHECKING:
    from tests.simulation.kafka.logs.partition import Partition


class Leadership:
    """What a leader knows of its followers, and who waits for it. It ends with its epoch."""

    __slots__ = ("behind_since", "copying", "deletes", "ends", "epoch", "epoch_start", "produces", "tells")

    def __init__(self, epoch: int, epoch_start: int) -> None:
        self.epoch = epoch
        self.epoch_start = epoch_start
        self.ends: dict[int, int] = {}  # log end of a follower by its last fetch
        self.behind_since: dict[int, float] = {}  # since when a follower lacks something
        self.copying: set[int] = set()  # followers that are on their way to fetch
        self.produces: list[tuple[int, asyncio.Future[ErrorCode]]] = []  # (offset the high watermark must reach, …)
        self.deletes: list[tuple[int, asyncio.Future[ErrorCode]]] = []  # (offset all log starts must reach, …)
        self.tells = False  # followers are about to hear of the high watermark

    def answer(self, up_to: int, error: ErrorCode) -> None:
        """Tell the producers that wait for an offset up to `up_to`."""
        if not self.produces:
            return
        kept = []
        for needed, future in self.produces:
            if needed > up_to:
                kept.append((needed, future))
            elif not future.done():
                future.set_result(error)
        self.produces = kept


class Replica:
    """`leader` and `epoch` are what this broker believes; `leading` is set while it believes to lead."""

    __slots__ = ("broker_id", "epoch", "lag_until", "leader", "leading", "log", "partition", "readers")

    def __init__(self, partition: Partition, broker_id: int) -> None:
        self.partition = partition
        self.broker_id = broker_id
        self.log = ReplicaLog()
        self.leader = -1
        self.epoch = -1
        self.leading: Leadership | None = None
        self.lag_until = 0.0
        self.readers: dict[asyncio.Future[None], None] = {}  # long polls, in order of arrival

    def wake_readers(self) -> None:
        """Something changed for who waits to read."""
        if self.readers:
            waiting, self.readers = self.readers, {}
            for future in waiting:
                if not future.done():
                    future.set_result(None)

    def lead(self, epoch: int) -> None:
        """Become the leader of `epoch`."""
        log = self.log
        self.resign(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        log.begin_epoch(epoch, log.end)
        self.leading = Leadership(epoch, log.end)

    def resign(self, error: ErrorCode) -> None:
        """Lead no more; who waits is told `error`."""
        leading, self.leading = self.leading, None
        if leading is not None:
            leading.answer(1 << 62, error)
            for _, future in leading.deletes:
                if not future.done():
                    future.set_result(error)
        self.wake_readers()

    def die(self) -> None:
        """The process is gone, with all who waited for it."""
        self.leading = None
        self.leader = self.epoch = -1
        self.readers = {}

    def fetch_from(self, other: ReplicaLog) -> None:
        """Make the log the same as the leader's: truncate what differs (KIP-101, KIP-279), then append."""
        log = self.log
        if log.end < other.start:
            log.restart_at(other.start)
        while log.end > other.start and log.epochs:
            mine = log.epoch_at_end()
            epoch, end = other.end_of_epoch(mine)
            if epoch < 0 or (epoch == mine and end >= log.end):
                break
            _, own_end = log.end_of_epoch(epoch)
            log.truncate(min(end, own_end if own_end >= 0 else end))
            if log.epochs and log.epoch_at_end() > epoch:
                break
        if log.end > other.end:
            log.truncate(other.end)
        settings = self.partition.topic.settings
        for batch in other.batches_from(log.end):
            log.append(batch, settings.segment_bytes, settings.segment_ms)
        log.end = max(log.end, other.end)
        log.advance_start(other.start)
        log.raise_high_watermark(other.high_watermark)
        self.wake_readers()
