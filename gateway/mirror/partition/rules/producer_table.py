"""The last batches of each of the gateway's producers on one partition, as the mirror read them.

A promote hands the table over: then a retry of an already mirrored batch is answered with its old offset, as a broker
would do, and not appended again. Like a broker, the table keeps five batches per producer id
(ProducerStateEntry.NUM_BATCHES_TO_RETAIN) and forgets them when the producer's epoch changes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from struct import Struct
from typing import Final, NamedTuple, overload

from gateway.state.producer_entries import ROW, PackedProducers, ProducerEntry

BATCHES_PER_PRODUCER: Final = 5
MAX_PRODUCERS: Final = 10_000

FORGOTTEN_S: Final = 15 * 60.0
"""Longer than clients retry: delivery.timeout.ms is 2 minutes in Java, message.timeout.ms 5 minutes in librdkafka."""

_MARK_S: Final = 30.0
_MOST_BYTES: Final = BATCHES_PER_PRODUCER * ROW.size
_AT_ONCE: Final = 1_000  # producers
_KEPT_BYTES: Final = (BATCHES_PER_PRODUCER - 1) * ROW.size
_EPOCH: Final = slice(-ROW.size + 8, -ROW.size + 10)  # of the last row
_OFFSET: Final = Struct(">q")  # the end of a row
_ID: Final = Struct(f">q{ROW.size - 8}x")

_HEADER_BYTES: Final = 61
_LAST_OFFSET_DELTA: Final = Struct(">i")  # at byte 23 of a v2 batch
_PRODUCER: Final = Struct(">qhi")  # at byte 43: producer id, epoch, base sequence


KnownBatches = PackedProducers | Mapping[int, tuple[ProducerEntry, ...]]
"""Batches by producer id."""


class CarriedTable(NamedTuple):
    """A producer table on its way to where the partition runs next.

    `read_to`: every batch below this source offset that a table must know was read. `entries`: some may be at or above
    `read_to`.
    """

    read_to: int
    entries: Sequence[ProducerEntry]


class ProducerTable:
    """Bounded: it forgets the producer that has been silent longest first, and every producer `FORGOTTEN_S` after its
    last batch was read. Age counts from the reading here, not from the batch's timestamp, which may be anything. A
    batch is read no earlier than its broker appended it, so no batch is forgotten that a client may still retry.

    A carried-over table stays packed until a batch is noted: a gateway may take over thirty partitions in one turn of
    its event loop, with ten thousand producers each, and hand them on soon without a batch in between.
    """

    __slots__ = ("_aged_at", "_batches", "_carried", "_marks", "_max_producers", "_next_offset")

    def __init__(self, max_producers: int = MAX_PRODUCERS) -> None:
        self._batches: dict[int, bytes] = {}  # each one's last batches, rows of `ROW`; in order of last use
        self._max_producers = max_producers
        self._carried: PackedProducers | None = None  # the whole table, until it is unpacked
        self._aged_at: float | None = None  # first `age` while packed
        self._next_offset = 0
        self._marks: deque[tuple[float, int]] = deque()  # (when, everything below this offset had been read by then)

    def __len__(self) -> int:
        self._take_apart()
        return len(self._batches)

    @property
    def at_most(self) -> int:
        """Upper bound of the number of known batches; does not unpack the table."""
        return BATCHES_PER_PRODUCER * len(self._batches) if self._carried is None else len(self._carried)

    def saw(self, producer_id: int, epoch: int, first_sequence: int, last_offset_delta: int, base_offset: int) -> None:
        """Note one batch. Ignores a batch at or below the last one noted (it was fetched twice)."""
        if self._carried is not None:
            self._take_apart()
        if base_offset < self._next_offset:
            return
        self._next_offset = base_offset + 1
        # Sequences wrap from 2^31-1 to 0.
        row = ROW.pack(
            producer_id, epoch, first_sequence, (first_sequence + last_offset_delta) & 0x7FFFFFFF, base_offset
        )
        batches = self._batches.pop(producer_id, None)
        if batches is None or batches[_EPOCH] != row[_EPOCH]:
            batches = b""
            if len(self._batches) >= self._max_producers:
                del self._batches[next(iter(self._batches))]
        self._batches[producer_id] = batches[-_KEPT_BYTES:] + row

    def age(self, now: float) -> None:
        """Forget long-silent producers. `now`: monotonic seconds. Cheap; to be called regularly."""
        if self._carried is not None:
            if self._aged_at is None:
                self._aged_at = now
            if now - self._aged_at < FORGOTTEN_S:
                return
            self._take_apart()
        marks = self._marks
        if not marks or now - marks[-1][0] >= _MARK_S:
            marks.append((now, self._next_offset))
        forgotten = 0
        while marks and now - marks[0][0] >= FORGOTTEN_S:
            forgotten = marks.popleft()[1]
        while forgotten and self._batches:
            silent = next(iter(self._batches))
            if _OFFSET.unpack(self._batches[silent][-_OFFSET.size :])[0] >= forgotten:
                break
            del self._batches[silent]

    def carry_over(self, entries: Iterable[ProducerEntry]) -> None:
        """Start from the table of another mirror of the partition; a packed one must come from `packed`."""
        if isinstance(entries, PackedProducers) and not self._next_offset and self._carried is None:
            self._carried = entries or None
            return
        self._take_apart()
        for entry in sorted(entries, key=lambda entry: entry.base_offset):
            delta = offset_behind(entry) - 1 - entry.base_offset
            self.saw(entry.producer_id, entry.epoch, entry.first_sequence, delta, entry.base_offset)

    def _take_apart(self) -> None:
        carried, self._carried = self._carried, None
        if carried is None:
            return
        rows, begin = carried.rows, 0
        for (producer_id,), run in groupby(_ID.iter_unpack(rows)):
            end = begin + sum(1 for _ in run) * ROW.size
            before = self._batches.pop(producer_id, b"")
            self._batches[producer_id] = (before + rows[begin:end])[-_MOST_BYTES:]
            begin = end
        self._batches = dict(sorted(self._batches.items(), key=_last_offset))  # in order of last use
        self._next_offset = _last_offset(next(reversed(self._batches.items()))) + 1
        if self._aged_at is not None:
            self._marks.append((self._aged_at, self._next_offset))

    def packed(self) -> PackedProducers:
        """All known batches, by producer id, those of one producer in order."""
        if self._carried is not None:
            return self._carried
        known = tuple(self._batches.values())
        return PackedProducers.later(partial(_joined, known), BATCHES_PER_PRODUCER * len(known))

    def entries(self) -> tuple[ProducerEntry, ...]:
        """All known batches as objects, by offset, lowest first."""
        self._take_apart()
        return tuple(sorted(self.packed(), key=lambda entry: entry.base_offset))


def _last_offset(known: tuple[int, bytes]) -> int:
    found: int = _OFFSET.unpack(known[1][-_OFFSET.size :])[0]
    return found


def _joined(known: Sequence[bytes]) -> Iterator[bytes]:
    known = sorted(known)  # each begins with its producer's id
    yield b""
    yield from (b"".join(known[at : at + _AT_ONCE]) for at in range(0, len(known), _AT_ONCE))


def offset_behind(entry: ProducerEntry) -> int:
    """The offset after a batch, in the log that `base_offset` belongs to."""
    return entry.base_offset + ((entry.last_sequence - entry.first_sequence) & 0x7FFFFFFF) + 1


class OffsetsBehind(Sequence[int]):
    """The offset after each of some batches, computed on access."""

    __slots__ = ("_batches",)

    def __init__(self, batches: Sequence[ProducerEntry]) -> None:
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[int]:
        return map(offset_behind, self._batches)

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[int]: ...
    def __getitem__(self, at: int | slice) -> int | Sequence[int]:
        return tuple(self)[at]


def by_producer(entries: Iterable[ProducerEntry]) -> Mapping[int, tuple[ProducerEntry, ...]]:
    """The entries of one partition by producer id, for the lookup of every Produce after a cutover."""
    found: dict[int, tuple[ProducerEntry, ...]] = {}
    for entry in entries:
        found[entry.producer_id] = (*found.get(entry.producer_id, ()), entry)
    return found


def retry_of(entries: KnownBatches, batch: bytes | bytearray | memoryview) -> int | None:
    """The offset a batch got on the source, if it repeats one of `entries`; None if it is to be appended.

    The broker's own rule (ProducerStateEntry.findDuplicateBatch): same producer id, epoch, first and last
    sequence. A batch without a producer id has no identity and is always new. The target judges anything that is no v2
    batch.

    Args:
        entries: the batches handed over for the partition at the cutover.
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
