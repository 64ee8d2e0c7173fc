"""What is asked of a cluster to know where its logs end, and what of it is told: logs at rest, and others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from gateway.errors import Conflict
from gateway.operations.origin_ends import Asked, LogEnds, NetTargetEnds
from gateway.state.records import LinkRecord
from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import ListOffsetsResponse, ListTransactionsResponse
from tests.support.brokers.quick_clusters import OpenCluster
from tests.support.fakes.fake_broker import Request
from tests.support.fakes.fake_cluster import FakeCluster

LINK = LinkRecord(name="l", link_id=1, source_cluster_id="S", client={})
_LOG_END, _COMMITTED = -2, 1


class Log(NamedTuple):
    """The ends of one partition's log."""

    stable: int
    mark: int
    end: int


class Leaders:
    """Two brokers; `logs`: topic -> partition -> ends. `tells`: whether the leaders' log ends may be asked for; `mute`:
    the broker of which they may not."""

    def __init__(self, fake: FakeCluster) -> None:
        self.fake, self.tells, self.refusal = fake, True, int(ErrorCode.INVALID_REQUEST)
        self.mute: int | None = None
        self.logs = {"a": [Log(5, 5, 5), Log(7, 7, 7)], "b": [Log(9, 9, 9)]}
        fake.leaders = {"a": [1, 2], "b": [1]}
        for node, broker in fake.brokers.items():
            broker.handlers[ApiKey.LIST_OFFSETS] = partial(self._answer, node)
        fake.on(
            ApiKey.LIST_TRANSACTIONS,
            lambda _: ListTransactionsResponse(
                throttle_time_ms=0, error_code=0, unknown_state_filters=[], transaction_states=[]
            ),
        )

    @property
    def asked(self) -> list[tuple[str, int, str]]:
        """(topic, partition, stable | mark | end) of everything that was asked for, in order of the names."""
        requests = self.fake.asked(ApiKey.LIST_OFFSETS)
        return sorted(
            (topic.name, part.partition_index, _what(request.message))
            for request in requests
            for topic in request.message.topics
            for part in topic.partitions
        )

    def _answer(self, node: int, request: Request) -> Any:
        what, told = _what(request.message), ListOffsetsResponse.ListOffsetsTopicResponse
        part_of = told.ListOffsetsPartitionResponse
        code = self.refusal if what == "end" and (not self.tells or node == self.mute) else 0
        topics = [
            told(
                name=topic.name,
                partitions=[
                    part_of(
                        partition_index=part.partition_index,
                        error_code=code,
                        timestamp=-1,
                        offset=-1 if code else getattr(self.logs[topic.name][part.partition_index], what),
                        leader_epoch=0,
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.message.topics
        ]
        return ListOffsetsResponse(throttle_time_ms=0, topics=topics)


def _what(message: Any) -> str:
    if message.replica_id == _LOG_END:
        return "end"
    return "stable" if message.isolation_level == _COMMITTED else "mark"


class Scene:
    """Leaders and the reader of their ends."""

    def __init__(self, leaders: Leaders, ends: NetTargetEnds) -> None:
        self.leaders, self._ends = leaders, ends

    async def read(self, asked: Asked) -> dict[str, LogEnds]:
        return dict(await self._ends.read(LINK, {"a": 2, "b": 1}, 5.0, asked))


@pytest.fixture
async def scene(client: OpenCluster) -> AsyncIterator[Scene]:
    async with FakeCluster(2) as fake:
        leaders = Leaders(fake)
        cluster = await client(fake.bootstrap)
        yield Scene(leaders, NetTargetEnds(SimpleNamespace(cluster=cluster)))


async def test_logs_at_rest_are_asked_for_two_offsets(scene: Scene) -> None:
    found = await scene.read(Asked.STABLE)
    assert found == {"a": LogEnds((5, 7), (5, 7), 2, (5, 7)), "b": LogEnds((9,), (9,), 1, (9,))}
    partitions = (("a", 0), ("a", 1), ("b", 0))
    assert scene.leaders.asked == [(*one, what) for one in partitions for what in ("end", "stable")]


@pytest.mark.parametrize(
    "log",
    [
        pytest.param(Log(6, 7, 7), id="an open transaction"),
        pytest.param(Log(7, 7, 8), id="a record that no follower has yet"),
        pytest.param(Log(6, 7, 8), id="both"),
    ],
)
async def test_a_log_that_is_not_at_rest_is_asked_for_all_three(scene: Scene, log: Log) -> None:
    scene.leaders.logs["a"][1] = log
    found = await scene.read(Asked.STABLE)
    assert found["a"] == LogEnds((5, log.mark), (5, log.end), 2, (5, log.stable))
    assert found["b"] == LogEnds((9,), (9,), 1, (9,))
    assert {topic for topic, _, what in scene.leaders.asked if what == "mark"} == {"a"}


async def test_a_cluster_that_does_not_tell_log_ends_tells_its_high_watermarks(scene: Scene) -> None:
    scene.leaders.tells = False
    scene.leaders.logs["b"] = [Log(4, 9, 9)]
    found = await scene.read(Asked.STABLE)
    assert found == {"a": LogEnds((5, 7), None, 2, (5, 7)), "b": LogEnds((9,), None, 1, (4,))}


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.TOPIC_AUTHORIZATION_FAILED])
async def test_an_error_is_no_cluster_that_does_not_tell(scene: Scene, code: ErrorCode) -> None:
    """A promote would need no proof any more that nothing lies above the high watermarks."""
    scene.leaders.tells, scene.leaders.refusal = False, int(code)
    with pytest.raises(Conflict):
        await scene.read(Asked.STABLE)


async def test_one_leader_that_does_not_tell_is_no_cluster_that_does_not_tell(scene: Scene) -> None:
    """What the others told of theirs was dropped, and a promote went on without any log end."""
    scene.leaders.mute = 2
    with pytest.raises(Conflict):
        await scene.read(Asked.STABLE)


async def test_log_ends_are_asked_of_the_leader_in_its_epoch(scene: Scene) -> None:
    """To this question a follower answers, too."""
    scene.leaders.fake.epochs = {"a": [3, 4], "b": [5]}
    await scene.read(Asked.COUNTS)
    await scene.read(Asked.STABLE)
    epochs = {
        (topic.name, part.partition_index): part.current_leader_epoch
        for request in scene.leaders.fake.asked(ApiKey.LIST_OFFSETS)
        if _what(request.message) == "end"
        for topic in request.message.topics
        for part in topic.partitions
    }
    assert epochs == {("a", 0): 3, ("a", 1): 4, ("b", 0): 5}


async def test_which_partitions_are_on_one_replica_alone(scene: Scene) -> None:
    scene.leaders.fake.replicas = {("a", 1): ([2, 1, 3], [2]), ("a", 0): ([1, 2, 3], [1, 3])}
    found = await scene.read(Asked.LOG_ENDS)
    assert (found["a"].thin, found["b"].thin) == (((1, 1, 3),), ())


async def test_counts_alone(scene: Scene) -> None:
    found = await scene.read(Asked.COUNTS)
    assert {topic: ends.partitions for topic, ends in found.items()} == {"a": 2, "b": 1}
    assert scene.leaders.asked == []


async def test_transactions_are_asked_for_when_they_are_wanted(scene: Scene) -> None:
    assert (await scene.read(Asked.STABLE))["a"].transactions is None
    assert not scene.leaders.fake.asked(ApiKey.LIST_TRANSACTIONS)
    assert (await scene.read(Asked.TRANSACTIONS))["a"].transactions == ()
    assert len(scene.leaders.fake.asked(ApiKey.LIST_TRANSACTIONS)) == 2


async def test_a_copy_is_asked_for_nothing_that_only_an_origin_has(scene: Scene) -> None:
    scene.leaders.logs["a"][1] = Log(6, 7, 8)
    before = len(scene.leaders.fake.asked(ApiKey.METADATA))
    found = await scene.read(Asked.LOG_ENDS)
    assert found["a"] == LogEnds((5, 7), (5, 8), 2)
    assert {what for _, _, what in scene.leaders.asked} == {"mark", "end"}
    assert len(scene.leaders.fake.asked(ApiKey.METADATA)) - before <= 2, "its leaders, and who is in sync"


async def test_high_watermarks_alone(scene: Scene) -> None:
    scene.leaders.logs["a"][1] = Log(6, 7, 8)
    assert (await scene.read(Asked.MARKS))["a"] == LogEnds((5, 7), None, 2)
    assert {what for _, _, what in scene.leaders.asked} == {"mark"}
