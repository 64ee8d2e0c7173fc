"""Gateways that share mirrors, over real sockets and with engines that only remember what they were told."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from gateway.fleet import heartbeats, mirrors, releases
from gateway.fleet.mirrors import FleetMirrors, StillAppending
from gateway.fleet.peers.channel import Peers
from gateway.fleet.rules import heartbeats as heartbeat_rules
from gateway.fleet.rules.assignment import FleetAssignment
from gateway.mirror.interface import PartitionStatus
from gateway.mirror.partition.rules.producer_table import CarriedTable
from gateway.mirror.rules.period import MirrorPartition
from gateway.mirror.rules.progress import MirrorProgress
from gateway.state.codec import key_of
from gateway.state.records import MirrorRecord, MirrorState, PartitionStart, ProducerEntry
from gateway.state.views import StateViews
from tests.support.control.mirror_records import changed
from tests.support.waiting import wait_until_async

NEVER_S, SOON_S = 600.0, 10.0
"""What must not be waited for, and until when all else has come on a busy machine."""

RECORD = MirrorRecord(
    link="l", source_topic="t", mirror_topic="t", mirror_id=1, readable=True, starts=(PartitionStart(0, 0),) * 4
)
ENTRY = ProducerEntry(2**49, 0, 0, 4, 95)
TABLE = CarriedTable(100, [ENTRY])


def parts(*indexes: int) -> frozenset[MirrorPartition]:
    return frozenset(MirrorPartition("l", "t", index) for index in indexes)


class FakeEngine:
    """`owned`: what it runs. `tables`: what it was handed over. `busy`: its appends are not answered. `measured`: what
    is at work. `records`: how many each partition has copied."""

    def __init__(self) -> None:
        self.owned: frozenset[MirrorPartition] | None = None
        self.tables: dict[MirrorPartition, CarriedTable] = {}
        self.told: list[tuple[str, int, int, int]] = []
        self.busy = False
        self.measured: frozenset[MirrorPartition] = frozenset()
        self.records = 0

    def own(self, partitions: frozenset[MirrorPartition] | None) -> None:
        self.owned = partitions

    def own_changed(self, begun: Collection[MirrorPartition], ended: Collection[MirrorPartition]) -> None:
        self.owned = (self.owned or frozenset()).union(begun).difference(ended)

    def running(self) -> frozenset[MirrorPartition]:
        return self.owned or frozenset()

    async def release(self, partitions: frozenset[MirrorPartition]) -> Mapping[MirrorPartition, CarriedTable]:
        self.own(self.running() - partitions)
        return dict.fromkeys(partitions, TABLE)

    def carry_over(self, tables: Mapping[MirrorPartition, CarriedTable]) -> None:
        self.tables.update(tables)

    async def quiet(self, topics: Collection[tuple[str, str]]) -> bool:
        return not self.busy

    def moving(self) -> Collection[MirrorPartition]:
        return self.measured & self.running()

    def started_as(self, link: str, topic: str) -> MirrorRecord | None:
        return RECORD

    def status(self, mirror: MirrorRecord, partitions: Sequence[int] | None = None) -> Sequence[PartitionStatus]:
        return [
            PartitionStatus(
                partition=each.partition,
                phase="copying",
                source_end=9,
                mirrored_to=9,
                target_end=9,
                lag=0,
                lag_ms=0,
                bytes_per_s=0.0,
                records_total=self.records,
            )
            for each in sorted(self.running())
            if partitions is None or each.partition in partitions
        ]

    def forwarded(self, topic: str, partition: int, base_offset: int, records: int) -> None:
        self.told.append((topic, partition, base_offset, records))


class Gateway:
    """One gateway; `views` is what it has read."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.engine, self.progress = FakeEngine(), MirrorProgress()
        self.views = StateViews()
        self.views.apply([(key_of(RECORD), RECORD)], 0)
        self.port = 0
        self.silent: frozenset[str] = frozenset()
        self.peers = Peers(name, "1", lambda: "s", self._heard)
        self.mirrors = FleetMirrors(
            name=name, peers=self.peers, engine=self.engine, progress=self.progress, records=self.views
        )
        self.mirrors.on_silent = self._silent

    def _heard(self, who: str, said: Mapping[str, Any]) -> None:
        self.mirrors.heard(who, said)

    def _silent(self, silent: frozenset[str]) -> None:
        self.silent = silent

    def reads(self, **changes: Any) -> None:
        self.views.apply([(key_of(RECORD), changed(RECORD, **changes))], self.views.applied + 1)
        self.mirrors.records_changed()

    async def close(self) -> None:
        await self.mirrors.close()
        await self.peers.close()


class Fleet:
    def __init__(self, *names: str) -> None:
        self.all = {name: Gateway(name) for name in names}

    def __getitem__(self, name: str) -> Gateway:
        return self.all[name]

    async def start(self) -> None:
        for one in self.all.values():
            one.port = await one.peers.listen("127.0.0.1", 0)
        for one in self.all.values():
            one.peers.expect({name: f"127.0.0.1:{other.port}" for name, other in self.all.items()})
            one.mirrors.start()

    def assign(self, leader: str, **owners: frozenset[MirrorPartition]) -> None:
        peers = {name: f"127.0.0.1:{one.port}" for name, one in self.all.items()}
        for one in self.all.values():
            one.mirrors.assigned(FleetAssignment(leader=leader, peers=peers, owners=owners))

    async def runs(self, **wanted: frozenset[MirrorPartition]) -> None:
        def so() -> bool:
            return all(self.all[name].engine.owned == held for name, held in wanted.items())

        await wait_until_async(so, 5.0, what=f"{wanted}")


@asynccontextmanager
async def running(*names: str) -> AsyncIterator[Fleet]:
    fleet = Fleet(*names)
    try:
        await fleet.start()
        yield fleet
    finally:
        await asyncio.gather(*(one.close() for one in fleet.all.values()))


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    """`a` leads; `a` and `b` are nodes, `side` is a sidecar."""
    async with running("a", "b", "side") as made:
        made.assign("a", a=parts(0, 1), b=parts(2, 3))
        await made.runs(a=parts(0, 1), b=parts(2, 3), side=parts())
        yield made


async def test_nothing_runs_before_the_first_assignment() -> None:
    async with running("a") as made:
        assert made["a"].engine.owned == parts()
        made.assign("a", a=parts(0, 1, 2, 3))
        assert made["a"].engine.owned == parts(0, 1, 2, 3)  # alone there is nobody to ask
        made["a"].mirrors.assigned(None)
        made["a"].mirrors.assigned(None)
        assert made["a"].mirrors.mirrored_by(MirrorPartition("l", "t", 0)) == ""


async def test_a_partition_moves_with_its_producers(fleet: Fleet) -> None:
    fleet.assign("a", a=parts(0), b=parts(1, 2, 3))
    await fleet.runs(a=parts(0), b=parts(1, 2, 3))
    assert fleet["b"].engine.tables[MirrorPartition("l", "t", 1)] == TABLE
    assert fleet["b"].mirrors.mirrored_by(MirrorPartition("l", "t", 1)) == "b"


async def test_a_topic_in_transition_goes_to_the_leader_and_back(fleet: Fleet) -> None:
    for gateway in fleet.all.values():
        gateway.reads(state=MirrorState.PENDING_STOPPED, pause_epoch=1)
    await fleet.runs(a=parts(0, 1, 2, 3), b=parts())
    for gateway in fleet.all.values():
        gateway.reads(state=MirrorState.ACTIVE, pause_epoch=1)
    await fleet.runs(a=parts(0, 1), b=parts(2, 3))


async def test_the_leader_reads_first(fleet: Fleet) -> None:
    """The others do not know yet why they are asked."""
    fleet["a"].reads(state=MirrorState.PENDING_STOPPED, pause_epoch=1)
    await fleet.runs(a=parts(0, 1, 2, 3), b=parts())
    assert fleet["a"].engine.tables.keys() == parts(2, 3)


async def test_positions_and_measurements_come_with_the_heartbeats(fleet: Fleet) -> None:
    fleet["b"].progress.advance("t", 2, 7)
    await wait_until_async(lambda: fleet["side"].progress.position("t", 2) == 7, 2.0)
    await wait_until_async(lambda: len(fleet["a"].mirrors.status(RECORD)) == 4, 3.0)
    assert [one.partition for one in fleet["a"].mirrors.status(RECORD)] == [0, 1, 2, 3]


def told(fleet: Fleet, at: str) -> dict[int, int]:
    return {one.partition: one.records_total for one in fleet[at].mirrors.status(RECORD)}


async def test_what_moves_is_measured_and_told_once_a_second(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    await wait_until_async(lambda: len(told(fleet, "a")) == 4, 3.0)
    monkeypatch.setattr(heartbeat_rules, "PIECE", 0)  # nothing is told again in turn
    fleet["b"].engine.measured, fleet["b"].engine.records = parts(3), 5
    await wait_until_async(lambda: told(fleet, "a")[3] == 5, 3.0)
    assert told(fleet, "a")[2] == 0


async def test_what_lies_still_is_told_again_in_turn(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    await wait_until_async(lambda: len(told(fleet, "a")) == 4, 3.0)
    monkeypatch.setattr(heartbeat_rules, "PIECE", 1)
    fleet["b"].engine.records = 5
    await wait_until_async(lambda: sorted(told(fleet, "a").items())[2:] == [(2, 5), (3, 5)], 5.0)


async def test_a_new_leader_is_told_everything_at_once(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    await wait_until_async(lambda: len(told(fleet, "a")) == 4, 3.0)
    monkeypatch.setattr(heartbeats, "_MEASURED_EVERY", 1_000_000)
    fleet.assign("b", a=parts(0, 1), b=parts(2, 3))
    await wait_until_async(lambda: len(told(fleet, "b")) == 4, 3.0)


async def test_whoever_comes_later_is_told_everything_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running("a", "late") as made:
        made["a"].peers.expect({})
        made.assign("a", a=parts(0, 1, 2, 3), late=parts())
        made["a"].progress.advance("t", 2, 7)
        await wait_until_async(lambda: not made["a"].progress.moved, 2.0)
        monkeypatch.setattr(heartbeats, "_MEASURED_EVERY", 1_000_000)
        assert made["late"].progress.position("t", 2) is None
        made["a"].peers.expect({"late": f"127.0.0.1:{made['late'].port}"})
        await wait_until_async(lambda: made["late"].progress.position("t", 2) == 7, 2.0)


async def test_a_position_of_another_mirror_of_the_topic_does_not_count(fleet: Fleet) -> None:
    fleet["side"].reads(mirror_id=2)
    fleet["b"].progress.advance("t", 2, 7)
    await wait_until_async(lambda: fleet["a"].progress.position("t", 2) == 7, 2.0)
    assert fleet["side"].progress.position("t", 2) is None


async def test_what_was_known_of_a_mirror_that_is_gone_is_forgotten(fleet: Fleet) -> None:
    fleet["b"].progress.advance("t", 2, 7)
    await wait_until_async(lambda: fleet["side"].progress.position("t", 2) == 7, 2.0)
    fleet["side"].reads(mirror_id=2)
    assert fleet["side"].progress.position("t", 2) is None


async def test_whoever_waits_for_a_position_hears_of_it_at_once(fleet: Fleet) -> None:
    """As a Produce with `ack: both` does: a heartbeat would be 50 ms late on average."""
    waits: list[float] = []
    for position in range(1, 21):
        reached = asyncio.Event()
        fleet["side"].progress.when("t", 2, position, reached.set)
        await wait_until_async(lambda: "side" in fleet["b"].mirrors._progress._watchers.get(("t", 2), {}), 2.0)
        began = time.monotonic()
        fleet["b"].progress.advance("t", 2, position)
        async with asyncio.timeout(2):
            await reached.wait()
        waits.append(time.monotonic() - began)
    assert sorted(waits)[10] < 0.03, waits


async def test_what_was_forwarded_is_told_to_whoever_mirrors_it(fleet: Fleet) -> None:
    fleet["side"].mirrors.forwarded("t", 2, 100, 3)
    fleet["side"].mirrors.forwarded("t", 2, 103, 2)
    fleet["a"].mirrors.forwarded("t", 0, 50, 1)
    await wait_until_async(lambda: fleet["b"].engine.told, 2.0)
    assert fleet["b"].engine.told == [("t", 2, 103, 5)]
    assert fleet["a"].engine.told == [("t", 0, 50, 1)]


async def test_under_a_write_pause_a_gateway_mirrors_nothing_of_the_topic(fleet: Fleet) -> None:
    fleet["b"].mirrors.paused = lambda: ["t"]
    await fleet["b"].mirrors.quiet(["t"])
    assert fleet["b"].engine.owned == parts()
    fleet["b"].mirrors.paused = tuple
    fleet["b"].mirrors.records_changed()
    assert fleet["b"].engine.owned == parts(2, 3)


async def test_a_write_pause_is_not_acknowledged_over_an_append_that_was_not_answered(fleet: Fleet) -> None:
    fleet["b"].engine.busy = True
    with pytest.raises(StillAppending):
        await fleet["b"].mirrors.quiet(["t"])


async def test_what_a_job_copies_is_left_alone_by_all(fleet: Fleet) -> None:
    fleet["a"].mirrors.paused_for_job = lambda: [("l", "t")]
    await fleet.runs(b=parts())
    fleet["a"].mirrors.paused_for_job = tuple
    await fleet.runs(b=parts(2, 3))


async def test_a_gateway_that_ends_is_missed_at_once(fleet: Fleet) -> None:
    fleet["a"].mirrors._heartbeats._watch._silence_s = NEVER_S
    await fleet["b"].close()
    await fleet.runs(a=parts(0, 1, 2, 3))  # its port refuses connections
    assert fleet["a"].silent == {"b"}


async def test_one_that_only_stops_its_heartbeats_is_missed_after_a_while(fleet: Fleet) -> None:
    await fleet["b"].mirrors.close()
    await fleet.runs(a=parts(0, 1, 2, 3))
    assert fleet["a"].mirrors.silent() == {"b"}
    fleet["b"].mirrors.start()
    await wait_until_async(lambda: not fleet["a"].mirrors.silent(), 2.0)
    await fleet.runs(b=parts(2, 3))


async def test_one_that_leaves_hands_over_before_it_ends(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirrors, "LEAVE_S", NEVER_S)
    async with asyncio.timeout(SOON_S):
        await fleet["b"].mirrors.leave()
    assert fleet["b"].engine.owned == parts()
    await fleet.runs(a=parts(0, 1, 2, 3))
    assert fleet["a"].engine.tables.keys() == parts(2, 3)


async def test_the_last_one_leaves_nothing_to_anybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirrors, "LEAVE_S", NEVER_S)
    async with running("a") as made:
        made.assign("a", a=parts(0, 1, 2, 3))
        async with asyncio.timeout(SOON_S):
            await made["a"].mirrors.leave()
        assert made["a"].engine.owned == parts()


async def test_one_that_was_dropped_and_came_back_is_silent_no_more(fleet: Fleet) -> None:
    """The assignments without it and with it again come faster than its first heartbeat."""
    await fleet["b"].close()
    await wait_until_async(lambda: fleet["a"].silent == {"b"}, 2.0)
    gone = fleet.all.pop("b")
    fleet.assign("a", a=parts(0, 1, 2, 3))
    assert fleet["a"].silent == frozenset()
    fleet.all["b"] = gone


async def test_a_topic_that_is_claimed_is_here_with_its_producers_for_the_time_of_the_block(fleet: Fleet) -> None:
    async with fleet["a"].mirrors.overridden("l", "t"):
        assert fleet["a"].engine.owned == parts(0, 1, 2, 3)
        assert fleet["a"].engine.tables.keys() == parts(2, 3)
        assert fleet["b"].engine.owned == parts()


async def test_a_claim_does_not_wait_for_a_gateway_that_is_gone(fleet: Fleet) -> None:
    fleet["b"].peers.handlers.clear()
    began = time.monotonic()
    async with fleet["a"].mirrors.overridden("l", "t"):
        assert fleet["a"].engine.owned == parts(0, 1, 2, 3)
    assert time.monotonic() - began < 2.0


async def test_what_the_leader_promotes_is_not_given_away(fleet: Fleet) -> None:
    """Another gateway asks for it, or is assigned it: it runs there too, and on at the leader until the run is over."""
    a, b = fleet["a"], fleet["b"]
    for one in (a, b):
        one.reads(state=MirrorState.PENDING_STOPPED)
    await fleet.runs(a=parts(0, 1, 2, 3), b=parts())
    under_way = {("l", "t")}
    a.mirrors.promoted = lambda: under_way

    fleet.assign("b", b=parts(0, 1, 2, 3), a=parts())
    await fleet.runs(b=parts(0, 1, 2, 3))
    assert a.engine.owned == parts(0, 1, 2, 3)

    under_way.clear()
    a.mirrors.records_changed()
    await fleet.runs(a=parts(), b=parts(0, 1, 2, 3))


async def test_a_gateway_that_leaves_keeps_what_it_promotes_until_that_is_over(fleet: Fleet) -> None:
    a = fleet["a"]
    for one in (a, fleet["b"]):
        one.reads(state=MirrorState.PENDING_STOPPED)
    await fleet.runs(a=parts(0, 1, 2, 3), b=parts())
    under_way = {("l", "t")}
    a.mirrors.promoted = lambda: under_way
    leaving = asyncio.create_task(a.mirrors.leave())
    await fleet.runs(b=parts(0, 1, 2, 3))
    assert a.engine.owned == parts(0, 1, 2, 3)
    await leaving  # for no longer than it waits at all
    assert a.engine.owned == parts()


async def test_tables_that_do_not_fit_into_one_answer_are_all_carried(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table is never cut: a batch that is missing from it would be appended twice when it is retried."""
    monkeypatch.setattr(releases, "_ENTRIES", 3)
    a, b = fleet["a"], fleet["b"]
    table = CarriedTable(7, [replace(ENTRY, base_offset=offset) for offset in range(7)])

    async def release(partitions: frozenset[MirrorPartition]) -> Mapping[MirrorPartition, CarriedTable]:
        b.engine.own(b.engine.running() - partitions)
        return dict.fromkeys(partitions, table)

    b.engine.release = release  # type: ignore[method-assign]
    fleet.assign("a", a=parts(0, 1, 2, 3), b=parts())
    await fleet.runs(a=parts(0, 1, 2, 3))
    assert [a.engine.tables[each] for each in sorted(parts(2, 3))] == [table, table]
