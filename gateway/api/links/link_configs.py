"""/v3/links/{link}/configs, /tasks, :pause and :resume: a link while it runs"""

from __future__ import annotations

from fastapi import Response

from gateway.api.access.roles import Role
from gateway.api.links.link_config_models import AlterConfigs, ConfigValue, LinkConfigData, LinkConfigList, LinkTaskList
from gateway.api.links.link_models import LinkData
from gateway.api.models import ValidateOnly
from gateway.api.plane import Plane
from gateway.api.routes import Routes
from gateway.links.rules.update import ConfigChange, ConfigOperation
from gateway.links.shown_configs import shown_config, shown_configs

_ONE = "/{link}/configs/{config:path}"


def router(plane: Plane) -> Routes:
    """The routes of a link's configs."""
    routes = Routes(prefix="/v3/links", tags=["links"])

    async def alter(link: str, *changes: ConfigChange, validate_only: bool = False) -> LinkData:
        view = await plane().link_updates.alter(link, changes, validate_only=validate_only)
        return LinkData.of(view, plane().target_cluster_id())

    @routes.get("/{link}/configs", summary="List the configs of a cluster link")
    async def list_configs(link: str) -> LinkConfigList:
        configs = shown_configs(plane().links.describe(link))
        return LinkConfigList(data=[LinkConfigData.of(link, config) for config in configs])

    @routes.put(
        "/{link}/configs:alter", Role.ADMIN, summary="Change configs of a cluster link while it runs, all or none"
    )
    async def alter_configs(link: str, body: AlterConfigs, validate_only: ValidateOnly = False) -> LinkData:
        changes = [entry.change() for entry in body.data]
        return await alter(link, *changes, validate_only=validate_only or body.validate_only)

    @routes.get(_ONE, config="config", summary="One config of a cluster link")
    async def get_config(link: str, config: str) -> LinkConfigData:
        return LinkConfigData.of(link, shown_config(plane().links.describe(link), config))

    @routes.put(_ONE, Role.ADMIN, config="config", status_code=204, summary="Set one config of a cluster link")
    async def set_config(link: str, config: str, body: ConfigValue, validate_only: ValidateOnly = False) -> Response:
        await alter(link, ConfigChange(config, body.value), validate_only=validate_only)
        return Response(status_code=204)

    @routes.delete(
        _ONE,
        Role.ADMIN,
        config="config",
        status_code=204,
        summary="Set one config of a cluster link back to its default",
    )
    async def reset_config(link: str, config: str, validate_only: ValidateOnly = False) -> Response:
        await alter(link, ConfigChange(config, operation=ConfigOperation.DELETE), validate_only=validate_only)
        return Response(status_code=204)

    return routes


def running_router(plane: Plane) -> Routes:
    """The routes of a link as a whole."""
    routes = Routes(prefix="/v3/links", tags=["links"])

    @routes.get("/{link}/tasks", summary="What a cluster link does beside mirroring, and how that goes")
    async def list_tasks(link: str) -> LinkTaskList:
        return LinkTaskList.of(plane().links.describe(link))

    @routes.post("/{link}:pause", Role.OPERATOR, summary="Pause a cluster link: nothing of it is mirrored or synced")
    async def pause_link(link: str, validate_only: ValidateOnly = False) -> LinkData:
        view = await plane().link_updates.pause(link, validate_only=validate_only)
        return LinkData.of(view, plane().target_cluster_id())

    @routes.post("/{link}:resume", Role.OPERATOR, summary="Resume a paused cluster link")
    async def resume_link(link: str, validate_only: ValidateOnly = False) -> LinkData:
        view = await plane().link_updates.resume(link, validate_only=validate_only)
        return LinkData.of(view, plane().target_cluster_id())

    return routes
