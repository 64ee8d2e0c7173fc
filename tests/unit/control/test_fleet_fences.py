"""Fences over the fleet: a leader, two gateways that answer it, and commands that come late or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from gateway.control.fence_answers import FenceAnswers, FenceRefused
from gateway.control.remote_fences import FleetFences, is_in_force
from gateway.control.routing_publisher import RoutingPublisher
from gateway.domain.records import LinkRecord, MirrorDirection, MirrorRecord, MirrorState, PartitionStart
from gateway.domain.routing import Phase, RoutingTable
from gateway.domain.write_holds import Hold
from gateway.net.peers import PeerRefused, PeerUnavailable
from gateway.proxy.forwarder import Forwarder
from tests.support.waiting import wait_until_async

LINK = LinkRecord(name="l", link_id=1, source_cluster_id="s", client={})
RECORD = MirrorRecord(
    link="l", source_topic="t", mirror_topic="t", mirror_id=1, settled=True, starts=(PartitionStart(0, 0),)
)


class Store:
    """As much of a state store as routes need."""

    def __init__(self) -> None:
        self.links = {"l": LINK}
        self.mirrors = {("l", "t"): RECORD}
        self.subscribers: list[Callable[[], None]] = []

    def subscribe(self, subscriber: Callable[[], None]) -> None:
        self.subscribers.append(subscriber)


class Gateway:
    """One gateway: routes, forwarder, and what it does with a leader's commands."""

    def __init__(self) -> None:
        self.store = Store()
        self.routing = RoutingTable()
        self.publisher = RoutingPublisher(cast("Any", self.store), self.routing, lambda: 0)
        self.publisher.refresh()
        self.forwarder = Forwarder("any", lambda: 0.0)
        self.quieted: list[str] = []
        self.answers = FenceAnswers(self.publisher, self.forwarder, self._quiet)
        self.reads(RECORD)

    async def _quiet(self, topic: str) -> None:
        self.quieted.append(topic)

    def reads(self, record: MirrorRecord) -> None:
        self.store.mirrors[record.link, record.mirror_topic] = record
        self.answers.records(self.store.mirrors.values())
        for subscriber in self.store.subscribers:
            subscriber()

    @property
    def phase(self) -> Phase:
        return self.routing.current.topics["t"].phase

    def held(self) -> bool:
        return self.phase is Phase.FENCED


class Fleet:
    """`one` leads; `down`: gateways that do not answer."""

    def __init__(self) -> None:
        self.gateways = {name: Gateway() for name in ("one", "two", "three")}
        self.down: set[str] = set()
        self.required = set(self.gateways)
        leader = self.gateways["one"]
        self.fences = FleetFences(
            name="one",
            local=leader.forwarder,
            peers=self,
            required=lambda: self.required,
            publisher=leader.publisher,
            record=lambda topic: leader.store.mirrors.get(("l", topic)),
            term=0,
        )

    async def ask(self, peer: str, what: str, body: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
        if peer in self.down:
            raise PeerUnavailable(f"gateway '{peer}' did not answer")
        try:
            return await self.gateways[peer].answers.handlers[what](body)
        except FenceRefused as exc:
            raise PeerRefused(str(exc)) from exc

    def marks(self, state: MirrorState, epoch: int, *, read_by: tuple[str, ...] = ("two", "three")) -> None:
        """The leader writes the record; it reads it itself at once, the others when they do."""
        record = replace(RECORD, state=state, fence_epoch=epoch)
        for name in ("one", *read_by):
            self.gateways[name].reads(record)

    def phases(self) -> list[Phase]:
        return [gateway.phase for gateway in self.gateways.values()]

    async def fence(self, epoch: int) -> None:
        self.gateways["one"].publisher.fence([Hold("t", epoch, 0)])
        acks = await asyncio.gather(*(fences.fence("t", epoch) for fences in self.fences.values()))
        assert {ack.epoch for ack in acks} == {epoch}
        assert sorted(ack.gateway for ack in acks) == ["any", "three", "two"]  # the local one is named by its caller


@pytest.fixture
async def fleet() -> Fleet:
    return Fleet()


async def test_every_gateway_holds_and_is_quiet_before_it_acknowledges(fleet: Fleet) -> None:
    fleet.marks(MirrorState.PENDING_STOPPED, 1)
    assert fleet.phases() == [Phase.FORWARD] * 3  # the mirror may have far to go
    await fleet.fence(1)
    assert fleet.phases() == [Phase.FENCED] * 3
    assert fleet.gateways["two"].quieted == fleet.gateways["three"].quieted == ["t"]


async def test_it_waits_for_what_is_in_flight(fleet: Fleet) -> None:
    forwarder = fleet.gateways["two"].forwarder
    forwarder.begin(["t"])
    fleet.marks(MirrorState.PENDING_STOPPED, 1)
    fence = asyncio.create_task(fleet.fences["two"].fence("t", 1))
    await wait_until_async(lambda: fleet.gateways["two"].phase is Phase.FENCED)
    assert not fence.done()
    forwarder.end(["t"], unknown=True)
    assert (await fence).unknown_outcomes == 1


async def test_after_the_flip_the_record_decides_and_no_command(fleet: Fleet) -> None:
    """A gateway that has not read STOPPED yet must go on holding, or it would write to the source."""
    fleet.marks(MirrorState.PENDING_STOPPED, 1)
    await fleet.fence(1)
    fleet.marks(MirrorState.STOPPED, 1, read_by=("two",))
    fleet.gateways["one"].publisher.unfence([Hold("t", 1, 0)])
    assert fleet.phases() == [Phase.SWITCHED, Phase.SWITCHED, Phase.FENCED]
    fleet.gateways["three"].reads(replace(RECORD, state=MirrorState.STOPPED, fence_epoch=1))
    assert fleet.phases() == [Phase.SWITCHED] * 3


async def test_after_an_abort_the_others_are_told_until_they_have_heard(fleet: Fleet) -> None:
    fleet.marks(MirrorState.PENDING_STOPPED, 1)
    await fleet.fence(1)
    fleet.down = {"three"}
    fleet.gateways["one"].publisher.unfence([Hold("t", 1, 0)])  # before the record says ACTIVE again
    await wait_until_async(lambda: not fleet.gateways["two"].held())
    assert fleet.gateways["three"].held()
    fleet.down = set()
    await wait_until_async(lambda: not fleet.gateways["three"].held())


async def test_a_flip_home_is_no_abort(fleet: Fleet) -> None:
    back = replace(RECORD, direction=MirrorDirection.REVERSE)
    for gateway in fleet.gateways.values():
        gateway.reads(replace(back, state=MirrorState.PENDING_STOPPED, fence_epoch=1))
    await fleet.fence(1)
    fleet.gateways["one"].reads(replace(RECORD, state=MirrorState.PENDING_MIRROR, fence_epoch=1, generation=1))
    fleet.gateways["one"].publisher.unfence([Hold("t", 1, 0)])
    await wait_until_async(lambda: not fleet.fences._tasks)
    assert fleet.phases() == [Phase.FORWARD, Phase.FENCED, Phase.FENCED]


async def test_an_older_command_has_no_effect(fleet: Fleet) -> None:
    fleet.marks(MirrorState.PENDING_STOPPED, 2)
    await fleet.fence(2)
    with pytest.raises(PeerRefused, match="epoch 1 is over"):
        await fleet.fences["two"].fence("t", 1)
    await fleet.ask("two", "unfence", {"topic": "t", "epoch": 1}, 1)
    assert fleet.gateways["two"].held()
    fleet.marks(MirrorState.ACTIVE, 2)
    with pytest.raises(PeerRefused, match="epoch 2 is over"):
        await fleet.fences["two"].fence("t", 2)
    assert not fleet.gateways["two"].held()


async def test_a_fence_that_ended_while_it_was_awaited_is_not_acknowledged(fleet: Fleet) -> None:
    fleet.gateways["two"].forwarder.begin(["t"])
    fleet.marks(MirrorState.PENDING_STOPPED, 1)
    fence = asyncio.create_task(fleet.fences["two"].fence("t", 1))
    await wait_until_async(lambda: fleet.gateways["two"].phase is Phase.FENCED)
    fleet.marks(MirrorState.ACTIVE, 1)
    fleet.gateways["two"].forwarder.end(["t"], unknown=False)
    with pytest.raises(PeerRefused, match="ended before it was acknowledged"):
        await fence


async def test_a_gateway_that_is_new_holds_what_its_assignment_names(fleet: Fleet) -> None:
    new = Gateway()
    new.reads(replace(RECORD, state=MirrorState.PENDING_STOPPED, fence_epoch=3))
    new.answers.assigned(0, {"t": 3})
    assert new.phase is Phase.FENCED


async def test_a_fence_of_a_leader_that_is_gone_came_to_nothing(fleet: Fleet) -> None:
    """Its successor has read all that it wrote, and fences anew what it goes on with."""
    two = fleet.gateways["two"]
    two.answers.assigned(0, {})
    fleet.marks(MirrorState.PENDING_STOPPED, 1)
    await fleet.fence(1)
    two.answers.assigned(0, {"t": 1})
    assert two.held()
    two.answers.assigned(9, {})
    assert not two.held()
    with pytest.raises(PeerRefused):
        await fleet.fences["two"].fence("t", 0)


async def test_a_failover_that_was_cut_short_came_to_nothing_too(fleet: Fleet) -> None:
    """No record tells of its fence."""
    two = fleet.gateways["two"]
    two.answers.assigned(0, {})
    await fleet.fences["two"].hold_writes("t", 1)
    assert two.held()
    assert two.quieted == ["t"]
    two.answers.assigned(9, {})
    assert not two.held()


async def test_a_deleted_mirror_holds_nothing(fleet: Fleet) -> None:
    two = fleet.gateways["two"]
    fleet.marks(MirrorState.PENDING_STOPPED, 1)
    await fleet.fence(1)
    two.store.mirrors.clear()
    two.answers.records([])
    assert two.answers.in_force() == {}
    assert two.publisher.fenced == frozenset()


async def test_only_required_gateways_are_asked(fleet: Fleet) -> None:
    fleet.required = {"one", "two"}
    assert list(fleet.fences) == ["one", "two"]
    with pytest.raises(KeyError):
        fleet.fences["three"]


async def test_who_came_under_the_fence_is_told_of_its_end_too(fleet: Fleet) -> None:
    fleet.required = {"one", "two"}
    fleet.marks(MirrorState.PENDING_STOPPED, 1)
    one = fleet.gateways["one"]
    one.publisher.fence([Hold("t", 1, 0)])
    await fleet.fences["two"].fence("t", 1)
    fleet.required.add("three")
    fleet.gateways["three"].answers.assigned(0, {"t": 1})
    assert fleet.gateways["three"].held()
    one.publisher.unfence([Hold("t", 1, 0)])
    await wait_until_async(lambda: not fleet.gateways["three"].held())


async def test_a_leaders_first_fence_may_come_before_its_first_assignment(fleet: Fleet) -> None:
    """Who acknowledged it must go on holding, although the assignment was made before the fence began."""
    two = fleet.gateways["two"]
    two.answers.assigned(-1, {})
    fleet.marks(MirrorState.PENDING_STOPPED, 1)
    await fleet.fence(1)
    two.answers.assigned(0, {})
    assert two.held()


async def test_commands_of_an_earlier_term_are_refused(fleet: Fleet) -> None:
    two = fleet.gateways["two"]
    two.answers.assigned(5, {"t": 1})
    await fleet.ask("two", "unfence", {"topic": "t", "epoch": 1, "term": 0}, 1)
    assert two.held()
    with pytest.raises(PeerRefused, match="epoch 2 is over"):
        await fleet.fences["two"].fence("t", 2)
    await fleet.ask("two", "unfence", {"topic": "t", "epoch": 1}, 1)  # of a version that tells no term
    assert not two.held()


async def test_the_leaders_own_fence_outlives_the_end_of_an_older_command(fleet: Fleet) -> None:
    """It followed, held by its predecessor's word, and its promote goes on before its own assignment is read."""
    one = fleet.gateways["one"]
    one.answers.assigned(-1, {"t": 1})
    fleet.marks(MirrorState.PENDING_STOPPED, 2)
    await fleet.fence(2)
    one.answers.assigned(0, {})
    assert fleet.phases() == [Phase.FENCED] * 3
    await wait_until_async(lambda: not fleet.fences._tasks)
    assert fleet.phases() == [Phase.FENCED] * 3, "and nobody is told that it ended"


async def test_what_the_leader_gave_up_is_not_held_again_by_an_assignment(fleet: Fleet) -> None:
    """Its record says ACTIVE a little later: as soon as the target takes it."""
    one = fleet.gateways["one"]
    fleet.marks(MirrorState.PENDING_STOPPED, 1)
    await fleet.fence(1)
    one.answers.assigned(0, {"t": 1})
    one.publisher.unfence([Hold("t", 1, 0)])
    assert not one.held()
    one.answers.assigned(0, {})
    assert not one.held()


def test_what_a_term_left_fenced_is_held_until_it_is_decided() -> None:
    gateway = Gateway()
    gateway.publisher.fence([Hold("t", 1, 0)])
    gateway.publisher.term_over()
    assert gateway.held()
    assert gateway.publisher.own_fences == {}
    gateway.publisher.decided()
    assert not gateway.held()


@pytest.mark.parametrize(
    ("state", "direction", "marked", "epoch", "in_force"),
    [
        (MirrorState.PENDING_STOPPED, MirrorDirection.FORWARD, 3, 3, True),
        (MirrorState.STOPPED, MirrorDirection.FORWARD, 3, 3, False),
        (MirrorState.ACTIVE, MirrorDirection.FORWARD, 3, 3, False),  # given up
        (MirrorState.ACTIVE, MirrorDirection.FORWARD, 3, 4, True),  # a failover: nothing is marked before its flip
        (MirrorState.STOPPED, MirrorDirection.FORWARD, 4, 4, False),
        (MirrorState.PENDING_STOPPED, MirrorDirection.REVERSE, 3, 3, True),
        (MirrorState.PENDING_MIRROR, MirrorDirection.FORWARD, 3, 3, False),  # the flip home
    ],
)
def test_a_fence_in_force(
    state: MirrorState, direction: MirrorDirection, marked: int, epoch: int, in_force: bool
) -> None:
    """For who comes while it is, and for nobody in the moment after the flip."""
    assert is_in_force(replace(RECORD, state=state, direction=direction, fence_epoch=marked), epoch) is in_force
