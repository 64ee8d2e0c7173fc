"""/kafka/v3/clusters/{cluster_id}/links/{link}/configs

| verb | asked again |
|---|---|
| PUT, PUT :alter, DELETE | the same value: 204, nothing is changed |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fastapi import APIRouter, Request, Response

from gateway.api.confluent.link_models import (
    AlterConfigsRequest,
    LinkConfigData,
    LinkConfigDataList,
    UpdateConfigRequest,
)
from gateway.api.confluent.resource import ListMetadata, Metadata, address, make_router
from gateway.api.plane import Plane
from gateway.errors import BadRequest, NotFound
from gateway.links.links import LinkView
from gateway.links.rules.update import FIXED, ConfigChange, ConfigOperation
from gateway.operations.secrets.rules.references import REDACTED, SECRETS
from gateway.state import link_config


def router(plane: Plane) -> APIRouter:
    """The routes of a link's configs."""
    routes = make_router(plane)

    def all_of(link: str, request: Request) -> Sequence[LinkConfigData]:
        return _configs(plane().links.describe(link), plane().target_cluster_id(), request)

    @routes.get("/{link}/configs", summary="List the configs of a cluster link, as Confluent")
    async def list_link_configs(cluster_id: str, link: str, request: Request) -> LinkConfigDataList:
        metadata = ListMetadata(self=address(request, link, "configs"))
        return LinkConfigDataList(metadata=metadata, data=list(all_of(link, request)))

    @routes.get("/{link}/configs/{config_name}", summary="Describe a config of a cluster link, as Confluent")
    async def describe_link_config(cluster_id: str, link: str, config_name: str, request: Request) -> LinkConfigData:
        for config in all_of(link, request):
            if config_name in (config.name, *config.synonyms):
                return config
        raise NotFound(f"link '{link}' has no config '{config_name}'")

    _add_changes(routes, plane)
    return routes


def _add_changes(routes: APIRouter, plane: Plane) -> None:
    """The routes that change something."""

    @routes.put(
        "/{link}/configs:alter", status_code=204, summary="Set or reset configs of a cluster link, as Confluent"
    )
    async def alter_link_configs(
        cluster_id: str, link: str, body: AlterConfigsRequest, validate_only: bool = False
    ) -> Response:
        await _update(plane, link, _changes(body), validate_only=validate_only or body.validate_only)
        return Response(status_code=204)

    @routes.put(
        "/{link}/configs/{config_name}", status_code=204, summary="Set a config of a cluster link, as Confluent"
    )
    async def set_link_config(cluster_id: str, link: str, config_name: str, body: UpdateConfigRequest) -> Response:
        await _update(plane, link, {config_name: body.value})
        return Response(status_code=204)

    @routes.delete(
        "/{link}/configs/{config_name}",
        status_code=204,
        summary="Set a config of a cluster link back to its default, as Confluent",
    )
    async def reset_link_config(cluster_id: str, link: str, config_name: str) -> Response:
        await _update(plane, link, {config_name: None})
        return Response(status_code=204)


def _changes(body: AlterConfigsRequest) -> Mapping[str, str | None]:
    changes = {entry.name: entry.value for entry in body.data}
    if len(changes) < len(body.data):
        raise BadRequest("data: a name occurs twice")
    for entry in body.data:
        if (entry.value is None) == (entry.operation == "SET"):
            raise BadRequest(f"{entry.name}: SET takes a value, DELETE takes none")
    return changes


async def _update(plane: Plane, link: str, changes: Mapping[str, str | None], *, validate_only: bool = False) -> None:
    """The one place that changes configs: name -> value, None for its default; all or none."""
    altered = [
        ConfigChange(name, operation=ConfigOperation.DELETE) if value is None else ConfigChange(name, value)
        for name, value in changes.items()
    ]
    await plane().link_updates.alter(link, altered, validate_only=validate_only)


def _configs(view: LinkView, cluster_id: str, request: Request) -> Sequence[LinkConfigData]:
    link, given = view.record.name, {*link_config.canonical(view.record.configs), *view.record.client}
    return [
        LinkConfigData(
            metadata=Metadata(self=address(request, link, "configs", name)),
            cluster_id=cluster_id,
            link_name=link,
            name=name,
            value=value,
            is_default=name not in given,
            is_read_only=name in FIXED,
            is_sensitive=name in SECRETS or value == REDACTED,
            synonyms=list(link_config.synonyms(name)),
        )
        for name, value in sorted({**view.client, **view.configs}.items())
    ]
