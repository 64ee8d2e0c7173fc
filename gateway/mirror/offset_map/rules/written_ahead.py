"""The records that a process has written to a map topic, kept while it may have to write them again. Pure.

The topic is as durable as Kafka makes one, and yet two disks that fail together lose the end of its log, acknowledged
or not. Only the process that mirrors the partition knows the lost breakpoints. So it keeps its last records, and
whenever it reads the topic to its end it checks that they are there. It writes missing ones again unchanged: chunks
keep their writer and their batch, and so their meaning.

Marks are not kept. What a mark says can be derived from the copy's log again; an old one would be about another log.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from gateway.mirror.offset_map.rules.codec import MARK_BASE, decode_key
from gateway.mirror.offset_map.rules.ledger import Change

KEPT_BYTES: Final = 8 * 1024 * 1024
"""Of keys and values: minutes of a compacted topic mirrored at full rate. Replicas do not lag that far."""


class WrittenAhead:
    """Args: how many bytes of keys and values to keep at most; the oldest records are dropped first."""

    __slots__ = ("_bytes", "_highest", "_limit", "_records")

    def __init__(self, limit: int = KEPT_BYTES) -> None:
        self._limit = limit
        self._bytes = 0
        self._highest = -1
        self._records: dict[bytes, tuple[int, bytes]] = {}  # key -> (offset in the topic, value), oldest first

    def __bool__(self) -> bool:
        return bool(self._records)

    def wrote(self, changes: Sequence[Change], base: int) -> bool:
        """The changes are in the topic, from offset `base` on.

        Returns:
            True when the log went back: these records have offsets at or below those of earlier ones.
        """
        went_back = base <= self._highest
        self._highest = base + len(changes) - 1
        for offset, (key, value) in enumerate(changes, base):
            self._drop(key)
            if value is not None and decode_key(key).base != MARK_BASE:
                self._records[key] = offset, value
                self._bytes += len(key) + len(value)
        while self._bytes > self._limit:
            self._drop(next(iter(self._records)))
        return went_back

    def from_offset(self, offset: int) -> dict[bytes, int]:
        """The keys of the records written at `offset` or beyond, with their offsets."""
        return {key: at for key, (at, _) in self._records.items() if at >= offset}

    def lost(self, expected: Mapping[bytes, int], read: Collection[bytes]) -> list[Change]:
        """The records to write again.

        Args:
            expected: the result of `from_offset` before the topic was read from that offset to its end.
            read: the keys that were read.
        """
        return [
            (key, self._records[key][1])
            for key, offset in expected.items()
            if key not in read and self._records.get(key, (-1, b""))[0] == offset
        ]

    def _drop(self, key: bytes) -> None:
        known = self._records.pop(key, None)
        if known is not None:
            self._bytes -= len(key) + len(known[1])
