"""What a leader looks at before it appends a client's records, in the broker's order (UnifiedLog, LogValidator).

Records are decoded only where the header does not tell: a compacted topic needs keys, a limit on old timestamps needs
each record's own.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from protocol.batch.header import HEADER_BYTES, LOG_APPEND_TIME, BatchHeader, crc_is_valid, read_batch_header
from protocol.batch.record_reader import read_records
from protocol.errors import ErrorCode, MalformedFrame
from tests.simulation.kafka.topics import NEVER, Settings

_ZSTD: Final = 4
_ZSTD_FROM: Final = 7  # the first Produce version that may carry it
_ATTRIBUTES: Final = Struct(">h")
_MAX_TIMESTAMP: Final = Struct(">q")
_CRC: Final = Struct(">I")
_CRC_AT, _CHECKED_AT, _MAX_TIMESTAMP_AT = 17, 21, 35

RecordErrors = tuple[tuple[int, str | None], ...]


class Refusal(NamedTuple):
    """Why records are not appended. `known_start`: the answer tells the log start offset."""

    error: ErrorCode
    known_start: bool = False
    message: str | None = None
    record_errors: RecordErrors = ()


_NO_BATCH: Final = Refusal(ErrorCode.INVALID_RECORD)
_INVALID: Final = Refusal(ErrorCode.INVALID_RECORD, known_start=True)


def shape(records: memoryview, version: int) -> BatchHeader | Refusal:
    """One whole batch of format v2 (ProduceRequest.validateRecords): its header."""
    if len(records) < HEADER_BYTES:
        return _NO_BATCH
    header = read_batch_header(records)
    if header.magic != 2 or header.size != len(records):
        return _NO_BATCH
    if header.codec == _ZSTD and version < _ZSTD_FROM:
        return Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    return header


def validated(header: BatchHeader, records: memoryview, settings: Settings, now_ms: int) -> Refusal | memoryview:
    """The records as they are to be appended: with LogAppendTime their header is another."""
    refused = _whole(header, records, settings) or _batch(header)
    if refused is not None:
        return refused
    refused = _records(header, records, settings, now_ms)
    if refused is not None:
        return refused
    if header.size > settings.segment_bytes:
        return Refusal(ErrorCode.RECORD_LIST_TOO_LARGE)
    return memoryview(_append_time(records, header, now_ms)) if settings.log_append_time else records


def _whole(header: BatchHeader, records: memoryview, settings: Settings) -> Refusal | None:
    if header.base_offset != 0:
        return _INVALID
    if header.size > settings.max_message_bytes:
        return Refusal(ErrorCode.MESSAGE_TOO_LARGE)
    if not crc_is_valid(records, header):
        return Refusal(ErrorCode.CORRUPT_MESSAGE)
    return None


def _batch(header: BatchHeader) -> Refusal | None:
    if header.last_offset_delta < 0 or header.count <= 0 or not header.is_dense or header.is_control:
        return _INVALID
    if header.producer_id >= 0 and header.base_sequence < 0:
        return _INVALID
    return None


def _records(header: BatchHeader, records: memoryview, settings: Settings, now_ms: int) -> Refusal | None:
    if settings.log_append_time:
        if not settings.compacted:
            return None
    elif header.is_log_append_time:
        return _rejected([(0, "Producer should not set timestamp type to LogAppendTime.", True)])
    elif (
        not settings.compacted
        and settings.timestamp_before_max_ms == NEVER
        and header.max_timestamp - now_ms <= settings.timestamp_after_max_ms
    ):
        return None
    low, high = now_ms - settings.timestamp_before_max_ms, now_ms + settings.timestamp_after_max_ms
    problems = []
    try:
        for index, record in enumerate(read_records(header, records)):
            if settings.compacted and record.key is None:
                problems.append((index, "Compacted topic cannot accept message without key", False))
            elif not settings.log_append_time and record.timestamp_ms >= 0 and not low <= record.timestamp_ms <= high:
                text = (
                    f"Timestamp {record.timestamp_ms} of message with offset {record.offset} is out of range. "
                    f"The timestamp should be within [{low}, {high}]"
                )
                problems.append((index, text, True))
    except MalformedFrame:
        return _INVALID
    return _rejected(problems) if problems else None


def _rejected(problems: list[tuple[int, str, bool]]) -> Refusal:
    errors = tuple((index, text) for index, text, _ in problems)
    if any(is_timestamp for _, _, is_timestamp in problems):
        text = "One or more records have been rejected due to invalid timestamp"
        return Refusal(ErrorCode.INVALID_TIMESTAMP, True, text, errors)
    shown = ", ".join(f"RecordError(batchIndex={index}, message='{text}')" for index, text in errors[:3])
    text = (
        f"One or more records have been rejected due to {len(errors)} record errors in total, "
        f"and only showing the first three errors at most: [{shown}]"
    )
    return Refusal(ErrorCode.INVALID_RECORD, True, text, errors)


def _append_time(records: memoryview, header: BatchHeader, now_ms: int) -> bytearray:
    copy = bytearray(records)
    _ATTRIBUTES.pack_into(copy, _CHECKED_AT, header.attributes | LOG_APPEND_TIME)
    _MAX_TIMESTAMP.pack_into(copy, _MAX_TIMESTAMP_AT, now_ms)
    with memoryview(copy) as view:
        _CRC.pack_into(view, _CRC_AT, crc32c(view[_CHECKED_AT:]))
    return copy
