"""Encodes and decodes messages off the hot path. Their classes are in `protocol.messages`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from protocol.apis import ApiKey
from protocol.decoder import message_reader
from protocol.encoder import message_writer
from protocol.errors import ErrorCode, MalformedFrame, UnknownApi
from protocol.header import request_prefix, response_prefix
from protocol.messages import (
    REQUESTS,
    RESPONSES,
    ConsumerGroupHeartbeatResponse,
    DeleteTopicsRequest,
    MetadataRequest,
)
from protocol.wire import INT16, Buffer, parser

MAX_REQUEST_BYTES = 4 * 1024 * 1024
"""Largest request body to decode."""
MAX_REQUEST_ELEMENTS = 200_000
"""Most array elements in a request to decode: each may be 2 bytes, and takes 80 bytes and 2 microseconds here."""
OLD_FORMS: Mapping[Any, int] = MappingProxyType({MetadataRequest: 0, DeleteTopicsRequest: 5})
"""Request classes that use other fields up to these versions; their own encoders handle that."""
_UNLIMITED = 1 << 62


@lru_cache(maxsize=1024)
def _class_of(requests: bool, key: int, version: int) -> Any:
    message_class = (REQUESTS if requests else RESPONSES).get(key)
    if message_class is None or not 0 <= version <= message_class.max_version:
        raise UnknownApi(f"no codec for version {version} of API key {key}")
    return message_class


@parser
def decode_request(
    key: int,
    version: int,
    body: Buffer,
    max_bytes: int = MAX_REQUEST_BYTES,
    max_elements: int = MAX_REQUEST_ELEMENTS,
) -> Any:
    """Decode a request body. Bytes after the message are ignored, as a broker does.

    Raises:
        UnknownApi: no class for the key, or it does not have this version.
        MalformedFrame: not such a message, larger than `max_bytes`, or of more than `max_elements`.
    """
    if len(body) > max_bytes:
        raise MalformedFrame(f"a request of {len(body)} bytes, at most {max_bytes} are decoded")
    return message_reader(_class_of(True, key, version), version, max_elements)(body, 0)[0]


@parser
def decode_response(key: int, version: int, body: Buffer) -> Any:
    """Decode a response body. An ApiVersions response that refuses the version is read as version 0 (KIP-511).

    Raises:
        UnknownApi: no class for the key, or it does not have this version.
        MalformedFrame: not such a message.
    """
    message_class = _class_of(False, key, version)
    if key == ApiKey.API_VERSIONS and INT16.unpack_from(body)[0] == ErrorCode.UNSUPPORTED_VERSION:
        version = 0
    return message_reader(message_class, version, _UNLIMITED)(body, 0)[0]


def encode_body(message: Any, version: int) -> bytes:
    """Encode the body of a request or response."""
    message.API_VERSION = version  # or a Metadata request decoded as v0 would lose "all topics"
    message_class: Any = type(message)
    if version <= OLD_FORMS.get(message_class, -1):
        return bytes(message.encode(version=version))
    return message_writer(message_class, version)(message)


def encode_request(message: Any, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Encode a request with its 4-byte size and header."""
    body = encode_body(message, version)
    return request_prefix(message.API_KEY, version, correlation_id, client_id, len(body)) + body


def encode_response(message: Any, key: int, version: int, correlation_id: int) -> bytes:
    """Encode a response with its 4-byte size and header."""
    body = encode_body(message, version)
    return response_prefix(key, version, correlation_id, len(body)) + body


def consumer_group_heartbeat_error(version: int, correlation_id: int, error_code: int) -> bytes:
    """A ConsumerGroupHeartbeat response (framed) that carries only an error."""
    response = ConsumerGroupHeartbeatResponse(error_code=error_code)
    return encode_response(response, ApiKey.CONSUMER_GROUP_HEARTBEAT, version, correlation_id)
