"""Order, stalling and isolation on one connection."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from protocol.apis import ApiKey
from protocol.codec import decode_response, encode_request
from protocol.header import frame_request, peek_request_header, response_body_offset
from protocol.messages import HeartbeatRequest, JoinGroupRequest
from tests.support.control.gates import gate

if TYPE_CHECKING:
    from tests.support.proxy.conversation import Conversation


def heartbeat(correlation_id: int) -> bytes:
    message = HeartbeatRequest(group_id="g", generation_id=1, member_id="m", group_instance_id=None)
    return encode_request(message, 3, correlation_id, "me")


def join(correlation_id: int, version: int = 5) -> bytes:
    message = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id="",
        group_instance_id=None,
        protocol_type="consumer",
        protocols=[],
        reason=None,
    )
    return encode_request(message, version, correlation_id, "me")


def correlation_ids(frames: list[bytes]) -> list[int]:
    return [struct.unpack_from(">i", frame)[0] for frame in frames]


async def test_opaque_requests_pass_byte_for_byte(talk: Conversation) -> None:
    data = heartbeat(1) + heartbeat(2)
    talk.says(data[:30])
    talk.says(data[30:])
    assert talk.broker.take() == data
    talk.broker_says(1, b"one")
    talk.broker_says(2, b"two")
    assert correlation_ids(talk.client.frames()) == [1, 2]


async def test_a_closed_gate_holds_the_member_and_what_follows_on_its_connection(talk: Conversation) -> None:
    talk.gates.enabled = True
    gate(talk.gates, "g", is_open=False)
    talk.says(join(1) + heartbeat(2))
    assert talk.broker.take() == b""
    assert [w.identity.client_id for w in talk.gates.waiters("g")] == ["me"]
    gate(talk.gates, "g", is_open=True)
    sent = talk.broker.frames()
    assert [peek_request_header(memoryview(frame)).api_key for frame in sent] == [ApiKey.JOIN_GROUP, ApiKey.HEARTBEAT]
    assert talk.gates.waiters("g") == []
    talk.broker_says(1)
    talk.broker_says(2)
    assert correlation_ids(talk.client.frames()) == [1, 2]


async def test_a_held_member_is_told_to_join_again_when_its_time_is_up(talk: Conversation) -> None:
    talk.gates.enabled = True
    gate(talk.gates, "g", is_open=False)
    talk.says(join(7, version=9))
    assert 20 <= talk.loop.timers[0].delay <= 25
    talk.loop.fire()
    (frame,) = talk.client.frames()
    body = memoryview(frame)[response_body_offset(ApiKey.JOIN_GROUP, 9, memoryview(frame)) :]
    response = decode_response(ApiKey.JOIN_GROUP, 9, body)
    assert (response.error_code, response.member_id, response.protocol_name) == (25, "", None)
    assert not talk.session.closed
    assert talk.gates.waiters("g") == []


async def test_a_disconnected_member_no_longer_waits(talk: Conversation) -> None:
    talk.gates.enabled = True
    gate(talk.gates, "g", is_open=False)
    talk.says(join(1))
    talk.session.close("client closed")
    assert talk.gates.waiters("g") == []
    gate(talk.gates, "g", is_open=True)
    talk.loop.fire()
    assert talk.broker.take() == b""


async def test_a_stalled_connection_stops_reading_after_its_backlog(talk: Conversation) -> None:
    talk.gates.enabled = True
    gate(talk.gates, "g", is_open=False)
    talk.says(join(1))
    for n in range(10_000):
        if not talk.client.reading:
            break
        talk.says(heartbeat(n + 2))
    assert not talk.client.reading
    gate(talk.gates, "g", is_open=True)
    while sent := talk.broker.frames():  # so many at a time are unanswered
        for frame in sent:
            talk.broker_says(peek_request_header(memoryview(frame)).correlation_id)
        await talk.turn()
    assert talk.client.reading


async def test_unknown_keys_and_versions_close_the_connection(talk: Conversation) -> None:
    talk.says(frame_request(ApiKey.HEARTBEAT, 3, 1, "me", b"")[:4] + struct.pack(">hhih", 9999, 0, 1, 0))
    assert talk.client.closed
    assert talk.broker.closed


async def test_a_response_out_of_order_closes_the_connection(talk: Conversation) -> None:
    talk.says(heartbeat(1) + heartbeat(2))
    talk.broker_says(2)
    assert talk.client.closed


async def test_the_broker_is_read_slowly_when_the_client_is_slow(talk: Conversation) -> None:
    seen = []
    for paused in (True, False):
        talk.session.pause_upstream(paused)
        talk.session.pause_client(paused)
        seen.append((talk.broker.reading, talk.client.reading))
    assert seen == [(False, False), (True, True)]


async def test_drain_answers_what_was_taken_then_closes(talk: Conversation) -> None:
    talk.says(heartbeat(1))
    talk.session.drain()
    assert not talk.client.closed
    talk.broker_says(1, b"done")
    assert correlation_ids(talk.client.frames()) == [1]
    assert talk.client.closed


async def test_a_handler_that_fails_closes_its_own_connection_only(talk: Conversation) -> None:
    class Broken:
        def intercepts(self, session: object) -> bool:
            return True

        def handle(self, session: object, exchange: object) -> None:
            raise RuntimeError("seeded")

    talk.context.handlers[ApiKey.HEARTBEAT] = Broken()
    talk.says(heartbeat(1))
    assert talk.client.closed
    assert talk.context.stats.closed == {"internal error": 1}


async def test_no_answer_is_looked_at_after_the_end(talk: Conversation) -> None:
    """Both come in one read; the first one ends the session, and its callbacks have been called and let go."""
    looked_at: list[memoryview] = []
    talk.session.ask(3, 8, b"", lambda _frame: talk.session.close("over"))
    talk.session.ask(3, 8, b"", looked_at.append)
    talk.session.upstream_data(struct.pack(">iiii", 4, -1, 4, -2))
    assert talk.client.closed
    assert looked_at == []
