"""Two gateways' gates: what one that follows asks and tells the leader, and what the leader closes there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from gateway.fleet.peers.channel import PeerRefused, PeerUnavailable
from gateway.groups.gate import fleet as fleet_gates
from gateway.groups.gate.by_record import GatesByRecord
from gateway.groups.gate.fleet import FleetGates
from gateway.groups.gate.rules.gates import GateStatus, GroupGates, Identity, Waiter
from gateway.kafka.connection.errors import NetError
from gateway.state.records import GroupRecord, GroupState, MirrorRecord
from gateway.state.views import StateViews
from protocol.apis import ApiKey
from tests.support.waiting import wait_until_async

TERM = 5
MIRROR = MirrorRecord(link="l", source_topic="payments", mirror_topic="payments", mirror_id=1)


def command(offset: int, number: int) -> Mapping[str, Any]:
    return {"group": "g", "term": TERM, "offset": offset, "number": number}


class Wires:
    """Hands questions to the other gateway's handlers; `down`: nobody answers."""

    def __init__(self, me: str) -> None:
        self.me = me
        self.handlers: dict[str, Any] = {}
        self.others: dict[str, Wires] = {}
        self.down = False
        self.answered = 0

    async def ask(self, peer: str, what: str, body: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
        if self.down or peer not in self.others:
            raise PeerUnavailable("nobody there")
        try:
            answer: Mapping[str, Any] = await self.others[peer].handlers[what]({**body, "from": self.me})
        except NetError as exc:
            raise PeerRefused(str(exc)) from exc
        self.others[peer].answered += 1
        return answer


class Views(StateViews):
    """`waits_for`: offsets that somebody has waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.waits_for: list[int] = []

    async def read_up_to(self, offset: int) -> None:
        self.waits_for.append(offset)
        await super().read_up_to(offset)


class Gateway:
    def __init__(self, me: str, *, leads: bool) -> None:
        self.wires = Wires(me)
        self.gates = GroupGates()
        self.gates.enabled = True
        self.views = Views()
        GatesByRecord(self.views, self.gates)
        peers: Any = self.wires
        self.fleet = FleetGates(
            me, self.gates, self.views, peers, leader=lambda: "leader", is_leading=lambda: leads, term=lambda: TERM
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
    first_requested: list[str] = []
    leader.gates.on_unknown = first_requested.append
    follower.wires.down = True
    assert follower.gates.status("g") is GateStatus.UNKNOWN
    follower.wires.down = False
    await wait_until_async(lambda: first_requested == ["g"], 5.0)
    assert follower.gates.status("g") is GateStatus.UNKNOWN
    leader.gates.let_in("g", as_of=0)
    await wait_until_async(lambda: follower.gates.status("g") is GateStatus.OPEN, 5.0)


async def test_who_waits_is_told_and_forgotten_again(pair: tuple[Gateway, Gateway]) -> None:
    leader, follower = pair
    key = follower.gates.wait(Waiter("g", Identity("10.0.0.1", "c"), 0.0), lambda: None)
    await wait_until_async(lambda: [w.identity.host for w in leader.gates.waiters("g")] == ["10.0.0.1"], 5.0)
    follower.gates.leave("g", key)
    await wait_until_async(lambda: not leader.gates.waiters("g"), 5.0)


async def test_what_a_member_said_when_it_joined_is_told_too(pair: tuple[Gateway, Gateway]) -> None:
    leader, follower = pair
    for instance, timeout_s in (("pod-0", 45.0), ("", 6.0)):
        waiter = Waiter("g", Identity("10.0.0.1", "c"), 0.0, instance_id=instance, session_timeout_s=timeout_s)
        follower.gates.wait(waiter, lambda: None)
    await wait_until_async(lambda: len(leader.gates.waiters("g")) == 2, 5.0)
    assert [(w.instance_id, w.session_timeout_s) for w in leader.gates.waiters("g")] == [("pod-0", 45.0), ("", 6.0)]


async def test_by_which_api_somebody_waits_is_told_and_an_older_gateway_does_not(pair: tuple[Gateway, Gateway]) -> None:
    leader, follower = pair
    for number, api in enumerate([ApiKey.OFFSET_FETCH] * 150 + [ApiKey.CONSUMER_GROUP_HEARTBEAT]):
        follower.gates.wait(Waiter("g", Identity("10.0.0.1", f"c{number}"), 0.0, api=api), lambda: None)

    def told() -> list[int]:
        return [waiter.api for waiter in leader.gates.waiters("g")]

    await wait_until_async(lambda: len(told()) == 100, 5.0)  # a member is among them, however many tools there are
    assert told() == [ApiKey.CONSUMER_GROUP_HEARTBEAT] + [ApiKey.OFFSET_FETCH] * 99
    assert [waiter.reads for waiter in leader.gates.waiters("g")] == [False] * 100
    for number in range(3):
        follower.gates.saw(Identity("10.0.0.1", f"c{number}"), "g")
        follower.gates.fetches(Identity("10.0.0.1", f"c{number}"), 0.0)
    follower.gates.on_waiters()
    await wait_until_async(
        lambda: [w.reads for w in leader.gates.waiters("g")] == [False, *[True] * 3, *[False] * 96], 5.0
    )
    body = {"from": "older", "waiters": [["h", "10.0.0.2", "c", "", 0.0]]}
    await leader.wires.handlers[fleet_gates.WAITERS](body)
    assert [waiter.api for waiter in leader.gates.waiters("h")] == [ApiKey.JOIN_GROUP]


async def test_at_a_gateway_that_is_gone_nobody_waits(pair: tuple[Gateway, Gateway]) -> None:
    leader, follower = pair
    follower.gates.wait(Waiter("g", Identity("10.0.0.1", "c"), 0.0), lambda: None)
    await wait_until_async(lambda: bool(leader.gates.waiters("g")), 5.0)
    await follower.fleet.close()
    leader.fleet.assigned({"leader": ""})
    assert not leader.gates.waiters("g")


def promoted(offset: int) -> tuple[list[tuple[str, GroupRecord]], int]:
    return [("group/l/g", GroupRecord(link="l", group="g", state=GroupState.PROMOTED))], offset


async def test_a_closed_gate_waits_for_commits_and_opens_by_the_record(pair: tuple[Gateway, Gateway]) -> None:
    leader, follower = pair
    follower.views.apply(*promoted(1))
    follower.gates.commit_begins("g")
    closing = asyncio.create_task(leader.wires.ask("follower", "close_gate", command(1, 1), 1.0))
    await wait_until_async(lambda: follower.gates.status("g") is GateStatus.CLOSED, 5.0)
    assert not closing.done()
    follower.gates.commit_ends("g")
    await closing
    follower.views.apply([], 2)
    assert follower.gates.status("g") is GateStatus.CLOSED, "the record does not open what the leader has closed"
    await leader.wires.ask("follower", "open_gate", command(1, 2), 1.0)
    assert follower.gates.status("g") is GateStatus.OPEN


async def test_commits_are_settled_once_the_state_is_read_and_they_are_answered(pair: tuple[Gateway, Gateway]) -> None:
    """Before it has read that the group is being promoted a follower sends offsets of transactions to the source."""
    leader, follower = pair
    settling = asyncio.create_task(leader.wires.ask("follower", "commits_settled", {**command(1, 1), "offset": 3}, 5.0))
    await wait_until_async(lambda: bool(follower.views.waits_for), 5.0, what="the question to arrive")
    follower.gates.commit_begins("g")
    follower.views.apply([], 3)
    await leader.wires.ask("follower", "commits_settled", {**command(1, 1), "group": "h", "offset": 3}, 5.0)
    assert not settling.done()  # though this one was answered behind it
    follower.gates.commit_ends("g")
    await settling
    with pytest.raises(PeerRefused, match="term 4 is over"):
        await leader.wires.ask("follower", "commits_settled", {**command(1, 1), "term": TERM - 1}, 1.0)


async def test_an_older_leader_closes_nothing(pair: tuple[Gateway, Gateway]) -> None:
    leader, _ = pair
    with pytest.raises(PeerRefused, match="term 4 is over"):
        await leader.wires.ask("follower", "close_gate", {**command(1, 1), "term": TERM - 1}, 1.0)


async def test_a_follower_that_lags_opens_a_gate_only_by_the_record_that_was_meant(
    pair: tuple[Gateway, Gateway],
) -> None:
    """A demote has written ACTIVE and tells the others to go by the record; this one has not read it yet."""
    leader, follower = pair
    follower.views.apply(*promoted(1))
    await leader.wires.ask("follower", "close_gate", command(1, 1), 1.0)
    released: list[str] = []
    follower.gates.wait(Waiter("g", Identity("h", "c"), 0.0), lambda: released.append("g"))

    opening = asyncio.create_task(leader.wires.ask("follower", "open_gate", command(2, 2), 1.0))
    await wait_until_async(lambda: bool(follower.views.waits_for), 5.0, what="the command to arrive")
    assert follower.gates.status("g") is GateStatus.CLOSED
    follower.views.apply([("group/l/g", GroupRecord(link="l", group="g", demoted=True))], 2)
    await opening

    assert follower.gates.status("g") is GateStatus.CLOSED
    assert not released


async def test_an_answer_from_before_a_mirror_was_stored_lets_nobody_in(pair: tuple[Gateway, Gateway]) -> None:
    """A leader that has not read as far as this gateway, or has asked the source before."""
    leader, follower = pair
    follower.views.apply([("mirror/l/payments", MIRROR)], 7)
    leader.gates.let_in("g", as_of=6)
    assert follower.gates.status("g") is GateStatus.UNKNOWN
    await wait_until_async(lambda: leader.wires.answered >= 2, 5.0, what="the leader to be asked again")
    assert follower.gates.status("g") is GateStatus.UNKNOWN

    leader.gates.let_in("g", as_of=7)

    await wait_until_async(lambda: follower.gates.status("g") is GateStatus.OPEN, 5.0)


async def test_a_gateway_that_began_behind_a_compaction_hears_of_who_was_let_in_before(
    pair: tuple[Gateway, Gateway],
) -> None:
    """It finds the mirror at its last change, and takes that for its first."""
    leader, follower = pair
    leader.views.apply([("mirror/l/payments", MIRROR)], 4)
    leader.gates.let_in("g", as_of=5)
    leader.views.apply([("mirror/l/payments", MIRROR)], 9)

    follower.views.apply([("mirror/l/payments", MIRROR)], 9)
    follower.gates.status("g")

    await wait_until_async(lambda: follower.gates.status("g") is GateStatus.OPEN, 5.0)


async def test_a_group_that_was_let_in_is_asked_about_again_at_every_gateway_when_a_topic_more_is_mirrored(
    pair: tuple[Gateway, Gateway],
) -> None:
    leader, follower = pair
    leader.gates.let_in("g", as_of=3)
    follower.gates.status("g")
    await wait_until_async(lambda: follower.gates.status("g") is GateStatus.OPEN, 5.0)
    asked: list[str] = []
    leader.gates.on_unknown = asked.append

    for one in (leader, follower):
        one.views.apply([("mirror/l/payments", MIRROR)], 7)

    assert asked == ["g"]
    assert follower.gates.status("g") is GateStatus.UNKNOWN, "held meanwhile, without a first request of its own"
    leader.views.apply([("group/l/g", GroupRecord(link="l", group="g"))], 8)
    follower.views.apply([("group/l/g", GroupRecord(link="l", group="g"))], 8)
    assert follower.gates.status("g") is GateStatus.CLOSED


async def test_a_command_that_does_not_say_of_what_it_is_does_nothing(pair: tuple[Gateway, Gateway]) -> None:
    leader, follower = pair
    follower.views.apply(*promoted(1))
    with pytest.raises(PeerRefused, match="without its offset"):
        await leader.wires.ask("follower", "close_gate", {"group": "g", "term": TERM}, 1.0)
    assert follower.gates.status("g") is GateStatus.OPEN


async def test_an_answer_that_does_not_say_as_of_when_lets_nobody_in(pair: tuple[Gateway, Gateway]) -> None:
    """Of a leader of an older version."""
    leader, follower = pair

    async def first_requested(_: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"open": True}

    leader.wires.handlers["first_request"] = first_requested
    follower.gates.status("g")
    await wait_until_async(lambda: leader.wires.answered >= 2, 5.0, what="the leader to be asked again")
    assert follower.gates.status("g") is GateStatus.UNKNOWN
