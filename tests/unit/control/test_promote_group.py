"""The runner of group promote and demote, on a control plane in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import pytest

from gateway.control import demote_group
from gateway.control.errors import Conflict, SourceUnreachable
from gateway.control.group_offsets import GroupOffsets, Offsets
from gateway.control.promote_group import GroupPromotions
from gateway.control.store import StoreError, StoreUncertain
from gateway.domain.gates import GateStatus, Identity, Waiter
from gateway.domain.group_promote import Partition
from gateway.domain.offset_map import OffsetMap
from gateway.domain.records import (
    CarriedOffset,
    GroupRecord,
    GroupState,
    MirrorDirection,
    MirrorMode,
    MirrorRecord,
    MirrorState,
)
from gateway.net.commits import Committed
from gateway.net.groups import GroupView, MemberView
from tests.support.control_plane import Plane
from tests.support.waiting import wait_until_async

KEY = ("orders", 0)


class FakeOffsets(GroupOffsets):
    """Both clusters' group in memory. `on_ask` is called at each look at the source's members."""

    def __init__(self, plane: Plane) -> None:
        super().__init__(plane.service.context)
        self.plane = plane
        self.members = 0
        self.members_on_target = ""
        self.down = False
        self.source_holds: dict[Partition, tuple[int, str]] = {KEY: (40, "m")}
        self.target_holds: dict[Partition, tuple[int, str]] = {}
        self.ranges: dict[Partition, tuple[int, int]] = {}
        self.left: list[str] = []
        self.commits = 0
        self.refuse = False
        self.instance_id: str | None = None
        self.on_ask: Callable[[], None] = lambda: None

    async def on_source(self, record: GroupRecord) -> tuple[tuple[CarriedOffset, ...], list[str]]:
        if self.down:
            raise SourceUnreachable("connection refused")
        carried = ((t, p, offset, offset, metadata) for (t, p), (offset, metadata) in self.source_holds.items())
        return tuple(CarriedOffset(*each) for each in carried), self.left

    async def source_ranges(
        self, record: GroupRecord, offsets: Iterable[CarriedOffset]
    ) -> Mapping[Partition, tuple[int, int]]:
        return self.ranges

    async def commit_on_source(self, record: GroupRecord, offsets: Offsets) -> Mapping[Partition, Committed]:
        if self.refuse:
            raise Conflict("the source refuses")
        self.source_holds.update(offsets)
        return {key: Committed(offset, -1, metadata) for key, (offset, metadata) in self.source_holds.items()}

    async def commit_on_target(self, group: str, offsets: Offsets) -> None:
        if self.refuse:
            raise Conflict("the target cluster refuses: OffsetCommit g failed for orders-0: error 25")
        failing_over = any(mirror.not_mirrored for mirror in self.plane.store.mirrors.values())
        assert failing_over or self.plane.store.groups["l", "g"].state is GroupState.PENDING_PROMOTED
        self.commits += 1
        self.target_holds.update(offsets)

    async def on_target(self, group: str) -> Mapping[Partition, Committed]:
        return {key: Committed(offset, -1, metadata) for key, (offset, metadata) in self.target_holds.items()}

    async def target_members(self, record: GroupRecord) -> str:
        return self.members_on_target

    async def source_view(self, record: GroupRecord, timeout_s: float) -> GroupView:
        self.on_ask()
        if self.down:
            raise SourceUnreachable("connection refused")
        members = tuple(
            MemberView(member_id=f"m{index}", client_id="old", host="10.0.0.1", instance_id=self.instance_id)
            for index in range(self.members)
        )
        return GroupView(group="g", state="Stable", type="classic", protocol_type="consumer", members=members)

    async def source_members(self, record: GroupRecord) -> str:
        return "old (10.0.0.1)" if self.members else ""


class Scene:
    """A plane with one mirrored topic and one gated group whose gate somebody waits at."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.offsets = FakeOffsets(plane)
        self.now = 1000.0
        self.promoter = GroupPromotions(
            plane.service.context, quiet_s=1.0, clock=lambda: self.now, offsets=self.offsets
        )
        self.offsets.on_ask = lambda: self.later(0.1)

    def later(self, seconds: float) -> None:
        self.now += seconds

    def wait_at_the_gate(self) -> None:
        self.plane.gates.wait(Waiter("g", Identity("h", "c"), 0.0), lambda: None)

    @property
    def record(self) -> GroupRecord:
        return self.plane.store.groups["l", "g"]

    @property
    def open(self) -> bool:
        """Asked anew each time."""
        return self.plane.gates.status("g") is GateStatus.OPEN

    async def promoted(self) -> None:
        await self.promoter.promote("l", "g")
        assert self.open

    async def attempts(self, count: int) -> None:
        for _ in range(count):
            await self.promoter.attempt("l", "g")


@pytest.fixture
async def scene(plane: Plane) -> Scene:
    await plane.with_mirror()
    plane.gates.enabled = True
    await plane.store.put(GroupRecord(link="l", group="g"))
    plane.gates.set("g", GateStatus.CLOSED)
    for partition in range(3):
        plane.progress.advance("orders", partition, 100)
    return Scene(plane)


async def test_promote_carries_the_offsets_and_opens(scene: Scene) -> None:
    record = await scene.promoter.promote("l", "g")
    assert record.state is GroupState.PROMOTED
    assert record.offsets == (CarriedOffset("orders", 0, 40, 40, "m"),)
    assert scene.offsets.target_holds == {KEY: (40, "m")}
    assert scene.open


async def test_by_itself_after_the_quiet_period(scene: Scene) -> None:
    scene.wait_at_the_gate()
    states = []
    for _ in range(13):
        await scene.attempts(1)
        states.append(scene.record.state)
    assert states == [GroupState.ACTIVE] * 10 + [GroupState.PROMOTED] * 3
    assert scene.open


async def test_by_itself_only_when_somebody_waits(scene: Scene) -> None:
    await scene.attempts(30)
    assert scene.record.state is GroupState.ACTIVE
    assert "no member waits" in scene.promoter.waits_for("l", "g")


async def test_what_was_seen_long_ago_is_no_quiet_period(scene: Scene) -> None:
    scene.wait_at_the_gate()
    await scene.attempts(1)
    scene.later(3600)
    await scene.attempts(1)
    assert scene.record.state is GroupState.ACTIVE


async def test_a_promoted_group_is_never_written_again(scene: Scene) -> None:
    await scene.promoted()
    scene.offsets.source_holds = {KEY: (1, "")}
    with pytest.raises(Conflict, match="promoted already"):
        await scene.promoter.promote("l", "g", force=True)
    await scene.attempts(3)
    assert scene.offsets.commits == 1


async def test_members_on_the_source_refuse(scene: Scene) -> None:
    scene.offsets.members = 2
    with pytest.raises(Conflict, match=r"still has 2 member\(s\) on the source"):
        await scene.promoter.promote("l", "g")
    assert scene.record.state is GroupState.ACTIVE
    assert not scene.open


async def test_force_promotes_beside_members(scene: Scene) -> None:
    scene.offsets.members = 2
    async with asyncio.timeout(5):
        record = await scene.promoter.promote("l", "g", force=True)
    assert record.state is GroupState.PROMOTED


async def test_a_member_that_comes_back_undoes_it(scene: Scene) -> None:
    def come_back() -> None:
        scene.later(0.1)
        if scene.offsets.commits:
            scene.offsets.members = 1

    scene.offsets.on_ask = come_back
    with pytest.raises(Conflict, match="still has 1 member"):
        await scene.promoter.promote("l", "g")
    assert scene.record.state is GroupState.ACTIVE
    assert not scene.open


async def test_an_offset_committed_meanwhile_is_carried(scene: Scene) -> None:
    """Somebody comes, commits and leaves between two looks at the members; or was never a member."""
    asked_at: list[float] = []

    def commit_between() -> None:
        scene.later(3.0 if asked_at else 0.1)
        if scene.offsets.commits == 1 and not asked_at:
            scene.offsets.source_holds[KEY] = (55, "")
            asked_at.append(scene.now)

    scene.offsets.on_ask = commit_between
    record = await scene.promoter.promote("l", "g")
    assert scene.now - asked_at[0] >= 15  # it may commit again
    assert record.offsets == (CarriedOffset("orders", 0, 55, 55, ""),)
    assert scene.offsets.target_holds == {KEY: (55, "")}


async def test_a_consumer_that_is_no_member_is_seen_by_its_commits(scene: Scene) -> None:
    scene.wait_at_the_gate()
    offsets = iter(range(41, 1000))

    def commit() -> None:
        scene.later(2.0)
        scene.offsets.source_holds[KEY] = (next(offsets), "")

    scene.offsets.on_ask = commit
    await scene.attempts(20)
    assert scene.record.state is GroupState.ACTIVE
    assert "without a member: a consumer that assigns its partitions itself" in scene.promoter.waits_for("l", "g")
    last = scene.offsets.source_holds[KEY][0]
    scene.offsets.on_ask = lambda: scene.later(2.0)  # it was stopped
    await scene.attempts(12)
    assert scene.record.offsets == (CarriedOffset("orders", 0, last, last, ""),)


async def test_a_commit_before_the_last_member_left_is_a_member_s(scene: Scene) -> None:
    scene.wait_at_the_gate()
    await scene.attempts(1)
    scene.offsets.members, scene.offsets.source_holds[KEY] = 1, (60, "")
    await scene.attempts(1)
    scene.offsets.members = 0
    await scene.attempts(20)
    assert scene.record.state is GroupState.PROMOTED  # after the quiet period, and no later
    assert scene.now < 1000 + 15


async def test_static_members_are_named(scene: Scene) -> None:
    scene.wait_at_the_gate()
    scene.offsets.members, scene.offsets.instance_id = 1, "pod-0"
    await scene.attempts(1)
    assert "static members (pod-0) stay until their session times out" in scene.promoter.waits_for("l", "g")


async def test_waits_for_the_mirror(scene: Scene) -> None:
    scene.offsets.source_holds = {KEY: (150, "")}
    run = asyncio.create_task(scene.promoter.promote("l", "g"))
    await wait_until_async(lambda: "has come to 100" in scene.promoter.waits_for("l", "g"), 5, what="the reason")
    assert not scene.offsets.commits
    scene.plane.progress.advance("orders", 0, 150)
    assert (await run).state is GroupState.PROMOTED


async def test_a_mirror_that_never_comes_there_ends_the_patience(scene: Scene) -> None:
    scene.offsets.source_holds = {KEY: (150, "")}
    scene.offsets.on_ask = lambda: scene.later(20)
    with pytest.raises(Conflict, match="the mirror of orders-0 has come to 100, the group is at 150"):
        await scene.promoter.promote("l", "g")
    assert scene.record.state is GroupState.ACTIVE
    assert "has come to 100" in scene.record.error_message


async def test_odd_offsets_are_carried_and_noted(scene: Scene) -> None:
    scene.offsets.source_holds = {KEY: (150, ""), ("orders", 1): (5, "")}
    scene.offsets.ranges = {KEY: (0, 100), ("orders", 1): (10, 100)}
    scene.offsets.left = ["other"]
    record = await scene.promoter.promote("l", "g")
    assert scene.offsets.target_holds == {KEY: (150, ""), ("orders", 1): (5, "")}
    assert "orders-0: offset 150 is beyond the log end 100" in record.note
    assert "orders-1: offset 5 is below the log start 10" in record.note
    assert "offsets of other were left on the source" in record.note


async def test_a_source_that_is_lost_meanwhile_ends_the_patience(scene: Scene) -> None:
    def lose() -> None:
        scene.later(20)
        scene.offsets.down = scene.record.state is GroupState.PENDING_PROMOTED

    scene.offsets.on_ask = lose
    async with asyncio.timeout(10):
        with pytest.raises(Conflict, match="connection refused"):
            await scene.promoter.promote("l", "g")
    assert scene.record.state is GroupState.ACTIVE


async def test_a_target_group_with_members_is_named(scene: Scene) -> None:
    scene.offsets.refuse, scene.offsets.members_on_target = True, "rogue (10.0.0.9)"
    with pytest.raises(Conflict, match=r"error 25; members on the target: rogue \(10\.0\.0\.9\)"):
        await scene.promoter.promote("l", "g")
    assert scene.record.state is GroupState.ACTIVE


async def test_an_interrupted_promote_goes_on(scene: Scene) -> None:
    await scene.plane.store.put(GroupRecord(link="l", group="g", state=GroupState.PENDING_PROMOTED))
    await scene.attempts(1)
    assert scene.record.state is GroupState.PROMOTED
    assert scene.open


async def test_a_lost_commit_of_the_state_keeps_the_gate_closed_until_known(scene: Scene) -> None:
    commit = scene.plane.log.commit

    def lose(changes: object) -> int:
        if '"state":"PROMOTED"' in str(changes):
            scene.plane.log.failures = [StoreUncertain("no answer")]
        return commit(changes)  # type: ignore[arg-type]

    scene.plane.log.commit = lose  # type: ignore[method-assign]
    with pytest.raises(StoreError):
        await scene.promoter.promote("l", "g")
    before = scene.open
    with pytest.raises(StoreError):
        await scene.attempts(1)
    await scene.attempts(1)
    assert (before, scene.open, scene.offsets.commits) == (False, True, 1)


# -- demote ----------------------------------------------------------------------------------------------------


async def test_demote_is_the_exact_way_back(scene: Scene) -> None:
    await scene.promoted()
    scene.offsets.target_holds = {KEY: (77, "later")}
    record = await scene.promoter.demote("l", "g")
    assert record.state is GroupState.ACTIVE
    assert scene.offsets.source_holds == {KEY: (77, "later")}
    assert not scene.open
    again = await scene.promoter.promote("l", "g")
    assert again.offsets == (CarriedOffset("orders", 0, 77, 77, "later"),)


async def test_a_demoted_group_is_not_promoted_by_itself_before_it_was_on_the_source(scene: Scene) -> None:
    await scene.promoted()
    await scene.promoter.demote("l", "g")
    scene.wait_at_the_gate()
    await scene.attempts(30)
    assert scene.record.demoted
    assert "it was demoted" in scene.promoter.waits_for("l", "g")
    scene.offsets.members = 1
    await scene.attempts(1)
    scene.offsets.members = 0
    await scene.attempts(30)
    assert (scene.record.state, scene.record.demoted) == (GroupState.PROMOTED, False)


async def test_a_demoted_group_that_commits_on_the_source_without_a_member_is_back_there(scene: Scene) -> None:
    await scene.promoted()
    await scene.promoter.demote("l", "g")
    await scene.attempts(3)
    scene.later(2)
    scene.offsets.source_holds[KEY] = (90, "")
    await scene.attempts(1)
    assert not scene.record.demoted


async def test_a_demoted_group_is_promoted_by_hand(scene: Scene) -> None:
    await scene.promoted()
    await scene.promoter.demote("l", "g")
    await scene.promoted()
    assert not scene.record.demoted


async def test_demote_waits_for_commits_that_passed_the_gate(scene: Scene) -> None:
    await scene.promoted()
    scene.plane.gates.commit_begins("g")
    run = asyncio.create_task(scene.promoter.demote("l", "g"))
    await wait_until_async(lambda: not scene.open, 5, what="the gate to be closed")
    scene.offsets.target_holds = {KEY: (99, "last")}  # what was under way arrives
    scene.plane.gates.commit_ends("g")
    await run
    assert scene.offsets.source_holds == {KEY: (99, "last")}


async def test_demote_leaves_offsets_of_other_topics(scene: Scene) -> None:
    await scene.promoted()
    scene.offsets.target_holds[("other", 0)] = (5, "")
    await scene.promoter.demote("l", "g")
    assert ("other", 0) not in scene.offsets.source_holds


async def test_demote_names_members_on_the_target(scene: Scene) -> None:
    await scene.promoted()
    scene.offsets.members_on_target = "c1 (10.0.0.1), c2 (10.0.0.2)"
    with pytest.raises(Conflict, match=r"members on the target: stop them first: c1 \(10\.0\.0\.1\), c2"):
        await scene.promoter.demote("l", "g")
    assert scene.open


async def test_demote_needs_an_empty_group_on_the_source(scene: Scene) -> None:
    await scene.promoted()
    scene.offsets.members = 1
    with pytest.raises(Conflict, match="members on the source"):
        await scene.promoter.demote("l", "g")
    assert scene.record.state is GroupState.PROMOTED
    assert scene.open


async def test_demote_that_the_source_refuses_changes_nothing(scene: Scene) -> None:
    await scene.promoted()
    scene.offsets.refuse = True
    with pytest.raises(Conflict, match="refuses"):
        await scene.promoter.demote("l", "g")
    assert scene.record.state is GroupState.PROMOTED
    assert scene.open


async def test_no_way_back_after_the_topic_was_promoted(scene: Scene) -> None:
    await scene.promoted()
    mirror = scene.plane.store.mirrors["l", "orders"]
    await scene.plane.store.put(replace(mirror, state=MirrorState.STOPPED))
    with pytest.raises(Conflict, match="does not have what was written to orders since it was promoted"):
        await scene.promoter.demote("l", "g")
    assert scene.open


async def test_the_way_back_of_a_topic_that_is_mirrored_back(scene: Scene) -> None:
    """Written on the target since its promote; the source follows, so the group may go back once it has followed."""
    await scene.promoted()
    mirror = scene.plane.store.mirrors["l", "orders"]
    reverse = replace(mirror, direction=MirrorDirection.REVERSE, handed_over_at=(100, 100, 100))
    await scene.plane.store.put(reverse)
    scene.offsets.target_holds = {KEY: (130, "m")}
    scene.plane.progress.advance("orders", 0, 120)
    run = asyncio.create_task(scene.promoter.demote("l", "g"))
    await wait_until_async(lambda: not scene.open, 5, what="the gate to be closed")
    scene.plane.progress.advance("orders", 0, 130)
    assert (await run).state is GroupState.ACTIVE
    assert scene.offsets.source_holds == {KEY: (130, "m")}
    again = await scene.promoter.promote("l", "g")  # the target is the origin: nothing to wait for
    assert again.offsets == (CarriedOffset("orders", 0, 130, 130, "m"),)


async def test_a_mirror_back_that_does_not_come_refuses_the_demote(scene: Scene, monkeypatch) -> None:
    monkeypatch.setattr(demote_group, "_MIRROR_S", 0.1)
    await scene.promoted()
    mirror = scene.plane.store.mirrors["l", "orders"]
    await scene.plane.store.put(replace(mirror, direction=MirrorDirection.REVERSE, state=MirrorState.PAUSED))
    scene.offsets.target_holds = {KEY: (130, "m")}
    with pytest.raises(Conflict, match="the mirror back of orders-0 has come to 100, the group is at 130 .PAUSED."):
        await scene.promoter.demote("l", "g")
    assert scene.open


@pytest.mark.parametrize(("target", "source"), [(5, 15), (12, 32), (20, 40), (23, 43), (25, 50)])
async def test_with_maps_both_ways_each_offset_goes_by_the_one_it_belongs_to(translated, target, source) -> None:
    """Flipped at target 20 = source 40; since then 20-23 were copied to 40-43, and 24 to 50: there was a hole."""
    scene, forward = translated
    back = OffsetMap([(20, 40), (24, 49)], end=52, read_to=27)
    mirror = scene.plane.store.mirrors["l", "orders"]
    reverse = {"direction": MirrorDirection.REVERSE, "handed_over_at": (40,) * 3, "handed_over_from": (20,) * 3}
    await scene.promoted()
    await scene.plane.store.put(replace(mirror, **reverse))

    async def maps(record: MirrorRecord) -> list[OffsetMap]:
        return [back if record.is_reverse else forward]

    scene.plane.service.context.offset_maps = maps
    scene.offsets.target_holds = {KEY: (target, "")}

    await scene.promoter.demote("l", "g")

    assert scene.offsets.source_holds == {KEY: (source, "")}
    again = await scene.promoter.promote("l", "g")
    assert again.offsets[0].target_offset == target


async def test_demote_whose_commit_is_lost_goes_on_until_known(scene: Scene) -> None:
    await scene.promoted()
    scene.plane.log.failures = [StoreUncertain("no answer")]
    record = await scene.promoter.demote("l", "g")
    assert record.state is GroupState.ACTIVE
    assert not scene.open


async def test_demote_that_cannot_be_written_opens_again(scene: Scene) -> None:
    await scene.promoted()
    scene.plane.log.failures = [StoreError("target is away")]
    with pytest.raises(StoreError, match="away"):
        await scene.promoter.demote("l", "g")
    assert scene.record.state is GroupState.PROMOTED
    assert scene.open


async def test_demote_of_a_group_that_is_not_promoted(scene: Scene) -> None:
    with pytest.raises(Conflict, match="is ACTIVE, not PROMOTED"):
        await scene.promoter.demote("l", "g")


async def test_commits_on_the_source_after_the_promote_are_counted(scene: Scene) -> None:
    scene.offsets.source_holds = {KEY: (40, ""), ("orders", 1): (7, "")}
    record = await scene.promoter.promote("l", "g")
    assert await scene.promoter.late_commits(record) == 0
    scene.offsets.source_holds[KEY] = (41, "")
    assert await scene.promoter.late_commits(record) == 1


# -- mode translate ------------------------------------------------------------------------------------------


@pytest.fixture
async def translated(scene: Scene) -> tuple[Scene, OffsetMap]:
    """Of the source's offsets 10-19 and 30-39 are on the target, as 0-19; 20-29 are a hole."""
    mirror = scene.plane.store.mirrors["l", "orders"]
    await scene.plane.store.put(replace(mirror, mode=MirrorMode.TRANSLATE))
    between = OffsetMap([(10, 0), (30, 10)], end=20, read_to=40)

    async def maps(_: MirrorRecord) -> list[OffsetMap]:
        return [between]

    scene.plane.service.context.offset_maps = maps
    return scene, between


@pytest.mark.parametrize(
    ("source", "target", "rule"),
    [(15, 5, "exact"), (30, 10, "exact"), (25, 10, "next_record"), (3, 0, "log_start"), (40, 20, "exact")],
)
async def test_offsets_are_carried_through_the_map(translated, source, target, rule) -> None:
    scene, _ = translated
    scene.offsets.source_holds = {KEY: (source, "m")}

    record = await scene.promoter.promote("l", "g")

    assert record.offsets == (CarriedOffset("orders", 0, source, target, "m", rule),)
    assert scene.offsets.target_holds == {KEY: (target, "m")}


async def test_an_offset_beyond_the_map_waits_for_the_mirror(translated) -> None:
    scene, between = translated
    scene.offsets.source_holds = {KEY: (45, "")}
    run = asyncio.create_task(scene.promoter.promote("l", "g"))
    await wait_until_async(lambda: "has come to 40" in scene.promoter.waits_for("l", "g"), 5, what="the reason")
    assert not scene.offsets.commits
    between.append(43, 20)
    between.advance(22, 45)
    assert (await run).offsets[0].target_offset == 22


async def test_demote_translates_back(translated) -> None:
    scene, _ = translated
    scene.offsets.source_holds = {KEY: (12, "m")}
    await scene.promoted()
    scene.offsets.target_holds = {KEY: (13, "n")}

    await scene.promoter.demote("l", "g")

    assert scene.offsets.source_holds == {KEY: (33, "n")}


async def test_a_topic_that_is_just_becoming_translated_is_waited_for(translated) -> None:
    """The engine translates already, the record does not say so yet: its numbers would be carried as they are."""
    scene, _ = translated
    mirror = scene.plane.store.mirrors["l", "orders"]
    await scene.plane.store.put(replace(mirror, mode=MirrorMode.PRESERVE))
    scene.plane.service.events.topic_translated("l", "orders", "a hole at 20")
    scene.offsets.source_holds = {KEY: (15, "")}
    with pytest.raises(Conflict, match="is being changed to mode translate"):
        await scene.promoter.promote("l", "g")
    assert not scene.offsets.commits
    await scene.plane.service.events.reconcile()
    while scene.record.state is not GroupState.PROMOTED:
        await scene.promoter.attempt("l", "g")
    assert scene.offsets.target_holds == {KEY: (5, "")}


async def test_without_its_map_a_topic_s_offsets_are_not_carried(scene: Scene) -> None:
    mirror = scene.plane.store.mirrors["l", "orders"]
    await scene.plane.store.put(replace(mirror, mode=MirrorMode.TRANSLATE))
    with pytest.raises(Conflict, match="offset map of mirror topic 'orders' is not there"):
        await scene.promoter.promote("l", "g")
    assert not scene.offsets.commits
    assert not scene.open


# -- failover ------------------------------------------------------------------------------------------------


async def fail_over(scene: Scene, stopped_at: int) -> None:
    """What a failover of the topic leaves, and then asks of its groups."""
    mirror = scene.plane.store.mirrors["l", "orders"]
    stopped = replace(mirror, state=MirrorState.STOPPED, stopped_at=(stopped_at,) * 3, not_mirrored=(-1,) * 3)
    await scene.plane.store.put(stopped)
    scene.plane.target.existing["orders"].ranges = [(0, stopped_at)] * 3
    await scene.promoter.failovers.failed_over(stopped)


async def test_a_failover_goes_on_from_what_is_known_cut_to_what_is_there(scene: Scene) -> None:
    scene.offsets.source_holds = {KEY: (95, "m"), ("orders", 1): (80, "")}
    await scene.attempts(1)
    scene.offsets.down = True
    scene.later(7)

    await fail_over(scene, 90)

    assert scene.open
    assert scene.offsets.target_holds == {KEY: (90, "m"), ("orders", 1): (80, "")}
    assert [(o.source_offset, o.target_offset) for o in scene.record.offsets] == [(95, 90), (80, 80)]
    assert "offsets as the source had them 7 s before" in scene.record.note
    assert (
        "orders-0: the group was at 95 on the source; cut to 90, where the target ends: 5 record(s)"
        in scene.record.note
    )


async def test_a_failover_of_a_process_that_never_saw_the_source_uses_what_was_synced(scene: Scene) -> None:
    scene.offsets.down = True
    scene.offsets.target_holds = {KEY: (33, "synced")}

    await fail_over(scene, 90)

    assert scene.record.state is GroupState.PROMOTED
    assert scene.offsets.target_holds == {KEY: (33, "synced")}
    assert scene.record.note == "failed over: offsets as offset sync committed them last"


async def test_a_group_of_a_source_that_answers_is_promoted_as_ever_and_cut(scene: Scene) -> None:
    """The topic failed over at 90, the source came back: there is nothing more to wait for."""
    scene.offsets.source_holds = {KEY: (95, "")}
    await fail_over(scene, 90)
    assert scene.record.state is GroupState.ACTIVE

    record = await scene.promoter.promote("l", "g")

    assert record.offsets == (CarriedOffset("orders", 0, 95, 90, "", "beyond_end"),)
    assert "offset 95 was not mirrored when the topic failed over; cut to 90" in record.note


async def test_a_source_that_stays_away_after_a_failover_is_given_up(scene: Scene) -> None:
    scene.offsets.source_holds = {KEY: (70, "")}
    await fail_over(scene, 90)  # it still answers
    scene.offsets.down = True
    scene.offsets.on_ask = lambda: scene.later(4)
    await scene.attempts(3)
    assert not scene.offsets.target_holds
    await scene.attempts(4)
    assert scene.open
    assert scene.offsets.target_holds == {KEY: (70, "")}


async def test_without_a_failover_a_lost_source_promotes_nobody(scene: Scene) -> None:
    scene.offsets.down = True
    scene.offsets.on_ask = lambda: scene.later(20)
    scene.wait_at_the_gate()
    await scene.attempts(5)
    assert scene.record.state is GroupState.ACTIVE


async def test_a_group_of_other_topics_is_not_failed_over(scene: Scene) -> None:
    await scene.plane.with_mirror("other")
    scene.offsets.source_holds = {("other", 0): (5, "")}
    await scene.attempts(1)
    scene.offsets.down = True

    await fail_over(scene, 90)

    assert scene.record.state is GroupState.ACTIVE
    assert not scene.open


async def test_a_group_that_cannot_be_failed_over_says_why(scene: Scene) -> None:
    scene.offsets.down = scene.offsets.refuse = True
    scene.offsets.target_holds = {KEY: (33, "")}
    await fail_over(scene, 90)
    assert "its topics failed over, the group could not" in scene.promoter.waits_for("l", "g")
    assert not scene.open
