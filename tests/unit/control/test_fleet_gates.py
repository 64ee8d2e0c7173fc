"""Two gateways' gates: what one that follows asks and tells the leader, and what the leader closes there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from gateway.control import fleet_gates
from gateway.control.fleet_gates import FleetGates
from gateway.control.replica import Replica
from gateway.control.state_views import StateViews
from gateway.domain.gates import GateStatus, GroupGates, Identity, Waiter
from gateway.domain.records import GroupRecord, GroupState
from gateway.net.errors import NetError
from gateway.net.peers import PeerRefused, PeerUnavailable
from tests.support.fake_engine import FakeEngine
from tests.support.waiting import wait_until_async

TERM = 5


class Wires:
    """Hands questions to the other gateway's handlers; `down`: nobody answers."""

    def __init__(self, me: str) -> None:
        self.me = me
        self.handlers: dict[str, Any] = {}
        self.others: dict[str, Wires] = {}
        self.down = False

    async def ask(self, peer: str, what: str, body: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
        if self.down or peer not in self.others:
            raise PeerUnavailable("nobody there")
        try:
            answer: Mapping[str, Any] = await self.others[peer].handlers[what]({**body, "from": self.me})
        except NetError as exc:
            raise PeerRefused(str(exc)) from exc
        return answer


class Gateway:
    def __init__(self, me: str, *, leads: bool) -> None:
        self.wires = Wires(me)
        self.gates = GroupGates()
        self.gates.enabled = True
        self.views = StateViews()
        engine: Any = FakeEngine()
        self.replica = Replica(self.views, None, engine, self.gates)  # type: ignore[arg-type]
        peers: Any = self.wires
        self.fleet = FleetGates(
            me, self.gates, self.replica, peers, leader=lambda: "leader", is_leading=lambda: leads, term=lambda: TERM
        )


@pytest.fixture
async def pair(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Gateway, Gateway]]:
    monkeypatch.setattr(fleet_gates, "_AGAIN_S", 0.01)
    monkeypatch.setattr(fleet_gates, "_GATHER_S", 0.0)
    leader, follower = Gateway("leader", leads=True), Gateway("follower", leads=False)
    leader.wires.others["follower"], follower.wires.others["leader"] = follower.wires, leader.wires
    follower.fleet.follow()
    follower.fleet.start()
    yield leader, follower
    await leader.fleet.close()
    await follower.fleet.close()


async def test_a_group_that_nobody_knows_is_held_until_the_leader_has_decided(
    pair: tuple[Gateway, Gateway],
) -> None:
    leader, follower = pair
    knocked: list[str] = []
    leader.gates.on_unknown = knocked.append
    follower.wires.down = True
    assert follower.gates.status("g") is GateStatus.UNKNOWN
    follower.wires.down = False
    await wait_until_async(lambda: knocked == ["g"], 5.0)
    assert follower.gates.status("g") is GateStatus.UNKNOWN
    leader.gates.set("g", GateStatus.OPEN)
    await wait_until_async(lambda: follower.gates.status("g") is GateStatus.OPEN, 5.0)


async def test_who_waits_is_told_and_forgotten_again(pair: tuple[Gateway, Gateway]) -> None:
    leader, follower = pair
    key = follower.gates.wait(Waiter("g", Identity("10.0.0.1", "c"), 0.0), lambda: None)
    await wait_until_async(lambda: [w.identity.host for w in leader.gates.waiters("g")] == ["10.0.0.1"], 5.0)
    follower.gates.leave("g", key)
    await wait_until_async(lambda: not leader.gates.waiters("g"), 5.0)


async def test_at_a_gateway_that_is_gone_nobody_waits(pair: tuple[Gateway, Gateway]) -> None:
    leader, follower = pair
    follower.gates.wait(Waiter("g", Identity("10.0.0.1", "c"), 0.0), lambda: None)
    await wait_until_async(lambda: bool(leader.gates.waiters("g")), 5.0)
    await follower.fleet.close()
    leader.fleet.assigned({"leader": ""})
    assert not leader.gates.waiters("g")


async def test_a_closed_gate_waits_for_commits_and_opens_by_the_record(pair: tuple[Gateway, Gateway]) -> None:
    leader, follower = pair
    follower.views.apply([("group/l/g", GroupRecord(link="l", group="g", state=GroupState.PROMOTED))], 1)
    follower.replica.gates()
    follower.gates.commit_begins("g")
    closing = asyncio.create_task(leader.wires.ask("follower", "close_gate", {"group": "g", "term": TERM}, 1.0))
    await wait_until_async(lambda: follower.gates.status("g") is GateStatus.CLOSED, 5.0)
    assert not closing.done()
    follower.gates.commit_ends("g")
    await closing
    follower.replica.gates()
    assert follower.gates.status("g") is GateStatus.CLOSED, "the record does not open what the leader has closed"
    await leader.wires.ask("follower", "open_gate", {"group": "g", "term": TERM}, 1.0)
    assert follower.gates.status("g") is GateStatus.OPEN


async def test_an_older_leader_closes_nothing(pair: tuple[Gateway, Gateway]) -> None:
    leader, _ = pair
    with pytest.raises(PeerRefused, match="term 4 is over"):
        await leader.wires.ask("follower", "close_gate", {"group": "g", "term": TERM - 1}, 1.0)
