"""The gate, API by API: what a client is told while its group may not read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gateway.cutover.write_pause.rules.routing import TopicRoute, WritePhase, routing_of
from gateway.groups.gate.rules.gates import READS_S, Identity, RecordedGate, members_of
from gateway.kafka.commits import Committed
from protocol.apis import ADVERTISED, ApiKey
from protocol.codec import decode_request, decode_response, encode_request, encode_response
from protocol.errors import ErrorCode
from protocol.header import peek_request_header, response_body_offset
from protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    FetchRequest,
    FetchResponse,
    HeartbeatRequest,
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from tests.support.control.gates import commits_under_way, gate
from tests.support.control.pausing import in_phase
from tests.support.mirror.batches import make_batch
from tests.unit.proxy.produce.test_lease import Lease

if TYPE_CHECKING:
    from tests.support.proxy.conversation import Conversation

ME = Identity("10.0.0.7", "me")
LOADING = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


@pytest.fixture
async def gated(talk: Conversation) -> Conversation:
    talk.context.routing.publish(routing_of({"mirrored": route("mirrored")}))
    talk.gates.enabled = True
    gate(talk.gates, "g", is_open=False)
    return talk


def route(topic: str, **more: Any) -> TopicRoute:
    values: dict[str, Any] = {"pause": in_phase(WritePhase.FORWARD), **more}
    return TopicRoute(link="west", mirror_topic=topic, source_topic=topic, **values)


def versions(key: ApiKey, low: int = 0) -> list[int]:
    return list(range(max(ADVERTISED[key][0], low), ADVERTISED[key][1] + 1))


def answer(talk: Conversation, key: ApiKey, version: int) -> Any:
    (frame,) = talk.client.frames()
    view = memoryview(frame)
    return decode_response(key, version, view[response_body_offset(key, version, view) :])


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH))
async def test_offset_fetch_is_loading_for_the_group_and_on_every_partition(gated: Conversation, version: int) -> None:
    if version >= 8:
        group = OffsetFetchRequest.OffsetFetchRequestGroup
        topics = [group.OffsetFetchRequestTopics(name="mirrored", partition_indexes=[0, 1])]
        message = OffsetFetchRequest(groups=[group(group_id="g", topics=topics)], require_stable=True)
    else:
        topics = [OffsetFetchRequest.OffsetFetchRequestTopic(name="mirrored", partition_indexes=[0, 1])]
        message = OffsetFetchRequest(group_id="g", topics=topics, require_stable=False)
    gated.says(encode_request(message, version, 5, "me"))
    assert gated.loop.timers[0].delay == 4.0
    gated.loop.fire()
    response = answer(gated, ApiKey.OFFSET_FETCH, version)
    body = response.groups[0] if version >= 8 else response
    assert [p.error_code for p in body.topics[0].partitions] == [LOADING, LOADING]
    if version >= 2:
        assert body.error_code == LOADING


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_COMMIT))
async def test_offset_commit_is_loading_on_every_partition(gated: Conversation, version: int) -> None:
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    partitions = [
        topic.OffsetCommitRequestPartition(partition_index=p, committed_offset=9, committed_metadata="") for p in (0, 3)
    ]
    message = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=[topic(name="mirrored", partitions=partitions)],
    )
    gated.says(encode_request(message, version, 5, "me"))
    gated.loop.fire()
    response = answer(gated, ApiKey.OFFSET_COMMIT, version)
    assert [(p.partition_index, p.error_code) for p in response.topics[0].partitions] == [(0, LOADING), (3, LOADING)]


def simple_commit(group: str) -> bytes:
    """As a consumer commits that is no member."""
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    parts = [topic.OffsetCommitRequestPartition(partition_index=0, committed_offset=9, committed_metadata="")]
    message = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=[topic(name="mirrored", partitions=parts)],
    )
    return encode_request(message, 8, 5, "me")


async def test_a_commit_that_passed_the_gate_is_under_way_until_it_is_answered(gated: Conversation) -> None:
    gates = gated.gates
    gate(gates, "g", is_open=True)
    data = simple_commit("g")
    gated.says(data)
    gate(gates, "g", is_open=False)
    assert gated.broker.take() == data
    assert commits_under_way(gates, "g")
    gated.broker_says(5, b"answer")
    assert not commits_under_way(gates, "g")
    assert gated.client.frames() == [b"\x00\x00\x00\x05answer"]
    assert not gated.session.on_close


async def test_a_commit_is_no_longer_under_way_when_its_connection_is_gone(gated: Conversation) -> None:
    gates = gated.gates
    gate(gates, "g", is_open=True)
    gated.says(simple_commit("g"))
    gated.session.close("the client left")
    assert not commits_under_way(gates, "g")


async def test_a_held_commit_is_under_way_once_its_gate_opens(gated: Conversation) -> None:
    gates = gated.gates
    gated.says(simple_commit("g"))
    assert not commits_under_way(gates, "g")
    gate(gates, "g", is_open=True)
    assert commits_under_way(gates, "g")


@pytest.mark.parametrize("version", versions(ApiKey.CONSUMER_GROUP_HEARTBEAT))
async def test_a_heartbeat_of_the_new_protocol_is_held_three_seconds(gated: Conversation, version: int) -> None:
    message = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0, rebalance_timeout_ms=1000)
    gated.says(encode_request(message, version, 5, "me"))
    assert gated.loop.timers[0].delay == 3.0
    gated.loop.fire()
    assert answer(gated, ApiKey.CONSUMER_GROUP_HEARTBEAT, version).error_code == LOADING


@pytest.mark.parametrize("version", versions(ApiKey.CONSUMER_GROUP_HEARTBEAT))
async def test_a_member_of_the_new_protocol_that_had_joined_is_told_to_give_up(
    gated: Conversation, version: int
) -> None:
    """At COORDINATOR_LOAD_IN_PROGRESS it would keep its partitions, and read on."""
    message = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=7, rebalance_timeout_ms=1000)
    gated.says(encode_request(message, version, 5, "me"))
    assert answer(gated, ApiKey.CONSUMER_GROUP_HEARTBEAT, version).error_code == int(ErrorCode.UNKNOWN_MEMBER_ID)
    assert gated.broker.take() == b""
    assert gated.gates.groups_of(ME) == {"g"}


@pytest.mark.parametrize("epoch", [-1, -2])
async def test_a_member_that_leaves_passes(gated: Conversation, epoch: int) -> None:
    """Held and refused it would be a ghost in its group until its session ends, and a demote would wait for it."""
    message = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch, rebalance_timeout_ms=1000)
    data = encode_request(message, 0, 5, "me")
    gated.says(data)
    assert gated.broker.take() == data
    assert gated.gates.waiters("g") == []


def offset_fetch(topics: dict[str, list[int]] | None, *groups: str, require_stable: bool = False) -> bytes:
    kind = OffsetFetchRequest.OffsetFetchRequestGroup
    asked = None
    if topics is not None:
        asked = [kind.OffsetFetchRequestTopics(name=name, partition_indexes=parts) for name, parts in topics.items()]
    message = OffsetFetchRequest(groups=[kind(group_id=g, topics=asked) for g in groups], require_stable=require_stable)
    return encode_request(message, 8, 5, "me")


async def test_a_waiter_says_by_which_api_it_waits(gated: Conversation) -> None:
    gates = gated.gates
    gated.says(offset_fetch({"mirrored": [0]}, "g"))
    assert [waiter.api for waiter in gates.waiters("g")] == [ApiKey.OFFSET_FETCH]
    assert members_of(gates.waiters("g"), by_commits_alone=False) == []
    assert members_of(gates.waiters("g"), by_commits_alone=True) == []  # lag exporters name partitions, too


async def test_who_commits_is_a_consumer(gated: Conversation) -> None:
    gates = gated.gates
    gated.says(simple_commit("g"))
    assert members_of(gates.waiters("g"), by_commits_alone=False) == []
    assert len(members_of(gates.waiters("g"), by_commits_alone=True)) == 1
    gated.loop.fire()
    gated.client.frames()
    gated.says(offset_fetch({"mirrored": [0]}, "g"))  # and is one by what it asks for next
    assert len(members_of(gates.waiters("g"), by_commits_alone=True)) == 1


@pytest.mark.parametrize(("seen_with", "counts"), [(["g"], 1), (["g", "h"], 0)])
async def test_who_fetches_what_is_mirrored_is_a_consumer_of_its_only_group(
    gated: Conversation, seen_with: list[str], counts: int
) -> None:
    """A tool that looks at many groups and fetches is of none of them, as far as is known."""
    gates = gated.gates
    gates.recorded({"g": RecordedGate(False, 0), "h": RecordedGate(False, 0)}, grown_at=0)
    for group in seen_with:
        gates.saw(ME, group)
    gated.session.client_id = "me"
    gated.says(fetch(11))
    gated.session.upstream_data(fetched(11, b""))
    gated.clock.now += READS_S - 1
    gated.says(offset_fetch({"mirrored": [0]}, "g"))
    assert len(members_of(gates.waiters("g"), by_commits_alone=True)) == counts
    gated.loop.fire()
    gated.clock.now += 2
    gated.says(offset_fetch({"mirrored": [0]}, "g"))
    assert members_of(gates.waiters("g"), by_commits_alone=True) == []  # that was long ago


async def test_who_asks_for_the_offsets_of_all_topics_is_no_waiter(gated: Conversation) -> None:
    """Lag exporters and consoles do, and the gateway of a chain's next cluster; no consumer does."""
    gated.says(offset_fetch(None, "g", require_stable=True))
    assert gated.gates.waiters("g") == []


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH, 2))
async def test_a_tool_is_told_at_once_what_the_group_has_committed_on_its_source(
    gated: Conversation, version: int
) -> None:
    gated.source_offsets.held["g"] = {("mirrored", 0): Committed(7, -1, "mine"), ("mirrored", 1): None}
    if version >= 8:
        message = OffsetFetchRequest(groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=None)])
    else:
        message = OffsetFetchRequest(group_id="g", topics=None)
    gated.says(encode_request(message, version, 5, "me"))
    await gated.run_pending()
    response = answer(gated, ApiKey.OFFSET_FETCH, version)
    body = response.groups[0] if version >= 8 else response
    found = [(p.partition_index, p.committed_offset, p.error_code) for p in body.topics[0].partitions]
    assert (body.error_code, found) == (0, [(0, 7, 0), (1, -1, LOADING)])
    assert gated.gates.waiters("g") == []
    assert gated.broker.take() == b""


async def test_a_group_that_waits_does_not_blind_a_tool_for_the_others(gated: Conversation) -> None:
    """Java's admin takes an error that can be asked for again for all its time, and then gives all groups up."""
    gated.gates.recorded({"g": RecordedGate(False, 0), "h": RecordedGate(True, 0)}, grown_at=0)
    gated.source_offsets.held["g"] = {}
    gated.says(offset_fetch(None, "g", "h"))
    await gated.run_pending()
    (frame,) = gated.broker.frames()
    view = memoryview(frame)
    asked = decode_request(ApiKey.OFFSET_FETCH, 8, view[peek_request_header(view).body_offset :])
    assert [group.group_id for group in asked.groups] == ["h"]
    kind = OffsetFetchResponse.OffsetFetchResponseGroup
    said = OffsetFetchResponse(throttle_time_ms=0, groups=[kind(group_id="h", topics=[], error_code=0)])
    gated.session.upstream_data(encode_response(said, ApiKey.OFFSET_FETCH, 8, 5))
    found = answer(gated, ApiKey.OFFSET_FETCH, 8)
    assert [(group.group_id, group.error_code) for group in found.groups] == [("g", 0), ("h", 0)]


async def test_a_source_that_does_not_answer_is_asked_again(gated: Conversation) -> None:
    gated.says(offset_fetch(None, "g"))
    await gated.run_pending()
    (found,) = answer(gated, ApiKey.OFFSET_FETCH, 8).groups
    assert found.error_code == LOADING


async def test_of_several_groups_only_those_that_may_not_read_are_loading(gated: Conversation) -> None:
    gated.gates.recorded({"g": RecordedGate(False, 0), "h": RecordedGate(True, 0)}, grown_at=0)
    gated.says(offset_fetch(None, "g", "h", require_stable=True))
    assert gated.broker.take() == b""  # it may yet open
    gated.loop.fire()
    (frame,) = gated.broker.frames()
    view = memoryview(frame)
    asked = decode_request(ApiKey.OFFSET_FETCH, 8, view[peek_request_header(view).body_offset :])
    assert [group.group_id for group in asked.groups] == ["h"]
    kind = OffsetFetchResponse.OffsetFetchResponseGroup
    said = OffsetFetchResponse(throttle_time_ms=0, groups=[kind(group_id="h", topics=[], error_code=0)])
    gated.session.upstream_data(encode_response(said, ApiKey.OFFSET_FETCH, 8, 5))
    found = answer(gated, ApiKey.OFFSET_FETCH, 8)
    assert [(group.group_id, group.error_code) for group in found.groups] == [("g", LOADING), ("h", 0)]


@pytest.mark.parametrize("is_let_in", [False, True])
async def test_without_a_lease_a_group_is_held_and_reads_nothing(talk: Conversation, is_let_in: bool) -> None:
    """It may have been demoted meanwhile, by gateways that have waited for the end of the lease; or one of its topics
    been mirrored, that had nothing to do with a mirror."""
    lease = Lease()
    talk.lease(lease)
    talk.context.routing.publish(routing_of({"mirrored": route("mirrored")}))
    talk.gates.enabled = True
    gate(talk.gates, "h" if is_let_in else "g", is_open=True)
    assert talk.gates.let_in("g", as_of=0) == is_let_in
    talk.gates.saw(ME, "g")
    talk.session.client_id = "me"
    lease.over = True
    message = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0, rebalance_timeout_ms=1000)
    talk.says(encode_request(message, 0, 5, "me"))
    assert talk.broker.take() == b""
    talk.loop.fire()
    assert answer(talk, ApiKey.CONSUMER_GROUP_HEARTBEAT, 0).error_code == LOADING
    talk.says(fetch(12))
    (frame,) = talk.broker.frames()
    view = memoryview(frame)
    asked = decode_request(ApiKey.FETCH, 12, view[peek_request_header(view).body_offset :])
    assert [topic.partitions[0].partition_max_bytes for topic in asked.topics] == [1, 1 << 20]
    lease.over = False
    assert not talk.gates.reads_gated(ME, groupless_allowed=True, lease_valid=talk.context.lease_valid)


async def test_while_nothing_is_mirrored_no_group_needs_a_lease(talk: Conversation) -> None:
    lease = Lease()
    lease.over = True
    talk.lease(lease)
    message = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0, rebalance_timeout_ms=1000)
    data = encode_request(message, 0, 5, "me")
    talk.says(data)
    assert talk.broker.take() == data
    assert not talk.gates.reads_gated(ME, groupless_allowed=True, lease_valid=talk.context.lease_valid)


async def test_an_unknown_group_is_held_until_somebody_knows(talk: Conversation) -> None:
    talk.gates.enabled = True
    first_requested: list[str] = []
    talk.gates.on_unknown = first_requested.append
    message = ConsumerGroupHeartbeatRequest(group_id="new", member_id="m", member_epoch=0, rebalance_timeout_ms=1000)
    data = encode_request(message, 0, 5, "me")
    talk.says(data)
    assert first_requested == ["new"]
    assert talk.broker.take() == b""
    gate(talk.gates, "new", is_open=True)
    assert talk.broker.take() == data


def fetch(version: int) -> bytes:
    topic = FetchRequest.FetchTopic
    partition = topic.FetchPartition(
        partition=0,
        current_leader_epoch=-1,
        fetch_offset=0,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=1 << 20,
    )
    message = FetchRequest(
        replica_id=-1,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[topic(topic="mirrored", partitions=[partition]), topic(topic="plain", partitions=[partition])],
        forgotten_topics_data=[],
        rack_id="",
    )
    return encode_request(message, version, 9, "me")


def fetched(version: int, records: bytes) -> bytes:
    topic = FetchResponse.FetchableTopicResponse
    partition = topic.PartitionData(
        partition_index=0,
        error_code=0,
        high_watermark=77,
        last_stable_offset=77,
        log_start_offset=3,
        aborted_transactions=[],
        preferred_read_replica=-1,
        records=records,
    )
    message = FetchResponse(
        throttle_time_ms=0,
        error_code=0,
        session_id=0,
        responses=[topic(topic="mirrored", partitions=[partition]), topic(topic="plain", partitions=[partition])],
    )
    return encode_response(message, ApiKey.FETCH, version, 9)


@pytest.mark.parametrize("version", [4, 7, 11, 12])
async def test_a_gated_fetch_is_empty_after_max_wait_with_true_watermarks(gated: Conversation, version: int) -> None:
    gated.gates.saw(Identity("10.0.0.7", "me"), "g")
    gated.session.client_id = "me"
    gated.says(fetch(version))
    (frame,) = gated.broker.frames()
    request = decode_request(
        ApiKey.FETCH, version, memoryview(frame)[peek_request_header(memoryview(frame)).body_offset :]
    )
    assert [t.partitions[0].partition_max_bytes for t in request.topics] == [1, 1 << 20]
    gated.session.upstream_data(fetched(version, make_batch(0, 2)))
    assert gated.client.take() == b""
    assert gated.loop.timers[0].delay == pytest.approx(0.5)
    gated.loop.fire()
    mirrored, plain = answer(gated, ApiKey.FETCH, version).responses
    assert not mirrored.partitions[0].records
    watermarks = (mirrored.partitions[0].high_watermark, mirrored.partitions[0].log_start_offset)
    assert watermarks == (77, 3 if version >= 5 else -1)
    assert plain.partitions[0].records


@pytest.mark.parametrize("version", [13, 15])
async def test_a_gated_fetch_of_a_topic_without_an_id_is_the_brokers_to_refuse(
    gated: Conversation, version: int
) -> None:
    """All zeros: UNKNOWN_TOPIC_ID there, with an answer that names no topic either."""
    gated.gates.saw(ME, "g")
    gated.session.client_id = "me"
    gated.says(fetch(version))
    assert len(gated.broker.frames()) == 1
    gated.session.upstream_data(fetched(version, make_batch(0, 2)))
    assert len(answer(gated, ApiKey.FETCH, version).responses) == 2
    assert not gated.client.closed


async def test_nothing_waits_for_a_gated_client_that_has_gone(gated: Conversation) -> None:
    """How long a Fetch waits is the client's to say: up to 24 days."""
    gated.gates.saw(ME, "g")
    gated.session.client_id = "me"
    gated.says(fetch(12))
    gated.broker.take()
    gated.session.upstream_data(fetched(12, make_batch(0, 2)))
    gated.session.close("client closed")
    assert [timer.was_cancelled for timer in gated.loop.timers] == [True]


async def test_fetch_of_a_client_without_a_group_follows_the_policy(gated: Conversation) -> None:
    gated.session.client_id = "lonely"
    data = fetch(11)
    gated.says(data)
    assert gated.broker.take() == data
    gated.broker_says(9, b"records")
    gated.client.take()
    gated.install(groupless_allowed=False)
    gated.says(data)
    (frame,) = gated.broker.frames()
    assert frame != data[4:]


async def test_a_promoted_group_reads_untouched(gated: Conversation) -> None:
    gated.session.client_id = "me"
    gated.gates.saw(Identity("10.0.0.7", "me"), "g")
    gate(gated.gates, "g", is_open=True)
    data = fetch(12)
    gated.says(data)
    assert gated.broker.take() == data


@pytest.mark.parametrize(
    ("version", "code"), [(4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)]
)
async def test_offsets_of_a_topic_being_padded_are_not_available(talk: Conversation, version: int, code: int) -> None:
    talk.context.routing.publish(routing_of({"mirrored": route("mirrored", readable=False)}))
    topic = ListOffsetsRequest.ListOffsetsTopic
    partitions = [topic.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=-2)]
    message = ListOffsetsRequest(
        replica_id=-1, isolation_level=0, topics=[topic(name="mirrored", partitions=partitions)], timeout_ms=0
    )
    talk.says(encode_request(message, version, 9, "me"))
    assert answer(talk, ApiKey.LIST_OFFSETS, version).topics[0].partitions[0].error_code == code


@pytest.mark.parametrize("version", versions(ApiKey.HEARTBEAT))
async def test_a_member_that_had_joined_is_sent_to_the_gate_once_it_is_closed(
    gated: Conversation, version: int
) -> None:
    gated.says(encode_request(HeartbeatRequest(group_id="g", generation_id=3, member_id="m"), version, 5, "me"))
    assert answer(gated, ApiKey.HEARTBEAT, version).error_code == int(ErrorCode.UNKNOWN_MEMBER_ID)
    assert gated.broker.take() == b""


async def test_the_session_of_a_member_goes_on_while_nobody_knows_of_its_group(talk: Conversation) -> None:
    """It gets nothing of a mirrored topic meanwhile."""
    talk.gates.enabled = True
    talk.gates.let_in("g", as_of=1)
    talk.gates.saw(ME, "g")
    assert not talk.gates.reads_gated(ME, groupless_allowed=True)
    talk.gates.recorded({}, grown_at=2)
    heartbeat = encode_request(HeartbeatRequest(group_id="g", generation_id=3, member_id="m"), 4, 5, "me")

    talk.says(heartbeat)

    assert talk.broker.take() == heartbeat
    assert talk.gates.reads_gated(ME, groupless_allowed=True)


async def test_whoever_names_groups_without_end_waits_behind_its_own(gated: Conversation) -> None:
    """Sources are asked about 500 groups a second, whoever waits: one principal had all of them."""
    asked: list[str] = []
    gated.gates.on_unknown = asked.append
    names, who = gated.context.asked_groups, gated.session.principal or gated.session.host
    assert names.turn(who, 2_000, gated.context.clock()) == 0
    gated.says(offset_fetch({"mirrored": [0]}, "new"))
    assert asked == []
    held, turn = gated.loop.timers[-2:]
    assert 0 < turn.delay < held.delay
    gate(gated.gates, "new", is_open=True)  # somebody else has asked meanwhile
    turn.callback(*turn.args)
    assert asked == []
    assert gated.broker.take() != b""


async def test_others_are_asked_about_meanwhile(gated: Conversation) -> None:
    asked: list[str] = []
    gated.gates.on_unknown = asked.append
    gated.context.asked_groups.turn("another", 7_000, gated.context.clock())
    gated.says(offset_fetch({"mirrored": [0]}, "new"))
    assert asked == ["new"]


async def test_who_would_wait_for_too_long_is_told_to_come_again(gated: Conversation) -> None:
    asked: list[str] = []
    gated.gates.on_unknown = asked.append
    gated.context.asked_groups.turn(gated.session.principal or gated.session.host, 7_000, gated.context.clock())
    gated.says(offset_fetch({"mirrored": [0]}, "new"))
    gated.loop.fire()
    assert asked == []
    assert gated.client.frames()
