"""/console, /console/{file}, /console/caller, /console/feed: what any gateway answers, whoever leads.

The page is shown to anybody, and is empty: it asks for a token, and listens to the feed with it. The feed takes the
role viewer. `/console/caller` tells whoever asks which role it has been proved to have, `anyone` without a proof.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from gateway.api.access.roles import CALLER, NOBODY, Caller, Role
from gateway.api.routes import Routes
from gateway.console.feed import Feed, Listener, TooManyListeners
from gateway.console.files import PAGE, page_files
from gateway.control_plane import StatusView
from gateway.errors import NotFound
from gateway.version import VERSION


def router(feed: Feed, view: Callable[[], StatusView]) -> Routes:
    """The routes. `view`: of this gateway."""
    routes = Routes(include_in_schema=False)

    @routes.get("/console", Role.ANYONE)
    async def page() -> Response:
        return _file(PAGE)

    @routes.get("/console/caller", Role.ANYONE)
    async def who(request: Request) -> JSONResponse:
        caller: Caller = request.scope.get(CALLER, NOBODY)
        return JSONResponse({"name": caller.name, "role": str(caller.role)})

    @routes.get("/console/feed")
    async def listen(request: Request) -> Response:
        caller: Caller = request.scope.get(CALLER, NOBODY)
        try:
            place = feed.enter(caller.name, is_admin=caller.role is Role.ADMIN)
        except TooManyListeners as exc:
            return JSONResponse({"error_code": 503, "message": str(exc)}, 503)
        hello = {"name": caller.name, "role": str(caller.role), "gateway": view().gateway, "version": VERSION}
        return _Stream(feed, place, hello)

    @routes.get("/console/{file}", Role.ANYONE)
    async def part(file: str) -> Response:
        return _file(file)

    return routes


class _Stream(StreamingResponse):
    """The place was taken before the first byte, so nothing is refused behind a 200; it is left however this ends."""

    def __init__(self, feed: Feed, place: Listener, hello: Mapping[str, Any]) -> None:
        super().__init__(feed.listen(place, hello), media_type="text/event-stream")
        self._left = partial(feed.leave, place)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._left()


def _file(name: str) -> Response:
    found = page_files().get(name)
    if found is None:
        raise NotFound(f"/console has no {name}")
    return Response(found.content, media_type=found.kind)
