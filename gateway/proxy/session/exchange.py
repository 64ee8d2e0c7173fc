"""One request of a connection, and how it is answered.

An Exchange is created when a request's header is known and ends with its response (or with the connection).
Handlers end it in exactly one of these ways: `reply`, `forward`, `drop`; or they close the session.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from gateway.proxy.session.listener import Listener
from protocol.apis import is_flexible
from protocol.codec import decode_request
from protocol.errors import MalformedFrame
from protocol.framing import framed
from protocol.header import frame_response
from protocol.peek import first_array_size
from protocol.wire import Buffer

Transform = Callable[[memoryview], "Buffer | None"]


class ExchangeSession(Protocol):
    """The session of an exchange, which takes its answer. `listener`: the client's listener; None: the first one.

    `max_elements`: limit for a decoded request.
    """

    listener: Listener | None
    max_elements: int

    def answer(self, exchange: Exchange, response: Buffer) -> None:
        """Take the framed response; it leaves when its turn comes."""

    def release(self, exchange: Exchange) -> None:
        """The exchange does not hold its request any more."""

    def send_upstream(self, exchange: Exchange, size: int, pieces: Sequence[Buffer]) -> None:
        """Send a framed request of `size` bytes to the target broker and expect its answer for `exchange`."""


class Exchange:
    """A request that awaits its response.

    `frame` is the request without its 4-byte size (empty for opaque requests, which are never collected).
    `held`: bytes of it that the session holds. `room`: bytes reserved for its answer.
    `response` is the framed response once known, while earlier exchanges of the connection still wait.
    `transform` turns the upstream's response frame (without size) into the framed response for the client;
    it returns None when it will call `reply`/`forward` itself later. None as transform = pass it through.
    `edit` changes the framed response last, whatever produced it.
    """

    __slots__ = (
        "api_key",
        "api_version",
        "body_offset",
        "client_id",
        "correlation_id",
        "edit",
        "frame",
        "held",
        "internal",
        "response",
        "room",
        "session",
        "started",
        "transform",
    )

    def __init__(
        self, session: ExchangeSession, api_key: int, api_version: int, correlation_id: int, started: float
    ) -> None:
        self.session = session
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.started = started
        self.client_id: str | None = None
        self.frame: memoryview = _EMPTY
        self.body_offset = 0
        self.held = 0
        self.room = 0
        self.internal = False
        self.response: Buffer | None = None
        self.transform: Transform | None = None
        self.edit: Callable[[Buffer], Buffer] | None = None

    @property
    def body(self) -> memoryview:
        """The request's body, after its header."""
        return self.frame[self.body_offset :]

    def request(self, most: int | None = None) -> Any:
        """The request, decoded.

        Args:
            most: limit for the entries of the array at its beginning. They are counted before any is decoded.

        Raises:
            MalformedFrame: it is malformed, too large, or has more array elements than the gateway's limit.
        """
        if most is not None:
            count = first_array_size(self.body, is_flexible(self.api_key, self.api_version))
            if count > most:
                raise MalformedFrame(f"{count} entries of a request of API key {self.api_key}: at most {most}")
        limit = self.session.max_elements
        return decode_request(self.api_key, self.api_version, self.body, max_elements=limit)

    def reply(self, body: Buffer) -> None:
        """Answer with this response body; header and size are added."""
        self.session.answer(self, frame_response(self.api_key, self.api_version, self.correlation_id, body))

    def reply_framed(self, response: Buffer) -> None:
        """Answer with a response that has its size and header already."""
        self.session.answer(self, response)

    def forward(self, transform: Transform | None = None) -> None:
        """Send the request, unchanged, to the connection's own target broker."""
        self.forward_pieces(len(self.frame), (self.frame,), transform)

    def forward_body(self, body: Buffer, transform: Transform | None = None) -> None:
        """Send the request with another body to the connection's own target broker."""
        size = self.body_offset + len(body)
        self.forward_pieces(size, (self.frame[: self.body_offset], body), transform)

    def forward_pieces(self, size: int, pieces: Sequence[Buffer], transform: Transform | None) -> None:
        """Send `pieces` (`size` bytes in total, header included) as this request to the target broker."""
        self.transform = framed if transform is None and self.edit is not None else transform
        self.session.send_upstream(self, size, pieces)
        if self.transform is None:  # the request is not needed any more
            self.frame = _EMPTY
            self.session.release(self)

    def drop(self) -> None:
        """End without a response (acks=0)."""
        self.session.answer(self, b"")


class WatchesAnswers(Protocol):
    """Observes answers to clients: `AnswerWatch`."""

    def look(self, client_id: str | None, exchange: Exchange, response: Buffer) -> None:
        """Observe one answer, with its size in front; it may be cut off."""


_EMPTY = memoryview(b"")
