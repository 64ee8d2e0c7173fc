"""Topics and groups that change sides as one: one write, or all as before; there and home, and interrupted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from gateway.control_parts import group_tools
from gateway.cutover.write_pause.rules.routing import WritePhase
from gateway.errors import Conflict
from gateway.groups.gate.rules.gates import GateStatus
from gateway.groups.moves import GroupMoves
from gateway.groups.promote import GroupPromotions
from gateway.mirror.offset_map.rules.offset_map import OffsetMap
from gateway.state.records import (
    CarriedOffset,
    GroupKind,
    GroupRecord,
    GroupState,
    MirrorDirection,
    MirrorMode,
    MirrorRecord,
    MirrorState,
    SourceOffset,
)
from gateway.state.store import StoreError, StoreUncertain
from tests.support.control.control_plane import Plane
from tests.support.control.group_scene import FakeOffsets
from tests.support.control.mirror_records import changed
from tests.support.control.topic_scene import TopicScene, mirrored_topic
from tests.support.waiting import wait_until_async

KEY = ("orders", 0)


class SetScene:
    """The topic `orders` and the group `g`, which has read it up to 40 on the source."""

    def __init__(self, topics: TopicScene) -> None:
        self.topics, self.plane = topics, topics.plane
        self.offsets = FakeOffsets(self.plane)
        self.promotions = GroupPromotions(group_tools(self.plane.parts, self.offsets), quiet_s=0.0)
        self.lead()

    def lead(self) -> None:
        """A term begins: nothing is known but the records."""
        tools = group_tools(self.plane.parts, self.offsets)
        self.promotions = GroupPromotions(tools, quiet_s=0.0)
        self.topics.groups = GroupMoves(tools, self.promotions.progress_of)
        self.topics.promoter = self.topics.make()

    @property
    def group(self) -> GroupRecord:
        return self.plane.store.groups["l", "g"]

    def state(self) -> GroupState:
        """Asked anew each time."""
        return self.group.state

    async def promote(self) -> None:
        await self.topics.promote(groups=["g"])

    def assert_back(self) -> None:
        """Both on the source, and nobody holds the group."""
        self.topics.assert_back()
        assert self.group.state is GroupState.ACTIVE
        assert not self.promotions.progress_of("l", "g").lock.locked()


@pytest.fixture
async def scene(plane: Plane) -> SetScene:
    made = SetScene(await mirrored_topic(plane))
    plane.gates.enabled = True
    await plane.store.put(GroupRecord(link="l", group="g"))
    return made


async def test_both_change_sides_by_one_write(scene: SetScene) -> None:
    seen: list[tuple[MirrorState, GroupState]] = []
    scene.plane.store.subscribe(lambda: seen.append((scene.topics.record.state, scene.group.state)))
    await scene.promote()
    assert (scene.topics.record.state, scene.group.state) == (MirrorState.STOPPED, GroupState.PROMOTED)
    assert scene.group.offsets == (CarriedOffset(*KEY, 40, 40, "m"),)
    assert scene.offsets.target_holds == {KEY: (40, "m")}
    assert (MirrorState.STOPPED, GroupState.ACTIVE) not in seen
    assert (MirrorState.PENDING_STOPPED, GroupState.PROMOTED) not in seen
    assert scene.plane.gates.status("g") is GateStatus.OPEN
    assert not scene.promotions.progress_of("l", "g").lock.locked()


async def test_a_group_of_the_set_is_no_reason_to_refuse(scene: SetScene) -> None:
    await scene.promote()  # without `force`, although it has offsets on the source


async def test_nobody_is_refused_who_still_moves_and_nothing_is_paused_meanwhile(scene: SetScene) -> None:
    scene.offsets.members = 1
    run = asyncio.create_task(scene.promote())
    waiting = lambda: "1 member" in scene.topics.promoter.waiting_for("l", "orders")  # noqa: E731
    await wait_until_async(waiting, 5, what="members to be waited for")
    assert scene.topics.record.cutover.promoted_with == ("orders", "group/g")
    assert scene.plane.routing.current.topics["orders"].phase is WritePhase.FORWARD
    await scene.promotions.attempt("l", "g")
    assert scene.state() is GroupState.ACTIVE
    assert scene.promotions.waits_for("l", "g").startswith("changes sides with mirror topic 'orders'")
    with pytest.raises(Conflict, match="changes sides with mirror topic 'orders'"):
        await scene.promotions.promote("l", "g", force=True)
    scene.offsets.members = 0
    await run
    assert scene.state() is GroupState.PROMOTED


async def test_a_promote_by_itself_that_had_begun_is_taken_back(scene: SetScene) -> None:
    pending = changed(
        scene.topics.record, state=MirrorState.PENDING_STOPPED, pause_epoch=3, promoted_with=("orders", "group/g")
    )
    await scene.plane.store.put(pending, replace(scene.group, state=GroupState.PENDING_PROMOTED))
    await scene.promotions.attempt("l", "g")
    assert scene.state() is GroupState.ACTIVE


@pytest.mark.parametrize("when", ["read", "commit", "check"])
async def test_a_member_that_comes_under_the_pause_ends_it(
    scene: SetScene, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = {"read": "on_source", "commit": "commit_on_target", "check": "on_target"}[when]
    call = getattr(scene.offsets, name)

    async def comes(*args: object) -> object:
        if scene.topics.forwarder.paused:
            scene.offsets.members = 1
        return await call(*args)

    monkeypatch.setattr(scene.offsets, name, comes)
    with pytest.raises(Conflict, match=r"members on the source under the write pause: old \(10.0.0.1\)"):
        await scene.promote()
    scene.assert_back()


async def test_a_commit_beside_the_gateways_is_read_again(scene: SetScene, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = scene.offsets.commit_on_target

    async def late(*args: object) -> None:
        await commit(*args)  # type: ignore[arg-type]
        if scene.offsets.commits == 1:
            scene.offsets.source_holds[KEY] = (55, "late")

    monkeypatch.setattr(scene.offsets, "commit_on_target", late)
    await scene.promote()
    assert scene.offsets.target_holds == {KEY: (55, "late")}
    assert scene.group.offsets == (CarriedOffset(*KEY, 55, 55, "late"),)


async def test_a_target_that_refuses_is_asked_again_and_then_all_goes_back(scene: SetScene) -> None:
    scene.offsets.refuse = True
    with pytest.raises(Conflict, match=r"not done 0.3 s after the write pause: the target cluster refuses"):
        await scene.promote()
    scene.assert_back()


async def test_a_target_that_holds_something_else_ends_it(scene: SetScene, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = scene.offsets.commit_on_target

    async def other(*args: object) -> None:
        await commit(*args)  # type: ignore[arg-type]
        scene.offsets.target_holds[KEY] = (39, "m")

    monkeypatch.setattr(scene.offsets, "commit_on_target", other)
    with pytest.raises(Conflict, match="the target holds 39 with metadata 'm' for orders-0, committed was 40"):
        await scene.promote()
    scene.assert_back()


async def test_an_older_gateway_ends_it(scene: SetScene) -> None:
    scene.topics.forwarder.older = True
    with pytest.raises(Conflict, match="does not hold group 'g' with orders: it is of an older version"):
        await scene.promote()
    scene.assert_back()


async def test_a_group_that_is_deleted_meanwhile_ends_it(scene: SetScene) -> None:
    scene.offsets.members = 1
    run = asyncio.create_task(scene.promote())
    waiting = lambda: "1 member" in scene.topics.promoter.waiting_for("l", "orders")  # noqa: E731
    await wait_until_async(waiting, 5, what="members to be waited for")
    await scene.plane.store.delete(scene.group)
    with pytest.raises(Conflict, match="has no mirror group 'g'"):
        await run
    scene.topics.assert_back()


async def test_a_record_that_was_changed_at_the_last_moment_is_looked_at_again(scene: SetScene) -> None:
    commit, meddled = scene.plane.log.commit, list[int]()

    async def meddle(changes: object, still: Callable[[], None]) -> int:
        if "PROMOTED" in str(changes) and not meddled:
            meddled.append(1)
            scene.plane.store.mirrors_grown_at = 10**6  # one topic more, of which it may have offsets
        return await commit(changes, still)  # type: ignore[arg-type]

    scene.plane.log.commit = meddle  # type: ignore[method-assign]
    await scene.promote()
    assert meddled
    assert scene.state() is GroupState.PROMOTED
    assert scene.offsets.commits == 2


@pytest.mark.parametrize("failure", [StoreUncertain("no answer"), StoreError("not enough replicas")])
async def test_a_write_that_fails_at_first_moves_both_or_none(scene: SetScene, failure: StoreError) -> None:
    commit, failed = scene.plane.log.commit, list[int]()

    async def lose(changes: object, still: Callable[[], None]) -> int:
        if "PROMOTED" in str(changes) and not failed:
            failed.append(1)
            scene.plane.log.failures.append(failure)
        return await commit(changes, still)  # type: ignore[arg-type]

    scene.plane.log.commit = lose  # type: ignore[method-assign]
    await scene.promote()
    assert failed
    assert (scene.topics.record.state, scene.group.state) == (MirrorState.STOPPED, GroupState.PROMOTED)


async def test_the_next_leader_goes_on_with_both(scene: SetScene) -> None:
    """Killed behind the commit on the target: nothing of it counts."""
    scene.offsets.target_holds[KEY] = (38, "old")
    pending = changed(
        scene.topics.record, state=MirrorState.PENDING_STOPPED, pause_epoch=3, promoted_with=("orders", "group/g")
    )
    await scene.plane.store.put(pending)
    scene.lead()
    scene.topics.promoter.resume()
    await wait_until_async(lambda: scene.topics.record.state is MirrorState.STOPPED, 5, what="STOPPED")
    assert scene.state() is GroupState.PROMOTED
    assert scene.offsets.target_holds == {KEY: (40, "m")}


async def test_what_was_killed_behind_the_cutover_is_whole(scene: SetScene) -> None:
    await scene.promote()
    scene.lead()
    scene.topics.promoter.resume()
    assert (scene.topics.record.state, scene.group.state) == (MirrorState.STOPPED, GroupState.PROMOTED)


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (GroupState.PROMOTED, "group 'g' is promoted already; leave it out, or demote it first"),
        (None, "link 'l' has no mirror group 'h'; declare it first: lockgate group create h --link l"),
    ],
)
async def test_what_is_refused_before_anything_is_begun(scene: SetScene, state: GroupState | None, reason: str) -> None:
    if state is not None:
        await scene.plane.store.put(replace(scene.group, state=state))
    with pytest.raises(Conflict, match=reason):
        await scene.topics.promote(groups=["g" if state is not None else "h"])
    assert scene.topics.record.state is MirrorState.ACTIVE
    assert not scene.topics.forwarder.paused


async def test_a_group_that_reads_another_mirrored_topic_is_refused(scene: SetScene) -> None:
    await scene.topics.mirror("bills")
    scene.offsets.source_holds[("bills", 0)] = (3, "")
    with pytest.raises(Conflict, match="reads mirror topic 'bills' too, which is not promoted and not among these"):
        await scene.promote()
    scene.assert_back()
    await scene.topics.promote("orders", "bills", groups=["g"])
    assert scene.state() is GroupState.PROMOTED
    assert {offset.topic for offset in scene.group.offsets} == {"orders", "bills"}


async def test_groups_and_force_do_not_go_together(scene: SetScene) -> None:
    with pytest.raises(Conflict, match="groups do not change sides with topics by force"):
        await scene.topics.promote(groups=["g"], force=True)


# -- home --------------------------------------------------------------------------------------------------------


async def home(scene: SetScene) -> None:
    """`orders` is mirrored back, and `g` has read it up to 70 on the target."""
    await scene.topics.turned_round(readable=True)
    carried = (CarriedOffset(*KEY, 40, 40, "m"),)
    await scene.plane.store.put(replace(scene.group, state=GroupState.PROMOTED, offsets=carried))
    scene.topics.target_ends.ends["orders"] = [100, 100, 100]
    scene.topics.mirrored("orders", 100)
    scene.offsets.target_holds = {KEY: (70, "n")}


async def test_home_is_the_same(scene: SetScene) -> None:
    await home(scene)
    await scene.promote()
    assert scene.topics.record.failback.direction is MirrorDirection.FORWARD
    assert scene.state() is GroupState.ACTIVE
    assert scene.group.demoted
    assert scene.group.sent_back == (SourceOffset(*KEY, 70, "n"),)
    assert scene.offsets.source_holds == {KEY: (70, "n")}
    assert scene.offsets.removed
    assert scene.plane.gates.status("g") is GateStatus.CLOSED


async def test_home_is_given_up_with_the_gate_open_again(scene: SetScene) -> None:
    await home(scene)
    scene.offsets.members_on_target = "beside (10.0.0.9)"
    with pytest.raises(Conflict, match="members on the target that do not use the gateway: beside"):
        await scene.promote()
    assert scene.topics.record.failback.direction is MirrorDirection.REVERSE
    assert scene.topics.record.state is MirrorState.ACTIVE
    assert scene.state() is GroupState.PROMOTED
    assert scene.plane.gates.status("g") is GateStatus.OPEN
    assert not scene.promotions.progress_of("l", "g").lock.locked()


async def test_home_waits_for_commits_that_had_passed_the_gate(scene: SetScene) -> None:
    await home(scene)
    scene.plane.gates.commit_begins("g")
    with pytest.raises(Conflict, match="not done 0.3 s after the write pause"):
        await scene.promote()
    assert scene.state() is GroupState.PROMOTED
    scene.plane.gates.commit_ends("g")
    await scene.promote()
    assert scene.state() is GroupState.ACTIVE


async def test_home_without_an_offset_that_was_carried_over_is_refused(scene: SetScene) -> None:
    await home(scene)
    scene.offsets.target_holds = {}
    with pytest.raises(Conflict, match="the target holds no offset of orders-0 for group 'g' any more"):
        await scene.promote()
    assert scene.state() is GroupState.PROMOTED
    assert scene.offsets.source_holds == {KEY: (40, "m")}


async def is_another(scene: SetScene, *, home: bool, recorded: GroupKind, told: str) -> None:
    """The group was deleted at its origin and begun there anew as the other kind; no record says so yet."""
    if home:
        scene.offsets.type_on_target = told
    else:
        scene.offsets.type = told
    await scene.plane.by_hand(replace(scene.group, kind=recorded, offsets=()))


KINDS = [(GroupKind.CONSUMER, "share", GroupKind.SHARE), (GroupKind.SHARE, "consumer", GroupKind.CONSUMER)]


@pytest.mark.parametrize("way_home", [False, True])
@pytest.mark.parametrize(("recorded", "told", "kind"), KINDS)
async def test_a_group_that_became_another_kind_is_carried_as_what_it_is(
    scene: SetScene, way_home: bool, recorded: GroupKind, told: str, kind: GroupKind
) -> None:
    """Asked by the old kind it has no offset: it would begin by auto.offset.reset on the other side."""
    if way_home:
        await home(scene)
        scene.offsets.type = told  # deleted and made anew there, too
    await is_another(scene, home=way_home, recorded=recorded, told=told)
    await scene.promote()
    assert scene.group.kind is kind
    assert scene.offsets.kinds_written == [kind]
    there, at = (scene.offsets.source_holds, (70, "n")) if way_home else (scene.offsets.target_holds, (40, "m"))
    assert there[KEY] == at


@pytest.mark.parametrize("way_home", [False, True])
async def test_a_group_that_is_of_another_kind_on_the_other_side_is_refused(scene: SetScene, way_home: bool) -> None:
    """Its start offsets would be set as a share group's, whose name no consumer can join by."""
    if way_home:
        await home(scene)
    else:
        scene.offsets.type_on_target = "consumer"
    await is_another(scene, home=way_home, recorded=GroupKind.CONSUMER, told="share")
    before = scene.state()
    where = "target and a consumer group on the source" if way_home else "source and a consumer group on the target"
    with pytest.raises(Conflict, match=f"group 'g' is a share group on the {where}"):
        await scene.promote()
    assert scene.state() is before
    assert scene.offsets.kinds_written == []


@pytest.mark.parametrize("back", [False, True])
async def test_translated_offsets_go_by_maps_that_are_read_up_to_where_the_mirror_stopped(
    scene: SetScene, *, back: bool
) -> None:
    """The group is at the end of the origin's log, behind a transaction's marker: no map in the map's topic tells that.

    As the engine reads them: of a mirror that was stopped, and by the ends of a cutover alone.
    """

    async def maps(record: MirrorRecord) -> list[OffsetMap]:
        if record.state is not MirrorState.STOPPED:
            raise Conflict("the mirror is not running")
        ends = zip(record.cutover.stopped_at, record.cutover.stopped_copy_at, strict=True)
        return [OffsetMap([(50, 10)], end=copy, read_to=origin) for origin, copy in ends]

    if back:
        await home(scene)
        scene.offsets.target_holds = {KEY: (100, "n")}
    else:
        scene.offsets.source_holds = {KEY: (100, "n")}
    await scene.plane.by_hand(changed(scene.topics.record, mode=MirrorMode.TRANSLATE))
    scene.plane.parts.maps.read = maps
    await scene.promote()
    assert scene.state() is (GroupState.ACTIVE if back else GroupState.PROMOTED)
    held = scene.offsets.source_holds if back else scene.offsets.target_holds
    assert held == {KEY: (60, "n")}
