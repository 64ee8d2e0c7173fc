"""/v3/console: what the console shows, of the whole fleet, as the leader knows it. Nobody is asked for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from gateway.api.gateways import GatewaysView
from gateway.api.plane import Plane
from gateway.console.rules.snapshot import ClientsSeen, Scene, partition_rows, snapshot

Clients = Callable[[], Awaitable[ClientsSeen]]
"""What clients do, at all gateways that tell in time."""


class ConsoleData(BaseModel):
    """The console's snapshot: section -> key -> row."""

    kind: Literal["LockgateConsole"] = "LockgateConsole"
    sections: dict[str, dict[str, dict[str, Any]]]


class PartitionList(BaseModel):
    """Partitions of mirror topics, a list of cells each: `columns` names them."""

    kind: Literal["LockgatePartitionList"] = "LockgatePartitionList"
    columns: list[str]
    rows: list[list[Any]] = Field(description="Null: not known.")


_COLUMNS: Final = (  # as partition_rows
    *("link", "topic", "partition", "phase", "origin_end", "mirrored_to", "copy_end", "lag", "lag_ms"),
    *("bytes_per_s", "note"),
)


def router(plane: Plane, fleet: Callable[[], GatewaysView] | None, clients: Clients | None) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["console"])

    @routes.get("/v3/console", summary="What the console shows: one snapshot", response_model=ConsoleData)
    async def console() -> JSONResponse:
        seen = None if clients is None else await clients()
        service = plane()
        scene = Scene(
            now_ms=service.now_ms(),
            target_cluster_id=service.target_cluster_id(),
            numbers=service.numbers(),
            views=service.views,
            gateways=() if fleet is None else fleet().list(),
            clients=seen,
        )
        return JSONResponse({"kind": "LockgateConsole", "sections": snapshot(scene)})

    @routes.get(
        "/v3/console/partitions", summary="Partitions of mirror topics in numbers", response_model=PartitionList
    )
    async def partitions(link: str = "", topic: str = "") -> JSONResponse:
        rows = partition_rows(plane().numbers(), link, topic)
        return JSONResponse({"kind": "LockgatePartitionList", "columns": _COLUMNS, "rows": rows})

    return routes
