"""/kafka/v3/clusters/{cluster_id}/links/{link}/mirrors:VERB

One table: the verb, what it does, how a dry run names it. The answer is 200 whatever became of each topic; that stands
in `data`, in the order in which topics were named. Topics of one request that are promoted or reversed go together, so
that no transaction sees half of them: those of which it is known beforehand that they cannot be are left out and told,
and what refuses the others is told of each of them. Other verbs are done topic by topic.

Asked again, a verb changes nothing: `error_code` 400 says in which state the topic is by then. With `validate_only`
nothing is changed, and the answer is the one that would begin now.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Final, NamedTuple

from fastapi import Query, Request

from gateway.api.access.roles import Role
from gateway.api.confluent.errors import KNOWN, UnknownTopic, message_of, refusal_of
from gateway.api.confluent.mirror_models import (
    AlteredMirror,
    AlteredMirrorList,
    AlterMirrorsRequest,
    TruncatedPartition,
    lags_of,
)
from gateway.api.confluent.name_pattern import NamePattern
from gateway.api.confluent.resource import Metadata, address, make_router
from gateway.api.paging import ListMetadata
from gateway.api.plane import Plane
from gateway.api.routes import Routes
from gateway.control_plane import ControlService
from gateway.cutover.dry_runs import Outlook
from gateway.errors import BadRequest, NotFound
from gateway.mirror.interface import PartitionStatus
from gateway.state.mirror_states import MirrorOperation

MOST_TOPICS: Final = 10_000
"""Of one request: more is a mistake."""


class Verb(NamedTuple):
    """`carry_out`: of a link's topics. `together`: all of them by one call; else one by one. `role`: that it takes."""

    operation: MirrorOperation
    carry_out: Callable[[ControlService, str, Sequence[str]], Awaitable[object]]
    together: bool = False
    role: Role = Role.OPERATOR


VERBS: Final[Mapping[str, Verb]] = {
    "promote": Verb(MirrorOperation.PROMOTE, lambda plane, link, names: plane.mirrors.promote(link, names), True),
    "failover": Verb(MirrorOperation.FAILOVER, lambda plane, link, names: plane.failbacks.failover(link, names)),
    "pause": Verb(MirrorOperation.PAUSE, lambda plane, link, names: plane.mirrors.pause(link, names[0])),
    "resume": Verb(MirrorOperation.RESUME, lambda plane, link, names: plane.mirrors.resume(link, names[0])),
    "reverse-and-start-mirror": Verb(
        MirrorOperation.REVERSE, lambda plane, link, names: plane.reversals.reverse(link, names), True
    ),
    "reverse-and-pause-mirror": Verb(
        MirrorOperation.REVERSE, lambda plane, link, names: plane.reversals.reverse(link, names, pause=True), True
    ),
    "truncate-and-restore": Verb(
        MirrorOperation.RESTORE, lambda plane, link, names: plane.failbacks.restore(link, names), role=Role.ADMIN
    ),
}


def router(plane: Plane) -> Routes:
    """A route for each verb."""
    routes = make_router(plane)
    for name, verb in VERBS.items():
        _add(routes, plane, name, verb)
    return routes


def _add(routes: Routes, plane: Plane, name: str, verb: Verb) -> None:
    summary = f"{name} of mirror topics, as Confluent"

    @routes.post(f"/{{link}}/mirrors:{name}", verb.role, summary=summary, name=f"{name}_mirrors")
    async def alter(
        cluster_id: str,
        link: str,
        body: AlterMirrorsRequest,
        request: Request,
        validate_only: bool = False,
        include_partition_level_truncation_data: Annotated[
            bool, Query(description="Of a truncate-and-restore: also where each partition is cut.")
        ] = False,
    ) -> AlteredMirrorList:
        run = _Run(plane(), link, verb)
        outlooks = await run.plan(_names(plane(), link, body))
        failed = {} if validate_only else await run.carry_out([each.topic for each in outlooks if not each.refused])
        data = [
            run.told(each, failed.get(each.topic), request, partitions=include_partition_level_truncation_data)
            for each in outlooks
        ]
        return AlteredMirrorList(metadata=ListMetadata(self=address(request, link, "mirrors")), data=data)


def _names(plane: ControlService, link: str, body: AlterMirrorsRequest) -> Sequence[str]:
    """The topics that a request is about; NotFound if there is no such link."""
    known = [record.mirror_topic for record in plane.mirrors.records(link)]
    if (body.mirror_topic_names is None) == (body.mirror_topic_name_pattern is None):
        raise BadRequest("name the topics: either mirror_topic_names or mirror_topic_name_pattern")
    names = body.mirror_topic_names
    if names is None:
        names = NamePattern(body.mirror_topic_name_pattern or "").among(known)
        if not names:
            raise BadRequest(
                f"no mirror topic of link '{link}' is named so: {body.mirror_topic_name_pattern!r}; it must match the "
                "whole name"
            )
    if not names or len(names) > MOST_TOPICS:
        raise BadRequest(f"mirror_topic_names: {len(names)} topics; name 1 to {MOST_TOPICS}")
    return list(dict.fromkeys(names))


class _Run:
    """One verb on topics of one link."""

    def __init__(self, plane: ControlService, link: str, verb: Verb) -> None:
        self._plane = plane
        self._link = link
        self._verb = verb

    async def plan(self, names: Sequence[str]) -> Sequence[Outlook]:
        """What would begin."""
        return await self._plane.dry_runs.of(self._verb.operation, self._link, names)

    async def carry_out(self, names: Sequence[str]) -> Mapping[str, Exception]:
        """Do it; why not, by topic."""
        failed: dict[str, Exception] = {}
        for some in [names] if self._verb.together else [[name] for name in names]:
            try:
                if some:
                    await self._verb.carry_out(self._plane, self._link, some)
            except KNOWN as exc:
                failed.update(dict.fromkeys(some, exc))
        return failed

    def told(self, outlook: Outlook, failed: Exception | None, request: Request, *, partitions: bool) -> AlteredMirror:
        """The entry of `data`."""
        topic, refused = outlook.topic, outlook.refused or failed
        if isinstance(refused, NotFound):
            refused = UnknownTopic(str(refused))
        restored = self._verb.operation is MirrorOperation.RESTORE and refused is None
        return AlteredMirror(
            metadata=Metadata(self=address(request, self._link, "mirrors", topic)),
            mirror_topic_name=topic,
            error_code=None if refused is None else refusal_of(refused).code,
            error_message=None if refused is None else message_of(refused),
            mirror_lags=lags_of(self._partitions(topic)),
            messages_truncated=sum(outlook.lost.values()) if restored else None,
            partition_level_truncation_data=_truncated(outlook) if restored and partitions else [],
        )

    def _partitions(self, topic: str) -> Sequence[PartitionStatus]:
        mirror = self._plane.mirrors.find(self._link, topic)
        return () if mirror is None else self._plane.mirrors.view(mirror).partitions


def _truncated(outlook: Outlook) -> list[TruncatedPartition]:
    return [
        TruncatedPartition(
            partition_id=partition, offset_truncated_to=outlook.cut_at[partition], messages_truncated=count
        )
        for partition, count in outlook.lost.items()
    ]
