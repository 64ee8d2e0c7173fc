from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.kafka.cluster import BrokerError, ClusterUnavailable, PartitionErrors
from gateway.kafka.groups import Committed, commit_offsets, committed_offsets
from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import OffsetCommitResponse, OffsetFetchResponse
from tests.support.brokers.quick_clusters import OpenCluster
from tests.support.fakes.fake_broker import Request
from tests.support.fakes.fake_cluster import FakeCluster


@pytest.fixture
async def fake() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(2) as cluster:
        cluster.coordinators["g"] = 2
        yield cluster


def fetched(request: Request, *parts: tuple[int, int, int], code: int = 0) -> Any:
    """parts: (partition of topic t, offset, error code)."""
    if request.version < 8:
        topic = OffsetFetchResponse.OffsetFetchResponseTopic
        part, group = topic.OffsetFetchResponsePartition, None
    else:
        group = OffsetFetchResponse.OffsetFetchResponseGroup
        topic = group.OffsetFetchResponseTopics
        part = topic.OffsetFetchResponsePartitions
    parts_ = [
        part(partition_index=index, committed_offset=offset, committed_leader_epoch=4, metadata="m", error_code=error)
        for index, offset, error in parts
    ]
    topics = [topic(name="t", partitions=parts_)] if parts_ else []
    if group is None:
        return OffsetFetchResponse(throttle_time_ms=0, topics=topics, error_code=code)
    return OffsetFetchResponse(throttle_time_ms=0, groups=[group(group_id="g", topics=topics, error_code=code)])


@pytest.mark.parametrize("newest", [3, 5, 7, 8, 9, 10])
async def test_committed_offsets_by_every_form_of_the_request(
    fake: FakeCluster, client: OpenCluster, newest: int
) -> None:
    for broker in fake.brokers.values():
        broker.versions[ApiKey.OFFSET_FETCH] = (1, newest)
    fake.on(ApiKey.OFFSET_FETCH, lambda request: fetched(request, (0, 50, 0), (1, -1, 0), (2, 0, 0)))
    cluster = await client(fake.bootstrap)

    found = await committed_offsets(cluster, "g")

    epoch = 4 if newest >= 5 else -1
    assert found == {("t", 0): Committed(50, epoch, "m"), ("t", 2): Committed(0, epoch, "m")}
    (request,) = fake.brokers[2].asked(ApiKey.OFFSET_FETCH)
    asked = request.message.groups[0] if newest >= 8 else request.message
    assert (asked.group_id, asked.topics) == ("g", None)
    assert request.version == min(newest, 9)
    assert bool(request.message.require_stable) or newest < 7


async def test_open_transactions_are_waited_for(fake: FakeCluster, client: OpenCluster) -> None:
    codes = [int(ErrorCode.UNSTABLE_OFFSET_COMMIT)] * 2
    fake.on(ApiKey.OFFSET_FETCH, lambda request: fetched(request, (0, 50, codes.pop() if codes else 0)))
    cluster = await client(fake.bootstrap)

    assert (await committed_offsets(cluster, "g"))["t", 0].offset == 50
    assert not codes


async def test_a_moved_coordinator(fake: FakeCluster, client: OpenCluster) -> None:
    fake.brokers[1].handlers[ApiKey.OFFSET_FETCH] = lambda request: fetched(
        request, code=int(ErrorCode.NOT_COORDINATOR)
    )
    fake.brokers[2].handlers[ApiKey.OFFSET_FETCH] = lambda request: fetched(request, (0, 1, 0))
    fake.coordinators["g"] = 1
    cluster = await client(fake.bootstrap)
    await cluster.coordinator("g")
    fake.coordinators["g"] = 2

    assert len(await committed_offsets(cluster, "g")) == 1


async def test_a_group_that_is_not_there_has_committed_nothing(fake: FakeCluster, client: OpenCluster) -> None:
    fake.on(ApiKey.OFFSET_FETCH, lambda request: fetched(request, code=int(ErrorCode.GROUP_ID_NOT_FOUND)))
    cluster = await client(fake.bootstrap)

    assert await committed_offsets(cluster, "g") == {}


async def test_errors_of_the_group_and_of_partitions(fake: FakeCluster, client: OpenCluster) -> None:
    cluster = await client(fake.bootstrap)
    fake.on(ApiKey.OFFSET_FETCH, lambda request: fetched(request, code=int(ErrorCode.GROUP_AUTHORIZATION_FAILED)))
    with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
        await committed_offsets(cluster, "g")

    fake.on(ApiKey.OFFSET_FETCH, lambda request: fetched(request, (0, -1, 29), (1, 7, 0)))
    with pytest.raises(PartitionErrors) as caught:
        await committed_offsets(cluster, "g")
    assert caught.value.errors == {("t", 0): 29}
    assert caught.value.partial == {("t", 1): (7, 4, "m")}


def answered(request: Request, code: int, skip: int = 0) -> Any:
    topic = OffsetCommitResponse.OffsetCommitResponseTopic
    return OffsetCommitResponse(
        throttle_time_ms=0,
        topics=[
            topic(
                name=asked.name,
                partitions=[
                    topic.OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=code)
                    for part in asked.partitions[skip:]
                ],
            )
            for asked in request.message.topics
        ],
    )


@pytest.mark.parametrize("newest", [2, 5, 6, 7, 8, 10])
async def test_a_commit_from_outside_the_group(fake: FakeCluster, client: OpenCluster, newest: int) -> None:
    for broker in fake.brokers.values():
        broker.versions[ApiKey.OFFSET_COMMIT] = (2, newest)
    fake.on(ApiKey.OFFSET_COMMIT, lambda request: answered(request, 0))
    cluster = await client(fake.bootstrap)

    await commit_offsets(cluster, "g", {("t", 0): 5, ("t", 1): (6, "note"), ("u", 0): 7})

    (request,) = fake.brokers[2].asked(ApiKey.OFFSET_COMMIT)
    message = request.message
    assert request.version == min(newest, 9)
    assert (message.group_id, message.generation_id_or_member_epoch, message.member_id) == ("g", -1, "")
    sent = [
        (t.name, p.partition_index, p.committed_offset, p.committed_metadata)
        for t in message.topics
        for p in t.partitions
    ]
    assert sent == [("t", 0, 5, ""), ("t", 1, 6, "note"), ("u", 0, 7, "")]
    if newest >= 6:
        assert {p.committed_leader_epoch for t in message.topics for p in t.partitions} == {-1}


async def test_nothing_to_commit(fake: FakeCluster, client: OpenCluster) -> None:
    cluster = await client(fake.bootstrap)
    await commit_offsets(cluster, "g", {})

    assert not fake.asked(ApiKey.OFFSET_COMMIT)


async def test_a_group_with_members_refuses(fake: FakeCluster, client: OpenCluster) -> None:
    fake.on(ApiKey.OFFSET_COMMIT, lambda request: answered(request, int(ErrorCode.UNKNOWN_MEMBER_ID)))
    cluster = await client(fake.bootstrap)

    with pytest.raises(PartitionErrors) as caught:
        await commit_offsets(cluster, "g", {("t", 0): 5, ("t", 1): 5})
    assert caught.value.errors == {("t", 0): 25, ("t", 1): 25}


async def test_a_partition_without_an_answer_is_not_taken_for_committed(fake: FakeCluster, client: OpenCluster) -> None:
    fake.on(ApiKey.OFFSET_COMMIT, lambda request: answered(request, 0, skip=1))
    cluster = await client(fake.bootstrap)

    with pytest.raises(PartitionErrors) as caught:
        await commit_offsets(cluster, "g", {("t", 0): 5, ("t", 1): 5})
    assert caught.value.errors == {("t", 0): -1}


async def test_a_commit_is_tried_again_until_the_deadline(fake: FakeCluster, client: OpenCluster) -> None:
    cluster = await client(fake.bootstrap)
    codes = [int(ErrorCode.COORDINATOR_NOT_AVAILABLE), int(ErrorCode.REQUEST_TIMED_OUT)]
    fake.on(ApiKey.OFFSET_COMMIT, lambda request: answered(request, codes.pop() if codes else 0))
    await commit_offsets(cluster, "g", {("t", 0): 5})
    assert len(fake.asked(ApiKey.OFFSET_COMMIT)) == 3

    fake.on(ApiKey.OFFSET_COMMIT, lambda request: answered(request, int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)))
    with pytest.raises(ClusterUnavailable, match="COORDINATOR_LOAD_IN_PROGRESS"):
        await commit_offsets(cluster, "g", {("t", 0): 5}, timeout_s=0.2)


def committed_all(request: Request) -> Any:
    topic = OffsetCommitResponse.OffsetCommitResponseTopic
    part = topic.OffsetCommitResponsePartition
    topics = [
        topic(name=t.name, partitions=[part(partition_index=p.partition_index, error_code=0) for p in t.partitions])
        for t in request.message.topics
    ]
    return OffsetCommitResponse(throttle_time_ms=0, topics=topics)


async def test_many_offsets_are_committed_in_requests_that_fit_a_batch(fake: FakeCluster, client: OpenCluster) -> None:
    fake.on(ApiKey.OFFSET_COMMIT, committed_all)
    cluster = await client(fake.bootstrap)
    offsets = {("t", index): (index, "m" * 3000 if index % 50 == 0 else "") for index in range(6000)}

    await commit_offsets(cluster, "g", offsets)

    requests = fake.brokers[2].asked(ApiKey.OFFSET_COMMIT)
    sent = {
        (t.name, p.partition_index): (p.committed_offset, p.committed_metadata)
        for request in requests
        for t in request.message.topics
        for p in t.partitions
    }
    assert sent == offsets
    assert len(requests) > 1
    for request in requests:
        parts = [p for t in request.message.topics for p in t.partitions]
        assert sum(100 + len(p.committed_metadata) for p in parts) <= 512 * 1024
