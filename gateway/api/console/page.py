"""/console, /console/{file}, /console/caller, /console/feed: what any gateway answers, whoever leads.

The page is shown to anybody, and is empty: it asks for a token, and listens to the feed with it. The feed takes the
role viewer. `/console/caller` tells whoever asks which role it has been proved to have, `anyone` without a proof.
"""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from gateway.api.access.roles import CALLER, NOBODY, Caller
from gateway.console.feed import Feed, TooManyListeners
from gateway.console.files import PAGE, page_files
from gateway.control_plane import StatusView
from gateway.errors import NotFound
from gateway.version import VERSION


def router(feed: Feed, view: Callable[[], StatusView]) -> APIRouter:
    """The routes. `view`: of this gateway."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/console")
    async def page() -> Response:
        return _file(PAGE)

    @routes.get("/console/caller")
    async def who(request: Request) -> JSONResponse:
        caller: Caller = request.scope.get(CALLER, NOBODY)
        return JSONResponse({"name": caller.name, "role": str(caller.role)})

    @routes.get("/console/feed")
    async def listen(request: Request) -> Response:
        try:
            feed.require_room()
        except TooManyListeners as exc:
            return JSONResponse({"error_code": 503, "message": str(exc)}, 503)
        caller: Caller = request.scope.get(CALLER, NOBODY)
        hello = {"name": caller.name, "role": str(caller.role), "gateway": view().gateway, "version": VERSION}
        return StreamingResponse(feed.listen(hello), media_type="text/event-stream")

    @routes.get("/console/{file}")
    async def part(file: str) -> Response:
        return _file(file)

    return routes


def _file(name: str) -> Response:
    found = page_files().get(name)
    if found is None:
        raise NotFound(f"/console has no {name}")
    return Response(found.content, media_type=found.kind)
