"""What a connection held is free when it closes, not only when the next garbage is collected: a gateway seldom does."""

from __future__ import annotations

import asyncio
import gc
import socket
import tracemalloc
import weakref
from collections.abc import Iterator

import pytest

from gateway.proxy.session.proxy_session import ProxySession
from gateway.proxy.session.sides import ClientSide, UpstreamSide
from gateway.transport.first_reads import FirstReads
from protocol.apis import ApiKey
from protocol.header import frame_request
from tests.support.control.gates import gate
from tests.support.proxy.conversation import Conversation
from tests.support.waiting import wait_until_async
from tests.unit.proxy.session.test_loop_share import heartbeat, slow

LARGE = 900_000
TIMES = 5


@pytest.fixture(autouse=True)
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    tracemalloc.start()
    yield
    tracemalloc.stop()
    gc.enable()


def large(key: ApiKey, version: int) -> bytes:
    """A request that is mostly padding."""
    return frame_request(int(key), version, 1, "me", bytes(LARGE))


def closes_early(talk: Conversation) -> None:
    """Half a request is there."""
    talk.says(large(ApiKey.CREATE_TOPICS, 5)[: LARGE // 2])
    talk.session.close("client closed")


def is_refused(talk: Conversation) -> None:
    talk.says(frame_request(int(ApiKey.CREATE_TOPICS), 5, 1, "me", b"\x7f\xff\xff\xff" + bytes(LARGE)))
    assert talk.session.closed


def waits(talk: Conversation) -> None:
    """At a gate, and more behind it."""
    talk.gates.enabled = True
    gate(talk.gates, "", is_open=False)
    talk.says(large(ApiKey.JOIN_GROUP, 5))
    talk.says(large(ApiKey.JOIN_GROUP, 5))
    talk.session.close("client closed")


def is_answered(talk: Conversation) -> None:
    """An answer that is there waits for its turn; half of another one is."""
    slow(talk, ApiKey.METADATA)
    talk.says(heartbeat(1) + frame_request(int(ApiKey.METADATA), 9, 2, "me", bytes(8)))
    talk.session._sequencer.queue[1].response = bytes(LARGE)
    talk.broker_says(1, bytes(LARGE))
    talk.session.upstream_data(LARGE.to_bytes(4, "big") + (2).to_bytes(4, "big") + bytes(LARGE // 2))
    talk.client.take()
    talk.session.close("client closed")


@pytest.mark.parametrize("story", [closes_early, is_refused, waits, is_answered])
async def test_a_closed_connection_holds_nothing(story: object) -> None:
    assert callable(story)
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(TIMES):
        story(Conversation())
    assert tracemalloc.get_traced_memory()[0] - before < 2 * LARGE


async def connected(asks_login: bool) -> weakref.ref[ProxySession]:
    """A session by sockets, which has asked something, and whose client then leaves."""
    talk = Conversation(asks_login=asks_login)
    ours, client = socket.socketpair()
    ours.setblocking(False)
    side = ClientSide(talk.context, 1, None, "10.0.0.7")
    loop = talk.context.wires.loop = asyncio.get_running_loop()
    talk.context.first_reads = FirstReads(loop, talk.context.strangers.when_due)
    side.accepted(ours)
    session = side._session
    upstream, broker = socket.socketpair()
    upstream.setblocking(False)
    UpstreamSide(session).connected(upstream)
    client.sendall(frame_request(int(ApiKey.METADATA), 9, 1, "me", bytes(3)))
    await wait_until_async(
        lambda: session.context.stats.produced() == 0 and len(session._sequencer) == (not asks_login)
    )
    client.close()
    await wait_until_async(lambda: session.closed)
    broker.close()
    talk.context.first_reads.close()
    return weakref.ref(session)


@pytest.mark.parametrize("asks_login", [False, True])
async def test_a_closed_connection_is_no_garbage(asks_login: bool) -> None:
    """A flood of connections would have a collection take more than a turn may."""
    session = await connected(asks_login)
    await wait_until_async(lambda: session() is None, 5.0)
