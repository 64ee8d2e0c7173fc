"""The runner of group promote: when it begins, what it carries, and what undoes it."""

from __future__ import annotations

import asyncio

import pytest

from gateway.control.errors import Conflict
from gateway.control.store import StoreError, StoreUncertain
from gateway.domain.records import CarriedOffset, GroupRecord, GroupState
from tests.support.control_plane import Plane
from tests.support.group_scene import KEY, GroupScene, gated_group
from tests.support.waiting import wait_until_async


@pytest.fixture
async def scene(plane: Plane) -> GroupScene:
    return await gated_group(plane)


async def test_promote_carries_the_offsets_and_opens(scene: GroupScene) -> None:
    record = await scene.promoter.promote("l", "g")
    assert record.state is GroupState.PROMOTED
    assert record.offsets == (CarriedOffset("orders", 0, 40, 40, "m"),)
    assert scene.offsets.target_holds == {KEY: (40, "m")}
    assert scene.open


async def test_by_itself_after_the_quiet_period(scene: GroupScene) -> None:
    scene.wait_at_the_gate()
    states = []
    for _ in range(13):
        await scene.attempts(1)
        states.append(scene.record.state)
    assert states == [GroupState.ACTIVE] * 10 + [GroupState.PROMOTED] * 3
    assert scene.open


async def test_by_itself_only_when_somebody_waits(scene: GroupScene) -> None:
    await scene.attempts(30)
    assert scene.record.state is GroupState.ACTIVE
    assert "no member waits" in scene.promoter.waits_for("l", "g")


async def test_what_was_seen_long_ago_is_no_quiet_period(scene: GroupScene) -> None:
    scene.wait_at_the_gate()
    await scene.attempts(1)
    scene.later(3600)
    await scene.attempts(1)
    assert scene.record.state is GroupState.ACTIVE


async def test_a_promoted_group_is_never_written_again(scene: GroupScene) -> None:
    await scene.promoted()
    scene.offsets.source_holds = {KEY: (1, "")}
    with pytest.raises(Conflict, match="promoted already"):
        await scene.promoter.promote("l", "g", force=True)
    await scene.attempts(3)
    assert scene.offsets.commits == 1


async def test_members_on_the_source_refuse(scene: GroupScene) -> None:
    scene.offsets.members = 2
    with pytest.raises(Conflict, match=r"still has 2 member\(s\) on the source"):
        await scene.promoter.promote("l", "g")
    assert scene.record.state is GroupState.ACTIVE
    assert not scene.open


async def test_force_promotes_beside_members(scene: GroupScene) -> None:
    scene.offsets.members = 2
    async with asyncio.timeout(5):
        record = await scene.promoter.promote("l", "g", force=True)
    assert record.state is GroupState.PROMOTED


async def test_a_member_that_comes_back_undoes_it(scene: GroupScene) -> None:
    def come_back() -> None:
        scene.later(0.1)
        if scene.offsets.commits:
            scene.offsets.members = 1

    scene.offsets.on_ask = come_back
    with pytest.raises(Conflict, match="still has 1 member"):
        await scene.promoter.promote("l", "g")
    assert scene.record.state is GroupState.ACTIVE
    assert not scene.open


async def test_an_offset_committed_meanwhile_is_carried(scene: GroupScene) -> None:
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


async def test_a_consumer_that_is_no_member_is_seen_by_its_commits(scene: GroupScene) -> None:
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


async def test_a_commit_before_the_last_member_left_is_a_member_s(scene: GroupScene) -> None:
    scene.wait_at_the_gate()
    await scene.attempts(1)
    scene.offsets.members, scene.offsets.source_holds[KEY] = 1, (60, "")
    await scene.attempts(1)
    scene.offsets.members = 0
    await scene.attempts(20)
    assert scene.record.state is GroupState.PROMOTED  # after the quiet period, and no later
    assert scene.now < 1000 + 15


async def test_static_members_are_named(scene: GroupScene) -> None:
    scene.wait_at_the_gate()
    scene.offsets.members, scene.offsets.instance_id = 1, "pod-0"
    await scene.attempts(1)
    assert "static members (pod-0) stay until their session times out" in scene.promoter.waits_for("l", "g")


async def test_waits_for_the_mirror(scene: GroupScene) -> None:
    scene.offsets.source_holds = {KEY: (150, "")}
    run = asyncio.create_task(scene.promoter.promote("l", "g"))
    await wait_until_async(lambda: "has come to 100" in scene.promoter.waits_for("l", "g"), 5, what="the reason")
    assert not scene.offsets.commits
    scene.plane.progress.advance("orders", 0, 150)
    assert (await run).state is GroupState.PROMOTED


async def test_a_mirror_that_never_comes_there_ends_the_patience(scene: GroupScene) -> None:
    scene.offsets.source_holds = {KEY: (150, "")}
    scene.offsets.on_ask = lambda: scene.later(20)
    with pytest.raises(Conflict, match="the mirror of orders-0 has come to 100, the group is at 150"):
        await scene.promoter.promote("l", "g")
    assert scene.record.state is GroupState.ACTIVE
    assert "has come to 100" in scene.record.error_message


async def test_odd_offsets_are_carried_and_noted(scene: GroupScene) -> None:
    scene.offsets.source_holds = {KEY: (150, ""), ("orders", 1): (5, "")}
    scene.offsets.ranges = {KEY: (0, 100), ("orders", 1): (10, 100)}
    scene.offsets.left = ["other"]
    record = await scene.promoter.promote("l", "g")
    assert scene.offsets.target_holds == {KEY: (150, ""), ("orders", 1): (5, "")}
    assert "orders-0: offset 150 is beyond the log end 100" in record.note
    assert "orders-1: offset 5 is below the log start 10" in record.note
    assert "offsets of other were left on the source" in record.note


async def test_a_source_that_is_lost_meanwhile_ends_the_patience(scene: GroupScene) -> None:
    def lose() -> None:
        scene.later(20)
        scene.offsets.down = scene.record.state is GroupState.PENDING_PROMOTED

    scene.offsets.on_ask = lose
    async with asyncio.timeout(10):
        with pytest.raises(Conflict, match="connection refused"):
            await scene.promoter.promote("l", "g")
    assert scene.record.state is GroupState.ACTIVE


async def test_a_target_group_with_members_is_named(scene: GroupScene) -> None:
    scene.offsets.refuse, scene.offsets.members_on_target = True, "rogue (10.0.0.9)"
    with pytest.raises(Conflict, match=r"error 25; members on the target: rogue \(10\.0\.0\.9\)"):
        await scene.promoter.promote("l", "g")
    assert scene.record.state is GroupState.ACTIVE


async def test_an_interrupted_promote_goes_on(scene: GroupScene) -> None:
    await scene.plane.store.put(GroupRecord(link="l", group="g", state=GroupState.PENDING_PROMOTED))
    await scene.attempts(1)
    assert scene.record.state is GroupState.PROMOTED
    assert scene.open


async def test_a_lost_commit_of_the_state_keeps_the_gate_closed_until_known(scene: GroupScene) -> None:
    commit = scene.plane.log.commit

    def lose(changes: object) -> int:
        if '"state":"PROMOTED"' in str(changes):
            scene.plane.log.failures = [StoreUncertain("no answer")]
        return commit(changes)  # type: ignore[arg-type]

    scene.plane.log.commit = lose  # type: ignore[method-assign]
    with pytest.raises(StoreError):
        await scene.promoter.promote("l", "g")
    before = scene.open
    await scene.attempts(1)
    assert (before, scene.open, scene.offsets.commits) == (False, True, 1)


async def test_commits_on_the_source_after_the_promote_are_counted(scene: GroupScene) -> None:
    scene.offsets.source_holds = {KEY: (40, ""), ("orders", 1): (7, "")}
    record = await scene.promoter.promote("l", "g")
    assert await scene.promoter.late_commits(record) == 0
    scene.offsets.source_holds[KEY] = (41, "")
    assert await scene.promoter.late_commits(record) == 1
