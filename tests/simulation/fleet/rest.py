"""REST of a simulated gateway: its ASGI application is called without HTTP, on the gateway's own node.

A FastAPI application takes 50 ms to build, as long as a whole simulated migration may take. So there is one for all
gateways; which of them a request is for stands in a context variable.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import cache
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from gateway.api.access.roles import CALLER, Caller, Role
from gateway.api.app import create_app
from gateway.api.own import create_own_app

Asgi = Callable[[dict[str, Any], Callable[[], Any], Callable[[Any], Any]], Any]

_PARTS: ContextVar[tuple[Any, ...]] = ContextVar("_PARTS")
"""Of the gateway that is asked: what `create_app`, or `create_own_app`, was given."""


class Answer(NamedTuple):
    """Of a REST request. `body`: decoded when it is JSON."""

    status: int
    body: Any


class _Metrics:
    async def text(self) -> tuple[bytes, str]:
        text: tuple[bytes, str] = await _PARTS.get()[1].text()
        return text


def _part(index: int) -> Callable[[], Any]:
    def call() -> Any:
        return _PARTS.get()[index]()

    return call


@cache
def _led() -> Any:
    return create_app(_part(0), _Metrics(), _part(2), _part(3))


@cache
def _own() -> Any:
    return create_own_app(_part(0), _Metrics(), _part(2), _part(3))


def shared_app(*parts: Any) -> Asgi:
    """In place of `create_app`."""
    return _of(_led(), parts)


def shared_own_app(*parts: Any) -> Asgi:
    """In place of `create_own_app`."""
    return _of(_own(), parts)


def _of(app: Any, parts: tuple[Any, ...]) -> Asgi:
    async def call(scope: dict[str, Any], receive: Any, send: Any) -> None:
        _PARTS.set(parts)
        await app(scope, receive, send)

    return call


_OPERATOR: Final = Caller("simulation", Role.ADMIN, "token", "simulation")
_JSON: Final = [(b"content-type", b"application/json"), (b"host", b"gateway")]


def http_scope(
    method: str, target: str, headers: Sequence[tuple[bytes, bytes]], client: str = "client", server: str = "gateway"
) -> dict[str, Any]:
    """A request as uvicorn hands it over. `target`: path and query. `client`, `server`: their addresses."""
    path, _, query = target.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": quote(path).encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": headers,
        "client": (client, 1),
        "server": (server, 80),
    }


async def ask(forwarding: Asgi, method: str, path: str, body: Any = None) -> Answer:
    """One request to an ASGI application."""
    content = b"" if body is None else json.dumps(body).encode()
    scope = http_scope(method, path, _JSON) | {CALLER: _OPERATOR}
    sent: list[Mapping[str, Any]] = []
    events = iter(({"type": "http.request", "body": content, "more_body": False},))

    async def receive() -> Any:
        return next(events, {"type": "http.disconnect"})

    async def send(event: Mapping[str, Any]) -> None:
        sent.append(event)

    await forwarding(scope, receive, send)
    status = next(int(event["status"]) for event in sent if event["type"] == "http.response.start")
    text = b"".join(event.get("body", b"") for event in sent if event["type"] == "http.response.body")
    try:
        return Answer(status, json.loads(text) if text else None)
    except ValueError:
        return Answer(status, text.decode("utf-8", "replace"))
