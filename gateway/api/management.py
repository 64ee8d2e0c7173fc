"""/health, /ready and /metrics for probes and Prometheus: in plain HTTP, to everybody, and nothing else.

Who asks is not asked who they are. So answers are lines of ours, without reasons that could have addresses or names in
them; the metrics have no label that names a client (`tests/unit/telemetry/test_described.py`). And as strangers may ask
as often as they like, what takes work is done once a second, for all who ask meanwhile. It is there before the target
is reached, and as long as clients are let out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, TypeVar

_PLAIN: Final = "text/plain; charset=utf-8"
_KEPT_S: Final = 1.0
Found = TypeVar("Found")


class Lately(Generic[Found]):
    """What was found out within the last second, by one at a time. `clock`: seconds."""

    def __init__(self, look: Callable[[], Awaitable[Found]], clock: Callable[[], float]) -> None:
        self._look = look
        self._clock = clock
        self._found: tuple[float, Found] | None = None
        self._looking = asyncio.Lock()

    async def get(self) -> Found:
        """At most a second old."""
        async with self._looking:
            if self._found is None or self._clock() - self._found[0] >= _KEPT_S:
                self._found = (self._clock(), await self._look())
            return self._found[1]


class ManagementApp:
    """An ASGI application.

    Args.

    alive: why a restart of this process may mend it; '' while it works.
    ready: why clients should not be sent here; '' when they should.
    metrics: the text and its content type.
    """

    def __init__(
        self,
        alive: Callable[[], str],
        ready: Callable[[], Awaitable[str]],
        metrics: Callable[[], Awaitable[tuple[bytes, str]]],
    ) -> None:
        self._alive = alive
        self._ready = ready
        self._metrics = metrics

    async def __call__(self, scope: dict[str, Any], _receive: Any, send: Any) -> None:
        """One request. What is in its body is not read."""
        status, body, content_type = await self._answer(scope["method"], scope["path"])
        headers = [
            (b"content-type", content_type.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"cache-control", b"no-store"),
            (b"x-content-type-options", b"nosniff"),
        ]
        if status == 405:
            headers.append((b"allow", b"GET, HEAD"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, method: str, path: str) -> tuple[int, bytes, str]:
        if path not in ("/health", "/ready", "/metrics"):
            return _line(404, "only /health, /ready and /metrics are here")
        if method not in ("GET", "HEAD"):
            return _line(405, "only GET and HEAD")
        if path == "/metrics":
            return 200, *await self._metrics()
        why = self._alive() if path == "/health" else await self._ready()
        return _line(503 if why else 200, why or "ok")


def _line(status: int, text: str) -> tuple[int, bytes, str]:
    return status, f"{text}\n".encode(), _PLAIN
