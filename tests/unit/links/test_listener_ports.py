"""Ports of brokers get into the state topic: by this gateway when it leads, else by the one that does."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.fleet.peers.channel import PeerUnavailable
from gateway.kafka.connection.errors import NetError
from gateway.links import listener_ports as ports
from gateway.links.listener_ports import PORTS, PortBook
from gateway.state.errors import StoreError
from gateway.state.gateway_records import PortRecord


class FakePeers:
    """Hands each question to the leader's handlers; `down`: so many questions get no answer."""

    def __init__(self, leader: FakePeers | None = None, down: int = 0) -> None:
        self.handlers: dict[str, Any] = {}
        self.leader = leader
        self.down = down

    async def ask(self, peer: str, what: str, body: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
        if self.down or self.leader is None:
            self.down -= 1
            raise PeerUnavailable("nobody there")
        answer: Mapping[str, Any] = await self.leader.handlers[what](body)
        return answer


def fake_peers(leader: Any = None, down: int = 0) -> Any:
    return FakePeers(leader, down)


async def test_the_leader_stores_what_is_new(plane):
    book = PortBook(plane.store, fake_peers(), lambda: "me")

    await book.keep({7: 9295, 3: 9293})
    await book.keep({7: 9999})

    assert dict(plane.store.ports) == {3: PortRecord(3, 9293), 7: PortRecord(7, 9295)}


async def test_a_port_that_could_not_be_stored_is_tried_again(plane, monkeypatch):
    monkeypatch.setattr(ports, "_AGAIN_S", 0.01)
    plane.log.failures = [StoreError("no")]

    await PortBook(plane.store, fake_peers(), lambda: "me").keep({1: 9293})

    assert dict(plane.store.ports) == {1: PortRecord(1, 9293)}


async def test_one_that_follows_has_the_leader_store_it(plane, monkeypatch):
    monkeypatch.setattr(ports, "_AGAIN_S", 0.01)
    leader = fake_peers()
    PortBook(plane.store, leader, lambda: "leader")

    follower: Any = SimpleNamespace(leading=False, ports=plane.store.ports)

    await PortBook(follower, fake_peers(leader, down=2), lambda: "leader").keep({4: 9300})

    assert PORTS in leader.handlers
    assert dict(plane.store.ports) == {4: PortRecord(4, 9300)}


async def test_a_leader_that_cannot_store_it_refuses(plane):
    leader = fake_peers()
    PortBook(plane.store, leader, lambda: "leader")
    plane.log.failures = [StoreError("this gateway does not lead")]

    with pytest.raises(NetError, match="does not lead"):
        await leader.handlers[PORTS]({"ports": [[4, 9300]]})
    assert not plane.store.ports


async def test_a_port_is_one_broker_s_whoever_saw_which_broker_first(plane):
    """Two workers have seen two brokers in different order: each has given the same port to another one."""
    book = PortBook(plane.store, fake_peers(), lambda: "me")

    await asyncio.gather(book.keep({1: 9293, 2: 9294}), book.keep({2: 9293}), book.keep({3: 9294}))

    ports = {node: record.port for node, record in plane.store.ports.items()}
    assert len(set(ports.values())) == len(ports)
    assert ports == {1: 9293, 2: 9294}
