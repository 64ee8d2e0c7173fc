"""/v3/links/{link}/groups"""

from __future__ import annotations

from fastapi import Response

from gateway.api.access.roles import Role
from gateway.api.groups.group_models import CreateGroup, GroupData, GroupList, RemovedMembers, RemoveMembers
from gateway.api.groups.group_plan_models import GroupPlanData
from gateway.api.models import ForceOption, ValidateOnly
from gateway.api.paging import Paged
from gateway.api.plane import Plane
from gateway.api.routes import Routes


def router(plane: Plane) -> Routes:
    """The routes of mirror groups. A group's name may hold any character, a slash too: hence `:path`."""
    routes = Routes(prefix="/v3/links/{link}/groups", tags=["groups"])

    @routes.get("", summary="List the mirror groups of a link")
    async def list_groups(link: str, pages: Paged) -> GroupList:
        groups = plane().groups
        page, metadata = pages.cut(groups.records(link), lambda record: (record.group,))
        views = await groups.views(page)
        return GroupList(metadata=metadata, data=[GroupData.of(view, plane().clock()) for view in views])

    @routes.post("", Role.OPERATOR, status_code=201, summary="Declare a group of the source a mirror group")
    async def create_group(
        link: str, body: CreateGroup, response: Response, validate_only: ValidateOnly = False
    ) -> GroupData:
        view = await plane().groups.create(link, body.group, validate_only=validate_only)
        if validate_only:
            response.status_code = 200
        return GroupData.of(view, plane().clock())

    @routes.post(
        "/{group:path}:promote", Role.OPERATOR, summary="Carry a group's offsets over and let it read on the target"
    )
    async def promote_group(
        link: str, group: str, body: ForceOption | None = None, validate_only: ValidateOnly = False
    ) -> GroupData | GroupPlanData:
        force = bool(body and body.force)
        if validate_only:
            return GroupPlanData.of(await plane().groups.promote_plan(link, group, force=force), "promote")
        view = await plane().groups.promote(link, group, force=force)
        return GroupData.of(view, plane().clock())

    @routes.post("/{group:path}:demote", Role.OPERATOR, summary="The failback: the group reads on the source again")
    async def demote_group(
        link: str, group: str, body: ForceOption | None = None, validate_only: ValidateOnly = False
    ) -> GroupData | GroupPlanData:
        if validate_only:
            return GroupPlanData.of(await plane().groups.demote_plan(link, group), "demote")
        view = await plane().groups.demote(link, group, force=bool(body and body.force))
        return GroupData.of(view, plane().clock())

    @routes.post(
        "/{group:path}:remove-members",
        Role.OPERATOR,
        summary="Remove members that did not leave from the source's group",
    )
    async def remove_members(
        link: str, group: str, body: RemoveMembers | None = None, validate_only: ValidateOnly = False
    ) -> RemovedMembers:
        said = body or RemoveMembers()
        removed = await plane().groups.remove_members(
            link, group, said.member_ids, force=said.force, validate_only=validate_only
        )
        return RemovedMembers.of(link, group, removed)

    @routes.get("/{group:path}", summary="Describe a mirror group: members, waiters, offsets")
    async def describe_group(link: str, group: str) -> GroupData:
        return GroupData.of(await plane().groups.describe(link, group), plane().clock())

    return routes
