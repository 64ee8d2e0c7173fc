"""A broker that can be scripted: real sockets and real codecs, answers from functions."""

from __future__ import annotations

import asyncio
import inspect
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

from protocol.apis import APIS, ApiKey
from protocol.codec import decode_request, encode_response
from protocol.header import peek_request_header
from protocol.messages import ApiVersionsResponse
from tests.support.fakes.stream_server import StreamServer

Raw: TypeAlias = bytes
"""Bytes for the wire as they are, size and header included."""

SILENCE = object()
"""Never answer this request."""
HANG_UP = object()
"""Close the connection instead of answering."""

Handler: TypeAlias = Callable[["Request"], Any | Awaitable[Any]]


@dataclass
class Request:
    """A request as the broker got it. `peer` numbers the connection it came on, from 0."""

    key: int
    version: int
    correlation_id: int
    client_id: str | None
    message: Any
    peer: int


@dataclass
class FakeBroker:
    """Answers each request by `handlers[api key]`: a message, Raw bytes, SILENCE or HANG_UP.

    Requests of one connection are answered in order, as a broker does. A key without a handler hangs up.
    """

    handlers: dict[int, Handler] = field(default_factory=dict)
    versions: dict[int, tuple[int, int]] = field(
        default_factory=lambda: {api.key: (api.min_version, api.max_version) for api in APIS.values()}
    )
    ssl_context: ssl.SSLContext | None = None
    node_id: int = 1
    port: int = 0
    requests: list[Request] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.handlers.setdefault(ApiKey.API_VERSIONS, lambda _: self.api_versions())
        self._server = StreamServer(self._serve, self.ssl_context)
        self.connections = 0

    async def __aenter__(self) -> Self:
        await self.listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def listen(self) -> None:
        """Listen on `port`, a free one when 0."""
        self.port = await self._server.listen(self.port)

    async def stop(self) -> None:
        """Refuse new connections and drop the open ones."""
        await self._server.close()

    def drop_connections(self) -> None:
        """Break every open connection."""
        self._server.drop()

    @property
    def open_connections(self) -> int:
        """How many connections there are now."""
        return self._server.connections

    def asked(self, key: int) -> list[Request]:
        """The requests of one API so far."""
        return [request for request in self.requests if request.key == key]

    def api_versions(self, error_code: int = 0) -> Any:
        """The ApiVersions response with `versions`."""
        item = ApiVersionsResponse.ApiVersion
        keys = [item(api_key=key, min_version=low, max_version=high) for key, (low, high) in self.versions.items()]
        return ApiVersionsResponse(error_code=error_code, api_keys=keys, throttle_time_ms=0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer, self.connections = self.connections, self.connections + 1
        while await self._answer_one(reader, writer, peer):
            pass

    async def _answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, peer: int) -> bool:
        frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        header = peek_request_header(frame)
        key, version = header.api_key, header.api_version
        known = version <= APIS[key].max_version
        message = decode_request(key, version, frame[header.body_offset :]) if known else None
        request = Request(key, version, header.correlation_id, header.client_id, message, peer)
        self.requests.append(request)
        answer = self.handlers.get(key, lambda _: HANG_UP)(request)
        if inspect.isawaitable(answer):
            answer = await answer
        if answer is HANG_UP:
            return False
        if isinstance(answer, bytes):
            writer.write(answer)
        elif answer is not SILENCE:
            writer.write(encode_response(answer, key, version, request.correlation_id))
        await writer.drain()
        return True
