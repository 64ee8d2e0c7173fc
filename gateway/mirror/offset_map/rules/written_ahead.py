"""What a process has written to a map topic, for as long as it may have to write it again. Pure.

The topic is as durable as Kafka makes one, and yet two disks that fail together take the end of its log, acknowledged
or not. Only the process that mirrors the partition knows the breakpoints that stood there. So it keeps its last
records, and each time that it reads the topic to its end it looks for those that must be in what it reads: what is
missing is lost, and is written again as it was. Chunks keep their writer and their batch, so that they mean what they
meant.

Marks are left out. What a mark says can be found out from the copy's log once more; one that is written again would say
it of a log that is another one now.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from gateway.mirror.offset_map.rules.codec import MARK_BASE, decode_key
from gateway.mirror.offset_map.rules.ledger import Change

KEPT_BYTES: Final = 8 * 1024 * 1024
"""Of keys and values: minutes of a compacted topic that is mirrored at full rate. Replicas are not so far behind."""


class WrittenAhead:
    """Args: how many bytes of keys and values are kept at most; the oldest records go first."""

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
            True when the log went back: it took these records at offsets at or below those of earlier ones.
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
        """The keys of what was written at `offset` or beyond, with their offsets."""
        return {key: at for key, (at, _) in self._records.items() if at >= offset}

    def lost(self, expected: Mapping[bytes, int], read: Collection[bytes]) -> list[Change]:
        """What is to be written again.

        Args:
            expected: what `from_offset` said before the topic was read from that offset to its end.
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
