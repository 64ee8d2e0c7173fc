"""Request and response headers: peeked at without decoding the body, and written.

Request header v1 (key, version, correlation id, client id) and v2 (the same and tagged fields); the client id
is a classic nullable string in both. Response header v0 (correlation id) and v1 (and tagged fields); KIP-482.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from protocol.apis import FLEXIBLE_FROM, is_flexible, response_header_version
from protocol.errors import IncompleteFrame, MalformedFrame, UnknownApi
from protocol.wire import INT32, Buffer, parser, skip_tags

_FIXED = Struct(">hhih")  # key, version, correlation id, length of the client id
_RESPONSE = Struct(">ii")
_TAGGED_RESPONSE = Struct(">iiB")
_new = tuple.__new__


class RequestHeader(NamedTuple):
    """A request's header. `body_offset` is the index in the buffer where the body starts."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_offset: int


@parser
def peek_request_header(frame: Buffer, at: int = 0) -> RequestHeader:
    """Read the header of the request frame that begins at `at`; the frame may be cut off after the header.

    A version above the known ones is accepted (the caller may have to answer it, KIP-511).

    Raises:
        IncompleteFrame: more bytes are needed.
        UnknownApi: a key that no broker has, or a negative version.
        MalformedFrame: a broken client id or tagged field.
    """
    key, version, correlation_id, size = _FIXED.unpack_from(frame, at)
    flexible_from = FLEXIBLE_FROM.get(key)
    if flexible_from is None or version < 0:
        raise UnknownApi(f"unknown API key {key} or version {version}")
    at += 10
    if size > 0:
        end = at + size
        if end > len(frame):
            raise IncompleteFrame("the frame ends inside the client id")
        client_id: str | None = str(frame[at:end], "utf-8", "replace")
        at = end
    elif size == -1:
        client_id = None
    elif size == 0:
        client_id = ""
    else:
        raise MalformedFrame(f"a client id of {size} bytes")
    if version >= flexible_from:
        at = at + 1 if not frame[at] else skip_tags(frame, at)
    return _new(RequestHeader, (key, version, correlation_id, client_id, at))


def encode_request_header(key: int, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Write a request header, without the size before it."""
    name = b"" if client_id is None else client_id.encode()
    size = -1 if client_id is None else len(name)
    tags = b"\x00" if is_flexible(key, version) else b""
    return _FIXED.pack(key, version, correlation_id, size) + name + tags


@parser
def response_body_offset(key: int, version: int, frame: Buffer) -> int:
    """Index in a response frame where the body starts.

    Raises:
        MalformedFrame: the frame is shorter than its header.
    """
    if len(frame) < 4:
        raise IncompleteFrame("a response shorter than its correlation id")
    if response_header_version(key, version) == 0:
        return 4
    return skip_tags(frame, 4)


def response_prefix(key: int, version: int, correlation_id: int, body_size: int) -> bytes:
    """The size and header that go before a response body of `body_size` bytes."""
    if response_header_version(key, version) == 0:
        return _RESPONSE.pack(4 + body_size, correlation_id)
    return _TAGGED_RESPONSE.pack(5 + body_size, correlation_id, 0)


def request_prefix(key: int, version: int, correlation_id: int, client_id: str | None, body_size: int) -> bytes:
    """The size and header that go before a request body of `body_size` bytes."""
    header = encode_request_header(key, version, correlation_id, client_id)
    return INT32.pack(len(header) + body_size) + header


def frame_response(key: int, version: int, correlation_id: int, body: Buffer) -> bytes:
    """A whole response with its 4-byte size."""
    return response_prefix(key, version, correlation_id, len(body)) + body


def frame_request(key: int, version: int, correlation_id: int, client_id: str | None, body: Buffer) -> bytes:
    """A whole request with its 4-byte size."""
    return request_prefix(key, version, correlation_id, client_id, len(body)) + body
