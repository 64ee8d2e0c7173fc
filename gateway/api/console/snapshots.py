"""/v3/console: what the console shows, of the whole fleet, as the leader knows it. Nobody is asked for it.

Trends are those that the gateway which leads has kept, of its own terms and of what it heard before it led.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final, Literal

from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from gateway.api.gateways import GatewaysView
from gateway.api.plane import Plane
from gateway.api.routes import Routes
from gateway.console.rules.levels import levels
from gateway.console.rules.snapshot import ClientsSeen, Scene, partition_rows, snapshot
from gateway.console.rules.trends import Trends

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


class LevelsData(BaseModel):
    """Lag, throughput and pauses now. `levels`: `KIND/LINK/NAME` -> the numbers of its series, null: not known."""

    kind: Literal["LockgateLevels"] = "LockgateLevels"
    at_ms: int
    levels: dict[str, list[float | None]]


class TrendSeries(BaseModel):
    """One number of one object over time. `values[i]` is of the `step_ms` from `since_ms + i * step_ms` on."""

    kind: Literal["LockgateTrend"] = "LockgateTrend"
    link_name: str
    name: str = Field(description="Of the link, topic or group.")
    series: str = Field(description="`lag` in records, `bytes_per_s`, or `pause_ms`: the longest pause of writes.")
    since_ms: int
    step_ms: int
    values: list[float | None] = Field(description="Null where nothing was heard: a gap, and no zero.")


class TrendList(BaseModel):
    """Trends of links, mirror topics or mirror groups."""

    kind: Literal["LockgateTrendList"] = "LockgateTrendList"
    data: list[TrendSeries]


Kinds = Literal["link", "topic", "group"]
Spans = Literal["hour", "whole"]

_COLUMNS: Final = (  # as partition_rows
    *("link", "topic", "partition", "phase", "origin_end", "mirrored_to", "copy_end", "lag", "lag_ms"),
    *("bytes_per_s", "note"),
)


def router(
    plane: Plane,
    fleet: Callable[[], GatewaysView] | None,
    clients: Clients | None,
    trends: Callable[[], Trends] = Trends,
) -> Routes:
    """The routes."""
    routes = Routes(tags=["console"])

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
        "/v3/console/partitions",
        summary="Partitions of mirror topics in numbers",
        response_model=PartitionList,
    )
    async def partitions(link: str = "", topic: str = "") -> JSONResponse:
        rows = partition_rows(plane().numbers(), link, topic)
        return JSONResponse({"kind": "LockgatePartitionList", "columns": _COLUMNS, "rows": rows})

    @routes.get("/v3/console/levels", summary="What trends are kept of, as it is now", response_model=LevelsData)
    async def now() -> JSONResponse:
        service = plane()
        said = levels(service.numbers())
        return JSONResponse({"kind": "LockgateLevels", "at_ms": service.now_ms(), "levels": said})

    @routes.get(
        "/v3/console/trends",
        summary="Lag, throughput and pauses: the last hour, or since it began",
        response_model=TrendList,
    )
    async def trend(of: Kinds, span: Spans = "hour", link: str = "", name: str = "", series: str = "") -> JSONResponse:
        found = _series(trends(), of, span, link, name)
        data = [one for one in found if series in ("", one["series"])]
        return JSONResponse({"kind": "LockgateTrendList", "data": data})

    return routes


def _series(trends: Trends, kind: str, span: str, link: str, name: str) -> Iterator[Mapping[str, Any]]:
    """A link's name has no `/`, a group's may."""
    for key in trends.keys(f"{kind}/"):
        _, of_link, named = key.split("/", 2)
        if link not in ("", of_link) or name not in ("", named):
            continue
        for series, points in trends.of(key, span).items():
            said = {"link_name": of_link, "name": named, "series": series, **points._asdict()}
            yield {"kind": "LockgateTrend", **said}
