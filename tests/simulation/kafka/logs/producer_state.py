"""What a log knows of its producers: sequences, epochs, open and aborted transactions (Kafka's ProducerStateManager).

Everything here follows from the batches of the log, in order; a follower's table is brought up to date only when it is
asked for. Rules, by the sources of Kafka 3.9 and 4.x (ProducerAppendInfo, ProducerStateEntry, UnifiedLog):
the last five batches of a producer are known, and one that repeats their sequences is answered with its first offset;
a producer that is unknown may begin with any sequence; a new epoch begins with 0, unless the producer was unknown;
sequences go on by one and wrap from 2^31-1 to 0; a marker raises the epoch and leaves the sequences of the same epoch.
"""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter
from typing import Final, NamedTuple

from protocol.batch.header import BatchHeader
from protocol.errors import ErrorCode

BATCHES_KEPT: Final = 5
_LAST_SEQUENCE: Final = 0x7FFFFFFF
_NONE: Final = -1


class Marker(NamedTuple):
    """What a control batch says: the end of a transaction."""

    commit: bool
    coordinator_epoch: int
    timestamp: int


class SeenBatch(NamedTuple):
    """One of the last batches of a producer."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class Aborted(NamedTuple):
    """An aborted transaction: its first offset, its marker's, and the last stable offset at that time."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class Producer:
    """One producer id in one log. `txn_start` is the first offset of its open transaction, -1 without one."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "txn_start")

    def __init__(self) -> None:
        self.epoch = _NONE
        self.coordinator_epoch = _NONE
        self.last_timestamp = _NONE
        self.txn_start = _NONE
        self.batches: list[SeenBatch] = []

    @property
    def last_sequence(self) -> int:
        """Sequence of its last record, -1 when none of this epoch is known."""
        return self.batches[-1].last_sequence if self.batches else _NONE


class ProducerTable:
    """All producers of one replica's log. `end` is the offset up to which the log has been taken in."""

    __slots__ = ("aborted", "end", "open", "producers", "unreplicated", "verifying")

    def __init__(self, start: int = 0) -> None:
        self.end = start
        self.producers: dict[int, Producer] = {}
        self.open: dict[int, int] = {}  # first offset -> producer id, in order of offsets
        self.unreplicated: dict[int, int] = {}  # first -> last offset of ended ones, the marker not yet below the hw
        self.aborted: list[Aborted] = []
        self.verifying: dict[int, tuple[int, int]] = {}  # producer id -> (epoch, lowest sequence seen), see `verify`

    # -- before the append ----------------------------------------------------------------------------------------

    def verify(self, header: BatchHeader) -> None:
        """The coordinator is asked about a transaction's first batch: none that was sent later may overtake it."""
        epoch, lowest = self.verifying.get(header.producer_id, (header.producer_epoch, header.base_sequence))
        if header.producer_epoch > epoch:
            epoch, lowest = header.producer_epoch, header.base_sequence
        elif header.producer_epoch == epoch:
            lowest = min(lowest, header.base_sequence)
        self.verifying[header.producer_id] = (epoch, lowest)

    def _overtakes(self, header: BatchHeader) -> bool:
        verifying = self.verifying.get(header.producer_id)
        return verifying is not None and header.base_sequence > verifying[1]

    def check(self, header: BatchHeader) -> tuple[ErrorCode, SeenBatch | None]:
        """Whether a leader may append a client's batch; a batch that is there already comes back as it was."""
        producer = self.producers.get(header.producer_id)
        if producer is None:
            late = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            return late if self._overtakes(header) else ErrorCode.NONE, None
        if header.producer_epoch == producer.epoch:
            last = header.last_sequence
            for seen in producer.batches:
                if seen.first_sequence == header.base_sequence and seen.last_sequence == last:
                    return ErrorCode.NONE, seen
        if header.producer_epoch < producer.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, None
        if self._overtakes(header) or not _follows(producer, header):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, None
        if producer.txn_start != _NONE and not header.is_transactional:
            return ErrorCode.INVALID_TXN_STATE, None
        return ErrorCode.NONE, None

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int) -> ErrorCode:
        """Whether a leader may append a marker."""
        producer = self.producers.get(producer_id)
        if producer is None:
            return ErrorCode.NONE
        if epoch < producer.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if coordinator_epoch < producer.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return ErrorCode.NONE

    # -- after it -------------------------------------------------------------------------------------------------

    def take(self, header: BatchHeader, marker: Marker | None) -> None:
        """Take in a batch that is in the log."""
        self.end = header.next_offset
        if header.producer_id < 0:
            return
        if header.is_transactional:
            self.verifying.pop(header.producer_id, None)
        if header.is_control:
            if marker is not None:
                self._take_marker(header, marker)
            return
        producer = self._entered(header.producer_id, header.producer_epoch)
        if len(producer.batches) == BATCHES_KEPT:
            del producer.batches[0]
        seen = SeenBatch(
            header.base_sequence, header.last_sequence, header.base_offset, header.last_offset, header.max_timestamp
        )
        producer.batches.append(seen)
        producer.last_timestamp = header.max_timestamp
        if header.is_transactional and producer.txn_start == _NONE:
            producer.txn_start = header.base_offset
            self.open[header.base_offset] = header.producer_id

    def _take_marker(self, header: BatchHeader, marker: Marker) -> None:
        producer = self._entered(header.producer_id, header.producer_epoch)
        first = producer.txn_start
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_timestamp = marker.timestamp
        producer.txn_start = _NONE
        if first == _NONE:
            return
        last = header.base_offset
        if not marker.commit:
            others = (offset for offset, owner in self.open.items() if owner != header.producer_id)
            self.aborted.append(Aborted(header.producer_id, first, last, next(others, last + 1)))
        self.open.pop(first, None)
        self.unreplicated[first] = last

    def _entered(self, producer_id: int, epoch: int) -> Producer:
        producer = self.producers.get(producer_id)
        if producer is None:
            producer = self.producers[producer_id] = Producer()
        if producer.epoch != epoch:
            producer.batches.clear()
            producer.epoch = epoch
        return producer

    # -- as time and the log go on --------------------------------------------------------------------------------

    def first_unstable(self) -> int | None:
        """First offset of which a reader of committed records may not know yet how it ends."""
        first = next(iter(self.open), None)
        ended = min(self.unreplicated) if self.unreplicated else None
        if first is None or ended is None:
            return ended if first is None else first
        return min(first, ended)

    def replicated_to(self, offset: int) -> None:
        """The high watermark (or the log start) is at `offset` now."""
        if self.unreplicated:
            self.unreplicated = {first: last for first, last in self.unreplicated.items() if last >= offset}

    def expire(self, now_ms: int, after_ms: int) -> None:
        """Forget producers whose last batch is older than `after_ms` (producer.id.expiration.ms)."""
        gone = [
            producer_id
            for producer_id, producer in self.producers.items()
            if producer.txn_start == _NONE and now_ms - producer.last_timestamp >= after_ms
        ]
        for producer_id in gone:
            del self.producers[producer_id]

    def forget_batches(self) -> None:
        """What a snapshot on disk keeps: of each producer the last batch alone."""
        for producer in self.producers.values():
            del producer.batches[:-1]

    def aborted_between(self, start: int, end: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of aborted transactions that a fetch of `start` up to `end` must name."""
        found = []
        for entry in self.aborted[bisect_left(self.aborted, start, key=attrgetter("last_offset")) :]:
            if entry.first_offset < end:
                found.append((entry.producer_id, entry.first_offset))
            if entry.last_stable_offset >= end:
                break
        return found


def _follows(producer: Producer, header: BatchHeader) -> bool:
    first = header.base_sequence
    if producer.epoch == _NONE:
        return True
    if header.producer_epoch != producer.epoch:
        return first == 0
    last = producer.last_sequence
    return first == last + 1 or (first == 0 and last == _LAST_SEQUENCE)
