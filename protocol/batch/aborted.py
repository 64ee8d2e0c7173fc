"""Which batches belong to aborted transactions: what a consumer with isolation level read_committed works out.

A broker sends with a read-committed Fetch the aborted transactions that overlap the records: (producer id, first
offset) each. From its first offset to its producer's next marker everything of that producer was aborted.
"""

from __future__ import annotations

from collections.abc import Iterable

from protocol.batch.header import BatchHeader


class AbortedTransactions:
    """The aborted transactions of one Fetch answer; `is_aborted` is asked about each of its batches, in order."""

    __slots__ = ("_open", "_waiting")

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._waiting = sorted(aborted, key=lambda entry: entry[1], reverse=True)
        self._open: set[int] = set()

    def is_aborted(self, header: BatchHeader) -> bool:
        """True for data of an aborted transaction. A marker is not data."""
        waiting = self._waiting
        if not waiting and not self._open:
            return False
        while waiting and waiting[-1][1] <= header.last_offset:
            self._open.add(waiting.pop()[0])
        if header.is_control:
            self._open.discard(header.producer_id)
            return False
        return header.is_transactional and header.producer_id in self._open
