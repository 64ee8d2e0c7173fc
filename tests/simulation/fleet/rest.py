"""REST of a simulated gateway: its ASGI application is called without HTTP, on the gateway's own node."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from gateway.api.access.roles import CALLER, Caller, Role

Asgi = Callable[[dict[str, Any], Callable[[], Any], Callable[[Any], Any]], Any]


class Answer(NamedTuple):
    """Of a REST request. `body`: decoded when it is JSON."""

    status: int
    body: Any


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
