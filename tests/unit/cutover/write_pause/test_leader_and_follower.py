"""Write pauses over the fleet: a leader, two gateways that answer it, and commands that come late or not at all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from gateway.cutover.write_pause.follower import PauseAnswers, PauseRefused
from gateway.cutover.write_pause.interface import PauseAck
from gateway.cutover.write_pause.leader import FleetPauses, decode_acks, encode_acks
from gateway.cutover.write_pause.publisher import RoutingPublisher
from gateway.cutover.write_pause.rules.routing import RoutingTable, WritePhase
from gateway.cutover.write_pause.rules.write_pause import Pause
from gateway.fleet.peers.channel import PeerRefused, PeerUnavailable
from gateway.fleet.peers.wire import unknown_question
from gateway.proxy.produce.forwarder import Forwarder
from gateway.state.codec import key_of
from gateway.state.records import LinkRecord, MirrorDirection, MirrorRecord, MirrorState, PartitionStart
from gateway.state.views import StateViews
from tests.support.control.mirror_records import changed
from tests.support.waiting import wait_until_async

LINK = LinkRecord(name="l", link_id=1, source_cluster_id="s", client={})
RECORD = MirrorRecord(
    link="l", source_topic="t", mirror_topic="t", mirror_id=1, readable=True, starts=(PartitionStart(0, 0),)
)


class Gateway:
    """One gateway: routes, forwarder, and what it does with a leader's commands, be it the leader itself."""

    def __init__(self, name: str = "new") -> None:
        self.store = StateViews()
        self.routing = RoutingTable()
        self.publisher = RoutingPublisher(cast("Any", self.store), self.routing, lambda: 0)
        self.publisher.refresh()
        self.forwarder = Forwarder(lambda: 0.0)
        self.quieted: list[str] = []
        self.answers = PauseAnswers(name, self.publisher, self.forwarder, self._quiet)
        self.reads(RECORD)

    async def _quiet(self, topics: Collection[str]) -> None:
        self.quieted.extend(topics)

    def reads(self, record: MirrorRecord) -> None:
        self.store.apply([(key_of(each), each) for each in (LINK, record)], self.store.applied + 1)

    @property
    def phase(self) -> WritePhase:
        return self.routing.current.topics["t"].phase

    def held(self) -> bool:
        return self.phase is WritePhase.PAUSED


class Fleet:
    """`one` leads; `down`: gateways that do not answer."""

    def __init__(self) -> None:
        self.gateways = {name: Gateway(name) for name in ("one", "two", "three")}
        self.down: set[str] = set()
        self.required = set(self.gateways)
        leader = self.gateways["one"]
        self.pauses = FleetPauses(
            name="one",
            local=leader.answers,
            peers=self,
            required=lambda: self.required,
            publisher=leader.publisher,
        )

    async def ask(self, peer: str, what: str, body: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
        if peer in self.down:
            raise PeerUnavailable(f"gateway '{peer}' did not answer")
        try:
            return await self.gateways[peer].answers.handlers[what](body)
        except PauseRefused as exc:
            raise PeerRefused(str(exc)) from exc

    def marks(self, state: MirrorState, epoch: int, *, read_by: tuple[str, ...] = ("two", "three")) -> None:
        """The leader writes the record; it reads it itself at once, the others when they do."""
        record = changed(RECORD, state=state, pause_epoch=epoch)
        for name in ("one", *read_by):
            self.gateways[name].reads(record)

    def phases(self) -> list[WritePhase]:
        return [gateway.phase for gateway in self.gateways.values()]

    async def pause(self, epoch: int) -> None:
        acks = await asyncio.gather(*(each.drain(Pause("t", epoch, 0)) for each in self.pauses.values()))
        assert {(ack.epoch, ack.phase) for ack in acks} == {(epoch, WritePhase.PAUSED)}
        assert sorted(ack.gateway for ack in acks) == ["one", "three", "two"]


@pytest.fixture
async def fleet() -> Fleet:
    return Fleet()


async def test_every_gateway_holds_and_is_quiet_before_it_acknowledges(fleet: Fleet) -> None:
    fleet.marks(MirrorState.PENDING_STOPPED, 1)
    assert fleet.phases() == [WritePhase.FORWARD] * 3  # the mirror may have far to go
    await fleet.pause(1)
    assert fleet.phases() == [WritePhase.PAUSED] * 3
    assert fleet.gateways["two"].quieted == fleet.gateways["three"].quieted == ["t"]


async def test_it_waits_for_what_is_in_flight(fleet: Fleet) -> None:
    forwarder = fleet.gateways["two"].forwarder
    forwarder.begin(["t"])
    fleet.marks(MirrorState.PENDING_STOPPED, 1)
    pause_writes = asyncio.create_task(fleet.pauses["two"].drain(Pause("t", 1, 0)))
    await wait_until_async(lambda: fleet.gateways["two"].phase is WritePhase.PAUSED)
    assert not pause_writes.done()
    forwarder.end(["t"], unknown=True)
    assert (await pause_writes).unknown_outcomes == 1


async def test_whoever_leads_has_what_is_in_flight_given_up(fleet: Fleet) -> None:
    dropped: list[tuple[str, str]] = []
    for name, gateway in fleet.gateways.items():
        gateway.forwarder.drop = lambda topic, name=name: dropped.append((name, topic))  # type: ignore[misc]
    pause = Pause("t", 1, 0)
    await fleet.pauses["two"].cut(pause)
    await fleet.pauses["one"].cut(pause)
    assert dropped == [("two", "t"), ("one", "t")]
    assert fleet.phases() == [WritePhase.PAUSED, WritePhase.PAUSED, WritePhase.FORWARD]
    fleet.down.add("three")
    with pytest.raises(PeerUnavailable):
        await fleet.pauses["three"].cut(pause)
    fleet.gateways["two"].reads(changed(RECORD, state=MirrorState.STOPPED, pause_epoch=1))
    with pytest.raises(PeerRefused):  # it is over there
        await fleet.pauses["two"].cut(pause)


async def test_after_the_cutover_the_record_decides_and_no_command(fleet: Fleet) -> None:
    """A gateway that has not read STOPPED yet must go on holding, or it would write to the source."""
    fleet.marks(MirrorState.PENDING_STOPPED, 1)
    await fleet.pause(1)
    fleet.marks(MirrorState.STOPPED, 1, read_by=("two",))
    fleet.gateways["one"].publisher.resume([Pause("t", 1, 0)])
    assert fleet.phases() == [WritePhase.SWITCHED, WritePhase.SWITCHED, WritePhase.PAUSED]
    fleet.gateways["three"].reads(changed(RECORD, state=MirrorState.STOPPED, pause_epoch=1))
    assert fleet.phases() == [WritePhase.SWITCHED] * 3


async def test_after_an_abort_the_others_are_told_until_they_have_heard(fleet: Fleet) -> None:
    fleet.marks(MirrorState.PENDING_STOPPED, 1)
    await fleet.pause(1)
    fleet.down = {"three"}
    fleet.gateways["one"].publisher.resume([Pause("t", 1, 0)])  # before the record says ACTIVE again
    await wait_until_async(lambda: not fleet.gateways["two"].held())
    assert fleet.gateways["three"].held()
    fleet.down = set()
    await wait_until_async(lambda: not fleet.gateways["three"].held())


async def test_a_failback_cutover_is_no_abort(fleet: Fleet) -> None:
    back = changed(RECORD, direction=MirrorDirection.REVERSE)
    for gateway in fleet.gateways.values():
        gateway.reads(changed(back, state=MirrorState.PENDING_STOPPED, pause_epoch=1))
    await fleet.pause(1)
    fleet.gateways["one"].reads(changed(RECORD, state=MirrorState.PENDING_MIRROR, pause_epoch=1, failback_epoch=1))
    fleet.gateways["one"].publisher.resume([Pause("t", 1, 0)])
    await wait_until_async(lambda: not fleet.pauses._tasks)
    assert fleet.phases() == [WritePhase.FORWARD, WritePhase.PAUSED, WritePhase.PAUSED]


async def test_an_older_command_has_no_effect(fleet: Fleet) -> None:
    fleet.marks(MirrorState.PENDING_STOPPED, 2)
    await fleet.pause(2)
    with pytest.raises(PeerRefused, match="epoch 1 of term 0 is over"):
        await fleet.pauses["two"].drain(Pause("t", 1, 0))
    await fleet.ask("two", "resume", {"topic": "t", "epoch": 1, "term": 0}, 1)
    assert fleet.gateways["two"].held()
    fleet.marks(MirrorState.ACTIVE, 2)
    with pytest.raises(PeerRefused, match="epoch 2 of term 0 is over"):
        await fleet.pauses["two"].drain(Pause("t", 2, 0))
    assert not fleet.gateways["two"].held()


async def test_a_write_pause_that_ended_while_it_was_awaited_is_not_acknowledged(fleet: Fleet) -> None:
    fleet.gateways["two"].forwarder.begin(["t"])
    fleet.marks(MirrorState.PENDING_STOPPED, 1)
    pause_writes = asyncio.create_task(fleet.pauses["two"].drain(Pause("t", 1, 0)))
    await wait_until_async(lambda: fleet.gateways["two"].phase is WritePhase.PAUSED)
    fleet.marks(MirrorState.ACTIVE, 1)
    fleet.gateways["two"].forwarder.end(["t"], unknown=False)
    with pytest.raises(PeerRefused, match="ended before it was acknowledged"):
        await pause_writes


async def test_a_gateway_that_is_new_holds_what_its_assignment_names(fleet: Fleet) -> None:
    new = Gateway()
    new.reads(changed(RECORD, state=MirrorState.PENDING_STOPPED, pause_epoch=3))
    new.publisher.assigned(0, {"t": 3})
    assert new.phase is WritePhase.PAUSED


async def test_a_write_pause_of_a_leader_that_is_gone_came_to_nothing(fleet: Fleet) -> None:
    """Its successor has read all that it wrote, and fences anew what it goes on with."""
    two = fleet.gateways["two"]
    two.publisher.assigned(0, {})
    fleet.marks(MirrorState.PENDING_STOPPED, 1)
    await fleet.pause(1)
    two.publisher.assigned(0, {"t": 1})
    assert two.held()
    two.publisher.assigned(9, {})
    assert not two.held()
    with pytest.raises(PeerRefused):
        await fleet.pauses["two"].drain(Pause("t", 0, 0))


async def test_a_failover_that_was_cut_short_came_to_nothing_too(fleet: Fleet) -> None:
    """No record tells of its write pause."""
    two = fleet.gateways["two"]
    two.publisher.assigned(0, {})
    await fleet.pauses["two"].pause(Pause("t", 1, 0))
    assert two.held()
    assert two.quieted == ["t"]
    two.publisher.assigned(9, {})
    assert not two.held()


async def test_a_deleted_mirror_holds_nothing(fleet: Fleet) -> None:
    two = fleet.gateways["two"]
    fleet.marks(MirrorState.PENDING_STOPPED, 1)
    await fleet.pause(1)
    two.store.apply([(key_of(RECORD), None)], two.store.applied + 1)
    assert two.answers.in_force() == {}
    assert two.publisher.pauses == {}


async def test_only_required_gateways_are_asked(fleet: Fleet) -> None:
    fleet.required = {"one", "two"}
    assert list(fleet.pauses) == ["one", "two"]
    with pytest.raises(KeyError):
        fleet.pauses["three"]


async def test_who_came_under_the_write_pause_is_told_of_its_end_too(fleet: Fleet) -> None:
    fleet.required = {"one", "two"}
    fleet.marks(MirrorState.PENDING_STOPPED, 1)
    one = fleet.gateways["one"]
    one.publisher.pause([Pause("t", 1, 0)])
    await fleet.pauses["two"].drain(Pause("t", 1, 0))
    fleet.required.add("three")
    fleet.gateways["three"].publisher.assigned(0, {"t": 1})
    assert fleet.gateways["three"].held()
    one.publisher.resume([Pause("t", 1, 0)])
    await wait_until_async(lambda: not fleet.gateways["three"].held())


async def test_a_leaders_first_write_pause_may_come_before_its_first_assignment(fleet: Fleet) -> None:
    """Who acknowledged it must go on holding, although the assignment was made before the write pause began."""
    two = fleet.gateways["two"]
    two.publisher.assigned(-1, {})
    fleet.marks(MirrorState.PENDING_STOPPED, 1)
    await fleet.pause(1)
    two.publisher.assigned(0, {})
    assert two.held()


async def test_commands_of_an_earlier_term_are_refused(fleet: Fleet) -> None:
    two = fleet.gateways["two"]
    two.publisher.assigned(5, {"t": 1})
    await fleet.ask("two", "resume", {"topic": "t", "epoch": 1, "term": 0}, 1)
    assert two.held()
    with pytest.raises(PeerRefused, match="epoch 2 of term 0 is over"):
        await fleet.pauses["two"].drain(Pause("t", 2, 0))
    await fleet.ask("two", "resume", {"topic": "t", "epoch": 1, "term": 5}, 1)
    assert not two.held()


async def test_the_leaders_own_write_pause_outlives_the_end_of_an_older_command(fleet: Fleet) -> None:
    """It followed, held by its predecessor's word, and its promote goes on before its own assignment is read."""
    one = fleet.gateways["one"]
    one.publisher.assigned(-1, {"t": 1})
    fleet.marks(MirrorState.PENDING_STOPPED, 2)
    await fleet.pause(2)
    one.publisher.assigned(0, {})
    assert fleet.phases() == [WritePhase.PAUSED] * 3
    await wait_until_async(lambda: not fleet.pauses._tasks)
    assert fleet.phases() == [WritePhase.PAUSED] * 3, "and nobody is told that it ended"


async def test_what_the_leader_gave_up_is_not_paused_again_by_an_assignment(fleet: Fleet) -> None:
    """Its record says ACTIVE a little later: as soon as the target takes it. The leader is told like the others."""
    fleet.marks(MirrorState.PENDING_STOPPED, 1)
    await fleet.pause(1)
    for gateway in fleet.gateways.values():
        gateway.publisher.assigned(0, {"t": 1})
    fleet.gateways["one"].publisher.resume([Pause("t", 1, 0)])
    await wait_until_async(lambda: not fleet.pauses._tasks)
    for gateway in fleet.gateways.values():
        gateway.publisher.assigned(0, {"t": 1})  # it was made before
    assert fleet.phases() == [WritePhase.FORWARD] * 3


def test_what_a_term_left_paused_is_so_until_it_is_decided() -> None:
    """Of the leader that it was, too: nobody knows what came of it before the state is read."""
    gateway = Gateway()
    gateway.publisher.pause([Pause("t", 1, 0)])
    gateway.publisher.assigned(0, {})
    assert gateway.held()
    assert gateway.publisher.pauses.in_force(1) == {}
    gateway.publisher.assigned(1, {})
    assert not gateway.held()


async def test_a_gateway_that_is_late_with_the_record_of_the_cutover_is_resumed_by_nothing_else(fleet: Fleet) -> None:
    """The topic was reversed, and a failback promote begun and given up, before it has read that the first one cut
    over."""
    fleet.marks(MirrorState.PENDING_STOPPED, 1)
    await fleet.pause(1)
    fleet.marks(MirrorState.STOPPED, 1, read_by=("two",))
    back = changed(RECORD, direction=MirrorDirection.REVERSE, state=MirrorState.PENDING_STOPPED, pause_epoch=2)
    for name in ("one", "two"):
        fleet.gateways[name].reads(back)
    await fleet.pause(2)
    fleet.gateways["one"].publisher.resume([Pause("t", 2, 0)])
    await wait_until_async(lambda: not fleet.pauses._tasks)
    assert fleet.phases() == [WritePhase.SWITCHED, WritePhase.SWITCHED, WritePhase.PAUSED]


@pytest.mark.parametrize(
    ("state", "direction", "marked", "in_force"),
    [
        (MirrorState.PENDING_STOPPED, MirrorDirection.FORWARD, 3, True),
        (MirrorState.STOPPED, MirrorDirection.FORWARD, 3, False),
        (MirrorState.ACTIVE, MirrorDirection.FORWARD, 3, False),  # given up
        (MirrorState.ACTIVE, MirrorDirection.FORWARD, 2, True),  # a failover: nothing is marked before its cutover
        (MirrorState.PENDING_STOPPED, MirrorDirection.REVERSE, 3, True),
        (MirrorState.PENDING_MIRROR, MirrorDirection.FORWARD, 3, False),  # the failback cutover
    ],
)
def test_what_an_assignment_names(state: MirrorState, direction: MirrorDirection, marked: int, in_force: bool) -> None:
    """For who comes while the pause is in force, and for nobody in the moment after the cutover."""
    gateway = Gateway()
    gateway.reads(changed(RECORD, state=MirrorState.PENDING_STOPPED, direction=direction, pause_epoch=2))
    gateway.publisher.pause([Pause("t", 3, 0)])
    gateway.reads(changed(RECORD, state=state, direction=direction, pause_epoch=marked))
    assert gateway.publisher.pauses.in_force(0) == ({"t": 3} if in_force else {})


async def test_a_gateway_says_which_groups_it_holds_once_it_has_read_that_they_change_sides() -> None:
    gateway = Gateway()
    pause = Pause("t", 1, 1)
    assert (await gateway.answers.drain(pause)).groups == frozenset()
    names = {"state": MirrorState.PENDING_STOPPED, "promoted_with": ("t", "group/a/b", "group/c")}
    gateway.reads(changed(RECORD, pause_epoch=1, **names))
    assert (await gateway.answers.drain(pause)).groups == {"a/b", "c"}
    assert gateway.routing.current.holding("a/b")
    answer = await gateway.answers.handlers["drain"]({"topic": "t", "epoch": 1, "term": 1})
    assert answer["groups"] == ["a/b", "c"]
    gateway.reads(changed(RECORD, pause_epoch=1, state=MirrorState.STOPPED))
    assert not gateway.routing.current.holding("a/b")
    assert not gateway.routing.current.moved_with


async def test_a_set_is_asked_for_in_one_question(fleet: Fleet) -> None:
    asked = _counted(fleet)
    names = _with_topics(fleet, 3)
    pauses = [Pause(name, 1, 0) for name in names]
    acks = await fleet.pauses["two"].drain_all(pauses)
    assert [(ack.topic, ack.epoch, ack.phase) for ack in acks] == [(name, 1, WritePhase.PAUSED) for name in names]
    assert {ack.gateway for ack in acks} == {"two"}
    assert asked == ["drain_all"]
    leader = fleet.gateways["one"].publisher
    leader.pause(pauses)
    leader.resume(pauses)
    await wait_until_async(lambda: asked.count("resume_all") == 2, 5.0)
    assert set(asked[1:]) == {"resume_all"}
    assert fleet.gateways["two"].routing.current.topics[names[0]].phase is WritePhase.FORWARD


async def test_a_gateway_of_an_older_version_is_asked_for_one_topic_after_the_other(fleet: Fleet) -> None:
    asked = _counted(fleet, unknown=("drain_all", "resume_all"))
    pauses = [Pause(name, 1, 0) for name in _with_topics(fleet, 3)]
    acks = await fleet.pauses["two"].drain_all(pauses)
    assert sorted(ack.topic for ack in acks) == sorted(pause.topic for pause in pauses)
    assert asked == ["drain_all", "drain", "drain", "drain"]


async def test_a_set_is_acknowledged_as_a_whole_or_not(fleet: Fleet) -> None:
    pauses = [Pause(name, 1, 0) for name in _with_topics(fleet, 2)]
    with pytest.raises(PeerRefused, match="'gone' is not known here yet"):
        await fleet.pauses["two"].drain_all([*pauses, Pause("gone", 1, 0)])


def test_groups_of_a_set_are_named_once() -> None:
    groups = frozenset({"a", "b"})
    acks = [PauseAck("two", f"t{n}", 1, n, WritePhase.PAUSED, groups if n else frozenset()) for n in range(50)]
    body = encode_acks(acks)
    assert len(body["groups"]) == 2
    assert decode_acks("two", json.loads(json.dumps(body))) == acks


async def test_what_clients_were_told_comes_with_the_acknowledgement(fleet: Fleet) -> None:
    names = _with_topics(fleet, 2)
    forwarder = fleet.gateways["two"].forwarder
    for topic, partition, end in (("t0", 3, 7), ("t0", 3, 5), ("t0", 1, 2), ("t1", 0, 1)):
        forwarder.acknowledged(topic, partition, end)
    (alone,) = await fleet.pauses["two"].drain_all([Pause("t0", 1, 0)])
    of_set = await fleet.pauses["two"].drain_all([Pause(name, 1, 0) for name in names])
    assert alone.acked == of_set[0].acked == ((3, 7), (1, 2))
    assert of_set[1].acked == ((0, 1),)
    assert (await fleet.pauses["three"].drain(Pause("t0", 1, 0))).acked == ()


async def test_a_topic_that_is_written_on_the_target_has_no_ends_on_the_source(fleet: Fleet) -> None:
    two = fleet.gateways["two"]
    two.forwarder.acknowledged("t", 0, 7)
    two.reads(changed(RECORD, direction=MirrorDirection.REVERSE))
    assert (await fleet.pauses["two"].drain(Pause("t", 1, 0))).acked == ()


def test_an_older_gateway_tells_nothing_of_it() -> None:
    acks = [PauseAck("two", "t", 1, 0, WritePhase.PAUSED, acked=((0, 7),))]
    body = json.loads(json.dumps(encode_acks(acks)))
    assert decode_acks("two", body) == acks
    del body["acked"]
    assert decode_acks("two", body)[0].acked == ()


def _with_topics(fleet: Fleet, count: int) -> list[str]:
    """So many mirrors that every gateway has read."""
    names = [f"t{number}" for number in range(count)]
    for gateway in fleet.gateways.values():
        for name in names:
            gateway.reads(replace(RECORD, mirror_topic=name, source_topic=name))
    return names


def _counted(fleet: Fleet, unknown: Sequence[str] = ()) -> list[str]:
    """What gateways are asked, and refuse where their version does not know it."""
    asked: list[str] = []
    ask = fleet.ask

    async def counted(peer: str, what: str, body: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
        asked.append(what)
        if what in unknown:
            raise PeerRefused(f"gateway '{peer}': {unknown_question(what)}")
        return await ask(peer, what, body, timeout_s)

    fleet.ask = counted  # type: ignore[method-assign]
    return asked
