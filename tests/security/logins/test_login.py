"""Before the target has accepted a login nothing of a client is looked at; then it is who the target took it for."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from gateway.cutover.write_pause.rules.routing import TopicRoute, WritePhase, routing_of
from protocol.apis import ApiKey
from protocol.codec import encode_request
from protocol.errors import ErrorCode
from protocol.header import frame_request, peek_request_header
from protocol.messages import (
    CreateTopicsRequest,
    FetchRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    OffsetFetchRequest,
)
from protocol.produce import build_request_body
from tests.support.control.gates import gate
from tests.support.control.pausing import in_phase
from tests.support.mirror.batches import make_batch
from tests.support.proxy.limits import limits_with
from tests.support.proxy.login import LoggingIn

if TYPE_CHECKING:
    from tests.support.proxy.conversation import Conversation


def join(group: str = "g") -> bytes:
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


def heartbeat() -> bytes:
    return encode_request(
        HeartbeatRequest(group_id="g", generation_id=1, member_id="m", group_instance_id=None), 3, 7, "me"
    )


def offset_fetch() -> bytes:
    return encode_request(OffsetFetchRequest(group_id="g", topics=None, require_stable=False), 7, 7, "me")


def create_topics() -> bytes:
    kind = CreateTopicsRequest.CreatableTopic
    topic = kind(name="held", num_partitions=1, replication_factor=1, assignments=[], configs=[])
    return encode_request(CreateTopicsRequest(topics=[topic], timeout_ms=1000, validate_only=False), 4, 7, "me")


def produce(acks: int = -1) -> bytes:
    body = b"".join(
        bytes(piece) for piece in build_request_body(9, None, acks, 5_000, {"mirrored": [(0, make_batch(0, 3))]})
    )
    return frame_request(int(ApiKey.PRODUCE), 9, 7, "me", body)


def fetch() -> bytes:
    message = FetchRequest(
        replica_id=-1,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1024,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[],
        forgotten_topics_data=[],
        rack_id="",
    )
    return encode_request(message, 12, 7, "me")


@pytest.fixture
async def busy(secured: LoggingIn) -> LoggingIn:
    """Everything that could be intercepted is: a mirrored topic, a gated group."""
    talk = secured.talk
    route = TopicRoute(
        link="west", mirror_topic="mirrored", source_topic="mirrored", pause=in_phase(WritePhase.FORWARD)
    )
    talk.context.routing.publish(routing_of({"mirrored": route}))
    talk.gates.enabled = True
    gate(talk.gates, "known", is_open=False)
    asked = talk.gates.on_unknown = Asked()
    talk.asked = asked  # type: ignore[attr-defined]
    return secured


class Asked(list[str]):
    def __call__(self, group: str) -> None:
        self.append(group)


@pytest.mark.parametrize("request_of", [join, heartbeat, offset_fetch, create_topics, produce, fetch])
async def test_before_a_login_nothing_is_looked_at(busy: LoggingIn, request_of: object) -> None:
    talk = busy.talk
    talk.says(request_of())  # type: ignore[operator]
    await talk.turn()
    assert talk.gates.waiting_here() == []
    assert talk.gates.groups_of(talk.session.identity) == frozenset()
    assert talk.asked == []  # type: ignore[attr-defined]
    assert not talk.context.tasks
    assert talk.loop.timers == []
    assert list(talk.context.stats.snapshot()) == []
    assert talk.session.client_id is None
    assert talk.client.take() == b""
    (sent,) = talk.broker.frames()  # the gateway's own question, on which a broker closes
    assert peek_request_header(memoryview(sent)).client_id == "lockgate"
    talk.session.close("target broker closed")
    assert talk.source.node.sent == []


async def test_a_write_without_an_answer_before_a_login_is_not_counted(busy: LoggingIn) -> None:
    talk = busy.talk
    talk.says(produce(acks=0))
    await talk.turn()
    assert talk.context.stats.last_unanswered == float("-inf")
    assert talk.source.node.sent == []


async def test_what_came_with_the_login_waits_for_the_target(busy: LoggingIn) -> None:
    """A broker would serve it behind the login: passed on, it would have gone by the gate."""
    talk = busy.talk
    busy.handshake()
    busy.says(b"\0alice\0secret")
    data = join("known")
    talk.says(data[:9])
    talk.says(data[9:] + heartbeat())
    await talk.turn()
    sent = [peek_request_header(memoryview(frame)) for frame in talk.broker.frames()]
    assert [(header.api_key, header.client_id) for header in sent] == [
        (ApiKey.SASL_AUTHENTICATE, "me"),
        (ApiKey.METADATA, "lockgate"),
    ]
    assert talk.gates.waiting_here() == []
    assert talk.session.principal == ""


async def test_the_principal_is_who_the_target_took(busy: LoggingIn) -> None:
    talk = busy.talk
    busy.plain("alice")
    assert talk.session.principal == ""
    data = heartbeat()
    talk.says(data)
    await busy.broker_takes_it()
    assert talk.session.principal == "alice"
    assert talk.broker.take() == data


async def test_a_name_in_a_first_message_is_nobody_yet(busy: LoggingIn) -> None:
    """SCRAM: the broker's first answer is no consent."""
    talk = busy.talk
    busy.handshake("SCRAM-SHA-256")
    busy.says(b"n,,n=victim,r=abc")
    talk.broker.take()
    busy.broker_answers(message=b"r=abcdef,s=c2FsdA==,i=4096")
    talk.says(fetch())
    await talk.turn()
    talk.session.close("target broker closed")
    assert talk.session.principal == ""
    assert talk.gates.groups_of(talk.session.identity) == frozenset()


async def test_a_refused_login_beside_a_good_one_changes_nobody(busy: LoggingIn) -> None:
    """Brokers without re-authentication refuse a second login and keep the first."""
    talk = busy.talk
    busy.plain("alice")
    talk.says(heartbeat())
    await busy.broker_takes_it()
    talk.broker.take()
    talk.session.upstream_data(struct.pack(">ii", 4, 7))
    busy.handshake()
    busy.says(b"\0bob\0bob")
    talk.broker.take()
    busy.broker_answers(int(ErrorCode.ILLEGAL_SASL_STATE))
    talk.says(heartbeat())
    await busy.broker_takes_it()
    assert talk.session.principal == "alice"


async def test_a_login_ends_with_its_time(busy: LoggingIn) -> None:
    talk = busy.talk
    busy.plain("alice", lifetime_ms=60_000)
    talk.says(heartbeat())
    await busy.broker_takes_it()
    talk.broker.take()
    talk.session.upstream_data(struct.pack(">ii", 4, 7))
    talk.session.authorized["mirrored"] = (talk.clock(), True)
    assert [timer.delay for timer in talk.loop.timers] == [60.0]
    talk.loop.fire()
    assert talk.session.authorized == {}
    talk.says(join("known"))
    await talk.turn()
    assert talk.gates.waiting_here() == []
    busy_frame = talk.broker.frames()[0]
    assert peek_request_header(memoryview(busy_frame)).client_id == "lockgate"


async def test_a_login_that_ends_within_a_request_lets_it_through_whole(secured: LoggingIn) -> None:
    """The gateway's question must not fall into the middle of what is being passed on."""
    talk = secured.talk
    secured.plain("alice", lifetime_ms=60_000)
    talk.says(heartbeat())
    await secured.broker_takes_it()
    talk.broker.take()
    talk.session.upstream_data(struct.pack(">ii", 4, 7))
    data = heartbeat()
    talk.says(data[:30])
    talk.loop.fire()
    talk.says(data[30:] + data)
    await talk.turn()
    first, second = talk.broker.frames()
    assert first == data[4:]
    assert peek_request_header(memoryview(second)).client_id == "lockgate"


async def test_a_large_frame_before_a_login_is_refused_at_its_head(secured: LoggingIn) -> None:
    head = struct.pack(">ihhi", limits_with().login_request_bytes + 1, ApiKey.SASL_AUTHENTICATE, 1, 2)
    secured.talk.says(head + bytes(100))
    assert secured.talk.client.closed
    assert secured.talk.context.stats.closed == {"bad request": 1}


async def test_a_first_request_may_be_large(secured: LoggingIn) -> None:
    """A producer's first request to a broker is a Produce: it waits in the client's socket, and comes through whole."""
    talk = secured.talk
    secured.plain("alice")
    data = frame_request(int(ApiKey.HEARTBEAT), 3, 7, "me", bytes(700_000))
    talk.says(data[:300_000])
    talk.says(data[300_000:600_000])
    waited = not talk.client.reading
    await secured.broker_takes_it()
    assert (waited, talk.client.reading) == (True, True)
    talk.says(data[600_000:])
    assert talk.broker.take() == data


async def test_where_no_login_is_asked_for_a_sasl_message_makes_nobody(talk: Conversation) -> None:
    login = LoggingIn(talk)
    login.handshake()
    login.says(b"\0victim\0x")
    login.broker_answers()
    assert talk.session.principal == ""
