"""/v3/links/{link}/migration-discovery, /v3/migrations"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from gateway.api.discovery_models import DiscoveryData
from gateway.api.plane import Plane

Picture = Annotated[bool, Query(description="With the picture, as SVG.")]


def router(plane: Plane) -> APIRouter:
    """The routes of migrations as a whole."""
    routes = APIRouter(tags=["migrations"])

    @routes.get("/v3/links/{link}/migration-discovery", summary="What must move together on a link's source, and why")
    async def discover(link: str, picture: Picture = False) -> DiscoveryData:
        return DiscoveryData.of(link, await plane().discovery.discover(link), picture=picture)

    return routes
