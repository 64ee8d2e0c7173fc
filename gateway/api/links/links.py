"""/v3/links"""

from __future__ import annotations

from fastapi import Response

from gateway.api.access.roles import Role
from gateway.api.links.link_config_models import DeletePlanData
from gateway.api.links.link_models import CreateLink, LinkData, LinkList
from gateway.api.plane import Plane
from gateway.api.routes import Routes
from gateway.errors import BadRequest


def router(plane: Plane) -> Routes:
    """The routes of links."""
    routes = Routes(prefix="/v3/links", tags=["links"])

    def target_id() -> str:
        return plane().target_cluster_id()

    @routes.get("", summary="List the cluster links")
    async def list_links() -> LinkList:
        return LinkList(data=[LinkData.of(view, target_id()) for view in plane().links.list()])

    @routes.post("", Role.ADMIN, status_code=201, summary="Create a cluster link to a source")
    async def create_link(body: CreateLink, response: Response, validate_only: bool = False) -> LinkData:
        configs = {entry.name: entry.value for entry in body.configs}
        if len(configs) < len(body.configs):
            raise BadRequest("configs: a name occurs twice")
        view = await plane().links.create(body.link_name, configs, validate_only=validate_only)
        if validate_only:
            response.status_code = 200
        return LinkData.of(view, target_id())

    @routes.get("/{link}", summary="Describe a cluster link")
    async def describe_link(link: str) -> LinkData:
        return LinkData.of(plane().links.describe(link), target_id())

    @routes.delete(
        "/{link}",
        Role.ADMIN,
        status_code=204,
        summary="Delete a cluster link and the records of its mirrors",
        responses={200: {"model": DeletePlanData, "description": "With validate_only: what it would leave"}},
    )
    async def delete_link(link: str, force: bool = False, validate_only: bool = False) -> Response:
        if validate_only:
            plan = DeletePlanData.of(plane().links.plan_delete(link, force=force))
            return Response(plan.model_dump_json(), media_type="application/json")
        await plane().links.delete(link, force=force)
        return Response(status_code=204)

    return routes
