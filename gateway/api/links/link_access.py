"""/v3/links/{link}/acl-plan and /v3/links/{link}/access"""

from __future__ import annotations

from gateway.api.links.access_models import AccessData, AclPlanData
from gateway.api.plane import Plane
from gateway.api.routes import Routes


def router(plane: Plane) -> Routes:
    """The routes of what clients may do."""
    routes = Routes(prefix="/v3/links", tags=["links"])

    @routes.get("/{link}/acl-plan", summary="What the next round of a link's ACL sync would change; nothing is")
    async def plan_acls(link: str) -> AclPlanData:
        return AclPlanData.of(link, await plane().acl_sync.plan(link))

    @routes.get("/{link}/access", summary="What a principal may do on both clusters and through the gateway")
    async def check_access(link: str, principal: str, host: str = "", topic: str = "") -> AccessData:
        return AccessData.of(link, await plane().access_check.check(link, principal, host, topic))

    return routes
