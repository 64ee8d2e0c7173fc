"""/kafka/v3/clusters/{cluster_id}/links

| verb | asked again |
|---|---|
| POST | 400 / 40002: it exists already; nothing is changed |
| DELETE | 404: it is gone |
"""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import Request, Response

from gateway.api.access.roles import Role
from gateway.api.confluent.errors import Unsupported
from gateway.api.confluent.link_models import CreateLinkRequest, LinkData, LinkDataList
from gateway.api.confluent.resource import address, make_router
from gateway.api.paging import ListMetadata
from gateway.api.plane import Plane
from gateway.api.routes import Routes
from gateway.errors import BadRequest, Conflict
from gateway.links.links import LinkView
from gateway.state.link_config import OPTION_NAMES


def router(plane: Plane) -> Routes:
    """The routes of links."""
    routes = make_router(plane)

    def data(view: LinkView, request: Request, *, tasks: bool = False) -> LinkData:
        topics = sorted(mirror.mirror_topic for mirror in plane().mirrors.records(view.record.name))
        return LinkData.of(view, topics, request, tasks=tasks)

    @routes.get("", summary="List the cluster links, as Confluent")
    async def list_links_of_cluster(cluster_id: str, request: Request) -> LinkDataList:
        found = [data(view, request) for view in plane().links.list()]
        return LinkDataList(metadata=ListMetadata(self=address(request)), data=found)

    @routes.post("", Role.ADMIN, status_code=204, summary="Create a cluster link to a source, as Confluent")
    async def create_link_of_cluster(
        cluster_id: str,
        link_name: str,
        body: CreateLinkRequest,
        validate_only: bool = False,
        validate_link: bool = True,
    ) -> Response:
        """`validate_link` is accepted, and always so: a link is made to a source that answers."""
        configs = _configs(body)
        if body.destination_cluster_id is not None or body.cluster_link_id is not None:
            raise Unsupported("a link is made before its target, to the source that source_cluster_id names")
        wanted = body.source_cluster_id or body.remote_cluster_id
        await _create(plane, link_name, configs, wanted, validate_only=validate_only)
        return Response(status_code=204)

    @routes.get("/{link}", summary="Describe a cluster link, as Confluent")
    async def describe_link_of_cluster(
        cluster_id: str, link: str, request: Request, include_tasks: bool = False
    ) -> LinkData:
        return data(plane().links.describe(link), request, tasks=include_tasks)

    @routes.delete("/{link}", Role.ADMIN, summary="Delete a cluster link and the records of its mirrors, as Confluent")
    async def delete_link_of_cluster(
        cluster_id: str, link: str, force: bool = False, validate_only: bool = False
    ) -> Response:
        await _delete(plane, link, force=force, validate_only=validate_only)
        return Response(status_code=200)

    return routes


def _configs(body: CreateLinkRequest) -> Mapping[str, str]:
    configs = {entry.name: entry.value or "" for entry in body.configs}
    if len(configs) < len(body.configs):
        raise BadRequest("configs: a name occurs twice")
    mode = configs.pop("link.mode", "DESTINATION").upper()
    if mode not in ("DESTINATION", "BIDIRECTIONAL") or configs.pop("connection.mode", "OUTBOUND").upper() != "OUTBOUND":
        raise Unsupported(
            "link.mode: a link reads from its source, so it is DESTINATION with connection.mode OUTBOUND; every link "
            "leads back too, as one that is BIDIRECTIONAL does"
        )
    return configs


async def _create(
    plane: Plane, name: str, configs: Mapping[str, str], cluster_id: str | None, *, validate_only: bool
) -> None:
    """The one place that creates."""
    if cluster_id and (found := await plane().cluster_id_at(name, _client(configs))) != cluster_id:
        raise BadRequest(f"{configs['bootstrap.servers']} leads to cluster {found}, not to {cluster_id}")
    await plane().links.create(name, configs, validate_only=validate_only)


def _client(configs: Mapping[str, str]) -> Mapping[str, str]:
    """Without the link's options."""
    client = {name: value for name, value in configs.items() if name not in OPTION_NAMES}
    if not client.get("bootstrap.servers"):
        raise BadRequest("configs: bootstrap.servers is missing")
    return client


async def _delete(plane: Plane, name: str, *, force: bool, validate_only: bool) -> None:
    """The one place that deletes."""
    if validate_only:
        plan = plane().links.plan_delete(name, force=force)
        if plan.refusal:
            raise Conflict(f"link '{name}': {plan.refusal}")
        return
    await plane().links.delete(name, force=force)
