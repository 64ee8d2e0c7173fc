"""/v3/links/{link}/schemas and /v3/links/{link}/schema-plan"""

from __future__ import annotations

from gateway.api.access.roles import Role
from gateway.api.links.schema_models import (
    PromoteSchemas,
    SchemaCheckData,
    SchemaPlanData,
    SchemaSubjectList,
    SyncSchemas,
)
from gateway.api.models import ValidateOnly
from gateway.api.plane import Plane
from gateway.api.routes import Routes


def router(plane: Plane) -> Routes:
    """The routes of schemas."""
    routes = Routes(prefix="/v3/links", tags=["links"])

    @routes.get(
        "/{link}/schema-plan",
        summary="What the next round of a link's schema sync would change; nothing is",
    )
    async def plan_schemas(link: str) -> SchemaPlanData:
        return SchemaPlanData.of(link, await plane().schema_sync.plan(link))

    @routes.get("/{link}/schema-check", summary="Whether the target's registry knows the ids that records have")
    async def check_schemas(link: str, topic: str = "") -> SchemaCheckData:
        return SchemaCheckData.of(link, await plane().schema_check.check(link, topic))

    @routes.get("/{link}/schemas", summary="The subjects that a link has copied, with their ids on both sides")
    async def list_schemas(link: str, after: str = "") -> SchemaSubjectList:
        return SchemaSubjectList.of(plane().schema_sync.records(link), after)

    @routes.post(
        "/{link}/schemas:sync", Role.OPERATOR, summary="Copy what is new of a link's schemas now, for these ids too"
    )
    async def sync_schemas(
        link: str, body: SyncSchemas | None = None, validate_only: ValidateOnly = False
    ) -> SchemaPlanData:
        ids = [] if body is None else body.ids
        if validate_only:
            return SchemaPlanData.of(link, await plane().schema_sync.plan(link, ids))
        return SchemaPlanData.of(link, await plane().schema_sync.sync(link, ids))

    @routes.post(
        "/{link}/schemas:promote",
        Role.OPERATOR,
        summary="Hand a link's subjects to the clients of the target's registry",
    )
    async def promote_schemas(
        link: str, body: PromoteSchemas | None = None, validate_only: ValidateOnly = False
    ) -> SchemaPlanData:
        force = body is not None and body.force
        plan = await plane().schema_sync.promote(link, force=force, validate_only=validate_only)
        return SchemaPlanData.of(link, plan)

    return routes
