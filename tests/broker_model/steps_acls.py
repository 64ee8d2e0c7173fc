"""Steps: ACLs are made, deleted by filters, and described (KIP-140, KIP-290). The clusters have an authorizer, to which
everybody is a super user.

All names begin with the sequence's own prefix, since a filter that is wider would meet what other sequences have made.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

from protocol.apis import ApiKey
from protocol.messages import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from tests.broker_model.context import Context
from tests.broker_model.steps import step

_KINDS: Final = (2, 3, 5)  # topic, group, transactional id
_PATTERNS: Final = (3, 3, 4)  # literal, prefixed
_PRINCIPALS: Final = ("User:alice", "User:bob")
_HOSTS: Final = ("*", "10.0.0.1")
_OPERATIONS: Final = (2, 3, 4, 8)  # all, read, write, describe
_PERMISSIONS: Final = (2, 3, 3)
_ANY: Final = 1


def _name(ctx: Context, rng: Random) -> str:
    return f"{ctx.prefix}acl{rng.randrange(2)}"


@step(3)
async def create_acls(ctx: Context, rng: Random) -> None:
    """Some, of which others may be there."""
    creations = [
        CreateAclsRequest.AclCreation(
            resource_type=rng.choice(_KINDS),
            resource_name=_name(ctx, rng),
            resource_pattern_type=rng.choice(_PATTERNS),
            principal=rng.choice(_PRINCIPALS),
            host=rng.choice(_HOSTS),
            operation=rng.choice(_OPERATIONS),
            permission_type=rng.choice(_PERMISSIONS),
        )
        for _ in range(rng.randint(1, 3))
    ]
    version = ctx.version(rng, ApiKey.CREATE_ACLS)
    message = CreateAclsRequest(creations=creations)
    await ctx.ask("create ACLs", ctx.side.nodes[0], ApiKey.CREATE_ACLS, version, message)
    await ctx.until_quiet()


@step(2)
async def delete_acls(ctx: Context, rng: Random) -> None:
    """By one filter or two, narrow or wide; nothing may fit."""
    filters = [DeleteAclsRequest.DeleteAclsFilter(**_narrowed(ctx, rng)) for _ in range(rng.randint(1, 2))]
    version = ctx.version(rng, ApiKey.DELETE_ACLS)
    message = DeleteAclsRequest(filters=filters)
    await ctx.ask("delete ACLs", ctx.side.nodes[0], ApiKey.DELETE_ACLS, version, message)
    await ctx.until_quiet()


@step(3)
async def describe_acls(ctx: Context, rng: Random) -> None:
    """By a filter, at any broker."""
    version = ctx.version(rng, ApiKey.DESCRIBE_ACLS)
    message = DescribeAclsRequest(**_narrowed(ctx, rng))
    await ctx.ask("describe ACLs", rng.choice(ctx.side.nodes), ApiKey.DESCRIBE_ACLS, version, message)


def _narrowed(ctx: Context, rng: Random) -> dict[str, Any]:
    """The fields of a filter: each is either any, or one value."""

    def either(every: Any, one: Any) -> Any:
        return every if rng.random() < 0.6 else one

    return {
        "resource_type_filter": either(_ANY, rng.choice(_KINDS)),
        "resource_name_filter": _name(ctx, rng),
        "pattern_type_filter": either(_ANY, rng.choice(_PATTERNS)),
        "principal_filter": either(None, rng.choice(_PRINCIPALS)),
        "host_filter": either(None, rng.choice(_HOSTS)),
        "operation": either(_ANY, rng.choice(_OPERATIONS)),
        "permission_type": either(_ANY, rng.choice(_PERMISSIONS)),
    }
