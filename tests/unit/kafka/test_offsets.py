"""ListOffsets and DeleteRecords over leaders that move, hide and refuse. Covers `routed.ByLeader` too."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from gateway.kafka.acts import ActRefused, RestRefused, permitted
from gateway.kafka.cluster import ClusterUnavailable, PartitionErrors, UnsupportedVersion
from gateway.kafka.offsets import EARLIEST, LATEST, by_topic, delete_records, latest_offsets, list_offsets
from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import DeleteRecordsResponse, ListOffsetsResponse
from tests.support.brokers.quick_clusters import OpenCluster
from tests.support.fakes.fake_broker import HANG_UP, SILENCE, Request
from tests.support.fakes.fake_cluster import FakeCluster

WANTED = {"a": {0: LATEST, 1: EARLIEST}, "b": {0: 1234}}


class Leaders:
    """Answers ListOffsets as the leaders in `fake.truth` would: NOT_LEADER_OR_FOLLOWER from everybody else."""

    def __init__(self, fake: FakeCluster) -> None:
        self.fake = fake
        self.truth = {"a": [1, 2], "b": [3]}
        self.errors: dict[tuple[str, int], list[int]] = {}
        fake.leaders = {topic: list(nodes) for topic, nodes in self.truth.items()}
        for node_id, broker in fake.brokers.items():
            broker.handlers[ApiKey.LIST_OFFSETS] = self._on(node_id)

    def _on(self, node_id: int) -> Callable[[Request], Any]:
        return lambda request: self.list_offsets(node_id, request)

    def list_offsets(self, node_id: int, request: Request) -> Any:
        topic_class = ListOffsetsResponse.ListOffsetsTopicResponse
        topics = []
        for topic in request.message.topics:
            parts = []
            for part in topic.partitions:
                index = part.partition_index
                scripted = self.errors.get((topic.name, index))
                code = scripted.pop(0) if scripted else 0
                if self.truth[topic.name][index] != node_id:
                    code = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                parts.append(
                    topic_class.ListOffsetsPartitionResponse(
                        partition_index=index,
                        error_code=code,
                        timestamp=part.timestamp,
                        offset=-1 if code else 100 * node_id + index,
                        leader_epoch=7,
                    )
                )
            topics.append(topic_class(name=topic.name, partitions=parts))
        return ListOffsetsResponse(throttle_time_ms=0, topics=topics)


@pytest.fixture
async def leaders() -> AsyncIterator[Leaders]:
    async with FakeCluster(3) as fake:
        yield Leaders(fake)


async def test_each_leader_is_asked_once_for_all_its_partitions(leaders: Leaders, client: OpenCluster) -> None:
    cluster = await client(leaders.fake.bootstrap)

    found = await list_offsets(cluster, WANTED)

    assert found == {("a", 0): (100, -1, 7), ("a", 1): (201, -2, 7), ("b", 0): (300, 1234, 7)}
    assert len(leaders.fake.asked(ApiKey.LIST_OFFSETS)) == 3
    assert not any(request.message.isolation_level for request in leaders.fake.asked(ApiKey.LIST_OFFSETS))


@pytest.mark.parametrize("log_end", [False, True])
async def test_a_leader_is_asked_in_the_epoch_that_is_known_here(
    leaders: Leaders, client: OpenCluster, log_end: bool
) -> None:
    """One that was replaced without hearing of it told the end that it has; the epochs were sent for log ends alone."""
    leaders.fake.epochs = {"a": [4, 5], "b": [6]}
    cluster = await client(leaders.fake.bootstrap)
    leaders.errors["a", 0] = [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH]
    leaders.fake.epochs = {"a": [8, 5], "b": [6]}

    await list_offsets(cluster, WANTED, log_end=log_end)
    asked = leaders.fake.asked(ApiKey.LIST_OFFSETS)
    told = [part.current_leader_epoch for one in asked for topic in one.message.topics for part in topic.partitions]
    assert sorted(told) == [4, 5, 6, 8, 8], "asked again with newer metadata"
    assert await latest_offsets(cluster, {"b": 1}) == {"b": (300,)}
    (last,) = leaders.fake.asked(ApiKey.LIST_OFFSETS)[len(asked) :]
    assert last.message.topics[0].partitions[0].current_leader_epoch == 6


async def test_read_committed_asks_for_the_last_stable_offset(leaders: Leaders, client: OpenCluster) -> None:
    cluster = await client(leaders.fake.bootstrap)
    await list_offsets(cluster, {"a": {0: LATEST}}, read_committed=True)

    assert leaders.fake.asked(ApiKey.LIST_OFFSETS)[0].message.isolation_level == 1


async def test_nothing_wanted_asks_nobody(leaders: Leaders, client: OpenCluster) -> None:
    cluster = await client(leaders.fake.bootstrap)

    assert await list_offsets(cluster, {}) == {}
    assert not leaders.fake.asked(ApiKey.LIST_OFFSETS)


async def test_a_leader_that_moved_is_found(leaders: Leaders, client: OpenCluster) -> None:
    cluster = await client(leaders.fake.bootstrap)
    leaders.truth["a"] = leaders.fake.leaders["a"] = [3, 3]

    assert (await list_offsets(cluster, WANTED))["a", 1] == (301, -2, 7)


async def test_a_topic_that_is_new_to_the_view_is_looked_up(leaders: Leaders, client: OpenCluster) -> None:
    cluster = await client(leaders.fake.bootstrap)
    leaders.truth["new"] = leaders.fake.leaders["new"] = [2]

    assert await list_offsets(cluster, {"new": {0: LATEST}}) == {("new", 0): (200, -1, 7)}


async def test_an_election_is_waited_for(leaders: Leaders, client: OpenCluster) -> None:
    cluster = await client(leaders.fake.bootstrap)
    leaders.fake.leaders["a"] = [-1, 2]
    await cluster.refresh()
    task = asyncio.create_task(list_offsets(cluster, WANTED), name="offsets")
    await asyncio.wait((task,), timeout=0.1)
    leaders.fake.leaders["a"] = [1, 2]

    assert (await task)["a", 0] == (100, -1, 7)


async def test_passing_errors_are_tried_again_for_those_partitions_only(leaders: Leaders, client: OpenCluster) -> None:
    cluster = await client(leaders.fake.bootstrap)
    leaders.truth["a"] = leaders.fake.leaders["a"] = [1, 1]
    await cluster.refresh()
    leaders.errors["a", 0] = [int(ErrorCode.OFFSET_NOT_AVAILABLE), int(ErrorCode.FENCED_LEADER_EPOCH)]

    assert len(await list_offsets(cluster, {"a": {0: LATEST, 1: LATEST}})) == 2

    asked = [
        [p.partition_index for p in r.message.topics[0].partitions] for r in leaders.fake.asked(ApiKey.LIST_OFFSETS)
    ]
    assert asked == [[0, 1], [0], [0]]


async def test_what_cannot_be_mended_is_told_by_partition_with_the_rest(leaders: Leaders, client: OpenCluster) -> None:
    cluster = await client(leaders.fake.bootstrap)
    leaders.errors["b", 0] = [int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)]

    with pytest.raises(PartitionErrors, match="ListOffsets failed for a-5: error 3, b-0: error 29") as caught:
        await list_offsets(cluster, {"a": {0: LATEST, 5: LATEST}, "b": {0: LATEST}, "nope": {0: LATEST}})

    assert caught.value.errors == {("a", 5): 3, ("b", 0): 29, ("nope", 0): 3}
    assert caught.value.partial == {("a", 0): (100, -1, 7)}


async def test_the_latest_of_whole_topics_are_asked_for_at_once(leaders: Leaders, client: OpenCluster) -> None:
    cluster = await client(leaders.fake.bootstrap)

    assert await latest_offsets(cluster, {"a": 2, "b": 1}, log_end=True) == {"a": (100, 201), "b": (300,)}
    asked = leaders.fake.asked(ApiKey.LIST_OFFSETS)
    assert [request.message.replica_id for request in asked] == [-2] * 3
    assert await latest_offsets(cluster, {"a": 1}, read_committed=True) == {"a": (100,)}
    assert [r.message.isolation_level for r in leaders.fake.asked(ApiKey.LIST_OFFSETS)].count(1) == 1
    assert await latest_offsets(cluster, {}) == {}


@pytest.mark.parametrize("what", ["moved", "refused", "lost", "leaderless"])
async def test_what_is_not_told_at_once_is_asked_for_again(leaders: Leaders, client: OpenCluster, what: str) -> None:
    cluster = await client(leaders.fake.bootstrap)
    if what == "moved":
        leaders.truth["a"] = leaders.fake.leaders["a"] = [3, 3]
    elif what == "refused":
        leaders.errors["a", 1] = [int(ErrorCode.OFFSET_NOT_AVAILABLE)]
    elif what == "lost":
        shipped, lost = leaders.fake.brokers[2].handlers[ApiKey.LIST_OFFSETS], [HANG_UP]
        leaders.fake.brokers[2].handlers[ApiKey.LIST_OFFSETS] = lambda request: lost.pop() if lost else shipped(request)
    else:
        leaders.fake.leaders["a"] = [-1, 2]
        await cluster.refresh()
        leaders.fake.leaders["a"] = [1, 2]

    found = await latest_offsets(cluster, {"a": 2, "b": 1})
    assert found == {"a": (300, 301) if what == "moved" else (100, 201), "b": (300,)}


async def test_the_latest_of_what_is_not_there(leaders: Leaders, client: OpenCluster) -> None:
    cluster = await client(leaders.fake.bootstrap)

    with pytest.raises(PartitionErrors, match="a-2: error 3"):
        await latest_offsets(cluster, {"a": 3, "b": 1})


async def test_a_topic_that_may_not_be_seen(leaders: Leaders, client: OpenCluster) -> None:
    leaders.fake.topic_errors["secret"] = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    cluster = await client(leaders.fake.bootstrap)

    with pytest.raises(PartitionErrors) as caught:
        await list_offsets(cluster, {"secret": {0: LATEST}})
    assert caught.value.errors == {("secret", 0): 29}


async def test_a_leader_that_never_comes_is_an_error_at_the_deadline(leaders: Leaders, client: OpenCluster) -> None:
    cluster = await client(leaders.fake.bootstrap)
    leaders.fake.leaders["a"] = [-1, 2]
    await cluster.refresh()

    with pytest.raises(PartitionErrors) as caught:
        await list_offsets(cluster, WANTED, timeout_s=0.3)

    assert caught.value.errors == {("a", 0): int(ErrorCode.LEADER_NOT_AVAILABLE)}
    assert set(caught.value.partial) == {("a", 1), ("b", 0)}


@pytest.mark.parametrize("reply", [HANG_UP, SILENCE])
async def test_a_leader_that_does_not_answer_is_the_clusters_fault(
    leaders: Leaders, client: OpenCluster, reply: object
) -> None:
    cluster = await client(leaders.fake.bootstrap)
    leaders.fake.brokers[1].handlers[ApiKey.LIST_OFFSETS] = lambda _: reply
    loop = asyncio.get_running_loop()
    began = loop.time()

    with pytest.raises(ClusterUnavailable, match="^ListOffsets: 127.0.0.1:"):
        await list_offsets(cluster, WANTED, timeout_s=0.4)
    assert loop.time() - began < 3


async def test_what_other_leaders_answered_is_not_lost_with_the_one_that_does_not(
    leaders: Leaders, client: OpenCluster
) -> None:
    """Callers that do with some answers get them; to the others the cluster is unavailable, as it was."""
    cluster = await client(leaders.fake.bootstrap)
    leaders.fake.brokers[1].handlers[ApiKey.LIST_OFFSETS] = lambda _: HANG_UP
    with pytest.raises(PartitionErrors, match="^ListOffsets: 127.0.0.1:") as caught:
        await list_offsets(cluster, WANTED, timeout_s=0.4)
    assert isinstance(caught.value, ClusterUnavailable)
    assert caught.value.errors == {("a", 0): int(ErrorCode.NETWORK_EXCEPTION)}
    assert set(caught.value.partial) == {("a", 1), ("b", 0)}


async def test_without_any_answer_it_is_the_cluster_alone(leaders: Leaders, client: OpenCluster) -> None:
    cluster = await client(leaders.fake.bootstrap)
    for broker in leaders.fake.brokers.values():
        broker.handlers[ApiKey.LIST_OFFSETS] = lambda _: HANG_UP
    with pytest.raises(ClusterUnavailable) as caught:
        await list_offsets(cluster, WANTED, timeout_s=0.4)
    assert not isinstance(caught.value, PartitionErrors)


async def test_brokers_without_the_api(leaders: Leaders, client: OpenCluster) -> None:
    for broker in leaders.fake.brokers.values():
        broker.versions[ApiKey.LIST_OFFSETS] = (0, 0)
    cluster = await client(leaders.fake.bootstrap)

    with pytest.raises(UnsupportedVersion, match="ListOffsets"):
        await list_offsets(cluster, WANTED)


async def test_one_broker_without_the_api_takes_nothing_from_what_the_others_answer(
    leaders: Leaders, client: OpenCluster
) -> None:
    """Nor from what they are still to be asked: theirs is an error that passes."""
    leaders.fake.brokers[2].versions[ApiKey.LIST_OFFSETS] = (0, 0)
    leaders.errors["b", 0] = [int(ErrorCode.OFFSET_NOT_AVAILABLE)]
    cluster = await client(leaders.fake.bootstrap)

    with pytest.raises(PartitionErrors, match="a-1: error 35") as caught:
        await list_offsets(cluster, WANTED)
    assert caught.value.errors == {("a", 1): int(ErrorCode.UNSUPPORTED_VERSION)}
    assert caught.value.partial == {("a", 0): (100, -1, 7), ("b", 0): (300, 1234, 7)}
    assert isinstance(caught.value.__cause__, UnsupportedVersion)


async def test_a_partition_that_an_answer_leaves_out_has_an_error(leaders: Leaders, client: OpenCluster) -> None:
    leaders.fake.brokers[1].handlers[ApiKey.LIST_OFFSETS] = lambda _: ListOffsetsResponse(throttle_time_ms=0, topics=[])
    cluster = await client(leaders.fake.bootstrap)

    with pytest.raises(PartitionErrors) as caught:
        await list_offsets(cluster, WANTED, timeout_s=0.3)
    assert caught.value.errors == {("a", 0): int(ErrorCode.UNKNOWN_SERVER_ERROR)}


class Deletes:
    """Answers DeleteRecords at every broker, and writes down what was deleted, in order.

    `script`: by partition what comes before the answer, each once: an error code, or what the fake broker does instead.
    """

    def __init__(self, fake: FakeCluster) -> None:
        self.done: list[tuple[str, int, int]] = []
        self.script: dict[tuple[str, int], list[Any]] = {}
        fake.on(ApiKey.DELETE_RECORDS, self._answer)

    def _answer(self, request: Request) -> Any:
        topic = DeleteRecordsResponse.DeleteRecordsTopicResult
        topics = []
        for asked in request.message.topics:
            parts = []
            for part in asked.partitions:
                scripted = self.script.get((asked.name, part.partition_index))
                code = scripted.pop(0) if scripted else 0
                if not isinstance(code, int):
                    return code
                code = int(ErrorCode.OFFSET_OUT_OF_RANGE) if part.offset > 50 else code
                if not code:
                    self.done.append((asked.name, part.partition_index, part.offset))
                parts.append(
                    topic.DeleteRecordsPartitionResult(
                        partition_index=part.partition_index, low_watermark=part.offset, error_code=code
                    )
                )
            topics.append(topic(name=asked.name, partitions=parts))
        return DeleteRecordsResponse(throttle_time_ms=0, topics=topics)


BEFORE = {("a", 0): 5, ("a", 1): 7, ("b", 0): 50}


async def test_delete_records(leaders: Leaders, client: OpenCluster) -> None:
    cluster = await client(leaders.fake.bootstrap)
    Deletes(leaders.fake)

    assert await delete_records(cluster, {("a", 0): 5, ("b", 0): 50}) == {("a", 0): 5, ("b", 0): 50}
    with pytest.raises(PartitionErrors) as caught:
        await delete_records(cluster, {("a", 0): 51, ("a", 1): 7})
    assert (caught.value.errors, caught.value.partial) == ({("a", 0): 1}, {("a", 1): 7})


@pytest.mark.parametrize("first", [HANG_UP, int(ErrorCode.NOT_LEADER_OR_FOLLOWER)])
async def test_what_is_deleted_is_not_deleted_again(leaders: Leaders, client: OpenCluster, first: object) -> None:
    cluster = await client(leaders.fake.bootstrap)
    deletes = Deletes(leaders.fake)
    deletes.script["a", 1] = [first]

    assert await delete_records(cluster, BEFORE) == BEFORE
    assert sorted(deletes.done) == [("a", 0, 5), ("a", 1, 7), ("b", 0, 50)]
    assert deletes.done[-1] == ("a", 1, 7)


async def test_an_act_that_may_not_go_on_tells_what_of_it_is_done(leaders: Leaders, client: OpenCluster) -> None:
    """The door is shut between the first try and the next: what the others had deleted was taken as not done."""
    cluster = await client(leaders.fake.bootstrap)
    deletes = Deletes(leaders.fake)
    deletes.script["a", 1] = [HANG_UP]
    deletes.script["b", 0] = [int(ErrorCode.NOT_LEADER_OR_FOLLOWER)]

    def permit() -> None:
        if deletes.done:
            raise ActRefused("the mirror was promoted meanwhile")

    with permitted(permit), pytest.raises(ActRefused) as caught:
        await delete_records(cluster, BEFORE)
    assert isinstance(caught.value, RestRefused)
    assert caught.value.partial == {("a", 0): 5}
    assert caught.value.errors == {("a", 1): int(ErrorCode.NETWORK_EXCEPTION), ("b", 0): 55}
    assert deletes.done == [("a", 0, 5)]


async def test_an_act_of_which_nothing_was_sent_is_refused_as_a_whole(leaders: Leaders, client: OpenCluster) -> None:
    cluster = await client(leaders.fake.bootstrap)
    deletes, asked = Deletes(leaders.fake), list[int]()

    def permit() -> None:
        asked.append(1)
        if len(asked) > 1:
            raise ActRefused("the mirror was promoted meanwhile")

    with permitted(permit), pytest.raises(ActRefused, match="DeleteRecords was not sent") as caught:
        await delete_records(cluster, BEFORE)
    assert not isinstance(caught.value, RestRefused)
    assert not deletes.done


def test_by_topic_groups_and_orders() -> None:
    assert list(by_topic([("b", 1), ("a", 2), ("b", 0)])) == [("a", [2]), ("b", [0, 1])]
