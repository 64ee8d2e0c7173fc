"""The offset maps of a link: a topic that a broker does not know is not one that is not there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.connection.errors import BrokerError, ClusterUnavailable, NetError
from gateway.mirror.offset_map.rules.codec import (
    MARK_BASE,
    READ_TO_BASE,
    Chunk,
    Cut,
    MapKey,
    Mark,
    PartitionKey,
    ReadTo,
    Value,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from gateway.mirror.offset_map.rules.offset_map import Breakpoint
from gateway.mirror.offset_map.topic import LinkMaps
from gateway.transport.tasks import Tasks
from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import CreateTopicsResponse
from tests.support.fakes.fake_broker import Request
from tests.support.fakes.fake_cluster import FakeCluster

TOPIC = "__lockgate_map.l"


@pytest.fixture
async def fake() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(1) as cluster:
        cluster.controller_id = 1
        yield cluster


@pytest.fixture
async def maps(fake: FakeCluster) -> AsyncIterator[LinkMaps]:
    cluster = Cluster(ClusterConfig.from_client_properties({"bootstrap.servers": fake.bootstrap}))
    await cluster.start(5.0)
    tasks = Tasks()
    yield LinkMaps(cluster, "l", tasks)
    await tasks.close()
    await cluster.close()


def would_answer(fake: FakeCluster, code: int) -> list[Any]:
    """What the controller says of a creation of the map topic; returns the requests it got."""
    asked: list[Any] = []

    def answer(request: Request) -> Any:
        asked.append(request.message)
        result = CreateTopicsResponse.CreatableTopicResult(
            name=TOPIC,
            topic_id=fake.topic_id(TOPIC),
            error_code=code,
            error_message=None,
            topic_config_error_code=0,
            num_partitions=1,
            replication_factor=1,
            configs=[],
        )
        return CreateTopicsResponse(throttle_time_ms=0, topics=[result])

    fake.on(ApiKey.CREATE_TOPICS, answer)
    return asked


@pytest.mark.parametrize("asked_before", [True, False])
async def test_what_was_read_says_whether_offsets_are_translated(maps: LinkMaps, asked_before: bool) -> None:
    """Of a partition that nobody mirrors here, too; that a log is decided up to somewhere says nothing of it."""
    keys = [PartitionKey(1, 0, index) for index in range(4)]
    if asked_before:
        for key in keys:
            maps.ledger(key, Breakpoint(0, 0))
    said: list[tuple[MapKey, Value]] = [
        (MapKey(keys[0], 10, 7), Chunk.of(5, 1, [(11, 10)])),
        (MapKey(keys[1], READ_TO_BASE, 0), ReadTo(20, 25)),
        (MapKey(keys[2], MARK_BASE, 0), Mark(9, 1)),
    ]
    for offset, (place, value) in enumerate(said):
        maps._hand_over(offset, encode_key(place), encode_value(value))
    assert [maps.is_used(key) for key in keys] == [True, True, False, False]


async def test_a_map_that_a_lagging_broker_does_not_know_is_waited_for(fake: FakeCluster, maps: LinkMaps) -> None:
    would_answer(fake, int(ErrorCode.TOPIC_ALREADY_EXISTS))
    with pytest.raises(ClusterUnavailable, match="is there, but the broker that was asked lacks it yet"):
        await maps.catch_up()


async def test_a_map_that_is_not_there_is_no_error_and_is_not_created(fake: FakeCluster, maps: LinkMaps) -> None:
    asked = would_answer(fake, 0)
    await maps.catch_up()
    assert [message.validate_only for message in asked] == [True]
    assert maps.ledger(PartitionKey(1, 0, 0), Breakpoint(0, 0)).position(7) == 7


async def test_many_partitions_that_begin_at_once_ask_no_more_than_twice(fake: FakeCluster, maps: LinkMaps) -> None:
    asked = would_answer(fake, 0)
    await asyncio.gather(*(maps.catch_up() for _ in range(50)))
    assert 1 <= len(asked) <= 2


async def test_whoever_may_not_ask_does_not_take_it_for_absent(fake: FakeCluster, maps: LinkMaps) -> None:
    would_answer(fake, int(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
        await maps.catch_up()


async def test_a_map_that_loses_records_again_and_again_is_left_to_whoever_asks(
    maps: LinkMaps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by two brokers that tell of different logs."""
    asked: list[None] = []

    async def is_there() -> bool:
        return True

    async def is_read() -> bool:
        asked.append(None)
        return len(asked) > 10

    monkeypatch.setattr(maps, "_is_there", is_there)
    monkeypatch.setattr(maps, "_is_read", is_read)
    with pytest.raises(NetError, match="has lost records 5 times while it was read"):
        await maps.catch_up()
    assert len(asked) == 5


async def test_what_the_copy_has_lost_is_said_durably_before_anything_is_decided(
    maps: LinkMaps, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Any] = []
    may_write = asyncio.Event()

    async def nothing() -> None:
        """The topic was read to its end."""

    async def write(wanted: Any) -> None:
        await may_write.wait()
        written.extend(change for one in wanted for change in one.changes)

    monkeypatch.setattr(maps, "catch_up", nothing)
    monkeypatch.setattr(maps, "_try", write)
    ledger = maps.ledger(PartitionKey(1, 0, 0), Breakpoint(0, 0))
    await maps.cut(ledger, 10)  # nobody has said anything of this partition
    assert written == []
    ledger.used = True
    cutting = asyncio.create_task(maps.cut(ledger, 10))
    done, _ = await asyncio.wait({cutting}, timeout=0.05)
    assert not done
    may_write.set()
    await asyncio.wait_for(cutting, 5.0)
    ((key, value),) = written
    assert decode_value(decode_key(key), value) == Cut(10, 0)
