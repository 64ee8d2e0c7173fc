"""/v3/gateways"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from gateway.fleet.views import GatewayView


class GatewaysView(Protocol):
    """The fleet, as the leader knows it."""

    def list(self) -> Sequence[GatewayView]:
        """All gateways."""

    def describe(self, name: str) -> GatewayView:
        """One of them."""

    async def forget(self, name: str) -> None:
        """Wait for it no more."""


class GatewayData(BaseModel):
    """A gateway of the fleet."""

    kind: Literal["LockgateGatewayData"] = "LockgateGatewayData"
    name: str
    role: str
    state: str = Field(description="up, silent (not heard for a moment) or lost (a write pause waits for its lease).")
    leads: bool
    peer: str
    lease_s: float
    lease_left_s: float | None = Field(None, description="Of a lost one: for how long it is waited for yet.")
    workers: int = Field(description="Its processes.")
    mirror_partitions: int
    admitted_ms: int

    @classmethod
    def of(cls, view: GatewayView) -> GatewayData:
        """From the view."""
        record = view.record
        return cls(
            name=view.name,
            role=record.role,
            state=view.state,
            leads=view.leads,
            peer=record.peer,
            lease_s=record.lease_ms / 1000,
            lease_left_s=None if view.lease_left_s is None else round(view.lease_left_s, 1),
            workers=view.workers,
            mirror_partitions=len(view.mirrors),
            admitted_ms=record.since_ms,
        )


class GatewayList(BaseModel):
    """The gateways of the fleet."""

    data: list[GatewayData]


def router(fleet: Callable[[], GatewaysView]) -> APIRouter:
    """The routes of gateways. A name may hold any character."""
    routes = APIRouter(prefix="/v3/gateways", tags=["gateways"])

    @routes.get("", summary="List the gateways of the fleet")
    async def list_gateways() -> GatewayList:
        return GatewayList(data=[GatewayData.of(view) for view in fleet().list()])

    @routes.get("/{name:path}", summary="Describe a gateway")
    async def describe_gateway(name: str) -> GatewayData:
        return GatewayData.of(fleet().describe(name))

    @routes.delete("/{name:path}", status_code=204, summary="Wait no more for a lost gateway: it has stopped")
    async def forget_gateway(name: str) -> Response:
        await fleet().forget(name)
        return Response(status_code=204)

    return routes
