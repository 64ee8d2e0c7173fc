"""Cutting the two byte streams of a connection into frames, opaque ones without collecting them.

Sans-I/O: bytes in, calls on a sink out. The bytes belong to who feeds them and change after the call: what is kept is
copied. An opaque frame's bytes are passed on as they arrive; only its header is looked at. An intercepted frame is
collected whole, never more than it has sent (a claimed length alone allocates nothing).
"""

from __future__ import annotations

import struct
from typing import Protocol

from protocol.wire import Buffer

REQUEST_HEAD = struct.Struct(">ihhi")  # size, api key, api version, correlation id
RESPONSE_HEAD = struct.Struct(">ii")  # size, correlation id
REQUEST_HEAD_BYTES = 4 + 8 + 2  # with the client id's length, which every request but header v0 has
MIN_REQUEST_BYTES = 8


class StreamError(Exception):
    """The peer sent what no Kafka client or broker sends; the connection must be closed."""


class RequestSink(Protocol):
    """Who takes the requests of a client."""

    def begin(self, api_key: int, api_version: int, correlation_id: int, size: int, head: memoryview) -> bool | None:
        """A frame starts. True: collect it whole; False: pass its bytes on; None: ask again with the next bytes."""

    def passed(self, data: Buffer) -> None:
        """Bytes of opaque frames, sizes included, to be sent on at once."""

    def collected(self, frame: memoryview) -> bool:
        """A whole intercepted frame without its size. False: stop here, the rest is fed again later."""


class RequestStream:
    """The client's side. `feed` returns the unconsumed rest when the sink asked to stop, else None.

    `through`: bytes of the current opaque frame that are still to come. `held`: those of an intercepted one that have
    arrived, or what waits to be looked at again. `collects`: the last frame was intercepted.
    """

    __slots__ = ("_chunks", "_max", "_need", "_sink", "collects", "held", "through")

    def __init__(self, sink: RequestSink, max_request_bytes: int) -> None:
        self._sink = sink
        self._max = max_request_bytes
        self.through = 0
        self.collects = False
        self._need = 0  # size of the frame being collected (0: none)
        self.held = 0
        self._chunks: list[bytes] = []  # of the frame being collected, or of a head cut in two

    @property
    def at_boundary(self) -> bool:
        """True unless an opaque frame has been passed on in part: only then may nothing else be sent."""
        return not self.through

    @property
    def collecting(self) -> bool:
        """True while an intercepted frame has arrived in part."""
        return self._need > 0

    @property
    def busy(self) -> bool:
        """In the midst of a frame, or of its head."""
        return bool(self.through or self._need or self._chunks)

    def skipped(self, count: int) -> None:
        """So much of the opaque frame, at most `through`, has gone another way."""
        self.through -= count

    def forget(self) -> None:
        """Nobody will look at what has arrived."""
        self._chunks.clear()
        self._need = self.held = self.through = 0

    def end(self) -> None:
        """Nothing is fed any more: let go of the sink."""
        del self._sink

    def feed(self, data: Buffer) -> memoryview | None:
        """Take bytes as they came. Raises StreamError on a size that no broker would accept."""
        if self.through >= len(data) > 0:
            self.through -= len(data)
            self._sink.passed(data)
            return None
        if self._chunks and not self._need:  # a head that was cut in two
            data = b"".join((*self._chunks, data))
            self._chunks.clear()
            self.held = 0
        return self._cut(memoryview(data))

    def _cut(self, view: memoryview) -> memoryview | None:  # noqa: C901 - the hot loop, kept in one piece
        at, end = 0, len(view)
        start = 0  # of the run of opaque bytes not yet passed on
        if self.through:
            at, self.through = self.through, 0
        elif self._need:
            take = min(self._need - self.held, end)
            self._chunks.append(bytes(view[:take]))
            self.held += take
            if self.held < self._need:
                return None
            at = start = take
            if not self._finish():
                return view[at:]
        while at < end:
            if end - at < REQUEST_HEAD_BYTES:
                break
            size, key, version, correlation = REQUEST_HEAD.unpack_from(view, at)
            if size < MIN_REQUEST_BYTES or size > self._max:
                raise StreamError(f"request of {size} bytes (at least {MIN_REQUEST_BYTES}, at most {self._max})")
            collect = self._sink.begin(key, version, correlation, size, view[at + 4 : min(at + 4 + size, end)])
            if collect is None:
                self.held = end - at
                break
            self.collects = collect
            if not collect:
                at += 4 + size
                continue
            if at > start:
                self._sink.passed(view[start:at])
            frame = view[at + 4 : at + 4 + size]
            if len(frame) < size:
                self._need, self.held = size, len(frame)
                self._chunks.append(bytes(frame))
                return None
            at = start = at + 4 + size
            if not self._sink.collected(memoryview(bytes(frame))):
                return view[at:] if at < end else None
        self._rest(view, start, at, end)
        return None

    def _rest(self, view: memoryview, start: int, at: int, end: int) -> None:
        """Pass on what is opaque; keep a head that was cut."""
        if at > end:
            self.through, at = at - end, end
        if at > start:
            self._sink.passed(view[start:at])
        if at < end:
            self._chunks.append(bytes(view[at:]))

    def _finish(self) -> bool:
        frame = memoryview(b"".join(self._chunks))
        self._chunks.clear()
        self._need = self.held = 0
        return self._sink.collected(frame)


class ResponseSink(Protocol):
    """Who takes the responses of the target broker."""

    def response_begins(self, correlation_id: int, size: int) -> bool | None:
        """A response starts. True: collect it whole; False: pass its bytes on; None: stop, it is fed again later."""

    def response_passed(self, data: Buffer) -> None:
        """Bytes of opaque responses, sizes included."""

    def response_ended(self) -> None:
        """The last byte of the opaque response that began last has been passed on."""

    def response_collected(self, frame: memoryview) -> bool:
        """A whole response without its size. False: stop here, the rest is fed again later."""


class ResponseStream:
    """The target broker's side. `feed` returns the unconsumed rest when the sink asked to stop, else None.

    `through`: bytes of the current opaque frame that are still to come. `collects`: the last frame was collected.
    """

    __slots__ = ("_chunks", "_have", "_need", "_sink", "collects", "through")

    def __init__(self, sink: ResponseSink) -> None:
        self._sink = sink
        self.through = 0
        self.collects = False
        self._need = 0
        self._have = 0
        self._chunks: list[bytes] = []

    @property
    def busy(self) -> bool:
        """In the midst of a frame, or of its head."""
        return bool(self.through or self._need or self._chunks)

    def skipped(self, count: int) -> None:
        """So much of the opaque frame, at most `through`, has gone another way."""
        self.through -= count
        if not self.through:
            self._sink.response_ended()

    def forget(self) -> None:
        """Nobody will look at what has arrived."""
        self._chunks.clear()
        self._need = self._have = self.through = 0

    def end(self) -> None:
        """Nothing is fed any more: let go of the sink."""
        del self._sink

    def feed(self, data: Buffer) -> memoryview | None:
        """Take bytes as they came. Raises StreamError on a negative size."""
        if self.through > len(data):
            self.through -= len(data)
            self._sink.response_passed(data)
            return None
        if self._chunks and not self._need:
            data = b"".join((*self._chunks, data))
            self._chunks.clear()
        return self._cut(memoryview(data))

    def _cut(self, view: memoryview) -> memoryview | None:  # noqa: C901 - the hot loop, kept in one piece
        at, end, sink = 0, len(view), self._sink
        if self.through:
            at, self.through = self.through, 0
            sink.response_passed(view[:at])
            sink.response_ended()
        elif self._need:
            at = min(self._need - self._have, end)
            self._chunks.append(bytes(view[:at]))
            self._have += at
            if self._have < self._need:
                return None
            if not self._finish():
                return view[at:]
        while end - at >= 8:
            size, correlation = RESPONSE_HEAD.unpack_from(view, at)
            if size < 4:
                raise StreamError(f"response of {size} bytes")
            stop = at + 4 + size
            collects = sink.response_begins(correlation, size)
            if collects is None:
                return view[at:]
            self.collects = collects
            if not collects:
                sink.response_passed(view[at : min(stop, end)])
                if stop > end:
                    self.through = stop - end
                    return None
                sink.response_ended()
            elif stop > end:
                self._need, self._have = size, end - at - 4
                self._chunks.append(bytes(view[at + 4 :]))
                return None
            elif not sink.response_collected(memoryview(bytes(view[at + 4 : stop]))):
                return view[stop:]
            at = stop
        if at < end:
            self._chunks.append(bytes(view[at:]))
        return None

    def _finish(self) -> bool:
        frame = memoryview(b"".join(self._chunks))
        self._chunks.clear()
        self._need = self._have = 0
        return self._sink.response_collected(frame)
