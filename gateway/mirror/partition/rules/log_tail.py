"""The last batch of the target's log: did this mirror write it, and is it a copy of the source?

Every batch of a mirror has its own offset as sequence number, under the mirror's producer id. So the last batch
alone proves that nothing else wrote to the partition: a foreign batch at the end has another producer id, and one
further back has shifted all later batches away from their sequence numbers. The source's batches at the same place
prove that the source is still the one that was copied, and that the place is right (`CopiedTail`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from gateway.state.records import MirrorError
from protocol.batch.header import BatchHeader, mirror_sequence

_NO_TIMESTAMP: Final = -1


class CannotMirror(Exception):
    """The partition cannot be mirrored exactly."""

    def __init__(self, error: MirrorError, message: str) -> None:
        super().__init__(message)
        self.error = error


class LogTail(NamedTuple):
    """The compared fields of the last batch before the target's log end. `max_timestamp`: None if the broker set it."""

    base: int
    following: int
    producer_id: int
    sequence: int
    max_timestamp: int | None

    @classmethod
    def of(cls, header: BatchHeader) -> LogTail:
        """The tail that a batch header describes."""
        timestamp = None if header.is_log_append_time else header.max_timestamp
        return cls(header.base_offset, header.next_offset, header.producer_id, header.base_sequence, timestamp)

    def check_ours(self, producer_id: int) -> None:
        """Raises CannotMirror when the mirror under `producer_id` did not write this batch, or not at this offset."""
        if self.producer_id == producer_id and self.sequence == mirror_sequence(self.base):
            return
        who = "another producer" if self.producer_id != producer_id else f"the mirror for offset {self.sequence}"
        raise CannotMirror(
            MirrorError.TARGET_DIVERGED,
            f"the target's last batch, at offsets {self.base}..{self.following - 1}, was written by {who} "
            f"(producer id {self.producer_id}): something other than the mirror writes to the target partition",
        )


class CopiedTail:
    """Compares the target's last batch with the source batches that it was made of, as they are read.

    It was made of one source batch, whole or in part, or of several merged ones (`append_window.py`): then the first of
    these begins where it begins, and their largest timestamp is its own. Compaction removes records from a batch, and
    whole batches; it never joins two.

    Args:
        base, last: the offsets on the source of its first and last record.
        max_timestamp: its largest timestamp; None if the target's broker set it.
        is_equal: offsets are equal on both sides, so no source batch may begin before it and end inside.
    """

    __slots__ = (
        "_expected",
        "_is_dense",
        "_is_whole",
        "_latest",
        "_starts_inside",
        "base",
        "is_equal",
        "last",
        "max_timestamp",
    )

    def __init__(self, base: int, last: int, max_timestamp: int | None, *, is_equal: bool = False) -> None:
        self.base = base
        self.last = last
        self.max_timestamp = max_timestamp
        self.is_equal = is_equal
        self._expected = base  # where the next batch begins if none is missing
        self._is_whole = True  # all batches from `base` on were seen
        self._is_dense = True  # with all of their records
        self._starts_inside = True
        self._latest = _NO_TIMESTAMP

    def saw(self, header: BatchHeader) -> bool:
        """Compare the next batch of the source. True when the comparison is finished.

        Raises:
            CannotMirror: it is not the batch that was copied.
        """
        if header.next_offset <= self.base:
            return False
        if header.base_offset > self.last:
            return True
        if header.is_control:
            raise self._other(header, "a control batch")
        if header.base_offset < self.base:
            if self.is_equal:
                raise self._other(header, "it begins before it")
            self._starts_inside = False
        self._is_dense = self._is_dense and header.is_dense
        self._is_whole = self._is_whole and header.base_offset == self._expected
        self._expected = header.next_offset
        self._latest = max(header.max_timestamp, self._latest)
        if header.next_offset <= self.last:
            return False
        if self._is_dense and self._starts_inside:
            self._compare(header)
        return True

    def _compare(self, last: BatchHeader) -> None:
        """Compare at the source batch that holds the last record, with all batches seen before it."""
        if last.last_offset > self.last:
            if last.base_offset > self.base:  # copies end where a batch ends
                raise self._other(last, "it begins within it")
        elif self.max_timestamp is not None:
            is_other = self._latest != self.max_timestamp if self._is_whole else self._latest > self.max_timestamp
            if is_other:
                raise self._other(last, f"timestamps {self._latest} and {self.max_timestamp}")

    def _other(self, header: BatchHeader, why: str) -> CannotMirror:
        return CannotMirror(
            MirrorError.UNEXPECTED_TRUNCATION,
            f"the source's batch at offsets {header.base_offset}..{header.last_offset} is not the one that was copied "
            f"from {self.base}..{self.last} ({why}): the source was truncated and written again"
            + ("" if self.is_equal else ", or the offset map is not the copy's"),
        )
