"""What all others must do: asked until they have, and an end with a reason when one cannot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gateway.errors import Conflict
from gateway.fleet import quorum as fleet_quorum
from gateway.fleet.peers.channel import PeerUnavailable
from gateway.fleet.quorum import FleetQuorum


class FakePeers:
    """`failures`: how often each gateway does not answer."""

    def __init__(self, **failures: int) -> None:
        self.failures = failures
        self.asked: list[tuple[str, str, Mapping[str, Any]]] = []

    async def ask(self, peer: str, what: str, body: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
        self.asked.append((peer, what, body))
        if self.failures.get(peer, 0):
            self.failures[peer] -= 1
            raise PeerUnavailable(f"{peer} is away")
        return {}


class FakeRegistry:
    def __init__(self, *names: str) -> None:
        self.names = frozenset(names)
        self.missing = ""

    def required(self) -> frozenset[str]:
        return self.names

    def lost(self) -> str:
        return self.missing


class FakeStore:
    applied = 7


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_quorum, "_TELL_AGAIN_S", 0.01)


def quorum(peers: FakePeers, registry: FakeRegistry) -> FleetQuorum:
    return FleetQuorum("a", FakeStore, registry, peers, 3)  # type: ignore[arg-type]


async def test_alone_there_is_nothing_to_do() -> None:
    peers = FakePeers()
    await quorum(peers, FakeRegistry("a")).read_by_all()
    assert peers.asked == []


async def test_all_others_are_asked_until_they_have_done_it() -> None:
    peers = FakePeers(b=2)
    await quorum(peers, FakeRegistry("a", "b", "c")).read_by_all()
    assert [peer for peer, _, _ in peers.asked] == ["b", "c", "b", "b"] or sorted(
        peer for peer, _, _ in peers.asked
    ) == ["b", "b", "b", "c"]
    assert peers.asked[0][1:] == ("read", {"offset": 7, "term": 3})


async def test_a_lost_one_is_named_at_once() -> None:
    registry = FakeRegistry("a", "b")
    registry.missing = "gateway 'b' does not answer"
    with pytest.raises(Conflict, match="gateway 'b' does not answer"):
        await quorum(FakePeers(), registry).read_by_all()


async def test_one_that_never_does_it_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_quorum, "_READ_S", 0.2)
    with pytest.raises(Conflict, match="b is away"):
        await quorum(FakePeers(b=1000), FakeRegistry("a", "b")).read_by_all()


async def test_commits_are_settled_by_all_up_to_what_is_stored() -> None:
    peers = FakePeers(b=1)
    await quorum(peers, FakeRegistry("a", "b")).commits_settled("g")
    assert peers.asked == [("b", "commits_settled", {"group": "g", "offset": 7, "term": 3})] * 2


async def test_a_gate_stays_closed_by_command_until_the_record_is_in_force_again() -> None:
    peers = FakePeers(b=1)
    one = quorum(peers, FakeRegistry("a", "b"))
    await one.close_gate("g")
    assert one.closed == {"g"}
    peers.failures["b"] = 1
    telling = one.gate_by_record("g")
    assert one.closed == set()
    await telling  # until everybody has been told: it would stay shut there else
    assert [what for _, what, _ in peers.asked] == ["close_gate", "close_gate", "open_gate", "open_gate"]
    assert peers.asked[-1][2] == {"group": "g", "offset": 7, "number": 2, "term": 3}


async def test_a_gate_that_is_shut_again_is_not_told_to_open() -> None:
    peers = FakePeers()
    one = quorum(peers, FakeRegistry("a", "b"))
    await one.close_gate("g")
    telling = one.gate_by_record("g")
    await one.close_gate("g")
    await telling
    assert [what for _, what, _ in peers.asked] == ["close_gate", "close_gate"]
    assert one.closed == {"g"}
