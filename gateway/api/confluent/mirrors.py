"""/kafka/v3/clusters/{cluster_id}/links/{link}/mirrors

| verb | asked again |
|---|---|
| POST | 400 / 40002: it is a mirror topic already; nothing is changed. A create that was begun is gone on with |
"""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import Request, Response

from gateway.api.access.roles import Role
from gateway.api.confluent.errors import of_topics
from gateway.api.confluent.mirror_models import (
    CreateMirrorRequest,
    MirrorData,
    MirrorDataList,
    MirrorStatus,
    status_of,
)
from gateway.api.confluent.resource import make_router
from gateway.api.mirrors.mirror_models import mirror_key, partitions_of
from gateway.api.paging import Paged, Paging
from gateway.api.plane import Plane
from gateway.api.routes import Routes
from gateway.errors import BadRequest
from gateway.state.records import MirrorState
from gateway.topics.plan import Wanted


def router(plane: Plane) -> Routes:
    """The routes of mirror topics. `-` in place of a link's name is every link."""
    routes = make_router(plane)

    def data(links: Sequence[str], status: MirrorStatus | None, pages: Paging) -> MirrorDataList:
        mirrors = plane().mirrors
        records = [record for link in links for record in mirrors.records(link)]
        found = [record for record in records if status is None or _is_in(status, mirrors.state_of(record))]
        page, metadata = pages.cut(found, mirror_key, partitions_of)
        return MirrorDataList(
            metadata=metadata, data=[MirrorData.of(mirrors.view(record), pages.request) for record in page]
        )

    @routes.get("/-/mirrors", summary="List the mirror topics of all links, as Confluent")
    async def list_mirrors_of_cluster(
        cluster_id: str, pages: Paged, mirror_status: MirrorStatus | None = None
    ) -> MirrorDataList:
        return data([view.record.name for view in plane().links.list()], mirror_status, pages)

    @routes.get("/{link}/mirrors", summary="List the mirror topics of a link, as Confluent")
    async def list_mirrors_of_link(
        cluster_id: str, link: str, pages: Paged, mirror_status: MirrorStatus | None = None
    ) -> MirrorDataList:
        return data([link], mirror_status, pages)

    @routes.post("/{link}/mirrors", Role.OPERATOR, status_code=204, summary="Create a mirror topic, as Confluent")
    async def create_mirror_of_link(cluster_id: str, link: str, body: CreateMirrorRequest) -> Response:
        plane().links.describe(link)
        with of_topics():
            await _create(plane, link, body)
        return Response(status_code=204)

    @routes.get("/{link}/mirrors/{topic}", summary="Describe a mirror topic, as Confluent")
    async def describe_mirror_of_link(
        cluster_id: str, link: str, topic: str, request: Request, include_state_transition_errors: bool = False
    ) -> MirrorData:
        plane().links.describe(link)
        with of_topics():
            view = await plane().mirrors.describe(link, topic)
        return MirrorData.of(view, request, transition_errors=include_state_transition_errors)

    return routes


async def _create(plane: Plane, link: str, body: CreateMirrorRequest) -> None:
    """The one place that creates."""
    configs = {entry.name: entry.value or "" for entry in body.configs}
    if len(configs) < len(body.configs):
        raise BadRequest("configs: a name occurs twice")
    wanted = Wanted(configs=configs, replication_factor=body.replication_factor or 0)
    await plane().mirrors.create(link, body.source_topic_name, body.mirror_topic_name, wanted)


def _is_in(status: MirrorStatus, state: MirrorState) -> bool:
    return str(status) in (state.value, status_of(state))
