"""Requests as bytes, for what no client library does: a thousand connections, a member that only joins."""

from __future__ import annotations

import asyncio
import socket
from struct import Struct
from typing import Any, Final

from crc32c import crc32c

from protocol.apis import ApiKey
from protocol.codec import encode_request
from protocol.header import frame_request
from protocol.messages import ApiVersionsRequest, JoinGroupRequest, MetadataRequest
from protocol.produce import build_request_body

CLIENT_ID: Final = "bench"
METADATA_VERSION: Final = 12
JOIN_GROUP_VERSION: Final = 5
PRODUCE_VERSION: Final = 9
_SIZE: Final = Struct(">i")
_BATCH: Final = Struct(">qiibI")
_CHECKED: Final = Struct(">hiqqqhii")
_CREATED_MS: Final = 1_700_000_000_000


def api_versions() -> bytes:
    """ApiVersions v0, framed."""
    return encode_request(ApiVersionsRequest(), 0, 1, CLIENT_ID)


def all_metadata() -> bytes:
    """Metadata of every topic, framed."""
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False)
    return encode_request(request, METADATA_VERSION, 1, CLIENT_ID)


def join_group(group: str, topic: str) -> bytes:
    """The first JoinGroup of a new member of a classic group, framed."""
    subscription = _subscription(topic)
    protocol: Any = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=subscription)
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_000,
        member_id="",
        group_instance_id=None,
        protocol_type="consumer",
        protocols=[protocol],
    )
    return encode_request(request, JOIN_GROUP_VERSION, 1, CLIENT_ID)


def produce(topic: str, partition: int, value: bytes) -> bytes:
    """Produce of one record, acks=all, framed."""
    pieces = build_request_body(PRODUCE_VERSION, None, -1, 30_000, {topic: [(partition, batch_of_one(value))]})
    return frame_request(int(ApiKey.PRODUCE), PRODUCE_VERSION, 1, CLIENT_ID, b"".join(pieces))


def batch_of_one(value: bytes) -> bytes:
    """A record batch with one record without key and headers; `value` below 8 KB."""
    inside = b"\x00\x00\x00\x01" + _varint(len(value)) + value + b"\x00"
    return batch_around(_varint(len(inside)) + inside, 1)


def batch_around(records: bytes, count: int, *, codec: int = 0, created_ms: int = _CREATED_MS) -> bytes:
    """The batch header around records as they are stored."""
    checked = _CHECKED.pack(codec, count - 1, created_ms, created_ms, -1, -1, -1, count) + records
    return _BATCH.pack(0, 9 + len(checked), -1, 2, crc32c(checked)) + checked


def address(bootstrap: str) -> tuple[str, int]:
    """Host and port of the first address."""
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    return host, int(port)


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """The next response without its size."""
    (size,) = _SIZE.unpack(await reader.readexactly(4))
    return await reader.readexactly(size)


class Asker:
    """One connection that asks and waits, blocking."""

    def __init__(self, bootstrap: str) -> None:
        self._socket = socket.create_connection(address(bootstrap), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = self._socket.makefile("rb", buffering=1 << 20)

    def ask(self, request: bytes) -> bytes:
        """Send a framed request and return the response without its size."""
        self._socket.sendall(request)
        size: int = _SIZE.unpack(self._reader.read(4))[0]
        return bytes(self._reader.read(size))

    def close(self) -> None:
        """End the connection."""
        self._reader.close()
        self._socket.close()


def _subscription(topic: str) -> bytes:
    """ConsumerProtocolSubscription v0: version, topics, no user data."""
    name = topic.encode()
    return b"\x00\x00" + _SIZE.pack(1) + len(name).to_bytes(2, "big") + name + _SIZE.pack(-1)


def _varint(value: int) -> bytes:
    """A signed varint (zigzag) of a number from 0 to 8191."""
    coded = value << 1
    return bytes([coded]) if coded < 0x80 else bytes([coded & 0x7F | 0x80, coded >> 7])
