"""The last batches of a partition's producers, as they are handed over with a cutover: packed, however many there are.

A partition may have ten thousand producers of five batches each, and a topic hundreds of partitions. So they are bytes:
26 for a batch, and compressed as text where a record holds them. Neither a copy of the tables nor a record that is read
has an object per batch, nor an index: tables that are handed over are in the order of producer ids, and a producer is
looked up when it sends something. (Those that older versions have written need not be; of these an index is made.)

What a mirror knows of all its partitions is asked for in one answer, under a write pause. So an answer only holds on to
what is known, and is worked out later, piece by piece (`later`): whoever stores it lets the event loop turn in between.
"""

from __future__ import annotations

import base64
import binascii
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import le
from struct import Struct
from typing import Final, overload

import cramjam

ROW: Final = Struct(">qhiiq")
"""A batch: producer id, epoch, first and last sequence, base offset."""
_PRODUCER: Final = Struct(">q18x")
_SHOWN: Final = 20
_HEAD: Final = 24  # of base64: 18 bytes, what a zstd frame's header has at most
_SHORTEST: Final = 9
_ZSTD: Final = b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True, slots=True)
class ProducerEntry:
    """One batch that a producer of the gateway wrote to the source, as the mirror saw it."""

    producer_id: int
    epoch: int
    first_sequence: int
    last_sequence: int
    base_offset: int


class PackedProducers(Sequence[ProducerEntry]):
    """The batches of one partition. Equal to any sequence of the same entries in the same order.

    Attributes:
        at_most: how many batches of producers these are at most, of those that are worked out later; 0 of others.
    """

    __slots__ = ("_index", "_is_sorted", "_pieces", "_rows", "_text", "at_most")
    __hash__ = None  # type: ignore[assignment]  # equal to lists, too

    def __init__(self, rows: bytes | None = b"", text: str = "") -> None:
        """Either `rows`, whole ones, or None and the `text` of some."""
        self._rows = rows
        self._text = text
        self._index: dict[int, list[int]] | None = None
        self._is_sorted: bool | None = None
        self._pieces: Callable[[], Iterator[bytes]] | None = None
        self.at_most = 0

    @classmethod
    def of(cls, entries: Iterable[ProducerEntry]) -> PackedProducers:
        """These entries; the same object where they are packed already."""
        if isinstance(entries, PackedProducers):
            return entries
        rows = (ROW.pack(e.producer_id, e.epoch, e.first_sequence, e.last_sequence, e.base_offset) for e in entries)
        return cls(b"".join(rows))

    @classmethod
    def read(cls, text: str) -> PackedProducers:
        """What `text` has told. That is unpacked when it is asked for. Raises ValueError: it is no such text."""
        if not text:
            return cls()
        try:
            base64.b64decode(text[-4:], validate=True)
        except binascii.Error as exc:
            raise ValueError(f"no batches of producers: {exc}") from None
        return cls(None, text)

    @classmethod
    def later(cls, pieces: Callable[[], Iterator[bytes]], at_most: int) -> PackedProducers:
        """The rows that `pieces` gives, some at a time, when they are asked for: at least one. None where `at_most`,
        how many they can be, is 0."""
        made = cls(None if at_most else b"")
        if at_most:
            made._pieces, made.at_most = pieces, at_most
        return made

    def work_out(self) -> Iterator[int]:
        """What is left to be worked out or unpacked, step by step; of each the bytes that have come. Of one that is
        ready there are no steps."""
        if self._pieces is not None:
            found = []
            for piece in self._pieces():
                found.append(piece)
                yield len(piece)
            self._rows, self._pieces = b"".join(found), None
        elif self._rows is None:
            yield len(self.rows)

    def make_ready(self) -> Iterator[int]:
        """For what producers send: as `work_out`, with what looking one up needs besides."""
        yield from self.work_out()
        if self._is_sorted is None and not self.is_sorted:
            self.producers()
            yield len(self.rows)

    @property
    def rows(self) -> bytes:
        """One after the other, each a ROW. Raises ValueError: the text is broken."""
        if self._pieces is not None:
            deque(self.work_out(), maxlen=0)
        if self._rows is None:
            try:
                self._rows = bytes(cramjam.zstd.decompress(base64.b64decode(self._text)))
            except (binascii.Error, cramjam.DecompressionError) as exc:
                raise ValueError(f"no batches of producers: {exc}") from None
        return self._rows

    @property
    def text(self) -> str:
        """For a record: compressed, in base64. Worked out once; some milliseconds for ten thousand producers."""
        if not self._text and self.rows:
            self._text = base64.b64encode(bytes(cramjam.zstd.compress(self.rows, 1))).decode()
        return self._text

    def producers(self) -> dict[int, list[int]]:
        """Producer id -> where its batches stand among these, in order, by the producer that came first: an index."""
        if self._index is None:
            index: dict[int, list[int]] = {}
            for at, producer_id in enumerate(self._ids()):
                index.setdefault(producer_id, []).append(at)
            self._index = index
        return self._index

    def get(self, producer_id: int, default: tuple[ProducerEntry, ...] = (), /) -> tuple[ProducerEntry, ...]:
        """A producer's batches, in order; `default` when it is not known."""
        found = self._of(producer_id) if self.is_sorted else self.producers().get(producer_id, ())
        return tuple(map(self._at, found)) or default

    @property
    def is_sorted(self) -> bool:
        """They are in the order of producer ids."""
        if self._is_sorted is None:
            ids = array("q", self._ids())
            self._is_sorted = all(map(le, ids, islice(ids, 1, None)))
        return self._is_sorted

    def _ids(self) -> Iterator[int]:
        return (producer_id for (producer_id,) in _PRODUCER.iter_unpack(self.rows))

    def _of(self, producer_id: int) -> range:
        """Where a producer's batches stand among those that are sorted."""
        rows, count = self.rows, len(self)

        def producer_at(at: int) -> int:
            found: int = _PRODUCER.unpack_from(rows, at * ROW.size)[0]
            return found

        first = bisect_left(range(count), producer_id, key=producer_at)
        following = first
        while following < count and producer_at(following) == producer_id:
            following += 1
        return range(first, following)

    def __len__(self) -> int:
        """Told by the text itself: nothing is unpacked for that."""
        size = None if self._rows is not None or self._pieces is not None else _unpacked_bytes(self._text)
        return (len(self.rows) if size is None else size) // ROW.size

    def __bool__(self) -> bool:
        return bool(self._rows if self._rows is not None else self._text or self._pieces)

    def __iter__(self) -> Iterator[ProducerEntry]:
        return (ProducerEntry(*row) for row in ROW.iter_unpack(self.rows))

    @overload
    def __getitem__(self, at: int) -> ProducerEntry: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[ProducerEntry]: ...
    def __getitem__(self, at: int | slice) -> ProducerEntry | Sequence[ProducerEntry]:
        if isinstance(at, slice):
            return tuple(self)[at]
        return self._at(range(len(self))[at])

    def _at(self, at: int) -> ProducerEntry:
        return ProducerEntry(*ROW.unpack_from(self.rows, at * ROW.size))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, PackedProducers):
            return (bool(self._text) and self._text == other._text) or self.rows == other.rows
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(_same, self, other))

    def __repr__(self) -> str:
        return f"PackedProducers.of({list(self)!r})" if len(self) < _SHOWN else f"PackedProducers({len(self)} batches)"


def _unpacked_bytes(text: str) -> int | None:
    """What the zstd frame in `text` says of the size of its content (RFC 8878, 3.1.1.1); None where it does not."""
    try:
        head = base64.b64decode(text[:_HEAD], validate=True)
    except binascii.Error:
        return None
    if len(head) < _SHORTEST or head[:4] != _ZSTD:
        return None
    size_flag, is_single, id_flag = head[4] >> 6, head[4] >> 5 & 1, head[4] & 3
    at = 5 + (not is_single) + (0, 1, 2, 4)[id_flag]
    width = (is_single, 2, 4, 8)[size_flag]
    found = head[at : at + width]
    return int.from_bytes(found, "little") + (256 if width == 2 else 0) if width == len(found) > 0 else None


def _same(one: ProducerEntry, other: object) -> bool:
    return one == other


__all__ = ["ROW", "PackedProducers", "ProducerEntry"]
