"""Which assignment counts: only the last one, and only once the state is read up to it."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from gateway.fleet.admission import ASSIGNMENT, GroupAdmission
from gateway.fleet.parts import FleetHooks, GatewayIdentity
from gateway.fleet.peers.channel import PeerUnavailable
from gateway.fleet.rules.assignment import (
    PACKED,
    FleetAssignment,
    decode_assignment,
    digest_of,
    encode_assignment,
    encode_outline,
)
from gateway.fleet.rules.leases import WriteLease
from gateway.fleet.rules.membership import FleetRole
from gateway.kafka.connection.errors import NetError
from gateway.transport.host import boot_clock

ME = GatewayIdentity(name="a", incarnation="1", role=FleetRole.NODE, peer="127.0.0.1:1", lease_s=10.0)


class FakeStore:
    """Has read on when `read` is set."""

    def __init__(self) -> None:
        self.read = asyncio.Event()
        self.reading = asyncio.Event()
        self.asked: list[int] = []

    async def read_up_to(self, offset: int) -> None:
        self.asked.append(offset)
        self.reading.set()
        await self.read.wait()

    async def begun(self) -> None:
        async with asyncio.timeout(5):
            await self.reading.wait()


class FakePeers:
    def __init__(self) -> None:
        self.handlers: dict[str, Any] = {}
        self.answers: dict[str, dict[str, bytes]] = {}

    def expect(self, peers: Any) -> None:
        pass

    async def ask(self, peer: str, what: str, body: Any, timeout_s: float) -> Any:
        if peer not in self.answers:
            raise PeerUnavailable("nobody there")
        return {"assignment": base64.b64encode(self.answers[peer][body["digest"]]).decode()}


class Member:
    def __init__(self) -> None:
        self.told: list[Any] = []
        self.store = FakeStore()
        self.peers = FakePeers()
        self.lease = WriteLease(ME.lease_s)
        self.lease.renewed(boot_clock())
        hooks: Any = FleetHooks(
            admitted=lambda assignment: self.told.append(assignment.term),
            forgotten=lambda: self.told.append("forgotten"),
            failed=self.told.append,
            lapsed=lambda: self.told.append("lapsed"),
            paused=dict,
            owned=frozenset,
            lead=None,  # type: ignore[arg-type]
            follow=None,  # type: ignore[arg-type]
        )
        self.admission = GroupAdmission(ME, self.store, self.peers, hooks, self.lease)  # type: ignore[arg-type]


def assignment(term: int, peer: str = ME.peer) -> FleetAssignment:
    return FleetAssignment(leader="b", peers={ME.name: peer}, state_offset=term * 10, term=term)


async def test_an_assignment_counts_once_the_state_is_read_up_to_it() -> None:
    one = Member()
    one.admission.told(assignment(3))
    counting = asyncio.create_task(one.admission.count())
    await one.store.begun()
    assert one.store.asked == [30]
    assert not one.admission.right.valid()
    one.store.read.set()
    await counting
    assert one.admission.right.valid()
    await one.admission.count()
    assert one.told == [3], "once is enough"


async def test_an_assignment_that_is_outdated_by_then_never_counts() -> None:
    one = Member()
    one.admission.told(assignment(3))
    counting = asyncio.create_task(one.admission.count())
    await one.store.begun()
    one.admission.told(assignment(4))
    one.store.read.set()
    await counting
    assert one.told == []
    await one.admission.count()
    assert one.told == [4]


async def test_a_name_that_another_gateway_has_is_refused() -> None:
    one = Member()
    one.store.read.set()
    one.admission.told(assignment(3, peer="127.0.0.1:2"))
    await one.admission.count()
    assert one.told == ["another gateway has the name 'a' (127.0.0.1:2): give each its own, in fleet.name"]
    assert not one.admission.right.valid()


async def test_a_lease_that_was_over_while_it_was_forgotten_ends_what_is_in_flight_first() -> None:
    one = Member()
    one.store.read.set()
    one.admission.told(assignment(3))
    await one.admission.count()
    one.admission.told(None)
    one.lease.revoked()
    one.lease.renewed(boot_clock())
    one.admission.told(assignment(4))
    await one.admission.count()
    assert one.told == [3, "forgotten", "lapsed", 4]


async def test_a_lease_that_is_over_yet_when_it_is_admitted_anew_ends_what_is_in_flight_first() -> None:
    """The first renewal of the new generation may be answered behind the admission."""
    one = Member()
    one.store.read.set()
    one.admission.told(assignment(3))
    await one.admission.count()
    one.admission.told(None)
    one.lease.revoked()
    one.admission.told(assignment(4))
    await one.admission.count()
    assert one.told == [3, "forgotten", "lapsed", 4]
    assert not one.admission.right.valid()
    one.lease.renewed(boot_clock())
    assert one.admission.right.valid()


async def test_of_an_outline_the_rest_is_asked_of_its_leader_before_it_counts() -> None:
    one = Member()
    one.store.read.set()
    whole = assignment(3)
    told = encode_assignment(whole, PACKED)
    one.admission.told(decode_assignment(encode_outline(whole, told)))
    assert not await one.admission.count(), "the leader does not answer: to be tried again"
    assert (one.told, one.admission.right.valid()) == ([], False)
    one.peers.answers = {"b": {digest_of(told): told + b"torn"}}
    assert not await one.admission.count()
    one.peers.answers = {"b": {digest_of(told): told}}
    assert await one.admission.count()
    assert (one.told, one.admission.assignment, one.admission.right.valid()) == ([3], whole, True)


async def test_the_leader_tells_what_its_outline_was_of_and_counts_it_itself() -> None:
    one = Member()
    one.store.read.set()
    whole = assignment(3)
    told = encode_assignment(whole, PACKED)
    one.admission.own = lambda: (digest_of(told), told)
    one.admission.told(decode_assignment(encode_outline(whole, told)))
    assert await one.admission.count()
    assert one.told == [3]
    answer = await one.peers.handlers[ASSIGNMENT]({"digest": digest_of(told)})
    assert base64.b64decode(answer["assignment"]) == told
    with pytest.raises(NetError, match="another assignment"):
        await one.peers.handlers[ASSIGNMENT]({"digest": "other"})
