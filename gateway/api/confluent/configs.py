"""/kafka/v3/clusters/{cluster_id}/links/{link}/configs

| verb | asked again |
|---|---|
| PUT, PUT :alter, DELETE | the same value: 204, nothing is changed |
"""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import Request, Response

from gateway.api.access.roles import Role
from gateway.api.confluent.link_models import AlterConfigsRequest, LinkConfigData, LinkConfigDataList
from gateway.api.confluent.resource import address, make_router
from gateway.api.links.link_config_models import ConfigValue
from gateway.api.paging import ListMetadata
from gateway.api.plane import Plane
from gateway.api.routes import Routes
from gateway.errors import BadRequest
from gateway.links.rules.update import ConfigChange, ConfigOperation
from gateway.links.shown_configs import ShownConfig, shown_config, shown_configs


def router(plane: Plane) -> Routes:
    """The routes of a link's configs."""
    routes = make_router(plane)

    def told(link: str, config: ShownConfig, request: Request) -> LinkConfigData:
        return LinkConfigData.of(link, config, plane().target_cluster_id(), request)

    @routes.get("/{link}/configs", summary="List the configs of a cluster link, as Confluent")
    async def list_link_configs(cluster_id: str, link: str, request: Request) -> LinkConfigDataList:
        metadata = ListMetadata(self=address(request, link, "configs"))
        configs = shown_configs(plane().links.describe(link))
        return LinkConfigDataList(metadata=metadata, data=[told(link, config, request) for config in configs])

    @routes.get(
        "/{link}/configs/{config_name}",
        config="config_name",
        summary="Describe a config of a cluster link, as Confluent",
    )
    async def describe_link_config(cluster_id: str, link: str, config_name: str, request: Request) -> LinkConfigData:
        return told(link, shown_config(plane().links.describe(link), config_name), request)

    _add_changes(routes, plane)
    return routes


def _add_changes(routes: Routes, plane: Plane) -> None:
    """The routes that change something."""

    @routes.put(
        "/{link}/configs:alter",
        Role.ADMIN,
        status_code=204,
        summary="Set or reset configs of a cluster link, as Confluent",
    )
    async def alter_link_configs(
        cluster_id: str, link: str, body: AlterConfigsRequest, validate_only: bool = False
    ) -> Response:
        validate_only = validate_only or body.validate_only
        await plane().link_updates.alter(link, _changes(body), validate_only=validate_only)
        return Response(status_code=204)

    @routes.put(
        "/{link}/configs/{config_name}",
        Role.ADMIN,
        config="config_name",
        status_code=204,
        summary="Set a config of a cluster link, as Confluent",
    )
    async def set_link_config(cluster_id: str, link: str, config_name: str, body: ConfigValue) -> Response:
        await plane().link_updates.alter(link, [ConfigChange(config_name, body.value)])
        return Response(status_code=204)

    @routes.delete(
        "/{link}/configs/{config_name}",
        Role.ADMIN,
        config="config_name",
        status_code=204,
        summary="Set a config of a cluster link back to its default, as Confluent",
    )
    async def reset_link_config(cluster_id: str, link: str, config_name: str) -> Response:
        await plane().link_updates.alter(link, [ConfigChange(config_name, operation=ConfigOperation.DELETE)])
        return Response(status_code=204)


def _changes(body: AlterConfigsRequest) -> Sequence[ConfigChange]:
    if len({entry.name for entry in body.data}) < len(body.data):
        raise BadRequest("data: a name occurs twice")
    return [entry.change() for entry in body.data]
