"""The REST API of one gateway of a fleet: what is about itself it answers, the rest is the leader's.

A gateway that follows passes a request on to the leader over the channel between gateways (`net/peers.py`), so that
the leader's API need not be reachable from everywhere. The answer is the leader's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

import httpx
import structlog
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gateway.net.errors import NetError
from gateway.net.peers import Peers

REST = "rest"

_ANSWER_S = 120.0
_MAX_BODY = 4 * 1024 * 1024
_OWN = ("/health", "/metrics", "/v3/status")
_log = structlog.get_logger("lockgate.rest")

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]


class Front:
    """An ASGI application.

    Args:
        own: answers what is about this gateway.
        leader: the name of the gateway that leads, '' when none is known.

    Attributes:
        led: the application of the present term, None while this gateway does not lead.
    """

    def __init__(self, own: App, peers: Peers, leader: Callable[[], str]) -> None:
        self._own = own
        self._peers = peers
        self._leader = leader
        self._led: App | None = None
        self._running: set[asyncio.Task[Any]] = set()
        peers.handlers[REST] = self._passed_on

    def lead(self, app: App) -> None:
        """A term begins."""
        self._led = app

    def follow(self) -> None:
        """The term is over: what is under way ends with 503."""
        self._led = None
        for task in tuple(self._running):
            task.cancel()

    async def __call__(self, scope: Scope, receive: Callable[[], Awaitable[Any]], send: Any) -> None:
        """ASGI."""
        if scope["type"] != "http" or scope["path"] in _OWN:
            await self._own(scope, receive, send)
            return
        request = Request(scope, receive)
        body = await request.body()
        if len(body) > _MAX_BODY:
            answer: Response = _refusal(400, f"a body of {len(body)} bytes is too long")
        else:
            query = scope.get("query_string", b"").decode("latin-1")
            try:
                answer = await self._answer(request.method, scope["raw_path"].decode("latin-1"), query, body)
            except asyncio.CancelledError:  # the HTTP server stops, and its patience is over
                answer = _refusal(503, "this gateway stops, and did not wait for the answer; ask again")
        await answer(scope, receive, send)

    async def _answer(self, method: str, path: str, query: str, body: bytes) -> Response:
        if self._led is not None:
            found = await self._asked_here(method, path, query, body)
            return Response(found.content, found.status_code, media_type=found.headers.get("content-type"))
        leader = self._leader()
        if not leader:
            return _refusal(503, "no gateway leads the fleet now; try again in a few seconds")
        asked = {"method": method, "path": path, "query": query, "body": body.decode("latin-1")}
        try:
            told = await self._peers.ask(leader, REST, asked, _ANSWER_S)
        except NetError as exc:
            return _refusal(503, f"the leader of the fleet, gateway '{leader}', cannot be asked: {exc}")
        return Response(str(told["body"]).encode("latin-1"), int(told["status"]), media_type=told.get("type"))

    async def _passed_on(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        if self._led is None:
            raise NetError("it does not lead; try again")
        found = await self._asked_here(
            str(body["method"]), str(body["path"]), str(body["query"]), str(body["body"]).encode("latin-1")
        )
        return {
            "status": found.status_code,
            "type": found.headers.get("content-type"),
            "body": found.content.decode("latin-1"),
        }

    async def _asked_here(self, method: str, path: str, query: str, body: bytes) -> httpx.Response:
        """In a task of its own: it ends with the term, but not when whoever asked goes away."""
        task = asyncio.create_task(self._call(method, path, query, body), name=f"rest {method} {path}")
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        done, _ = await asyncio.wait({task})
        if task.cancelled():
            return httpx.Response(503, json=_body(503, "this gateway does not lead the fleet any more; try again"))
        return done.pop().result()

    async def _call(self, method: str, path: str, query: str, body: bytes) -> httpx.Response:
        transport = httpx.ASGITransport(app=self._led, raise_app_exceptions=False)  # type: ignore[arg-type]
        url = httpx.URL("http://gateway").copy_with(raw_path=f"{path}?{query}".rstrip("?").encode("latin-1"))
        headers = {"content-type": "application/json"} if body else {}
        async with httpx.AsyncClient(transport=transport, timeout=None) as client:  # noqa: S113 - operations have limits
            return await client.request(method, url, content=body, headers=headers)


def _body(status: int, message: str) -> dict[str, Any]:
    return {"error_code": status, "message": message}


def _refusal(status: int, message: str) -> JSONResponse:
    return JSONResponse(_body(status, message), status_code=status)
