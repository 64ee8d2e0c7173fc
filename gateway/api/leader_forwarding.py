"""The REST API of one gateway of a fleet: what is about itself it answers, the rest is the leader's.

A gateway that follows passes a request on to the leader over the channel between gateways (`fleet/peers/channel.py`),
so that the leader's API need not be reachable from everywhere. The answer is the leader's own.

With the request goes who asked, as the gateway that was asked has proved it. Nothing that a client sends becomes part
of that: of a request only method, path, query and body go on. The leader looks at the role again, with the path that
its application sees, and writes the audit trail.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

import httpx
import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from gateway.api.access.audit import AuditTrail, named_by
from gateway.api.access.roles import CALLER, NOBODY, Caller, RouteTable
from gateway.fleet.peers.channel import Peers
from gateway.kafka.connection.errors import NetError

REST = "rest"

NO_BASE: Final = "http://gateway"
_HOST: Final = re.compile(rb"[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:[0-9]{1,5})?")
_ANSWER_S = 120.0
_OWN: Final = ("/health", "/ready", "/metrics", "/v3/status", "/docs", "/console", "/openapi.json")
_OWN_BELOW: Final = ("/docs/", "/console/")
_log = structlog.get_logger("lockgate.rest")

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Question:
    """A request to the control plane. `path` as it was sent, with its escapes. `through`: which gateway was asked.

    `base`: how the client addresses that gateway, such as `https://gateway:8642`: answers name things by their URLs.
    """

    method: str
    path: str
    query: str
    body: bytes
    caller: Caller
    through: str
    base: str = NO_BASE

    def to_wire(self) -> dict[str, Any]:
        """For the leader."""
        return {
            "method": self.method,
            "path": self.path,
            "query": self.query,
            "body": self.body.decode("latin-1"),
            "caller": self.caller.to_wire(),
            "base": self.base,
        }

    @classmethod
    def from_wire(cls, said: Mapping[str, Any]) -> Question:
        """Raises ValueError when it does not say who asks. `from` is the channel's: whom it has let in."""
        return cls(
            str(said["method"]),
            str(said["path"]),
            str(said["query"]),
            str(said["body"]).encode("latin-1"),
            Caller.from_wire(said.get("caller")),
            str(said.get("from", "")),
            str(said.get("base", NO_BASE)),
        )


class LeaderForwarding:
    """An ASGI application.

    Args:
        own: answers what is about this gateway.
        leader: the name of the gateway that leads, '' when none is known.
        audit: told of every change that is carried out here.
        table: who may ask what, of this gateway and of one that leads.
        name: of this gateway.
    """

    def __init__(
        self,
        own: App,
        peers: Peers,
        leader: Callable[[], str],
        audit: AuditTrail,
        table: RouteTable,
        name: Callable[[], str] = str,
    ) -> None:
        self.audit = audit
        self.table = table
        self._own = own
        self._peers = peers
        self._leader = leader
        self._name = name
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
        if scope["type"] != "http" or scope["path"] in _OWN or scope["path"].startswith(_OWN_BELOW):
            await self._own(scope, receive, send)
            return
        try:
            body = await Request(scope, receive).body()
        except ClientDisconnect:  # there is nobody to be answered any more
            return
        question = Question(
            scope["method"],
            scope["raw_path"].decode("latin-1"),
            scope.get("query_string", b"").decode("latin-1"),
            body,
            scope.get(CALLER, NOBODY),
            self._name(),
            base_of(scope),
        )
        try:
            answer = await self.answer(question)
        except asyncio.CancelledError:  # the HTTP server stops, and its patience is over
            answer = _refusal(503, "this gateway stops, and did not wait for the answer; ask again")
        await answer(scope, receive, send)

    async def answer(self, question: Question) -> Response:
        """The leader's, this gateway or another one: 503 when there is none."""
        if self._led is not None:
            found = await self._asked_here(question)
            return Response(found.content, found.status_code, media_type=found.headers.get("content-type"))
        leader = self._leader()
        if not leader:
            return _refusal(503, "no gateway leads the fleet now; try again in a few seconds")
        try:
            told = await self._peers.ask(leader, REST, question.to_wire(), _ANSWER_S)
        except NetError as exc:
            return _refusal(503, f"the leader of the fleet, gateway '{leader}', cannot be asked: {exc}")
        return Response(str(told["body"]).encode("latin-1"), int(told["status"]), media_type=told.get("type"))

    async def _passed_on(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        if self._led is None:
            raise NetError("it does not lead; try again")
        found = await self._asked_here(Question.from_wire(body))
        return {
            "status": found.status_code,
            "type": found.headers.get("content-type"),
            "body": found.content.decode("latin-1"),
        }

    async def _asked_here(self, question: Question) -> httpx.Response:
        """In a task of its own: it ends with the term, but not when whoever asked goes away."""
        task = asyncio.create_task(self._call(question), name=f"rest {question.method} {question.path}")
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        done, _ = await asyncio.wait({task})
        if task.cancelled():
            return httpx.Response(503, json=_body(503, "this gateway does not lead the fleet any more; try again"))
        return done.pop().result()

    async def _call(self, question: Question) -> httpx.Response:
        url = _url(question)
        if url is None:
            return httpx.Response(400, json=_body(400, "the path is none, or leads elsewhere than it says"))
        row = self.table.find(question.method, url.path)
        if not self.audit.wants(question.method) or (row is not None and row.route.reads):
            return await self._call_app(question, url)
        asked = named_by(row, question.query)
        body = _decoded(question.body)
        before = self.audit.state_of(asked, body)
        status, reason = 503, "the term of this leader ended meanwhile: the outcome is not known"
        try:
            answer = await self._call_app(question, url)
            status, reason = answer.status_code, _message(answer)
            return answer
        finally:
            request = {"method": question.method, "path": question.path, "query": question.query, "body": body}
            self.audit.carried_out(question.caller, question.through, asked, request, before, status, reason)

    async def _call_app(self, question: Question, url: httpx.URL) -> httpx.Response:
        app = _authorised(self._led, question.caller, self.table)  # type: ignore[arg-type]
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        headers = {"content-type": "application/json"} if question.body else {}
        asked = httpx.Request(question.method, url, content=question.body, headers=headers)
        answer = await transport.handle_async_request(
            asked
        )  # no client: it has cookies and redirects, and takes as long
        await answer.aread()
        return answer


def base_of(scope: Scope) -> str:
    """How the client addresses this gateway, by its Host header; a made-up name where that cannot be one."""
    host = next((value for name, value in scope["headers"] if name == b"host"), b"")
    if not _HOST.fullmatch(host):
        return NO_BASE
    return f"{'https' if scope.get('scheme') == 'https' else 'http'}://{host.decode('ascii')}"


def _authorised(app: App, caller: Caller, table: RouteTable) -> App:
    """The application, for this caller, whom it is told: the role is looked up by the path that it goes by itself."""

    async def call(scope: Scope, receive: Callable[[], Awaitable[Any]], send: Any) -> None:
        no = table.refusal(caller, scope["method"], scope["path"])
        await (app if no is None else _refusal(*no))({**scope, CALLER: caller}, receive, send)

    return call


def _url(question: Question) -> httpx.URL | None:
    """As the application is asked; None when its path would not be the one that roles and audit trail go by."""
    try:
        url = httpx.URL(question.base).copy_with(
            raw_path=f"{question.path}?{question.query}".rstrip("?").encode("latin-1")
        )
    except httpx.InvalidURL:
        return None
    return url if url.path == unquote(question.path) else None


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except (ValueError, RecursionError):
        return f"{len(body)} bytes that are not JSON"


def _message(answer: httpx.Response) -> str:
    if answer.is_success:
        return ""
    try:
        return str(answer.json()["message"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {answer.status_code}"


def _body(status: int, message: str) -> dict[str, Any]:
    return {"error_code": status, "message": message}


def _refusal(status: int, message: str) -> JSONResponse:
    return JSONResponse(_body(status, message), status_code=status)
