"""/v3/links/{link}/catch-up"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from gateway.control.rest.catch_up_models import CatchUpPlanData, ReportCatchUp
from gateway.control.service import ControlService


def router(service: ControlService) -> APIRouter:
    """The routes of catch-up jobs."""
    routes = APIRouter(prefix="/v3/links/{link}/catch-up", tags=["catch-up"])

    @routes.get("", summary="What a catch-up job needs: ids, starts, and how to reach both clusters")
    async def plan(link: str, topic: Annotated[list[str] | None, Query()] = None) -> CatchUpPlanData:
        return CatchUpPlanData.of(service.catch_ups.plan(link, topic or []))

    @routes.put("/{job}", status_code=204, summary="A catch-up job's report; the engine leaves its topics to it")
    async def report(link: str, job: str, body: ReportCatchUp) -> Response:
        await service.catch_ups.report(link, job, body.state, body.progress(job))
        return Response(status_code=204)

    return routes
