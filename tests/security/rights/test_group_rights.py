"""Who may not read a group makes nothing happen to it; and how much anybody can have asked about groups is bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gateway.groups.gate.rules import gates as gates_module
from gateway.groups.gate.rules import questions, seen_groups
from gateway.groups.gate.rules.gates import GateStatus, GroupGates, Identity, RecordedGate
from gateway.groups.gate.rules.seen_groups import SeenGroups
from gateway.kafka.commits import Committed
from protocol.apis import ApiKey
from protocol.codec import decode_request, decode_response, encode_request, encode_response
from protocol.errors import ErrorCode
from protocol.header import peek_request_header, response_body_offset
from protocol.messages import JoinGroupRequest, MetadataResponse, OffsetFetchRequest
from tests.support.control.gates import gate
from tests.support.proxy.limits import limits_with
from tests.support.proxy.login import DESCRIBE, READ, LoggingIn

if TYPE_CHECKING:
    from tests.support.proxy.conversation import Conversation

DENIED = int(ErrorCode.GROUP_AUTHORIZATION_FAILED)
LOADING = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def join(group: str) -> bytes:
    message = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id="",
        group_instance_id=None,
        protocol_type="consumer",
        protocols=[],
        reason=None,
    )
    return encode_request(message, 5, 7, "me")


def offset_fetch(*groups: str, all_topics: bool = False) -> bytes:
    """As a consumer asks; for all topics as tools do."""
    kind = OffsetFetchRequest.OffsetFetchRequestGroup
    topics = None if all_topics else [kind.OffsetFetchRequestTopics(name="orders", partition_indexes=[0])]
    message = OffsetFetchRequest(groups=[kind(group_id=g, topics=topics) for g in groups], require_stable=False)
    return encode_request(message, 8, 7, "me")


def answer(talk: Conversation, key: ApiKey, version: int) -> Any:
    (frame,) = talk.client.frames()
    view = memoryview(frame)
    return decode_response(key, version, view[response_body_offset(key, version, view) :])


@pytest.fixture
async def alice(secured: LoggingIn) -> LoggingIn:
    """Logged in; group `g` is gated."""
    talk = secured.talk
    secured.plain("alice")
    talk.says(b"\x00\x00\x00\x10\x00\x0c\x00\x03\x00\x00\x00\x07\x00\x02me\x00\x00\x00\x00")  # any request
    await secured.broker_takes_it()
    talk.broker.take()
    talk.session.upstream_data(b"\x00\x00\x00\x04\x00\x00\x00\x07")
    talk.client.take()
    talk.gates.enabled = True
    gate(talk.gates, "g", is_open=False)
    return secured


async def test_a_waiter_counts_when_the_target_says_that_it_may_read_the_group(alice: LoggingIn) -> None:
    talk = alice.talk
    talk.says(join("g"))
    assert talk.gates.waiters("g") == []
    assert alice.broker_says_of_groups(g=(0, READ | DESCRIBE)) == ["g"]
    assert [waiter.identity.principal for waiter in talk.gates.waiters("g")] == ["alice"]
    gate(talk.gates, "g", is_open=True)
    assert [peek_request_header(memoryview(f)).api_key for f in talk.broker.frames()] == [ApiKey.JOIN_GROUP]


@pytest.mark.parametrize("said", [(0, DESCRIBE), (DENIED, 0)])
async def test_who_may_not_read_the_group_does_not_wait(alice: LoggingIn, said: tuple[int, int]) -> None:
    talk = alice.talk
    talk.says(join("g"))
    alice.broker_says_of_groups(g=said)
    assert talk.gates.waiters("g") == []
    assert answer(talk, ApiKey.JOIN_GROUP, 5).error_code == DENIED
    assert talk.gates.groups_of(talk.session.identity) == frozenset()


async def test_nobody_is_asked_about_a_group_for_who_may_not_read_it(alice: LoggingIn) -> None:
    talk = alice.talk
    asked: list[str] = []
    talk.gates.on_unknown = asked.append
    talk.says(join("unknown"))
    alice.broker_says_of_groups(unknown=(DENIED, 0))
    assert asked == []


async def test_a_coordinator_elsewhere_is_told_and_asked_again(alice: LoggingIn) -> None:
    talk = alice.talk
    for _ in range(2):
        talk.says(join("g"))
        alice.broker_says_of_groups(g=(int(ErrorCode.NOT_COORDINATOR), 0))
        assert answer(talk, ApiKey.JOIN_GROUP, 5).error_code == ErrorCode.NOT_COORDINATOR
    assert talk.gates.waiters("g") == []


async def test_rights_are_asked_once_in_a_while(alice: LoggingIn) -> None:
    talk = alice.talk
    talk.says(join("g"))
    alice.broker_says_of_groups(g=(0, READ | DESCRIBE))
    talk.loop.fire()  # out of time
    talk.says(join("g"))
    assert len(talk.gates.waiters("g")) == 1
    assert talk.broker.take() == b""


async def test_who_may_look_at_offsets_waits_and_does_not_count(alice: LoggingIn) -> None:
    talk = alice.talk
    talk.says(offset_fetch("g"))
    alice.broker_says_of_groups(g=(0, DESCRIBE))
    assert talk.gates.waiters("g") == []
    gate(talk.gates, "g", is_open=True)
    assert [peek_request_header(memoryview(f)).api_key for f in talk.broker.frames()] == [ApiKey.OFFSET_FETCH]


async def test_a_tool_is_told_offsets_of_topics_that_it_may_describe(alice: LoggingIn) -> None:
    talk = alice.talk
    talk.source_offsets.held["g"] = {("orders", 0): Committed(7, -1, ""), ("secret", 0): Committed(9, -1, "")}
    talk.says(offset_fetch("g", all_topics=True))
    alice.broker_says_of_groups(g=(0, DESCRIBE))
    await talk.run_pending()
    (frame,) = talk.broker.frames()
    header = peek_request_header(memoryview(frame))
    asked = decode_request(ApiKey.METADATA, header.api_version, memoryview(frame)[header.body_offset :])
    assert sorted(topic.name for topic in asked.topics) == ["orders", "secret"]
    kind = MetadataResponse.MetadataResponseTopic
    denied = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    told = [
        kind(name="orders", partitions=[], topic_authorized_operations=DESCRIBE, error_code=0),
        kind(name="secret", partitions=[], topic_authorized_operations=0, error_code=denied),
    ]
    said = MetadataResponse(brokers=[], topics=told)
    talk.session.upstream_data(encode_response(said, ApiKey.METADATA, header.api_version, header.correlation_id))
    (found,) = answer(talk, ApiKey.OFFSET_FETCH, 8).groups
    assert [(topic.name, topic.partitions[0].committed_offset) for topic in found.topics] == [("orders", 7)]


async def test_a_tool_that_may_not_describe_the_group_is_told_so_and_no_source_is_asked(alice: LoggingIn) -> None:
    talk = alice.talk
    talk.source_offsets.held["g"] = {("orders", 0): Committed(7, -1, "")}
    talk.says(offset_fetch("g", all_topics=True))
    alice.broker_says_of_groups(g=(DENIED, 0))
    await talk.run_pending()
    (found,) = answer(talk, ApiKey.OFFSET_FETCH, 8).groups
    assert (found.error_code, found.topics, talk.source_offsets.asked) == (DENIED, [], [])


async def test_offsets_of_a_group_that_is_denied_are_not_asked_for(alice: LoggingIn) -> None:
    talk = alice.talk
    talk.says(offset_fetch("g", "other"))
    alice.broker_says_of_groups(g=(0, READ | DESCRIBE), other=(DENIED, 0))
    found = answer(talk, ApiKey.OFFSET_FETCH, 8)
    assert [(group.group_id, group.error_code) for group in found.groups] == [("g", LOADING), ("other", DENIED)]
    assert talk.gates.waiters("g") == []


class Counting(GroupGates):
    """Counts how often a gate is looked at."""

    looks = 0

    def _verdict(self, group: str) -> GateStatus:
        type(self).looks += 1
        return super()._verdict(group)


async def test_what_many_groups_cost_is_linear(talk: Conversation) -> None:
    talk.gates = Counting()
    talk.install()
    talk.gates.enabled = True
    groups = [f"g{n}" for n in range(limits_with().groups_per_request)]
    talk.says(offset_fetch(*groups))
    Counting.looks = 0
    for group in groups:
        talk.gates.let_in(group, 0)
    assert len(talk.broker.frames()) == 1
    assert Counting.looks < 12 * len(groups)


async def test_a_request_for_too_many_groups_is_refused(talk: Conversation) -> None:
    asked: list[str] = []
    talk.gates.on_unknown = asked.append
    talk.gates.enabled = True
    talk.says(offset_fetch(*[f"g{n}" for n in range(limits_with().groups_per_request + 1)]))
    found = answer(talk, ApiKey.OFFSET_FETCH, 8)
    assert {group.error_code for group in found.groups} == {int(ErrorCode.INVALID_REQUEST)}
    assert asked == []


def test_so_many_groups_are_asked_about_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "AT_A_TIME", 2)
    monkeypatch.setattr(questions, "AT_MOST", 2)
    gates, asked = GroupGates(), list[str]()
    gates.on_unknown = asked.append
    gates.enabled = True
    for name in "abcde":
        assert gates.status(name) is GateStatus.UNKNOWN
    assert asked == ["a", "b"]
    gates.let_in("b", 0)
    gates.recorded({"c": RecordedGate(False, 0)}, 0)  # known before its turn came
    gates.let_in("a", 0)
    assert asked == ["a", "b", "c", "d"]
    gates.status("e")
    assert asked[-1] == "e"


def test_what_is_remembered_of_clients_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_groups, "CLIENTS", 2)
    monkeypatch.setattr(seen_groups, "GROUPS_OF_A_CLIENT", 2)
    seen: SeenGroups[str] = SeenGroups()
    for client, group in [("a", "1"), ("b", "1"), ("a", "2"), ("a", "1"), ("a", "3"), ("c", "1")]:
        seen.add(client, group)
    assert [sorted(seen.of(client)) for client in "abc"] == [["1", "3"], [], ["1"]]


def test_groups_that_were_let_in_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gates_module, "LET_IN_KEPT", 2)
    gates = GroupGates()
    gates.enabled = True
    for name in "abc":
        gates.let_in(name, 0)
    assert [gates.known_status(name) for name in "abc"] == [GateStatus.UNKNOWN, GateStatus.OPEN, GateStatus.OPEN]


def test_an_identity_without_groups_costs_nothing() -> None:
    assert GroupGates().groups_of(Identity("h", "c")) == frozenset()
