"""The demo waits until every broker knows its ACLs, and says which one does not."""

from __future__ import annotations

from typing import Any

import pytest

from demo.errors import DemoError
from demo.secure.principals import known_everywhere
from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import DescribeAclsResponse
from tests.support.brokers.quick_clusters import OpenCluster
from tests.support.fakes.lone_broker import LoneBroker


class Broker(LoneBroker):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.handlers[ApiKey.DESCRIBE_ACLS] = lambda _: self._described()

    def _described(self) -> Any:
        kind = DescribeAclsResponse.DescribeAclsResource
        acl = kind.AclDescription(principal="User:a", host="*", operation=3, permission_type=3)
        one = kind(resource_type=2, resource_name="t", pattern_type=3, acls=[acl])
        return DescribeAclsResponse(
            throttle_time_ms=0, error_code=self.code, error_message=None, resources=[] if self.code else [one]
        )


@pytest.mark.parametrize(
    ("code", "count", "words"),
    [
        (
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            1,
            "broker 1 .* does not tell its ACLs: .*CLUSTER_AUTHORIZATION",
        ),
        (ErrorCode.NONE, 2, "broker 1 .* knows 1 ACL.* of 2 after 0.3 s"),
    ],
)
async def test_a_broker_that_does_not_know_them_is_named(
    client: OpenCluster, code: ErrorCode, count: int, words: str
) -> None:
    async with Broker() as broker:
        broker.code = int(code)
        cluster = await client(broker.bootstrap)
        with pytest.raises(DemoError, match=words):
            await known_everywhere(cluster, count, 0.3)


async def test_brokers_that_know_them_are_gone_on_from(client: OpenCluster) -> None:
    async with Broker() as broker:
        await known_everywhere(await client(broker.bootstrap), 1)
