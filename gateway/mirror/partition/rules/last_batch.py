"""Compares the last batch that two logs are believed to share. Pure.

Log ends say nothing about contents: a source that lost its leader uncleanly may have been written again up to the same
offset. A copy has another header (producer, sequence, epoch) and, in mode preserve, exactly the same records, except in
a LogAppendTime batch: its records carry the producer's timestamps on the source, and the log's own in the copy. A copy
may have been made of several source batches (`append_window.py`); these are compared as the one batch they make.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from crc32c import crc32c

from gateway.mirror.partition.rules.opened import LOOP_INFLATED, LOOP_UNITS, TooMuch
from protocol.batch.compression import MAX_INFLATED, TooLarge, decompress
from protocol.batch.header import HEADER_BYTES, read_batch_header
from protocol.batch.merge import merged
from protocol.errors import MalformedFrame

_NO_RECORDS = -1


class LastBatch(NamedTuple):
    """The compared properties of one batch, or of several merged ones.

    `is_dense`: every offset has a record. `records_crc`: the CRC-32C of the encoded records, decompressed; -1 where
    they cannot be merged, which equals no copy.
    """

    base: int
    last: int
    is_dense: bool
    max_timestamp: int
    records_crc: int
    is_log_append_time: bool

    @classmethod
    def of(cls, batches: Sequence[memoryview], *, on_loop: bool = False) -> LastBatch:
        """From one or more batches that follow each other, as they were fetched.

        Raises:
            TooMuch: `on_loop` is set, and it takes more work than the event loop allows.
        """
        headers = [read_batch_header(batch) for batch in batches]
        if on_loop and len(batches) > 1 and sum(header.count for header in headers) > LOOP_UNITS:
            raise TooMuch
        first, last = headers[0], headers[-1]
        offsets = last.next_offset - first.base_offset
        return cls(
            first.base_offset,
            last.last_offset,
            sum(header.count for header in headers) == offsets,
            max(header.max_timestamp for header in headers),
            _records_crc(batches, LOOP_INFLATED if on_loop else MAX_INFLATED),
            any(header.is_log_append_time for header in headers),
        )


def _records_crc(batches: Sequence[memoryview], inflated: int) -> int:
    records = batches[0][HEADER_BYTES:]
    try:
        if len(batches) > 1:
            records = memoryview(merged(batches, producer_id=-1, sequence=-1)[1])
        return crc32c(decompress(read_batch_header(batches[0]).codec, records, inflated))
    except MalformedFrame as exc:  # a single batch was copied as bytes, whatever they are
        if isinstance(exc, TooLarge) and inflated < MAX_INFLATED:
            raise TooMuch from None
        return crc32c(records) if len(batches) == 1 else _NO_RECORDS


def are_alike(source: LastBatch, copy: LastBatch, copied_from: tuple[int, int], *, as_bytes: bool) -> bool:
    """True when `copy` may have been made from `source`.

    Args:
        source: the source's batches at these offsets, from the one that holds the first to the one that holds the last.
        copied_from: the first and last source offset that the copy's batch stands for.
        as_bytes: the copy has the source's records unchanged (mode preserve).
    """
    base, last = copied_from
    if last > source.last or source.base > last:
        return False
    dense = source.is_dense and copy.is_dense
    if dense and source.last == last and source.base > base:  # the source has deleted its first records
        return source.max_timestamp <= copy.max_timestamp
    if not dense or (source.base, source.last) != (base, last):  # a part of a larger one, or thinned out by compaction
        return True
    if source.max_timestamp != copy.max_timestamp:
        return False
    return not as_bytes or source.is_log_append_time or source.records_crc == copy.records_crc
