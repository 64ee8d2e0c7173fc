"""/v3/gateways"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from fastapi import Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from gateway.api.access.roles import Role
from gateway.api.models import ValidateOnly
from gateway.api.routes import Routes
from gateway.errors import Conflict
from gateway.fleet.rules.membership import gateway_of
from gateway.fleet.views import GatewayView


class GatewaysView(Protocol):
    """The fleet, as the leader knows it."""

    def list(self) -> Sequence[GatewayView]:
        """All gateways."""

    def describe(self, name: str) -> GatewayView:
        """One of them."""

    async def forget(self, name: str) -> None:
        """Wait for it no more."""

    def forgotten(self, name: str) -> Sequence[str]:
        """The processes that `forget` would wait for no more."""


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


class ForgetPlanData(BaseModel):
    """What it would mean to forget a gateway. Only its operator knows whether it has stopped; no gateway does."""

    kind: Literal["LockgateForgetPlan"] = "LockgateForgetPlan"
    name: str
    refused: str = Field(description="Why it would be refused; '' when it would be done.")
    processes: list[str] = Field(description="Which of its processes would be waited for no more.")
    lease_left_s: float | None = Field(description="For how long they may write to a source yet, if they still run.")

    @classmethod
    def of(cls, name: str, fleet: GatewaysView) -> ForgetPlanData:
        """Of one gateway, or of one of its processes. Raises NotFound."""
        try:
            processes, refused = list(fleet.forgotten(name)), ""
        except Conflict as exc:
            processes, refused = [], str(exc)
        left = None if refused else next((v.lease_left_s for v in fleet.list() if v.name == gateway_of(name)), None)
        left = None if left is None else round(left, 1)
        return cls(name=name, refused=refused, processes=processes, lease_left_s=left)


def router(fleet: Callable[[], GatewaysView]) -> Routes:
    """The routes of gateways. A name may hold any character."""
    routes = Routes(prefix="/v3/gateways", tags=["gateways"])

    @routes.get("", summary="List the gateways of the fleet")
    async def list_gateways() -> GatewayList:
        return GatewayList(data=[GatewayData.of(view) for view in fleet().list()])

    @routes.get("/{name:path}", summary="Describe a gateway")
    async def describe_gateway(name: str) -> GatewayData:
        return GatewayData.of(fleet().describe(name))

    @routes.delete(
        "/{name:path}",
        Role.ADMIN,
        status_code=204,
        summary="Wait no more for a lost gateway: it has stopped",
        responses={200: {"model": ForgetPlanData, "description": "With validate_only: what it would mean"}},
    )
    async def forget_gateway(name: str, validate_only: ValidateOnly = False) -> Response:
        if validate_only:
            return JSONResponse(ForgetPlanData.of(name, fleet()).model_dump())
        await fleet().forget(name)
        return Response(status_code=204)

    return routes
