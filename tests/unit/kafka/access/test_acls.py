"""ACLs of a cluster on the wire: the very ones that are meant, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.kafka.access.acls import IN_A_REQUEST, create_acls, delete_acls, describe_acls, every_acl, has_authorizer
from gateway.kafka.admin import AdminError
from gateway.kafka.connection.errors import ClusterUnavailable
from gateway.kafka.rules.acl import Acl, Operation, PatternType, Permission, ResourceType, from_wire
from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import CreateAclsResponse, DeleteAclsResponse, DescribeAclsResponse
from tests.support.brokers.quick_clusters import OpenCluster
from tests.support.fakes.fake_broker import HANG_UP, Request
from tests.support.fakes.lone_broker import LoneBroker

READ, WRITE = Operation.READ, Operation.WRITE


def acl(name: str, operation: Operation = READ, kind: ResourceType = ResourceType.TOPIC) -> Acl:
    return Acl(kind, PatternType.PREFIXED, name, "User:alice", "10.0.0.1", operation, Permission.DENY)


class Broker(LoneBroker):
    """One with an authorizer. `there`: its ACLs as numbers; `refuses`: names that it refuses; `code`: to describe."""

    there: tuple[tuple[int, int, str, str, str, int, int], ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        self.handlers |= {
            ApiKey.DESCRIBE_ACLS: self._describe,
            ApiKey.CREATE_ACLS: self._create,
            ApiKey.DELETE_ACLS: self._delete,
        }

    def _describe(self, request: Request) -> Any:
        kind = DescribeAclsResponse.DescribeAclsResource
        found = [
            kind(
                resource_type=resource,
                resource_name=name,
                pattern_type=pattern,
                acls=[kind.AclDescription(principal=who, host=host, operation=operation, permission_type=permission)],
            )
            for resource, pattern, name, who, host, operation, permission in self.there
            if request.message.resource_type_filter in (1, resource)
        ]
        return DescribeAclsResponse(throttle_time_ms=0, error_code=self.code, error_message=None, resources=found)

    def _refusal(self, name: str) -> dict[str, Any]:
        return {"error_code": int(ErrorCode.POLICY_VIOLATION) if name in self.refuses else 0, "error_message": None}

    def _create(self, request: Request) -> Any:
        kind = CreateAclsResponse.AclCreationResult
        results = [kind(**self._refusal(one.resource_name)) for one in request.message.creations]
        return CreateAclsResponse(throttle_time_ms=0, results=results)

    def _delete(self, request: Request) -> Any:
        kind = DeleteAclsResponse.DeleteAclsFilterResult
        results = [kind(**self._refusal(one.resource_name_filter), matching_acls=[]) for one in request.message.filters]
        return DeleteAclsResponse(throttle_time_ms=0, filter_results=results)


async def test_acls_are_read_kind_by_kind(client: OpenCluster) -> None:
    async with Broker() as broker:
        broker.there = (
            (2, 4, "orders", "User:alice", "10.0.0.1", 4, 2),
            (2, 3, "orders", "User:alice", "*", 99, 3),  # of a newer version
            (7, 3, "User:bob", "User:alice", "*", 13, 3),
        )
        cluster = await client(broker.bootstrap)
        user = Acl(
            ResourceType.USER,
            PatternType.LITERAL,
            "User:bob",
            "User:alice",
            "*",
            Operation.CREATE_TOKENS,
            Permission.ALLOW,
        )
        assert await describe_acls(cluster) == {acl("orders", WRITE), user}
        assert len(broker.asked(ApiKey.DESCRIBE_ACLS)) == len(ResourceType)
        assert await describe_acls(cluster, [ResourceType.TOPIC]) == {acl("orders", WRITE)}


async def test_an_old_broker_is_not_asked_for_what_it_does_not_know(client: OpenCluster) -> None:
    async with Broker() as broker:
        broker.versions[ApiKey.DESCRIBE_ACLS] = (0, 2)
        cluster = await client(broker.bootstrap)
        assert await describe_acls(cluster) == set()
        assert 7 not in {one.message.resource_type_filter for one in broker.asked(ApiKey.DESCRIBE_ACLS)}


async def test_a_cluster_without_an_authorizer_has_no_answer(client: OpenCluster) -> None:
    async with Broker() as broker:
        broker.code = int(ErrorCode.SECURITY_DISABLED)
        cluster = await client(broker.bootstrap)
        with pytest.raises(AdminError) as raised:
            await describe_acls(cluster)
        assert raised.value.code == ErrorCode.SECURITY_DISABLED


async def test_every_acl_is_read_in_one_question_to_one_broker(client: OpenCluster) -> None:
    async with Broker() as broker:
        broker.there = ((2, 3, "orders", "User:alice", "*", 99, 3), (3, 3, "g", "User:alice", "*", 3, 3))
        cluster = await client(broker.bootstrap)
        told = await every_acl(cluster, node_id=1)
        assert [(one.resource_type, one.resource_name, len(one.acls)) for one in told] == [
            (2, "orders", 1),
            (3, "g", 1),
        ]
        broker.code = int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        with pytest.raises(AdminError, match="describe ACLs: CLUSTER_AUTHORIZATION_FAILED"):
            await every_acl(cluster)


@pytest.mark.parametrize(
    ("code", "found"),
    [(ErrorCode.NONE, True), (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, True), (ErrorCode.SECURITY_DISABLED, False)],
)
async def test_who_may_not_ask_is_told_so_by_an_authorizer(client: OpenCluster, code: ErrorCode, found: bool) -> None:
    async with Broker() as broker:
        broker.code = int(code)
        assert await has_authorizer(await client(broker.bootstrap)) is found


async def test_what_is_made_and_deleted_is_exactly_what_is_meant(client: OpenCluster) -> None:
    async with Broker() as broker:
        broker.refuses = frozenset({"bad"})
        cluster = await client(broker.bootstrap)
        bad, good = acl("bad"), acl("good", WRITE, ResourceType.GROUP)
        for change in (create_acls, delete_acls):
            refused = await change(cluster, [bad, good])
            assert [(one, error.code) for one, error in refused.items()] == [(bad, ErrorCode.POLICY_VIOLATION)]
            assert "DENY User:alice from 10.0.0.1: READ on PREFIXED TOPIC bad: POLICY_VIOLATION" in str(refused[bad])
        (made,), (gone,) = broker.asked(ApiKey.CREATE_ACLS), broker.asked(ApiKey.DELETE_ACLS)
        one = made.message.creations[1]
        assert good == from_wire(
            one.resource_type,
            one.resource_pattern_type,
            one.resource_name,
            one.principal,
            one.host,
            one.operation,
            one.permission_type,
        )
        other = gone.message.filters[1]
        assert good == from_wire(
            other.resource_type_filter,
            other.pattern_type_filter,
            other.resource_name_filter,
            other.principal_filter,
            other.host_filter,
            other.operation,
            other.permission_type,
        )


async def test_a_change_is_sent_once(client: OpenCluster) -> None:
    async with Broker() as broker:
        broker.handlers[ApiKey.CREATE_ACLS] = lambda _: HANG_UP
        cluster = await client(broker.bootstrap)
        with pytest.raises(ClusterUnavailable):
            await create_acls(cluster, [acl("orders")])
        assert len(broker.asked(ApiKey.CREATE_ACLS)) == 1
        with pytest.raises(ValueError, match="201 ACLs in one request"):
            await delete_acls(cluster, [acl(f"t{index}") for index in range(IN_A_REQUEST + 1)])
