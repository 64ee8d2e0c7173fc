"""/docs: the API as a page to read and to try, from the OpenAPI document at /openapi.json.

Made of three files beside this one and nothing else: no other site is asked for anything, which the content security
policy of every answer would refuse, too. The page itself is shown to anybody; it asks for a token, keeps it in the
tab's `sessionStorage` under `lockgate.token`, and reads the document with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any, Final

from fastapi import Response
from fastapi.responses import JSONResponse

from gateway.api.access.roles import Role
from gateway.api.routes import Routes
from gateway.errors import NotFound

_KINDS: Final = {"docs.css": "text/css; charset=utf-8", "docs.js": "text/javascript; charset=utf-8"}


def router(document: Callable[[], Mapping[str, Any]]) -> Routes:
    """The routes of the page. `document`: OpenAPI's, with roles (`RestApp.described`)."""
    routes = Routes(include_in_schema=False)

    @routes.get("/docs", Role.ANYONE)
    async def page() -> Response:
        return Response(_file("docs.html"), media_type="text/html; charset=utf-8")

    @routes.get("/docs/{file}", Role.ANYONE)
    async def part(file: str) -> Response:
        if file not in _KINDS:
            raise NotFound(f"/docs has no {file}")
        return Response(_file(file), media_type=_KINDS[file])

    @routes.get("/openapi.json")
    async def openapi() -> JSONResponse:
        return JSONResponse(document())

    return routes


def _file(name: str) -> bytes:
    return files(__name__).joinpath(name).read_bytes()
