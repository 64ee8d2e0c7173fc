"""Produce v3-11: requests scanned for where each partition's records are, and built around record buffers.

Records are never decoded nor copied. v9 is the first flexible version; v10 and v11 differ from it only in tagged
fields of the response (the new leader and its address), which are never written here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from struct import Struct
from typing import NamedTuple

from protocol.apis import FLEXIBLE_FROM, ApiKey
from protocol.errors import MalformedFrame
from protocol.peek import transactional_id_end
from protocol.wire import (
    INT16,
    INT32,
    Buffer,
    array_reader,
    array_size,
    bytes_size,
    parser,
    read_array_size,
    read_compact_array_size,
    read_compact_string,
    read_string,
    read_uvarint,
    skip_tags,
    string,
    string_reader,
)

MAX_PARTS = 100_000
"""Limit for topics, and for partitions, in one message: each takes memory here, and no broker leads that many."""

_FLEXIBLE_FROM = FLEXIBLE_FROM[ApiKey.PRODUCE]
_ACKS_TIMEOUT = Struct(">hi")
_INDEX_SIZE = Struct(">ii")
_INDEX_LOW_HIGH = Struct(">iBB").unpack_from  # the index, and the first two bytes of the size and what follows
_TAGS = b"\x00"
_new = tuple.__new__  # a NamedTuple's own takes three times as long


class ProducePart(NamedTuple):
    """One partition of a request: its records are `body[start:end]`."""

    topic: str
    partition: int
    start: int
    end: int


class ProduceRequestView(NamedTuple):
    """A Produce request without its records. `parts` are in wire order."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    parts: list[ProducePart]


class PartitionResult(NamedTuple):
    """The result for one partition's records. Fields that a version lacks have Kafka's defaults.

    `record_errors` names records (by index in the batch) that made the broker drop the batch (KIP-467).
    """

    topic: str
    partition: int
    error_code: int
    base_offset: int
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_message: str | None = None
    record_errors: tuple[tuple[int, str | None], ...] = ()


@parser
def scan_request(body: Buffer, version: int, max_parts: int = MAX_PARTS) -> ProduceRequestView:
    """Read a Produce request body without touching the records. A null record set is an empty range.

    Raises:
        MalformedFrame: not such a request, or more than `max_parts` topics or partitions.
    """
    if version >= _FLEXIBLE_FROM:
        return _scan_flexible(body, max_parts)
    transactional_id, at = read_string(body, 0)
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(body, at)
    at += 6
    parts: list[ProducePart] = []
    end = len(body)
    (topics,) = INT32.unpack_from(body, at)
    at += 4
    _check_count(_checked(topics, at, end), max_parts)
    for _ in range(topics):
        topic, at = read_string(body, at)
        (partitions,) = INT32.unpack_from(body, at)
        at += 4
        _check_topic(topic, len(parts) + _checked(partitions, at, end), max_parts)
        for _ in range(partitions):
            index, size = _INDEX_SIZE.unpack_from(body, at)
            start = at + 8
            at = start + size if size > 0 else start
            if at > end or size < -1:
                raise MalformedFrame(f"{size} bytes of records do not fit in the frame")
            parts.append(_new(ProducePart, (topic, index, start, at)))
    return ProduceRequestView(transactional_id, acks, timeout_ms, parts)


def _scan_flexible(body: Buffer, max_parts: int) -> ProduceRequestView:
    transactional_id, at = read_compact_string(body, 0)
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(body, at)
    parts: list[ProducePart] = []
    add, new, part, unpack, end = parts.append, _new, ProducePart, _INDEX_LOW_HIGH, len(body)
    topics, at = read_compact_array_size(body, at + 6)
    if topics > max_parts:
        raise _too_many(max_parts)
    for _ in range(topics):
        topic, at = read_compact_string(body, at)
        partitions, at = read_compact_array_size(body, at)
        if topic is None or len(parts) + partitions > max_parts:
            raise _no_name() if topic is None else _too_many(max_parts)
        for _ in range(partitions):
            index, low, high = unpack(body, at)
            if high < 0x80 <= low:  # two bytes, as for most batches
                size, start = low & 0x7F | high << 7, at + 6
            elif low < 0x80:
                size, start = low, at + 5
            else:
                size, start = read_uvarint(body, at + 4)
            at = start + size - 1 if size else start
            if at >= end:  # at least a tag section follows
                raise MalformedFrame(f"{size - 1} bytes of records do not fit in the frame")
            add(new(part, (topic, index, start, at)))
            at = skip_tags(body, at) if body[at] else at + 1
        at = skip_tags(body, at) if body[at] else at + 1
    skip_tags(body, at)
    return _new(ProduceRequestView, (transactional_id, acks, timeout_ms, parts))


def _checked(count: int, at: int, end: int) -> int:
    if count > end - at or count < -1:
        raise MalformedFrame(f"an array of {count} elements in {end - at} bytes")
    return count


def _check_count(count: int, most: int = MAX_PARTS) -> None:
    if count > most:
        raise _too_many(most)


def _check_topic(topic: str | None, parts: int, most: int = MAX_PARTS) -> None:
    if topic is None:
        raise _no_name()
    _check_count(parts, most)


def _too_many(most: int) -> MalformedFrame:
    return MalformedFrame(f"more than {most} topics or partitions in a message")


def _no_name() -> MalformedFrame:
    return MalformedFrame("a topic name is null")


def build_request_body(
    version: int,
    transactional_id: str | None,
    acks: int,
    timeout_ms: int,
    topics: Mapping[str, Sequence[tuple[int, Buffer]]],
) -> list[Buffer]:
    """Build a Produce request body as pieces for `writelines`: the record buffers are used as they are.

    Args:
        version: 3 to 11.
        transactional_id: None unless the records are transactional.
        acks: -1, 0 or 1.
        timeout_ms: how long the broker may wait for its replicas.
        topics: per topic (partition, records).
    """
    whole = {topic: [(index, b"", records) for index, records in parts] for topic, parts in topics.items()}
    return build_restamped_body(version, transactional_id, acks, timeout_ms, whole)


def build_restamped_body(
    version: int,
    transactional_id: str | None,
    acks: int,
    timeout_ms: int,
    topics: Mapping[str, Sequence[tuple[int, bytes, Buffer]]],
) -> list[Buffer]:
    """Same as `build_request_body`, with records in two parts: (partition, new beginning, rest). Does not copy the
    rest."""
    flexible = version >= _FLEXIBLE_FROM
    tags = _TAGS if flexible else b""
    pieces: list[Buffer] = []
    head = string(transactional_id, flexible) + _ACKS_TIMEOUT.pack(acks, timeout_ms) + array_size(len(topics), flexible)
    for topic, partitions in topics.items():
        head += string(topic, flexible) + array_size(len(partitions), flexible)
        for index, stamp, records in partitions:
            size = bytes_size(len(stamp) + len(records), flexible)
            pieces += (b"".join((head, INT32.pack(index), size, stamp)), records)
            head = tags
        head += tags
    pieces.append(head + tags)
    return pieces


def set_acks(body: bytearray | memoryview, version: int, acks: int) -> None:
    """Overwrite `acks` in a request body, in place.

    Raises:
        MalformedFrame: the body ends before it.
    """
    _set_acks(body, version, acks)


@parser
def _set_acks(body: bytearray | memoryview, version: int, acks: int) -> None:
    INT16.pack_into(body, transactional_id_end(body, version), acks)


def scan_response(body: Buffer, version: int) -> list[PartitionResult]:
    """Read a Produce response body. Tagged fields (current leader, node endpoints) are left out.

    Raises:
        MalformedFrame: not such a response.
    """
    return scan_answer(body, version)[0]


@parser
def scan_answer(body: Buffer, version: int) -> tuple[list[PartitionResult], int]:
    """Same as `scan_response`, plus `throttle_time_ms` (KIP-219), which follows the results. Versions from 1 on.

    Raises:
        MalformedFrame: not such a response.
    """
    results, at = (_flexible_results if version >= _FLEXIBLE_FROM else _plain_results)(body, version)
    return results, _INT32_AT(body, at)[0]


def _plain_results(body: Buffer, version: int) -> tuple[list[PartitionResult], int]:
    results: list[PartitionResult] = []
    topics, at = read_array_size(body, 0)
    _check_count(topics)
    for _ in range(topics):
        topic, at = read_string(body, at)
        partitions, at = read_array_size(body, at)
        _check_topic(topic, len(results) + partitions)
        for _ in range(partitions):
            result, at = _scan_result(body, at, version, topic or "", flexible=False)
            results.append(result)
    return results, at


def _flexible_results(body: Buffer, version: int) -> tuple[list[PartitionResult], int]:
    results: list[PartitionResult] = []
    last = len(body) - _PLAIN.size
    topics, at = read_compact_array_size(body, 0)
    if topics > MAX_PARTS:
        raise _too_many(MAX_PARTS)
    for _ in range(topics):
        topic, at = read_compact_string(body, at)
        partitions, at = read_compact_array_size(body, at)
        if topic is None or len(results) + partitions > MAX_PARTS:
            raise _no_name() if topic is None else _too_many(MAX_PARTS)
        for _ in range(partitions):
            if at <= last:  # almost always, and a third of the time
                index, code, base, append_time, log_start, rest = _PLAIN.unpack_from(body, at)
                if rest == _NO_ERRORS:
                    fields = (topic, index, code, base, append_time, log_start, None, ())
                    results.append(_new(PartitionResult, fields))
                    at += _PLAIN.size
                    continue
            result, at = _scan_result(body, at, version, topic or "", flexible=True)
            results.append(result)
        at = skip_tags(body, at) if body[at] else at + 1
    return results, at


_INT32_AT = Struct(">i").unpack_from
_RESULT_V3 = Struct(">ihqq")  # index, error code, base offset, log append time
_RESULT_V5 = Struct(">ihqqq")  # and log start offset
_RECORD_ERRORS = 8  # the version that added them
_PLAIN = Struct(">ihqqq3s")  # the whole result of a batch appended without errors, in a flexible version
_NO_ERRORS = b"\1\0\0"  # an empty array, a null string, no tagged fields


def _scan_result(body: Buffer, at: int, version: int, topic: str, *, flexible: bool) -> tuple[PartitionResult, int]:
    if version < _RECORD_ERRORS:
        fixed = _RESULT_V5 if version >= 5 else _RESULT_V3
        return PartitionResult(topic, *fixed.unpack_from(body, at)), at + fixed.size
    index, code, base, append_time, log_start = _RESULT_V5.unpack_from(body, at)
    errors, at = _scan_record_errors(body, at + _RESULT_V5.size, flexible)
    message, at = string_reader(flexible)(body, at)
    if flexible:
        at = skip_tags(body, at)
    return PartitionResult(topic, index, code, base, append_time, log_start, message, errors), at


def _scan_record_errors(body: Buffer, at: int, flexible: bool) -> tuple[tuple[tuple[int, str | None], ...], int]:
    count, at = array_reader(flexible)(body, at)
    if count <= 0:
        return (), at
    errors = []
    read = string_reader(flexible)
    for _ in range(count):
        (index,) = INT32.unpack_from(body, at)
        message, at = read(body, at + 4)
        if flexible:
            at = skip_tags(body, at)
        errors.append((index, message))
    return tuple(errors), at


def build_response_body(version: int, results: Iterable[PartitionResult], throttle_ms: int = 0) -> bytes:
    """Build a Produce response body. Results of one topic become one entry, in order of first appearance."""
    flexible = version >= _FLEXIBLE_FROM
    tags = _TAGS if flexible else b""
    topics: dict[str, list[PartitionResult]] = {}
    for result in results:
        topics.setdefault(result.topic, []).append(result)
    pieces = [array_size(len(topics), flexible)]
    for topic, of_topic in topics.items():
        pieces += (string(topic, flexible), array_size(len(of_topic), flexible))
        pieces += _build_results(version, flexible, of_topic)
        pieces.append(tags)
    pieces += (INT32.pack(throttle_ms), tags)
    return b"".join(pieces)


def _build_results(version: int, flexible: bool, results: Iterable[PartitionResult]) -> Iterator[bytes]:
    if version < 5:
        yield from (_RESULT_V3.pack(*result[1:5]) for result in results)
        return
    tails: dict[str | None, bytes] = {}  # partitions of a request have the same message, or none
    for result in results:
        yield _RESULT_V5.pack(*result[1:6])
        if version < _RECORD_ERRORS:
            continue
        if result.record_errors:
            yield _build_tail(flexible, result)
            continue
        message = result.error_message
        tail = tails.get(message)
        if tail is None:
            tail = tails[message] = _build_tail(flexible, result)
        yield tail


def _build_tail(flexible: bool, result: PartitionResult) -> bytes:
    tags = _TAGS if flexible else b""
    errors = (INT32.pack(index) + string(message, flexible) + tags for index, message in result.record_errors)
    count = array_size(len(result.record_errors), flexible)
    return b"".join((count, *errors, string(result.error_message, flexible), tags))
