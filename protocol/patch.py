"""Small changes to whole bodies: finds the fields by position, and keeps the rest as slices.

Responses with brokers' addresses: Metadata v0-13, FindCoordinator v0-6, DescribeCluster v0-2 (here), and the tagged
NodeEndpoints of Produce v10+ and Fetch v16+ (`strip_node_endpoints`).
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import TypeAlias

from protocol.apis import ApiKey
from protocol.metadata import auto_create_offset, metadata_request_topics, unknown_topics
from protocol.wire import (
    INT32,
    Buffer,
    array_reader,
    parser,
    read_compact_bytes_range,
    read_compact_string,
    read_tags,
    skip_tags,
    string,
    string_reader,
    uvarint,
)

__all__ = [
    "Mapping",
    "metadata_request_topics",
    "patch_brokers",
    "patch_init_producer_id_response",
    "patch_metadata_request_auto_create",
    "strip_node_endpoints",
    "unknown_topics",
]

Mapping: TypeAlias = Callable[[int, str, int], tuple[str, int]]
"""(node id, host, port) of a broker -> host and port to show instead."""


@parser
def patch_brokers(key: int, version: int, body: Buffer, mapping: Mapping) -> bytes:
    """Replace host and port of every broker in a response body.

    `mapping` is called once per broker. Entries without a broker (node id -1, as in errors) are left alone.

    Raises:
        MalformedFrame: not such a response.
        ValueError: `key` has no broker list.
    """
    if key == ApiKey.METADATA:
        at = 4 if version >= 3 else 0  # throttle time
        return _patch_list(body, at, version >= 9, mapping, _metadata_tail(version))
    if key == ApiKey.FIND_COORDINATOR:
        return _patch_coordinators(body, version, mapping)
    if key == ApiKey.DESCRIBE_CLUSTER:
        _, at = read_compact_string(body, 6)  # after throttle time and error code
        _, at = read_compact_string(body, at + 1 if version >= 1 else at)  # endpoint type; cluster id
        return _patch_list(body, at + 4, True, mapping, _cluster_tail(version))
    raise ValueError(f"API key {key} has no broker list")


_Tail: TypeAlias = Callable[[Buffer, int], int]  # (buf, where a broker's port ends) -> where the broker ends


def _metadata_tail(version: int) -> _Tail:
    if version == 0:
        return lambda _, at: at
    if version < 9:
        return lambda buf, at: string_reader(False)(buf, at)[1]  # rack
    return lambda buf, at: skip_tags(buf, read_compact_string(buf, at)[1])


def _cluster_tail(version: int) -> _Tail:
    paused = 1 if version >= 2 else 0
    return lambda buf, at: skip_tags(buf, read_compact_string(buf, at)[1] + paused)


def _patch_list(body: Buffer, at: int, flexible: bool, mapping: Mapping, tail: _Tail) -> bytes:
    count, at = array_reader(flexible)(body, at)
    pieces: list[Buffer] = [body[:at]]
    for _ in range(count):
        patched, at = _patch_node(body, at, flexible, mapping)
        end = tail(body, at)
        pieces += (patched, body[at:end])
        at = end
    pieces.append(body[at:])
    return b"".join(pieces)


def _patch_node(body: Buffer, at: int, flexible: bool, mapping: Mapping) -> tuple[Buffer, int]:
    """Patch node id, host and port at `at`; returns the new bytes and where the old ones end."""
    (node_id,) = INT32.unpack_from(body, at)
    host, port_at = string_reader(flexible)(body, at + 4)
    (port,) = INT32.unpack_from(body, port_at)
    end = port_at + 4
    if node_id < 0 or not host:
        return body[at:end], end
    host, port = mapping(node_id, host, port)
    return INT32.pack(node_id) + string(host, flexible) + INT32.pack(port), end


def _patch_coordinators(body: Buffer, version: int, mapping: Mapping) -> bytes:
    flexible = version >= 3
    if version >= 4:
        return _patch_many_coordinators(body, mapping)
    at = 2 if version == 0 else string_reader(flexible)(body, 6)[1]
    patched, after = _patch_node(body, at, flexible, mapping)
    return b"".join((body[:at], patched, body[after:]))


def _patch_many_coordinators(body: Buffer, mapping: Mapping) -> bytes:
    """Patch many coordinators, each broker once: an admin client asks for all its groups together, and brokers are few.
    Skips entries by their lengths, which nearly always have one byte."""
    count, at = array_reader(True)(body, 4)
    pieces: list[Buffer] = []
    patched: dict[bytes, Buffer] = {}
    kept = 0
    for _ in range(count):
        length = body[at]  # of the group or transactional id, plus one
        node_at = at + length if 0 < length < _TWO_BYTES else read_compact_string(body, at)[1]
        length = body[node_at + 4]
        known = 0 < length < _TWO_BYTES
        end = node_at + 4 + length if known else string_reader(True)(body, node_at + 4)[1]
        end += 4  # the port
        node = bytes(body[node_at:end])
        shown = patched.get(node)
        if shown is None:
            shown, end = _patch_node(body, node_at, True, mapping)
            patched[node] = shown
        pieces += (body[kept:node_at], shown)
        kept = end
        length = body[end + 2]  # of the message, after the error code
        at = end + 2 + (length or 1) if length < _TWO_BYTES else read_compact_string(body, end + 2)[1]
        at = at + 1 if not body[at] else skip_tags(body, at)
    pieces.append(body[kept:])
    return b"".join(pieces)


_INIT_PRODUCER_ID = Struct(">ihq")  # throttle, error, producer id


@parser
def patch_init_producer_id_response(body: Buffer, version: int, add: int) -> bytes:
    """Add `add` to the producer id of an InitProducerId response (v0-6), unless it carries an error.

    Raises:
        MalformedFrame: not such a response.
    """
    throttle_ms, error_code, producer_id = _INIT_PRODUCER_ID.unpack_from(body)
    if error_code or producer_id < 0:
        return bytes(body)
    return b"".join((_INIT_PRODUCER_ID.pack(throttle_ms, 0, producer_id + add), body[_INIT_PRODUCER_ID.size :]))


@parser
def patch_metadata_request_auto_create(body: Buffer, version: int, allow: bool) -> bytes:
    """Set allow_auto_topic_creation in a Metadata request (v4+).

    Raises:
        ValueError: v0-3, which always allow it; see `protocol.metadata.without_auto_create`.
        MalformedFrame: not such a request.
    """
    at = auto_create_offset(body, version)
    if at is None:
        raise ValueError(f"Metadata v{version} cannot ask without auto-creation")
    patched = bytearray(body)
    patched[at] = allow
    return bytes(patched)


@parser
def strip_node_endpoints(key: int, version: int, body: Buffer) -> Buffer:
    """Remove the NodeEndpoints from a Produce (v10+) or Fetch (v16+) response; `body` itself if it has none.

    The ids of new leaders stay: clients know these nodes by the addresses they got from Metadata.

    Raises:
        MalformedFrame: not such a response.
    """
    if key == ApiKey.PRODUCE and version >= 10:
        at = _skip_topics(body, 0, version, _skip_produced) + 4  # the throttle time follows
    elif key == ApiKey.FETCH and version >= 16:
        at = _skip_topics(body, 10, version, _skip_fetched)
    else:
        return body
    if not body[at]:
        return body
    tags, end = read_tags(body, at)
    kept = [(tag, bytes(body[slice(*bounds)])) for tag, bounds in tags.items() if tag != _NODE_ENDPOINTS_TAG]
    section = uvarint(len(kept)) + b"".join(uvarint(tag) + uvarint(len(data)) + data for tag, data in kept)
    return b"".join((body[:at], section, body[end:]))


def with_produce_throttle(version: int, response: Buffer, throttle_ms: int) -> bytes:
    """A Produce response of v3 to v9, framed or not, with at least this throttle time.

    The field is the last one; in v9 a section of tagged fields follows. If that is not empty, the response is not
    changed.
    """
    patched, flexible = bytearray(response), version >= _PRODUCE_FLEXIBLE_FROM
    at = len(patched) - 4 - flexible
    if not flexible or not patched[-1]:
        _THROTTLE.pack_into(patched, at, max(throttle_ms, *_THROTTLE.unpack_from(patched, at)))
    return bytes(patched)


_TWO_BYTES = 0x80  # lengths from here on have more than one
_THROTTLE = Struct(">i")
_PRODUCE_FLEXIBLE_FROM = 9
_NODE_ENDPOINTS_TAG = 0
_TOPIC_IDS_FROM = 13  # of both Produce and Fetch


def _skip_topics(body: Buffer, at: int, version: int, skip_partition: _Tail) -> int:
    read_size = array_reader(True)
    topics, at = read_size(body, at)
    for _ in range(topics):
        at = at + 16 if version >= _TOPIC_IDS_FROM else read_compact_string(body, at)[1]
        partitions, at = read_size(body, at)
        for _ in range(partitions):
            at = skip_tags(body, skip_partition(body, at))
        at = skip_tags(body, at)
    return at


def _skip_produced(body: Buffer, at: int) -> int:
    errors, at = array_reader(True)(body, at + 30)  # index, error code, three int64
    for _ in range(errors):
        at = skip_tags(body, read_compact_string(body, at + 4)[1])
    return read_compact_string(body, at)[1]


def _skip_fetched(body: Buffer, at: int) -> int:
    aborted, at = array_reader(True)(body, at + 30)  # index, error code, three int64
    for _ in range(aborted):
        at = skip_tags(body, at + 16)
    return read_compact_bytes_range(body, at + 4)[1]  # preferred read replica, records
