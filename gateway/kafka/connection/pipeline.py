"""Requests out, responses in, matched in order: the state of one pipelined connection. No I/O.

A Kafka broker answers the requests of one connection in the order it got them, so the requests in flight are a
queue and each response must carry the correlation id at its head.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import NamedTuple

from protocol.apis import request_header_version, response_header_version
from protocol.errors import MalformedFrame
from protocol.wire import skip_tags

OnResponse = Callable[[memoryview | None], None]

_HEAD = Struct(">ihhi").pack
_new = tuple.__new__  # a NamedTuple's own takes three times as long
_CORRELATION = Struct(">i").unpack_from
_MAX_CORRELATION = 0x7FFFFFFF


class PipelinedRequest(NamedTuple):
    """A request that waits for its response. `deadline` is on the connection's clock, in seconds."""

    correlation_id: int
    tagged_header: bool
    deadline: float
    on_response: OnResponse


class _Shape(NamedTuple):
    """What the headers of one API version look like."""

    head_bytes: int  # the request header after the size
    tail: bytes  # client id and, in header version 2, the empty tagged fields
    tagged_response: bool


class Pipeline:
    """Numbers requests, remembers who waits, and takes responses in order."""

    __slots__ = ("_client_id", "_correlation_id", "_shapes", "in_flight")

    def __init__(self, client_id: str) -> None:
        raw = client_id.encode()
        self._client_id = len(raw).to_bytes(2, "big") + raw
        self._correlation_id = 0
        self._shapes: dict[int, _Shape] = {}
        self.in_flight: deque[PipelinedRequest] = deque()

    def head(self, key: int, version: int, body_bytes: int, on_response: OnResponse | None, deadline: float) -> bytes:
        """Size and header of the next request, which is then in flight unless `on_response` is None."""
        shape = self._shapes.get(key << 16 | version) or self._shape(key, version)
        correlation_id = self._correlation_id
        self._correlation_id = 0 if correlation_id == _MAX_CORRELATION else correlation_id + 1
        if on_response is not None:
            self.in_flight.append(
                _new(PipelinedRequest, (correlation_id, shape.tagged_response, deadline, on_response))
            )
        return _HEAD(shape.head_bytes + body_bytes, key, version, correlation_id) + shape.tail

    def take(self, frame: memoryview) -> tuple[OnResponse, memoryview]:
        """Who waits for this response, and its body.

        Raises:
            MalformedFrame: nothing is in flight, or the correlation id is not the oldest one's.
        """
        correlation_id = _CORRELATION(frame, 0)[0]
        if not self.in_flight:
            raise MalformedFrame(f"a response nobody waits for (correlation id {correlation_id})")
        entry = self.in_flight[0]
        if entry.correlation_id != correlation_id:
            raise MalformedFrame(f"correlation id {correlation_id} in place of {entry.correlation_id}")
        body = frame[(_tags_end(frame) if entry.tagged_header else 4) :]
        self.in_flight.popleft()
        return entry.on_response, body

    def _shape(self, key: int, version: int) -> _Shape:
        tail = self._client_id + (b"\0" if request_header_version(key, version) >= 2 else b"")
        shape = _Shape(8 + len(tail), tail, response_header_version(key, version) >= 1)
        self._shapes[key << 16 | version] = shape
        return shape


def _tags_end(frame: memoryview) -> int:
    """Index after the tagged fields (KIP-482) that follow the correlation id."""
    try:
        return 5 if frame[4] == 0 else skip_tags(frame, 4)
    except IndexError:
        raise MalformedFrame("a response header that runs past its frame") from None
