"""Merges several batches of one log into one, which a broker takes in one append instead of many.

A broker handles the appends of a connection one after the other, so it takes a certain number of batches a second,
however small they are. Keys, values, headers and attributes of the records are copied as bytes; only the fields
relative to the batch are rewritten: a record's offset delta and timestamp delta, and its length with them.

Layout: https://kafka.apache.org/documentation/#record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from protocol.batch.compression import compress, decompress
from protocol.batch.header import CONTROL, HEADER_BYTES, LOG_APPEND_TIME, header_of, read_batch_header
from protocol.batch.varints import read_varint, varint
from protocol.errors import MalformedFrame

MAX_INFLATED: Final = 2 << 20
"""Most bytes of records, decompressed, in a merged batch: the event loop is blocked while they are compressed again."""

_NO_PLACE: Final = CONTROL | LOG_APPEND_TIME
"""Batches with one of these attributes are never merged: a control batch holds a marker, and the records of a
LogAppendTime batch have other timestamps than it shows."""


def merged(batches: Sequence[memoryview], *, producer_id: int, sequence: int) -> tuple[bytes, bytes]:
    """The header and the records of one batch with the records of all these batches, in order.

    Its base offset is 0, it has no leader epoch, its producer epoch is 0, its codec is theirs.

    Args:
        batches: two or more whole batches of format v2 and one codec that follow each other without a gap. Only their
            records, timestamps and counts are read, not their producers.

    Raises:
        TooLarge: compressed batches with more than `MAX_INFLATED` bytes together.
        MalformedFrame: they cannot be merged: another codec, a marker, records with gaps or not as the header says.
    """
    first = batches[0]
    header = read_batch_header(first)
    codec, start_ms, latest_ms = header.codec, header.base_timestamp, header.max_timestamp
    records: list[bytes | memoryview] = []
    following, left = 0, MAX_INFLATED
    for batch in batches:
        header = read_batch_header(batch)
        if header.codec != codec or header.attributes & _NO_PLACE or not header.is_dense:
            raise MalformedFrame(f"a batch that cannot be put together with others: {header}")
        body: memoryview | bytes = batch[HEADER_BYTES:]
        if codec:
            body = memoryview(decompress(codec, batch[HEADER_BYTES:], left))
            left -= len(body)
        try:
            _renumber(records, body, header.count, following, header.base_timestamp - start_ms)
        except IndexError as exc:
            raise MalformedFrame(str(exc)) from None
        following += header.count
        latest_ms = max(latest_ms, header.max_timestamp)
    content = b"".join(records)
    if codec:
        content = compress(codec, content, first[HEADER_BYTES:])
    return header_of(
        content,
        codec=codec,
        count=following,
        base_ms=start_ms,
        latest_ms=latest_ms,
        producer_id=producer_id,
        sequence=sequence,
    ), content


def _renumber(out: list[bytes | memoryview], body: memoryview | bytes, count: int, first: int, later_ms: int) -> None:
    """Add the batch's records to `out`, numbered from `first` on, in a batch that began `later_ms` earlier.

    Raises:
        IndexError: they are not `count` records without a gap.
    """
    at = 0
    for index in range(count):
        size = body[at]  # most records have a length of one or two bytes: these are read here
        if size < 0x80:
            at += 1
        elif body[at + 1] < 0x80:
            size = size & 0x7F | body[at + 1] << 7
            at += 2
        else:
            size, at = read_varint(body, at)
            size <<= 1
        end = at + (size >> 1)
        delta_ms = body[at + 1]
        if delta_ms < 0x80:
            delta_ms = (delta_ms >> 1) ^ -(delta_ms & 1)
            rest = at + 2
        else:
            delta_ms, rest = read_varint(body, at + 1)
        number, rest = read_varint(body, rest)
        if number != index or rest > end or size & 1:
            raise IndexError(f"record {index} has the offset delta {number}, or is shorter than it says")
        head = varint(delta_ms + later_ms) + varint(first + index)
        out += (varint(1 + len(head) + end - rest), body[at : at + 1], head, body[rest:end])
        at = end
    if at != len(body):
        raise IndexError("other records than the header says")
