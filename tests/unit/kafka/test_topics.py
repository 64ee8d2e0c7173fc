"""All topics of a cluster, and what may be read of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.kafka.topics import list_topics
from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from tests.support.brokers.quick_clusters import OpenCluster
from tests.support.fakes.fake_broker import Request
from tests.support.fakes.fake_cluster import FakeCluster

READ, DESCRIBE, NOT_TOLD = 1 << 3, 1 << 8, -(2**31)


@pytest.fixture
async def fake() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(1) as cluster:
        yield cluster


async def test_by_name_with_what_may_be_read(fake: FakeCluster, client: OpenCluster) -> None:
    fake.leaders = {name: [1] for name in ("b", "a", "d", "c", "e")}
    fake.topic_errors = {"e": int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), "d": int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)}
    rights = {"a": READ | DESCRIBE, "b": DESCRIBE, "c": NOT_TOLD}
    cluster = await client(fake.bootstrap)

    def told(request: Request) -> Any:
        answer = fake._metadata(request)
        for topic in answer.topics:
            topic.topic_authorized_operations = rights.get(topic.name, 0)
            topic.is_internal = topic.name == "b"
        return answer

    fake.on(ApiKey.METADATA, told)
    before = cluster.view

    found = await list_topics(cluster)

    assert [(one.name, one.readable, one.internal) for one in found] == [
        ("a", True, False),
        ("b", False, True),
        ("c", None, False),
        ("d", False, False),
    ]
    assert found[0].topic_id
    assert cluster.view is before, "it is no view that anybody routes by"
    (asked,) = [one for one in fake.asked(ApiKey.METADATA) if one.message.include_topic_authorized_operations]
    assert asked.message.topics is None
    assert not asked.message.allow_auto_topic_creation
