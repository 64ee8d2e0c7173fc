"""/v3/links/{link}/mirrors: the operations that lead back, of one topic and of several.

With `validate_only=true` nothing is changed: failover and truncate-and-restore tell what they would lose, a reverse
what blocks it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gateway.api.access.roles import Role
from gateway.api.mirrors.failback_models import (
    FailoverPlanData,
    FailoverPlanList,
    MirrorNames,
    RestorePlanData,
    RestorePlanList,
    ReverseMirrors,
    ReversePlanData,
    ReversePlanList,
    UndoNames,
)
from gateway.api.mirrors.mirror_models import MirrorData, MirrorList
from gateway.api.models import ForceOption, ValidateOnly
from gateway.api.plane import Plane
from gateway.api.routes import Routes
from gateway.control_plane import ControlService
from gateway.errors import BadRequest
from gateway.state.records import MirrorRecord


def router(plane: Plane) -> Routes:
    """The routes of one topic."""
    routes = Routes(prefix="/v3/links/{link}/mirrors", tags=["failback"])

    def view(records: Sequence[MirrorRecord]) -> MirrorData:
        return MirrorData.of(plane().mirrors.view(records[0]))

    @routes.post(
        "/{topic}:reverse-and-start-mirror",
        Role.OPERATOR,
        status_code=202,
        summary="Mirror a topic back; one that is mirrored is promoted first",
    )
    async def reverse_and_start(
        link: str, topic: str, body: ForceOption | None = None, validate_only: ValidateOnly = False
    ) -> MirrorData | ReversePlanData:
        force = bool(body and body.force)
        if validate_only:
            return (await _reverse_plans(plane(), link, [topic], force=force))[0]
        return view(await plane().reversals.reverse(link, [topic], force=force))

    @routes.post(
        "/{topic}:reverse-and-pause-mirror", Role.OPERATOR, status_code=202, summary="The same, and leave it paused"
    )
    async def reverse_and_pause(
        link: str, topic: str, body: ForceOption | None = None, validate_only: ValidateOnly = False
    ) -> MirrorData | ReversePlanData:
        force = bool(body and body.force)
        if validate_only:
            return (await _reverse_plans(plane(), link, [topic], force=force))[0]
        return view(await plane().reversals.reverse(link, [topic], pause=True, force=force))

    @routes.post("/{topic}:failover", Role.OPERATOR, summary="Write on the target at once, whatever the source does")
    async def failover(link: str, topic: str, validate_only: ValidateOnly = False) -> MirrorData | FailoverPlanData:
        if validate_only:
            return FailoverPlanData.of(await plane().failbacks.failover_plan(link, topic))
        return view(await plane().failbacks.failover(link, [topic]))

    @routes.post(
        "/{topic}:truncate-and-restore",
        Role.ADMIN,
        status_code=202,
        summary="Create the failback destination anew, from the target",
    )
    async def restore(link: str, topic: str, validate_only: ValidateOnly = False) -> MirrorData | RestorePlanData:
        if validate_only:
            return RestorePlanData.of(await plane().failbacks.restore_plan(link, topic))
        return view(await plane().failbacks.restore(link, [topic]))

    return routes


def batch_router(plane: Plane) -> Routes:
    """The routes of several topics. All are checked before the first is changed."""
    routes = Routes(prefix="/v3/links/{link}/mirrors", tags=["failback"])

    def views(records: Sequence[MirrorRecord]) -> MirrorList:
        return MirrorList(data=[MirrorData.of(plane().mirrors.view(record)) for record in records])

    _add_reverses(routes, plane, views)

    @routes.post(
        ":undo",
        Role.OPERATOR,
        status_code=202,
        summary="Take promotes back: topics that are mirrored back go home as one set",
    )
    async def undo_all(link: str, body: UndoNames, validate_only: ValidateOnly = False) -> MirrorList:
        found = await plane().undos.undo(
            link,
            body.mirror_topic_names,
            groups=body.group_names,
            keep_late=body.keep_late_writes,
            validate_only=validate_only,
        )
        return MirrorList(data=[MirrorData.of(view) for view in found])

    @routes.post(":failover", Role.OPERATOR, summary="Write topics on the target at once, whatever the source does")
    async def failover_all(
        link: str, body: MirrorNames, validate_only: ValidateOnly = False
    ) -> MirrorList | FailoverPlanList:
        failbacks = plane().failbacks
        if validate_only:
            plans = [await failbacks.failover_plan(link, name) for name in dict.fromkeys(body.mirror_topic_names)]
            return FailoverPlanList(data=[FailoverPlanData.of(plan) for plan in plans])
        return views(await failbacks.failover(link, body.mirror_topic_names))

    @routes.post(
        ":truncate-and-restore",
        Role.ADMIN,
        status_code=202,
        summary="Create failback destinations anew, from the target",
    )
    async def restore_all(
        link: str, body: MirrorNames, validate_only: ValidateOnly = False
    ) -> MirrorList | RestorePlanList:
        failbacks = plane().failbacks
        if validate_only:
            plans = [await failbacks.restore_plan(link, name) for name in dict.fromkeys(body.mirror_topic_names)]
            return RestorePlanList(data=[RestorePlanData.of(plan) for plan in plans])
        return views(await failbacks.restore(link, body.mirror_topic_names))

    return routes


def _add_reverses(routes: Routes, plane: Plane, views: Callable[[Sequence[MirrorRecord]], MirrorList]) -> None:
    """Both halves of Confluent's verb, of several topics."""

    @routes.post(
        ":reverse-and-start-mirror",
        Role.OPERATOR,
        status_code=202,
        summary="Mirror topics back; those that are mirrored are promoted first",
    )
    async def reverse_and_start_all(
        link: str, body: ReverseMirrors, validate_only: ValidateOnly = False
    ) -> MirrorList | ReversePlanList:
        if validate_only:
            plans = await _reverse_plans(plane(), link, body.mirror_topic_names, force=body.force)
            return ReversePlanList(data=plans)
        return views(await plane().reversals.reverse(link, body.mirror_topic_names, force=body.force))

    @routes.post(":reverse-and-pause-mirror", Role.OPERATOR, status_code=202, summary="The same, and leave them paused")
    async def reverse_and_pause_all(
        link: str, body: ReverseMirrors, validate_only: ValidateOnly = False
    ) -> MirrorList | ReversePlanList:
        if validate_only:
            plans = await _reverse_plans(plane(), link, body.mirror_topic_names, force=body.force)
            return ReversePlanList(data=plans)
        return views(await plane().reversals.reverse(link, body.mirror_topic_names, pause=True, force=body.force))


async def _reverse_plans(
    plane: ControlService, link: str, topics: Sequence[str], *, force: bool
) -> list[ReversePlanData]:
    """Raises BadRequest, NotFound as the reverse does."""
    if not topics:
        raise BadRequest("no topic was named")
    records = {name: plane.mirrors.record(link, name) for name in topics}
    outlooks = await plane.dry_runs.of_reverse(link, topics, force=force)
    return [ReversePlanData.of(each, records[each.topic]) for each in outlooks]
