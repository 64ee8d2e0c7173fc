"""Waiting for a broker of the source that may be dead, while another one leads by now."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from gateway.kafka.connection.errors import AuthenticationFailed, ClusterUnavailable
from gateway.proxy.produce import source_waits
from gateway.proxy.produce.source_waits import find_connection

LEADS = [("a", 0), ("a", 1)]


class Source:
    """`connected`: what becomes of the attempt to connect. `views`: who leads a-1 after each refresh."""

    def __init__(self, *views: int | None) -> None:
        self.connected: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.views = list(views)
        self.leads: int | None = 1
        self.asked: list[set[str]] = []

    async def connection_for(self, client: str, node_id: int, lane: str) -> None:
        assert client == "alice"
        await self.connected

    async def refresh(self, topics: set[str]) -> None:
        self.asked.append(topics)
        if not self.views:
            raise ClusterUnavailable("nobody answers")
        self.leads = self.views.pop(0)

    def leader(self, topic: str, partition: int) -> int | None:
        return self.leads if partition else 1


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_waits, "LOOK_S", 0.001)


async def find(source: Source) -> None:
    async with asyncio.timeout(10):
        await find_connection(cast("Any", source), "alice", 1, "produce-0", LEADS)


async def test_a_connection_is_enough() -> None:
    source = Source()
    source.connected.set_result(None)
    await find(source)
    assert source.asked == []


async def test_who_does_not_answer_is_left_when_another_one_leads() -> None:
    source = Source(1, None, 2)  # it leads still, nobody does, another one
    await find(source)
    assert source.asked == [{"a"}] * 3
    assert source.connected.cancelled()


async def test_who_cannot_be_reached_is_left_when_another_one_leads() -> None:
    source = Source(2)
    source.connected.set_exception(ClusterUnavailable("broker 1 is not in the cluster"))
    await find(source)
    assert source.asked == [{"a"}]


async def test_a_login_that_is_refused_is_told_at_once() -> None:
    source = Source(1, 1)
    source.connected.set_exception(AuthenticationFailed("lacks the ACL"))
    with pytest.raises(AuthenticationFailed, match="lacks the ACL"):
        await find(source)
    assert source.asked == []


async def test_neither_is_an_error() -> None:
    source = Source(1)
    source.connected.set_exception(ClusterUnavailable("broker 1 is not in the cluster"))
    with pytest.raises(ClusterUnavailable, match="broker 1"):
        await find(source)
    with pytest.raises(ClusterUnavailable, match="nobody answers"):
        await find(Source())
