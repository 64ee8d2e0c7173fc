"""Requests that wait take so much memory in all; clients that would take more are not read, and served in the end."""

from __future__ import annotations

from typing import Any, cast

import pytest

from gateway.proxy.session.proxy_session import ProxySession
from protocol.apis import ApiKey
from protocol.codec import encode_request
from protocol.header import frame_request
from protocol.messages import JoinGroupRequest
from tests.support.control.gates import gate
from tests.support.proxy.conversation import Conversation, Wire
from tests.support.proxy.limits import limits_with


def join(group: str, size: int = 10) -> bytes:
    kind = JoinGroupRequest.JoinGroupRequestProtocol
    message = JoinGroupRequest(
        group_id=group, session_timeout_ms=1, protocol_type="c", protocols=[kind(name="r", metadata=bytes(size))]
    )
    return encode_request(message, 5, 7, "me")


class Peer:
    """One more client of the same gateway."""

    def __init__(self, talk: Conversation) -> None:
        self.client, self.broker = Wire(), Wire()
        self.session = ProxySession(talk.context, 1)
        self.session.client_connected(cast("Any", self.client), "10.0.0.8")
        self.session.upstream_connected(cast("Any", self.broker))

    def says(self, data: bytes) -> None:
        self.session.client_data(data)


@pytest.fixture
async def small() -> Conversation:
    talk = Conversation(limits=limits_with(held_request_bytes=100_000))
    talk.gates.enabled = True
    gate(talk.gates, "closed", is_open=False)
    return talk


async def test_what_waits_at_a_gate_is_held_until_it_goes_on(small: Conversation) -> None:
    held = small.context.held
    small.says(join("closed", 90_000))
    assert 90_000 < held.bytes < 91_000
    other = Peer(small)
    other.says(join("closed", 20_000))
    assert (small.client.reading, other.client.reading, held.waiting) == (True, False, 1)
    gate(small.gates, "closed", is_open=True)
    assert (small.client.reading, other.client.reading, held.waiting) == (True, True, 0)
    assert held.bytes == 0  # they have gone to the broker
    assert len(small.broker.take()) > 90_000
    assert len(other.broker.take()) > 20_000


async def test_what_comes_behind_a_request_that_waits_is_held(small: Conversation) -> None:
    small.says(join("closed"))
    before = small.context.held.bytes
    small.says(bytes(5_000))
    assert small.context.held.bytes == before + 5_000


async def test_halves_are_held_and_one_of_them_goes_on(small: Conversation) -> None:
    held = small.context.held
    data = join("open", 70_000)
    gate(small.gates, "open", is_open=True)
    peers = [Peer(small) for _ in range(3)]
    for peer in peers:
        peer.says(data[:60_000])
    assert [peer.client.reading for peer in peers] == [True, True, False]
    peers[0].says(data[60_000:65_000])
    assert [peer.client.reading for peer in peers] == [False, True, False]
    peers[1].says(data[60_000:])  # whole, and sent on; there is no room yet for both others
    assert peers[1].broker.take() == data
    assert [peer.client.reading for peer in peers].count(True) == 2
    peers[2].says(data[60_000:])
    peers[0].says(data[65_000:])
    assert [peer.broker.take() for peer in peers] == [data, b"", data]
    assert (held.bytes, held.waiting) == (0, 0)
    assert all(peer.client.reading for peer in peers)


async def test_a_claim_alone_holds_nothing(small: Conversation) -> None:
    small.says(join("open", 900_000)[:50])
    assert small.context.held.bytes < 50


async def test_a_closed_connection_holds_nothing(small: Conversation) -> None:
    small.says(join("closed", 50_000) + bytes(1_000))
    assert small.context.held.bytes > 51_000
    small.session.close("client closed")
    assert small.context.held.bytes == 0


async def test_what_passes_is_not_held(talk: Conversation) -> None:
    data = frame_request(int(ApiKey.DESCRIBE_ACLS), 1, 7, "me", bytes(200_000))
    talk.says(data[:100_000])
    assert talk.context.held.bytes == 0
    talk.says(data[100_000:])
    assert talk.broker.take() == data
