"""/v3/links/{link}/catch-up and /v3/links/{link}/job-plan"""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response

from gateway.api.access.roles import Role
from gateway.api.mirrors.catch_up_models import JobPlanData, ReportCatchUp
from gateway.api.plane import Plane
from gateway.api.routes import Routes


def router(plane: Plane) -> Routes:
    """The routes of catch-up jobs."""
    routes = Routes(prefix="/v3/links/{link}", tags=["jobs"])

    @routes.get("/catch-up", summary="What a catch-up job needs: ids, starts, and how to reach both clusters")
    async def plan(link: str, topic: Annotated[list[str] | None, Query()] = None) -> JobPlanData:
        return JobPlanData.of(plane().catch_ups.plan(link, topic or []))

    @routes.get(
        "/job-plan",
        summary="What other jobs need of the link: how to reach both clusters, and its mirrors",
    )
    async def reading_plan(link: str, topic: Annotated[list[str] | None, Query()] = None) -> JobPlanData:
        return JobPlanData.of(plane().catch_ups.reading_plan(link, topic or []))

    @routes.put(
        "/catch-up/{job}",
        Role.OPERATOR,
        status_code=204,
        summary="A catch-up job's report; the engine leaves its topics to it",
    )
    async def report(link: str, job: str, body: ReportCatchUp) -> Response:
        await plane().catch_ups.report(link, job, body.state, body.progress(job), body.lost_by_topic())
        return Response(status_code=204)

    return routes
