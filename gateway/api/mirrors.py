"""/v3/links/{link}/mirrors"""

from __future__ import annotations

from fastapi import APIRouter

from gateway.api.mirror_change_models import CreatePlanData, PromotePlanData
from gateway.api.mirror_changes import ValidateOnly
from gateway.api.mirror_models import AlterMirrors, CreateMirror, MirrorData, MirrorList, TranslatedOffset
from gateway.api.models import ForceOption, MirrorNames
from gateway.api.plane import Plane
from gateway.state.records import MirrorState


def router(plane: Plane) -> APIRouter:
    """The routes of mirror topics."""
    routes = APIRouter(prefix="/v3/links/{link}/mirrors", tags=["mirrors"])

    @routes.get("", summary="List the mirror topics of a link")
    async def list_mirrors(link: str, mirror_status: MirrorState | None = None) -> MirrorList:
        return MirrorList(data=[MirrorData.of(view) for view in plane().mirrors.list(link, mirror_status)])

    @routes.post("", status_code=201, summary="Create a mirror topic and begin to mirror")
    async def create_mirror(
        link: str, body: CreateMirror, validate_only: ValidateOnly = False
    ) -> MirrorData | CreatePlanData:
        names, wanted = (body.source_topic_name, body.mirror_topic_name), body.wanted()
        if validate_only:
            return CreatePlanData.of(await plane().mirrors.create_plan(link, *names, wanted))
        return MirrorData.of(await plane().mirrors.create(link, *names, wanted))

    @routes.get("/{topic}", summary="Describe a mirror topic: lag, throughput, who has not migrated yet")
    async def describe_mirror(link: str, topic: str, include_state_transition_errors: bool = False) -> MirrorData:
        view = await plane().mirrors.describe(link, topic)
        return MirrorData.of(view, transition_errors=include_state_transition_errors)

    @routes.get("/{topic}/partitions/{partition}:translate", summary="Where an offset is on the other cluster")
    async def translate_offset(
        link: str, topic: str, partition: int, offset: int, reverse: bool = False
    ) -> TranslatedOffset:
        found = await plane().mirrors.translate_offset(link, topic, partition, offset, reverse=reverse)
        return TranslatedOffset(
            partition=partition, offset=offset, reverse=reverse, translated=found.offset, rule=found.rule.value
        )

    @routes.post("/{topic}:pause", summary="Pause a mirror topic")
    async def pause_mirror(link: str, topic: str) -> MirrorData:
        return MirrorData.of(await plane().mirrors.pause(link, topic))

    @routes.post("/{topic}:resume", summary="Resume a paused mirror topic")
    async def resume_mirror(link: str, topic: str) -> MirrorData:
        return MirrorData.of(await plane().mirrors.resume(link, topic))

    @routes.post("/{topic}:promote", status_code=202, summary="Begin to promote a mirror topic")
    async def promote_mirror(
        link: str, topic: str, body: ForceOption | None = None, validate_only: ValidateOnly = False
    ) -> MirrorData | PromotePlanData:
        force = bool(body and body.force)
        if validate_only:
            return PromotePlanData.of(await plane().promote_plans.plan(link, [topic], force=force))
        return MirrorData.of((await plane().mirrors.promote(link, [topic], force=force))[0])

    return routes


def batch_router(plane: Plane) -> APIRouter:
    """The routes for several mirror topics at once: a promote treats them as one set."""
    routes = APIRouter(tags=["mirrors"])

    @routes.post("/v3/links/{link}/mirrors:pause", summary="Pause mirror topics")
    async def pause_mirrors(link: str, body: MirrorNames) -> MirrorList:
        views = await plane().mirrors.pause_all(link, body.mirror_topic_names)
        return MirrorList(data=[MirrorData.of(view) for view in views])

    @routes.post("/v3/links/{link}/mirrors:resume", summary="Resume paused mirror topics")
    async def resume_mirrors(link: str, body: MirrorNames) -> MirrorList:
        views = await plane().mirrors.resume_all(link, body.mirror_topic_names)
        return MirrorList(data=[MirrorData.of(view) for view in views])

    @routes.post(
        "/v3/links/{link}/mirrors:promote", status_code=202, summary="Begin to promote mirror topics as one set"
    )
    async def promote_mirrors(
        link: str, body: AlterMirrors, validate_only: ValidateOnly = False
    ) -> MirrorList | PromotePlanData:
        if validate_only:
            plans = plane().promote_plans
            return PromotePlanData.of(await plans.plan(link, body.mirror_topic_names, force=body.force))
        views = await plane().mirrors.promote(
            link, body.mirror_topic_names, force=body.force, direction=body.mirror_direction
        )
        return MirrorList(data=[MirrorData.of(view) for view in views])

    return routes
