"""The REST application of a test, made once for all tests of a process.

FastAPI needs some 80 ms to build the routes, and some of them more at their first request: longer than most tests take.
So one application serves them all; whose request it answers stands in a context variable.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import cache
from typing import Any, Final

from gateway.api.access.roles import RouteTable
from gateway.api.app import create_app
from gateway.api.own import create_own_app
from gateway.api.routes import RestApp
from gateway.console.feed import Feed
from gateway.console.rules.trends import Trends

_PARTS: ContextVar[tuple[Any, ...]] = ContextVar("_PARTS")
"""Of the gateway that is asked: what `create_app`, or `create_own_app`, was given."""


class SharedApp:
    """An ASGI application that stands for one of `api/` with parts of its own."""

    def __init__(self, app: RestApp, parts: tuple[Any, ...]) -> None:
        self.openapi: Final = app.openapi
        self.described: Final = app.described
        self.rows: Final = app.rows
        self._app = app
        self._parts = parts

    async def __call__(self, scope: Any, receive: Callable[[], Any], send: Callable[[Any], Awaitable[None]]) -> None:
        before = _PARTS.set(self._parts)
        try:
            await self._app(scope, receive, send)
        finally:
            _PARTS.reset(before)


class _Metrics:
    async def text(self) -> tuple[bytes, str]:
        text: tuple[bytes, str] = await _PARTS.get()[1].text()
        return text


def _part(index: int) -> Callable[[], Any]:
    def call() -> Any:
        return _PARTS.get()[index]()

    return call


@cache
def _led(fleet: bool, writes: bool) -> RestApp:
    told = (_part(3) if fleet else None, _part(4) if writes else None)
    return create_app(_part(0), _Metrics(), _part(2), *told, _part(5))


@cache
def _own() -> RestApp:
    return create_own_app(_part(0), _Metrics(), _part(2), _part(3))


@cache
def every_route() -> RouteTable:
    """All that a gateway serves, with its own pages and the console's."""
    own = create_own_app(_part(0), _Metrics(), dict, feed=Feed(_part(0), time.monotonic))
    return RouteTable((*own.rows, *_led(True, True).rows))


def shared_app(
    plane: Any, metrics: Any, listeners: Any = dict, fleet: Any = None, writes: Any = None, trends: Any = Trends
) -> SharedApp:
    """In place of `create_app`."""
    return SharedApp(_led(fleet is not None, writes is not None), (plane, metrics, listeners, fleet, writes, trends))


def shared_own_app(*parts: Any) -> SharedApp:
    """In place of `create_own_app`, without what only the console and the description need."""
    return SharedApp(_own(), parts[:4])
