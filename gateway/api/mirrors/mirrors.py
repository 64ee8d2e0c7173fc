"""/v3/links/{link}/mirrors"""

from __future__ import annotations

from fastapi import Request

from gateway.api.access.roles import Role, caller_name
from gateway.api.mirrors.mirror_change_models import CreatePlanData, PromotePlanData
from gateway.api.mirrors.mirror_models import (
    AlterMirrors,
    CalledOffData,
    CreateMirror,
    MirrorData,
    MirrorList,
    PromoteMirror,
    TranslatedOffset,
    mirror_key,
    partitions_of,
)
from gateway.api.models import MirrorNames, ValidateOnly
from gateway.api.paging import Paged
from gateway.api.plane import Plane
from gateway.api.rehearsal_models import RehearsalData, RehearsalPlanData, RehearsePromote
from gateway.api.routes import Routes
from gateway.state.mirror_states import MirrorOperation
from gateway.state.records import MirrorState


def router(plane: Plane) -> Routes:
    """The routes of mirror topics."""
    routes = Routes(prefix="/v3/links/{link}/mirrors", tags=["mirrors"])

    @routes.get("", summary="List the mirror topics of a link")
    async def list_mirrors(link: str, pages: Paged, mirror_status: MirrorState | None = None) -> MirrorList:
        mirrors = plane().mirrors
        page, metadata = pages.cut(mirrors.records(link, mirror_status), mirror_key, partitions_of)
        return MirrorList(metadata=metadata, data=[MirrorData.of(mirrors.view(record)) for record in page])

    @routes.post("", Role.OPERATOR, status_code=201, summary="Create a mirror topic and begin to mirror")
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

    _add_switches(routes, plane)

    @routes.post(
        "/{topic}:promote",
        Role.OPERATOR,
        status_code=202,
        summary="Begin to promote a mirror topic to the target, or home",
    )
    async def promote_mirror(
        link: str, topic: str, body: PromoteMirror | None = None, validate_only: ValidateOnly = False
    ) -> MirrorData | PromotePlanData:
        asked = body or PromoteMirror()
        way = asked.mirror_direction
        if validate_only:
            plans = plane().promote_plans
            return PromotePlanData.of(await plans.plan(link, [topic], force=asked.force, direction=way))
        return MirrorData.of((await plane().mirrors.promote(link, [topic], force=asked.force, direction=way))[0])

    return routes


def _add_switches(routes: Routes, plane: Plane) -> None:
    """Pause and resume of one topic. With `validate_only` the answer is the mirror as it is, or the refusal."""

    async def would(operation: MirrorOperation, link: str, topic: str) -> None:
        for outlook in await plane().dry_runs.of(operation, link, [topic]):
            if outlook.refused is not None:
                raise outlook.refused

    @routes.post("/{topic}:pause", Role.OPERATOR, summary="Pause a mirror topic")
    async def pause_mirror(link: str, topic: str, validate_only: ValidateOnly = False) -> MirrorData:
        mirrors = plane().mirrors
        if validate_only:
            await would(MirrorOperation.PAUSE, link, topic)
        else:
            await mirrors.pause(link, topic)
        return MirrorData.of(mirrors.view(mirrors.record(link, topic)))

    @routes.post("/{topic}:resume", Role.OPERATOR, summary="Resume a paused mirror topic")
    async def resume_mirror(link: str, topic: str, validate_only: ValidateOnly = False) -> MirrorData:
        mirrors = plane().mirrors
        if validate_only:
            await would(MirrorOperation.RESUME, link, topic)
        else:
            await mirrors.resume(link, topic)
        return MirrorData.of(mirrors.view(mirrors.record(link, topic)))


def batch_router(plane: Plane) -> Routes:
    """The routes for several mirror topics at once: a promote treats them as one set."""
    routes = Routes(tags=["mirrors"])

    @routes.post("/v3/links/{link}/mirrors:pause", Role.OPERATOR, summary="Pause mirror topics")
    async def pause_mirrors(link: str, body: MirrorNames, validate_only: ValidateOnly = False) -> MirrorList:
        views = await plane().mirrors.pause_all(link, body.mirror_topic_names, validate_only=validate_only)
        return MirrorList(data=[MirrorData.of(view) for view in views])

    @routes.post("/v3/links/{link}/mirrors:resume", Role.OPERATOR, summary="Resume paused mirror topics")
    async def resume_mirrors(link: str, body: MirrorNames, validate_only: ValidateOnly = False) -> MirrorList:
        views = await plane().mirrors.resume_all(link, body.mirror_topic_names, validate_only=validate_only)
        return MirrorList(data=[MirrorData.of(view) for view in views])

    @routes.post(
        "/v3/links/{link}/mirrors:promote",
        Role.OPERATOR,
        status_code=202,
        summary="Begin to promote mirror topics as one set, to the target or home",
    )
    async def promote_mirrors(
        link: str, body: AlterMirrors, validate_only: ValidateOnly = False
    ) -> MirrorList | PromotePlanData:
        if validate_only:
            plans = plane().promote_plans
            names, along, way = body.mirror_topic_names, body.group_names, body.mirror_direction
            return PromotePlanData.of(await plans.plan(link, names, groups=along, force=body.force, direction=way))
        views = await plane().mirrors.promote(
            link,
            body.mirror_topic_names,
            groups=body.group_names,
            force=body.force,
            direction=body.mirror_direction,
        )
        return MirrorList(data=[MirrorData.of(view) for view in views])

    @routes.post(
        "/v3/links/{link}/mirrors:rehearse-promote",
        Role.OPERATOR,
        summary="Do all of a promote as one set but the cutover, go back, and tell who waited how long",
    )
    async def rehearse_promote(
        link: str, body: RehearsePromote, validate_only: ValidateOnly = False
    ) -> RehearsalData | RehearsalPlanData:
        rehearsals, names = plane().rehearsals, body.mirror_topic_names
        if validate_only:
            return RehearsalPlanData(link_name=link, mirror_topic_names=list(await rehearsals.check(link, names)))
        return RehearsalData.of(link, await rehearsals.rehearse(link, names, body.bound_ms / 1000))

    @routes.post(
        "/v3/links/{link}/mirrors:cancel-promote",
        Role.OPERATOR,
        summary="Call off promotes that have not cut over: their sets go back to what they were",
    )
    async def cancel_promote(
        link: str, body: MirrorNames, request: Request, validate_only: ValidateOnly = False
    ) -> CalledOffData:
        done = await plane().promote_call_offs.call_off(
            link, body.mirror_topic_names, caller_name(request), validate_only=validate_only
        )
        return CalledOffData(data=[MirrorData.of(view) for view in done.mirrors], paused_migrations=list(done.paused))

    return routes
