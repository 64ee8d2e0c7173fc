"""No request builds the application: the first one costs the event loop what the others do."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from gateway.api.app import create_app
from gateway.api.built_routes import with_built_routes


class Metrics:
    async def text(self) -> tuple[bytes, str]:
        return b"", "text/plain"


async def calls_of(app: Any) -> int:
    """Python functions that a request which nothing answers has called."""
    calls = 0

    def count(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal calls
        calls += event == "call"

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gw") as client:
        sys.setprofile(count)
        try:
            answer = await client.get("/no/such/path")
        finally:
            sys.setprofile(None)
    assert answer.status_code == 404
    return calls


def made(plane: Callable[[], Any] = lambda: None) -> Any:
    return create_app(plane, Metrics())


async def test_the_first_request_costs_what_the_second_does(monkeypatch: pytest.MonkeyPatch) -> None:
    app = made()
    first, second = await calls_of(app), await calls_of(app)
    assert first < 2 * second
    monkeypatch.setattr("gateway.api.app.with_built_routes", lambda app: app)
    late = made()
    assert await calls_of(late) > 10 * second, "else FastAPI builds them at once, and nothing is to be done"
    assert with_built_routes(late) is late
