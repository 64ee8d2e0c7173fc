"""/v3/links/{link}/mirrors/{topic}: repair, deletion, and the errors of its transitions.

With `validate_only=true` nothing is changed: the answer is the plan.
"""

from __future__ import annotations

from fastapi import Response
from fastapi.responses import JSONResponse

from gateway.api.access.roles import Role
from gateway.api.mirrors.mirror_change_models import (
    DeletionPlanData,
    RepairMirror,
    RepairPlanData,
    TransitionErrorData,
    TransitionErrorList,
)
from gateway.api.mirrors.mirror_models import MirrorData
from gateway.api.models import ValidateOnly
from gateway.api.plane import Plane
from gateway.api.routes import Routes
from gateway.topics.rules.repair import RepairAction


def router(plane: Plane) -> Routes:
    """The routes of one mirror topic that are not in `mirrors.py` or `failbacks.py`."""
    routes = Routes(prefix="/v3/links/{link}/mirrors/{topic}", tags=["mirrors"])

    @routes.delete(
        "",
        Role.ADMIN,
        status_code=204,
        summary="Delete a mirror topic; the topic stays on the target unless delete_topic says so",
        responses={200: {"model": DeletionPlanData, "description": "The plan, with validate_only"}},
    )
    async def delete_mirror(
        link: str, topic: str, delete_topic: bool = False, force: bool = False, validate_only: ValidateOnly = False
    ) -> Response:
        deletion = plane().mirror_deletion
        if validate_only:
            plan = await deletion.plan(link, topic, topic_too=delete_topic, force=force)
            return JSONResponse(DeletionPlanData.of(plan).model_dump())
        await deletion.delete(link, topic, topic_too=delete_topic, force=force)
        return Response(status_code=204)

    @routes.post(
        ":repair", Role.OPERATOR, status_code=202, summary="Set a FAILED mirror topic going again, deleting nothing"
    )
    async def repair_mirror(
        link: str, topic: str, body: RepairMirror | None = None, validate_only: ValidateOnly = False
    ) -> MirrorData | RepairPlanData:
        repair = plane().mirror_repair
        if validate_only:
            return RepairPlanData.of(await repair.plan(link, topic))
        record = await repair.repair(link, topic, body.chosen if body else None)
        return MirrorData.of(plane().mirrors.view(record))

    @routes.post(
        ":recreate", Role.ADMIN, status_code=202, summary="Delete a FAILED mirror topic's copy, and fill it anew"
    )
    async def recreate_mirror(
        link: str, topic: str, validate_only: ValidateOnly = False
    ) -> MirrorData | RepairPlanData:
        repair = plane().mirror_repair
        if validate_only:
            return RepairPlanData.of(await repair.plan(link, topic))
        record = await repair.repair(link, topic, RepairAction.RECREATE)
        return MirrorData.of(plane().mirrors.view(record))

    @routes.get("/state-transition-errors", summary="Why a mirror topic did not come to a state it was to go to")
    async def transition_errors(link: str, topic: str) -> TransitionErrorList:
        mirrors = plane().mirrors
        errors = mirrors.transition_errors(mirrors.record(link, topic))
        return TransitionErrorList(data=[TransitionErrorData.of(error) for error in errors])

    return routes
