"""A router whose every route says who may use it; and the application that is made of such routers.

What is served and who may ask for it are one declaration, so neither can be forgotten, nor be of another order than the
other one: `RestApp.rows` are read from the routers in the order in which the application looks paths up. A route that
is added past them has no row, and is 404 for everybody (`access/roles.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from fastapi import APIRouter, FastAPI

from gateway.api.access.roles import Role, Route

_Endpoint = TypeVar("_Endpoint", bound=Callable[..., Any])


class Routes:
    """Routes below one path, each with the least role that it takes. `options`: as FastAPI's router has them.

    What only reads takes the role viewer, unless it says another one. `config`: which name in the path is that of a
    link's config; see `Route`.
    """

    def __init__(self, prefix: str = "", **options: Any) -> None:
        self.router = APIRouter(prefix=prefix, **options)
        self.rows: list[Route] = []

    def get(
        self, path: str, role: Role = Role.VIEWER, *, config: str = "", **options: Any
    ) -> Callable[[_Endpoint], _Endpoint]:
        """Add a route. `options`: as FastAPI has them, `summary` and the like."""
        return self._add(Route("GET", path, role, config), options)

    def post(self, path: str, role: Role, *, reads: bool = False, **options: Any) -> Callable[[_Endpoint], _Endpoint]:
        """Likewise. `reads`: nothing is changed by it."""
        return self._add(Route("POST", path, role, reads=reads), options)

    def put(self, path: str, role: Role, *, config: str = "", **options: Any) -> Callable[[_Endpoint], _Endpoint]:
        """Likewise."""
        return self._add(Route("PUT", path, role, config), options)

    def delete(self, path: str, role: Role, *, config: str = "", **options: Any) -> Callable[[_Endpoint], _Endpoint]:
        """Likewise."""
        return self._add(Route("DELETE", path, role, config), options)

    def _add(self, row: Route, options: Mapping[str, Any]) -> Callable[[_Endpoint], _Endpoint]:
        self.rows.append(row._replace(path=self.router.prefix + row.path))
        return self.router.api_route(row.path, methods=[row.method], **options)


class RestApp(FastAPI):
    """FastAPI's application, which knows who may use its routes."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.rows: list[Route] = []

    def include(self, routes: Routes) -> None:
        """The routes behind those that are there."""
        self.include_router(routes.router)
        self.rows += routes.rows

    def described(self) -> dict[str, Any]:
        """The OpenAPI document with what every operation takes: a token, and of which role (`x-lockgate-role`)."""
        document = self.openapi()
        roles = {(row.method.lower(), row.path.replace(":path}", "}")): str(row.role) for row in self.rows}
        paths = {
            path: {
                method: {**said, "x-lockgate-role": roles[method, path], "security": [{"token": []}]}
                for method, said in operations.items()
            }
            for path, operations in document.get("paths", {}).items()
        }
        components = {
            **document.get("components", {}),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        }
        return {**document, "paths": paths, "components": components}
