"""The last batch of the target's log: does it carry our mark?

Every batch of a mirror has its own offset as sequence number, under the mirror's producer id. So the last batch
alone proves that nothing else wrote to the partition: a foreign batch at the end has another producer id, and one
further back pushed all later ones away from their sequence numbers. And the source's batch at its place proves that the
source is still the one that was copied, and that the place is the right one: `check_source` where offsets are equal,
`CopiedTail` where an offset map says the place.
"""

from __future__ import annotations

from typing import NamedTuple

from gateway.state.records import MirrorError
from protocol.batch.header import BatchHeader, mirror_sequence


class CannotMirror(Exception):
    """The partition cannot be mirrored exactly."""

    def __init__(self, error: MirrorError, message: str) -> None:
        super().__init__(message)
        self.error = error


class LogTail(NamedTuple):
    """What is compared of the last batch before the target's log end. `max_timestamp` is None if the broker set it."""

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

    def check_source(self, header: BatchHeader) -> None:
        """Raises CannotMirror when the source's last batch before the position is another one than was copied."""
        if header.base_offset == self.base and self.max_timestamp in (None, header.max_timestamp):
            return
        raise CannotMirror(
            MirrorError.UNEXPECTED_TRUNCATION,
            f"the source's batch at offsets {header.base_offset}..{header.last_offset} is not the one that was copied "
            f"to {self.base}..{self.following - 1} (timestamps {header.max_timestamp} and {self.max_timestamp}): "
            "the source was truncated and written again",
        )


class CopiedTail(NamedTuple):
    """The target's last batch, as the offset map says it is on the source: offsets `base` to `last` there.

    A copy is of one batch of the source, whole or a part, so one batch of the source holds it all. Compaction takes
    records out of a batch, and never puts two together.
    """

    base: int
    last: int
    max_timestamp: int | None

    def is_in(self, header: BatchHeader) -> bool:
        """This is the source's batch with the last record that was copied."""
        return header.base_offset <= self.last < header.next_offset

    def check_source(self, header: BatchHeader) -> None:
        """Raises CannotMirror when that batch is another one than was copied."""
        whole = header.is_dense and (header.base_offset, header.last_offset) == (self.base, self.last)
        if whole and self.max_timestamp not in (None, header.max_timestamp):
            said = f"timestamps {header.max_timestamp} and {self.max_timestamp}"
        elif header.base_offset > self.base or header.is_control:
            said = "a control batch" if header.is_control else "it begins within it"
        else:
            return
        raise CannotMirror(
            MirrorError.UNEXPECTED_TRUNCATION,
            f"the source's batch at offsets {header.base_offset}..{header.last_offset} is not the one that was copied "
            f"from {self.base}..{self.last} ({said}): the source was truncated and written again, or the offset map "
            "is not the copy's",
        )
