"""The last batches of each producer of the gateway on one partition, as the mirror saw them go by.

Handed over at promote: a retry of a batch that was already mirrored is then answered with its old offset, as
a broker would, instead of being appended again. Like a broker it keeps five batches per producer id
(ProducerStateEntry.NUM_BATCHES_TO_RETAIN) and forgets them when the producer's epoch changes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from struct import Struct
from typing import Final, NamedTuple

from gateway.state.records import ProducerEntry

BATCHES_PER_PRODUCER: Final = 5
MAX_PRODUCERS: Final = 10_000

_Batch = tuple[int, int, int, int]  # epoch, first sequence, last sequence, base offset

_HEADER_BYTES: Final = 61
_LAST_OFFSET_DELTA: Final = Struct(">i")  # at byte 23 of a v2 batch
_PRODUCER: Final = Struct(">qhi")  # at byte 43: producer id, epoch, base sequence


class CarriedTable(NamedTuple):
    """A producer table on its way to where the partition runs next.

    `read_to`: source offset up to which every batch was looked at that a table has to know of. `entries`: by offset,
    lowest first; some may be at or above `read_to`.
    """

    read_to: int
    entries: Sequence[ProducerEntry]


class ProducerTable:
    """Bounded: the producer that has been silent longest is forgotten first."""

    __slots__ = ("_batches", "_max_producers", "_next_offset")

    def __init__(self, max_producers: int = MAX_PRODUCERS) -> None:
        self._batches: dict[int, deque[_Batch]] = {}  # in order of last use
        self._max_producers = max_producers
        self._next_offset = 0

    def __len__(self) -> int:
        return len(self._batches)

    def saw(self, producer_id: int, epoch: int, first_sequence: int, last_offset_delta: int, base_offset: int) -> None:
        """Note one batch. A batch at or below one already noted (fetched twice) is ignored."""
        if base_offset < self._next_offset:
            return
        self._next_offset = base_offset + 1
        batches = self._batches.pop(producer_id, None)
        if batches is None or batches[-1][0] != epoch:
            batches = deque(maxlen=BATCHES_PER_PRODUCER)
            if len(self._batches) >= self._max_producers:
                del self._batches[next(iter(self._batches))]
        # Sequences wrap from 2^31-1 to 0.
        batches.append((epoch, first_sequence, (first_sequence + last_offset_delta) & 0x7FFFFFFF, base_offset))
        self._batches[producer_id] = batches

    def carry_over(self, entries: Iterable[ProducerEntry]) -> None:
        """Begin with what another mirror of the partition knew, by offset, lowest first."""
        for entry in entries:
            delta = offset_behind(entry) - 1 - entry.base_offset
            self.saw(entry.producer_id, entry.epoch, entry.first_sequence, delta, entry.base_offset)

    def entries(self) -> tuple[ProducerEntry, ...]:
        """All batches known, by offset, lowest first."""
        found = [
            ProducerEntry(producer_id, epoch, first, last, offset)
            for producer_id, batches in self._batches.items()
            for epoch, first, last, offset in batches
        ]
        return tuple(sorted(found, key=lambda entry: entry.base_offset))


def offset_behind(entry: ProducerEntry) -> int:
    """Of a batch that stands at its offset of the log that it was read from: the offset after it."""
    return entry.base_offset + ((entry.last_sequence - entry.first_sequence) & 0x7FFFFFFF) + 1


def by_producer(entries: Iterable[ProducerEntry]) -> Mapping[int, tuple[ProducerEntry, ...]]:
    """The entries of one partition by producer id: every Produce after a cutover is looked up in it."""
    found: dict[int, tuple[ProducerEntry, ...]] = {}
    for entry in entries:
        found[entry.producer_id] = (*found.get(entry.producer_id, ()), entry)
    return found


def retry_of(entries: Mapping[int, tuple[ProducerEntry, ...]], batch: bytes | bytearray | memoryview) -> int | None:
    """The offset a batch got on the source, if it repeats one of `entries`; None if it is to be appended.

    The broker's own rule (ProducerStateEntry.findDuplicateBatch): same producer id, epoch, first and last
    sequence. A batch without a producer id has no identity and is always new. Whatever is no v2 batch is left
    to the target to judge.

    Args:
        entries: what was handed over for the partition at the cutover, `by_producer`.
        batch: one record batch as a producer sends it.
    """
    if len(batch) < _HEADER_BYTES:
        return None
    producer_id, epoch, first = _PRODUCER.unpack_from(batch, 43)
    if producer_id < 0 or first < 0:
        return None
    last = (first + _LAST_OFFSET_DELTA.unpack_from(batch, 23)[0]) & 0x7FFFFFFF
    for entry in entries.get(producer_id, ()):
        same = (entry.producer_id, entry.epoch, entry.first_sequence, entry.last_sequence)
        if same == (producer_id, epoch, first, last):
            return entry.base_offset
    return None
