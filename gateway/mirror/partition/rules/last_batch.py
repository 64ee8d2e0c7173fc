"""What is compared of the last batch that two logs are said to have in common. Pure.

Log ends say nothing about contents: a source that lost its leader uncleanly may have been written again up to the same
offset. A copy has another header (producer, sequence, epoch) and, in mode preserve, the very bytes behind it: but of a
LogAppendTime batch, whose records carry their producer's timestamps there, and the log's own in the copy.
"""

from __future__ import annotations

from typing import NamedTuple

from crc32c import crc32c

from protocol.batch.header import HEADER_BYTES, BatchHeader


class LastBatch(NamedTuple):
    """One batch: its offsets, its largest timestamp, and the CRC-32C of the records as they are stored."""

    base: int
    last: int
    is_dense: bool
    max_timestamp: int
    records_crc: int
    is_log_append_time: bool

    @classmethod
    def of(cls, header: BatchHeader, data: memoryview) -> LastBatch:
        """From a batch as it was fetched."""
        crc = crc32c(data[HEADER_BYTES:])
        return cls(
            header.base_offset,
            header.last_offset,
            header.is_dense,
            header.max_timestamp,
            crc,
            header.is_log_append_time,
        )


def are_alike(source: LastBatch, copy: LastBatch, copied_from: tuple[int, int], *, as_bytes: bool) -> bool:
    """True when the source's batch may be the one that `copy` was made of.

    Args:
        copied_from: the first and the last offset of the source that the copy's batch stands for.
        as_bytes: the copy has the source's bytes (mode preserve).
    """
    base, last = copied_from
    if not source.base <= base <= last <= source.last:
        return False
    whole = source.is_dense and copy.is_dense and (source.base, source.last) == (base, last)
    if not whole:  # a part of a larger one, or compaction has thinned one of them out
        return True
    if source.max_timestamp != copy.max_timestamp:
        return False
    return not as_bytes or source.is_log_append_time or source.records_crc == copy.records_crc
