"""ACLs of a cluster: described, made and deleted (KIP-140).

Changes are sent in requests of a bounded size, each once (`controller.py`): when the connection breaks before the
answer, ClusterUnavailable says so, and the caller looks at what became of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from gateway.kafka.admin import AdminError
from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.errors import BrokerError, UnsupportedVersion
from gateway.kafka.controller import on_controller
from gateway.kafka.rules.acl import (
    OPERATION_CODES,
    PATTERN_CODES,
    PERMISSION_CODES,
    RESOURCE_CODES,
    Acl,
    ResourceType,
    from_wire,
)
from protocol.apis import ApiKey
from protocol.errors import ErrorCode, error_name
from protocol.messages import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest

IN_A_REQUEST: Final = 200
"""ACLs that one request makes or deletes."""

_ANY, _LITERAL = 1, 3
_KNOWN_FROM: Final = {ResourceType.USER: (ApiKey.DESCRIBE_ACLS, 3)}
"""Kinds that DescribeAcls knows from a version on (KIP-373): older brokers end the connection of who asks for them."""


async def describe_acls(
    cluster: Cluster, kinds: Collection[ResourceType] = tuple(ResourceType), *, timeout_s: float | None = None
) -> frozenset[Acl]:
    """The ACLs on these kinds of resources, asked kind by kind; without those that this version does not know.

    Raises:
        AdminError: SECURITY_DISABLED (54): the cluster has no authorizer; CLUSTER_AUTHORIZATION_FAILED (31): this
            principal may not DESCRIBE the cluster.
        ClusterUnavailable: no answer within the deadline.
    """
    found: set[Acl] = set()
    for kind in ResourceType:
        if kind in kinds:
            found.update(await _described(cluster, kind, timeout_s))
    return frozenset(found)


async def every_acl(cluster: Cluster, *, node_id: int | None = None, timeout_s: float | None = None) -> Sequence[Any]:
    """All that a broker knows, in one question, as it stands in the answer: a `DescribeAclsResource` for each resource.

    Also what this version has no names for; not what the protocol of an old broker has none for.

    Args:
        node_id: the broker; None for any.

    Raises:
        AdminError, ClusterUnavailable: as `describe_acls`.
    """
    return _told(await cluster.request(_filter(_ANY), node_id=node_id, timeout_s=timeout_s))


async def has_authorizer(cluster: Cluster, *, timeout_s: float | None = None) -> bool:
    """Whether the brokers ask anybody who may do what. Who may not ask for ACLs is told so by an authorizer.

    Raises:
        AdminError: it cannot be told.
        ClusterUnavailable: no answer within the deadline.
    """
    request = _filter(RESOURCE_CODES[ResourceType.TOPIC], name="*", pattern=_LITERAL)
    response = await cluster.request(request, timeout_s=timeout_s)
    if response.error_code not in (ErrorCode.SECURITY_DISABLED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
        _told(response)
    return bool(response.error_code != ErrorCode.SECURITY_DISABLED)


async def create_acls(
    cluster: Cluster, acls: Sequence[Acl], *, timeout_s: float | None = None
) -> Mapping[Acl, BrokerError]:
    """Make at most `IN_A_REQUEST` ACLs; one that is there already stays as it is.

    Returns:
        Those that were refused, each with its error; the others were made.

    Raises:
        ClusterUnavailable: no answer within the deadline; they may have been made, or may be yet.
    """
    creations = [
        CreateAclsRequest.AclCreation(
            resource_type=RESOURCE_CODES[acl.resource_type],
            resource_name=acl.name,
            resource_pattern_type=PATTERN_CODES[acl.pattern_type],
            principal=acl.principal,
            host=acl.host,
            operation=OPERATION_CODES[acl.operation],
            permission_type=PERMISSION_CODES[acl.permission],
        )
        for acl in _bounded(acls)
    ]
    response = await on_controller(
        cluster, lambda _: CreateAclsRequest(creations=creations), lambda answer: answer.results, timeout_s
    )
    return _refused("create ACL", acls, response.results)


async def delete_acls(
    cluster: Cluster, acls: Sequence[Acl], *, timeout_s: float | None = None
) -> Mapping[Acl, BrokerError]:
    """Delete at most `IN_A_REQUEST` ACLs, and no others; one that is not there is no error.

    Returns:
        Those that were not deleted, each with its error.

    Raises:
        ClusterUnavailable: no answer within the deadline; they may be gone, or may go yet.
    """
    filters = [
        DeleteAclsRequest.DeleteAclsFilter(
            resource_type_filter=RESOURCE_CODES[acl.resource_type],
            resource_name_filter=acl.name,
            pattern_type_filter=PATTERN_CODES[acl.pattern_type],
            principal_filter=acl.principal,
            host_filter=acl.host,
            operation=OPERATION_CODES[acl.operation],
            permission_type=PERMISSION_CODES[acl.permission],
        )
        for acl in _bounded(acls)
    ]
    response = await on_controller(
        cluster, lambda _: DeleteAclsRequest(filters=filters), lambda answer: answer.filter_results, timeout_s
    )
    return _refused("delete ACL", acls, [_worst(result) for result in response.filter_results])


async def _described(cluster: Cluster, kind: ResourceType, timeout_s: float | None) -> Iterable[Acl]:
    request = _filter(RESOURCE_CODES[kind])
    try:
        response = await on_controller(
            cluster, lambda _: request, lambda answer: [answer], timeout_s, least=_KNOWN_FROM.get(kind)
        )
    except UnsupportedVersion:
        if kind in _KNOWN_FROM:
            return ()  # it has none
        raise
    read = (
        from_wire(
            resource.resource_type,
            resource.pattern_type,
            resource.resource_name,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        )
        for resource in _told(response)
        for acl in resource.acls
    )
    return [acl for acl in read if acl is not None]


def _filter(kind: int, *, name: str | None = None, pattern: int = _ANY) -> DescribeAclsRequest:
    """Of anybody, from anywhere, for anything."""
    return DescribeAclsRequest(
        resource_type_filter=kind,
        resource_name_filter=name,
        pattern_type_filter=pattern,
        principal_filter=None,
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )


def _told(response: Any) -> Sequence[Any]:
    """The resources of an answer."""
    if response.error_code:
        why = response.error_message or error_name(response.error_code)
        raise AdminError(response.error_code, f"describe ACLs: {why}")
    resources: Sequence[Any] = response.resources
    return resources


def _bounded(acls: Sequence[Acl]) -> Sequence[Acl]:
    if len(acls) > IN_A_REQUEST:
        raise ValueError(f"{len(acls)} ACLs in one request")
    return acls


def _worst(result: Any) -> Any:
    """The result of a filter, or that of the one ACL that it fits, if that says more."""
    failed = [one for one in result.matching_acls if one.error_code]
    return failed[0] if failed and not result.error_code else result


def _refused(what: str, acls: Sequence[Acl], results: Sequence[Any]) -> dict[Acl, BrokerError]:
    refused: dict[Acl, BrokerError] = {}
    for acl, result in zip(acls, results, strict=True):
        if result.error_code:
            why = result.error_message or error_name(result.error_code)
            refused[acl] = AdminError(result.error_code, f"{what} {acl}: {why}")
    return refused
