"""/v3/links/{link}/user-plan, users:apply, quota-plan and quotas:apply"""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from gateway.access.rules.quotas import QuotaOptions
from gateway.api.access.roles import Role
from gateway.api.links.user_models import ApplyQuotas, ApplyUsers, QuotaPlanData, UserPlanData, factors_of
from gateway.api.models import ValidateOnly
from gateway.api.plane import Plane
from gateway.api.routes import Routes
from gateway.errors import BadRequest

Patterns = Annotated[
    list[str], Query(max_length=100, description="Users that come by identity: token; `*` and `?` stand for any.")
]
Factors = Annotated[list[str], Query(max_length=100, description="A number for all keys, or KEY=NUMBER.")]


def router(plane: Plane) -> Routes:
    """The routes of users and quotas."""
    routes = Routes(prefix="/v3/links", tags=["links"])

    @routes.get("/{link}/user-plan", summary="Which SCRAM users of a link's source the target lacks")
    async def plan_users(link: str, identity_token: Patterns = []) -> UserPlanData:  # noqa: B006 - FastAPI copies it
        return UserPlanData.of(link, await plane().users.plan(link, identity_token))

    @routes.post("/{link}/users:apply", Role.ADMIN, summary="Make SCRAM users that the target lacks, with new secrets")
    async def apply_users(link: str, body: ApplyUsers, validate_only: ValidateOnly = False) -> UserPlanData:
        done = await plane().users.apply(
            link,
            body.new_secrets(),
            users=body.users,
            without=body.identity_token,
            validate_only=validate_only,
        )
        return UserPlanData.of(link, done)

    @routes.get("/{link}/quota-plan", summary="Which client quotas of a link's source the target lacks")
    async def plan_quotas(
        link: str,
        factor: Factors = [],  # noqa: B006 - FastAPI copies it
        overwrite: bool = False,
        default_ip: bool = False,
    ) -> QuotaPlanData:
        try:
            everything, single = factors_of(factor)
        except ValueError as exc:
            raise BadRequest(str(exc)) from exc
        options = QuotaOptions(everything, single, overwrite, default_ip)
        return QuotaPlanData.of(link, await plane().quotas.plan(link, options))

    @routes.post("/{link}/quotas:apply", Role.ADMIN, summary="Set client quotas of a link's source on the target")
    async def apply_quotas(link: str, body: ApplyQuotas, validate_only: ValidateOnly = False) -> QuotaPlanData:
        quotas, options = plane().quotas, body.options()
        return QuotaPlanData.of(link, await (quotas.plan if validate_only else quotas.apply)(link, options))

    return routes
