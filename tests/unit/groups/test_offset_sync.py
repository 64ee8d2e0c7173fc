"""Offset sync on a control plane in memory: which groups, how often, and never against a promote."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from gateway.control_parts import group_tools, offset_sync
from gateway.errors import Conflict, SourceUnreachable
from gateway.groups.gate.rules.gates import GateStatus
from gateway.groups.offsets import GroupOffsets, Offsets
from gateway.groups.promote import GroupPromotions
from gateway.groups.rules.offset_sync_status import OffsetSyncStatus
from gateway.kafka.commits import Committed
from gateway.kafka.groups import GroupView, MemberView
from gateway.kafka.topic_partition import TopicPartition
from gateway.mirror.offset_map.rules.offset_map import OffsetMap
from gateway.state.records import GroupRecord, GroupState, LinkRecord, MirrorMode, MirrorState, SourceOffset
from tests.support.control.control_plane import Plane
from tests.support.control.mirror_records import changed
from tests.support.waiting import wait_until_async

KEY = ("orders", 0)
FILTERS = (
    '{"groupFilters": [{"name": "app-", "patternType": "PREFIXED", "filterType": "INCLUDE"},'
    ' {"name": "app-test", "patternType": "LITERAL", "filterType": "EXCLUDE"}]}'
)


class Both(GroupOffsets):
    """Groups' offsets on both clusters, in memory. `down`: the source does not answer."""

    def __init__(self, plane: Plane) -> None:
        super().__init__(plane.parts.records, plane.parts.sources, plane.parts.target, plane.parts.door)
        self.source_holds: dict[str, dict[TopicPartition, tuple[int, str]]] = {}
        self.target_holds: dict[str, dict[TopicPartition, tuple[int, str]]] = {}
        self.commits: list[tuple[str, dict[TopicPartition, tuple[int, str]]]] = []
        self.members: dict[str, str] = {}
        self.down = False

    async def on_source(self, record: GroupRecord) -> tuple[tuple[SourceOffset, ...], list[str]]:
        if self.down:
            raise SourceUnreachable("connection refused")
        held = self.source_holds.get(record.source_name, {})
        return tuple(SourceOffset(t, p, offset, text) for (t, p), (offset, text) in held.items()), []

    async def on_target(self, record: GroupRecord) -> Mapping[TopicPartition, Committed]:
        held = self.target_holds.get(record.group, {})
        return {key: Committed(offset, -1, text) for key, (offset, text) in held.items()}

    async def commit_on_target(self, record: GroupRecord, offsets: Offsets) -> None:
        if offsets:
            self.commits.append((record.group, dict(offsets)))
            self.target_holds.setdefault(record.group, {}).update(offsets)

    async def target_retention_minutes(self) -> int | None:
        return None

    async def target_members(self, record: GroupRecord) -> str:
        return self.members.get(record.group, "")


class Scene:
    """A link that syncs, a mirrored topic at 100, and one group that reads it."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.now = 1000.0
        self.both = Both(plane)
        self.promoter = GroupPromotions(group_tools(plane.parts, self.both, clock=lambda: self.now), quiet_s=1.0)
        self.sync = offset_sync(plane.parts, self.promoter, plane.service.group_reports, clock=lambda: self.now)

    def reads(self, group: str, offset: int = 40, metadata: str = "") -> None:
        member = MemberView(member_id="m", client_id="c", host="h", subscribed=frozenset({"orders"}))
        self.plane.source.groups[group] = GroupView(
            group=group, state="Stable", type="classic", protocol_type="consumer", members=(member,)
        )
        self.both.source_holds[group] = {KEY: (offset, metadata)}

    async def round(self) -> None:
        await self.sync.sync_link(self.link)

    @property
    def link(self) -> LinkRecord:
        return self.plane.store.links["l"]

    def status(self, group: str = "g") -> OffsetSyncStatus:
        return self.sync.status["l", group]


Make = Callable[..., Any]


@pytest.fixture
def make(plane: Plane) -> Make:
    async def scene(**configs: str) -> Scene:
        await plane.with_link(**{"consumer.offset.sync.enable": "true", **configs})
        await plane.with_mirror()
        mirror = next(iter(plane.store.mirrors.values()))
        plane.progress.advance(mirror.mirror_topic, 0, 100)
        plane.gates.enabled = True
        return Scene(plane)

    return scene


async def test_groups_of_the_source_are_found_gated_and_synced(make: Make) -> None:
    scene = await make()
    scene.reads("g", 40, "m")
    scene.plane.source.groups["elsewhere"] = GroupView(
        group="elsewhere", state="Empty", type="classic", protocol_type="consumer"
    )

    await scene.round()

    assert scene.both.target_holds == {"g": {KEY: (40, "m")}}
    assert scene.plane.gates.status("g") is GateStatus.CLOSED
    assert set(scene.plane.store.groups) == {("l", "g")}
    assert scene.status() == OffsetSyncStatus(synced_ms=scene.plane.now_ms, committed=1)


async def test_a_group_that_is_about_to_begin_is_asked_about_again(make: Make) -> None:
    """The source has it from the first request of its first member on, before that is a member."""
    scene = await make()
    scene.plane.source.groups["g"] = GroupView(group="g", state="Empty", type="classic", protocol_type="consumer")
    await scene.round()
    assert not scene.plane.store.groups
    scene.reads("g", 40)

    await scene.round()

    assert set(scene.plane.store.groups) == {("l", "g")}


async def test_filters_choose_by_the_name_on_the_source(make: Make) -> None:
    scene = await make(**{"consumer.offset.group.filters": FILTERS})
    for group in ("app-1", "app-test", "other"):
        scene.reads(group)

    await scene.round()

    assert set(scene.both.target_holds) == {"app-1"}
    assert set(scene.plane.store.groups) == {("l", "app-1")}


async def test_the_next_round_commits_what_has_moved_on_and_nothing_else(make: Make) -> None:
    scene = await make()
    scene.reads("g", 40)
    scene.reads("still", 7)
    await scene.round()
    scene.both.commits.clear()
    scene.both.source_holds["g"] = {KEY: (60, "")}

    await scene.round()

    assert scene.both.commits == [("g", {KEY: (60, "")})]


async def test_an_offset_beyond_the_mirror_is_cut_to_it(make: Make) -> None:
    scene = await make()
    scene.reads("g", 130)

    await scene.round()

    assert scene.both.target_holds["g"] == {KEY: (100, "")}
    assert scene.status().behind == 30


async def test_offsets_of_a_mirror_that_has_failed_are_left_out(make: Make) -> None:
    """However far it has come: its copy may not go with the source."""
    scene = await make()
    scene.reads("g", 40)
    mirror = scene.plane.store.mirrors["l", "orders"]
    await scene.plane.by_hand(replace(mirror, state=MirrorState.FAILED))

    await scene.round()
    assert not scene.both.target_holds.get("g")

    await scene.plane.by_hand(mirror)
    await scene.round()
    assert scene.both.target_holds["g"] == {KEY: (40, "")}


async def test_an_offset_is_never_lowered(make: Make) -> None:
    scene = await make()
    scene.reads("g", 40)
    await scene.round()
    scene.both.source_holds["g"] = {KEY: (10, "")}

    await scene.round()

    assert scene.both.target_holds["g"] == {KEY: (40, "")}
    assert scene.status().held_back == (KEY,)


async def test_members_on_the_target_stop_it(make: Make) -> None:
    scene = await make()
    scene.reads("g", 40)
    scene.both.members["g"] = "c (10.0.0.1)"

    await scene.round()

    assert not scene.both.commits
    assert "members on the target, which do not use the gateway: c (10.0.0.1)" in scene.status().error


async def test_a_promoted_group_is_left_alone(make: Make) -> None:
    scene = await make()
    scene.reads("g", 40)
    await scene.round()
    record = scene.plane.store.groups["l", "g"]
    await scene.plane.store.put(replace(record, state=GroupState.PROMOTED))
    scene.both.source_holds["g"] = {KEY: (90, "")}

    await scene.round()

    assert scene.both.target_holds["g"] == {KEY: (40, "")}
    assert not scene.sync.status


async def test_a_group_that_is_being_promoted_is_left_to_that(make: Make) -> None:
    scene = await make()
    scene.reads("g", 40)
    async with scene.promoter.progress_of("l", "g").lock:
        await scene.round()
    assert not scene.both.commits


async def test_a_group_that_reads_on_the_target_is_not_taken_over(make: Make) -> None:
    """One of the same name came when the source did not know it yet."""
    scene = await make()
    assert scene.plane.gates.let_in("g", as_of=scene.plane.store.applied)
    scene.reads("g", 40)

    await scene.round()

    assert not scene.both.commits
    assert scene.plane.store.groups == {}


async def test_unchanged_offsets_are_committed_again_before_they_expire(make: Make) -> None:
    scene = await make()
    scene.reads("g", 40)
    await scene.round()
    scene.both.commits.clear()
    scene.now += 3500
    await scene.round()
    assert not scene.both.commits
    scene.now += 100  # the target in memory does not tell its retention: an hour
    await scene.round()
    assert scene.both.commits == [("g", {KEY: (40, "")})]


async def test_trouble_with_one_group_is_its_own(make: Make) -> None:
    scene = await make()
    scene.reads("bad", 40)
    scene.reads("g", 40)
    inner = scene.both.commit_on_target

    async def refuse(record: GroupRecord, offsets: Offsets) -> None:
        if record.group == "bad":
            raise Conflict("the target cluster refuses: metadata too large")
        await inner(record, offsets)

    scene.both.commit_on_target = refuse

    await scene.round()

    assert "metadata too large" in scene.status("bad").error
    assert scene.status("g").error == ""


async def test_a_lost_source_keeps_the_last_success(make: Make) -> None:
    scene = await make()
    scene.reads("g", 130)
    await scene.round()
    at, scene.plane.now_ms = scene.plane.now_ms, scene.plane.now_ms + 5000
    scene.both.down = True

    await scene.round()

    assert scene.status() == OffsetSyncStatus(
        synced_ms=at, error="connection refused", behind=30, committed=1, errors=1
    )


async def test_prefixed_groups_and_topics(plane: Plane) -> None:
    prefix = {"link.prefix": "usa_", "consumer.group.prefix.enable": "true", "consumer.offset.sync.enable": "true"}
    await plane.with_link(**prefix)
    plane.source.add("orders", 3, 100)
    await plane.service.mirrors.create("l", "orders")
    plane.progress.advance("usa_orders", 0, 100)
    scene = Scene(plane)
    scene.reads("g")
    scene.both.source_holds["g"] = {("usa_orders", 0): (40, "")}  # as GroupOffsets names it

    await scene.round()

    assert scene.both.target_holds == {"usa_g": {("usa_orders", 0): (40, "")}}


async def test_mode_translate(make: Make) -> None:
    scene = await make()
    mirror = scene.plane.store.mirrors["l", "orders"]
    await scene.plane.store.put(replace(mirror, mode=MirrorMode.TRANSLATE))
    between = OffsetMap([(10, 0), (30, 10)], end=20, read_to=40)

    async def maps(_: object) -> list[OffsetMap]:
        return [between]

    scene.plane.parts.maps.read = maps
    scene.reads("gap", 25)
    scene.reads("ahead", 47)

    await scene.round()

    assert scene.both.target_holds == {"gap": {KEY: (10, "")}, "ahead": {KEY: (20, "")}}
    assert (scene.status("gap").behind, scene.status("ahead").behind) == (0, 7)


async def test_after_a_failover_nothing_beyond_its_end_is_committed(make: Make) -> None:
    scene = await make()
    mirror = scene.plane.store.mirrors["l", "orders"]
    await scene.plane.store.put(
        changed(mirror, state=MirrorState.STOPPED, stopped_at=(90, 90, 90), not_mirrored=(5, 0, 0))
    )
    scene.reads("g", 95)

    await scene.round()

    assert scene.both.target_holds["g"] == {KEY: (90, "")}
    assert scene.status().behind == 5


async def test_a_round_is_begun_when_its_interval_is_over(make: Make) -> None:
    scene = await make(**{"consumer.offset.sync.ms": "2000"})
    scene.reads("g", 40)
    rounds: list[float] = []
    over = asyncio.Event()

    async def noted(link: LinkRecord) -> None:
        rounds.append(scene.now)
        over.set()

    scene.sync.sync_link = noted
    for expected in ([1000.0], [1000.0], [1000.0, 1002.0]):
        over.clear()
        await scene.sync.run_due()
        if expected[-1] == scene.now:
            await over.wait()
        assert rounds == expected
        scene.now += 1.0


@pytest.mark.parametrize("groups", [["g"], ["a-slow-one", "g"]], ids=["while it is asked about", "before"])
async def test_a_group_that_is_promoted_while_groups_are_looked_for_stays_so(make: Make, groups: list[str]) -> None:
    """Its gate would close for good, and its next promote carry the source's old offsets."""
    scene = await make()
    for group in groups:
        scene.reads(group)
    promoted = GroupRecord(link="l", group="g", state=GroupState.PROMOTED)

    async def meanwhile() -> None:
        if ("l", "g") not in scene.plane.store.groups:
            await scene.plane.store.put(promoted)

    scene.plane.source.before["describe_group"] = meanwhile
    await scene.round()

    assert scene.plane.store.groups["l", "g"] == promoted
    assert scene.plane.gates.status("g") is GateStatus.OPEN
    assert "g" not in scene.both.target_holds


async def test_a_group_that_had_nothing_to_do_with_any_mirror_is_found_when_its_topic_is_mirrored(make: Make) -> None:
    scene = await make()
    scene.plane.source.offsets["g"] = {("payments", 0): Committed(70, -1, "")}
    scene.plane.source.groups["g"] = GroupView(group="g", state="Empty", type="classic", protocol_type="consumer")
    scene.plane.gates.let_in("let-in", as_of=scene.plane.store.applied)
    scene.reads("let-in")
    await scene.round()
    assert scene.plane.store.groups == {}

    await scene.plane.with_mirror("payments")
    await scene.round()  # at once: not only when it is asked about anew by time

    assert set(scene.plane.store.groups) == {("l", "g"), ("l", "let-in")}


async def test_a_group_whose_record_is_just_being_written_is_not_written_over(make: Make) -> None:
    scene = await make()
    scene.reads("g")
    promoted = GroupRecord(link="l", group="g", state=GroupState.PROMOTED)
    with scene.plane.log.held():
        other = asyncio.create_task(scene.plane.store.put(promoted))
        round_ = asyncio.create_task(scene.round())
        await wait_until_async(lambda: writes_under_way() == 2, 5.0, what="both writes")
    await asyncio.gather(other, round_)

    assert scene.plane.store.groups["l", "g"] == promoted


def writes_under_way() -> int:
    return sum(task.get_name() == "state-write" for task in asyncio.all_tasks())
