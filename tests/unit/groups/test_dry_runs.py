"""What a promote or a demote of a group would meet: told by its own rules, and nothing is touched."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.operations.partners import GroupPlan
from gateway.state.records import CarriedOffset, GroupState, MirrorDirection, MirrorState
from tests.support.control.control_plane import Plane
from tests.support.control.group_scene import KEY, GroupScene, gated_group
from tests.support.control.mirror_records import changed


@pytest.fixture
async def scene(plane: Plane) -> GroupScene:
    return await gated_group(plane)


async def asked(scene: GroupScene, verb: str, *, force: bool = False) -> GroupPlan:
    """The plan; neither the record, nor an offset, nor the gate, nor what is known of the group is other afterwards."""
    offsets, promoter = scene.offsets, scene.promoter

    def all_of_it() -> object:
        known = {key: replace(value, lock=value.lock) for key, value in promoter._progress.items()}
        held = dict(offsets.source_holds), dict(offsets.target_holds), offsets.commits
        return scene.record, dict(scene.plane.store.mirrors), held, scene.open, known

    before = all_of_it()
    plan = promoter.promote_plan("l", "g", force=force) if verb == "promote" else promoter.demote_plan("l", "g")
    found = await plan
    assert all_of_it() == before
    return found


async def test_nothing_is_in_the_way_of_a_promote(scene: GroupScene) -> None:
    scene.offsets.left = ["other"]
    plan = await asked(scene, "promote")
    assert (plan.blocker, plan.waits_for) == ("", "")
    assert plan.offsets == (CarriedOffset("orders", 0, 40, 40, "m"),)
    assert "offsets of other were left on the source" in plan.note
    await scene.promoted()
    assert scene.record.offsets == plan.offsets


async def test_members_on_the_source_block_a_promote_unless_it_is_forced(scene: GroupScene) -> None:
    scene.offsets.members = 2
    assert "2 member(s) on the source" in (await asked(scene, "promote")).blocker
    assert (await asked(scene, "promote", force=True)).blocker == ""


async def test_members_on_the_target_block_it(scene: GroupScene) -> None:
    scene.offsets.members_on_target = "passer-by (10.0.0.9)"
    assert "passer-by (10.0.0.9)" in (await asked(scene, "promote")).blocker


async def test_a_source_that_does_not_answer_blocks_it(scene: GroupScene) -> None:
    scene.offsets.down = True
    assert "the source does not answer: connection refused" in (await asked(scene, "promote")).blocker


async def test_a_promoted_group_is_promoted_already(scene: GroupScene) -> None:
    await scene.promoted()
    assert (await asked(scene, "promote")).blocker == "group 'g' is promoted already"


async def test_a_mirror_that_is_behind_is_told_and_not_waited_for(scene: GroupScene) -> None:
    scene.offsets.source_holds = {KEY: (140, "")}
    plan = await asked(scene, "promote")
    assert plan.waits_for == "the mirror of orders-0 has come to 100, the group is at 140"
    assert (plan.blocker, plan.offsets) == ("", ())


async def test_somebody_who_commits_without_a_member_is_told(scene: GroupScene) -> None:
    await scene.attempts(1)
    scene.later(2)
    scene.offsets.source_holds = {KEY: (50, "")}
    await scene.attempts(1)
    assert "without a member" in (await asked(scene, "promote")).waits_for


async def test_nothing_is_in_the_way_of_a_demote(scene: GroupScene) -> None:
    await scene.promoted()
    scene.offsets.target_holds = {KEY: (77, "later")}
    plan = await asked(scene, "demote")
    assert (plan.blocker, plan.waits_for) == ("", "")
    assert plan.offsets == [CarriedOffset("orders", 0, 77, 77, "later")]
    await scene.promoter.demote("l", "g")
    assert scene.offsets.source_holds == {KEY: (77, "later")}


async def test_what_blocks_a_demote(scene: GroupScene) -> None:
    assert (await asked(scene, "demote")).blocker == "group 'g' is ACTIVE, not PROMOTED"
    await scene.promoted()
    scene.offsets.members_on_target = "app (10.0.0.1)"
    assert "members on the target: stop them first" in (await asked(scene, "demote")).blocker
    scene.offsets.members_on_target, scene.offsets.members = "", 1
    assert "members on the source: stop them first" in (await asked(scene, "demote")).blocker
    scene.offsets.members = 0
    scene.offsets.target_holds = {}
    assert "the target holds no offset for orders-0" in (await asked(scene, "demote")).blocker


async def test_a_mirror_back_that_is_behind_is_told_and_not_waited_for(scene: GroupScene) -> None:
    await scene.promoted()
    mirror = scene.plane.store.mirrors["l", "orders"]
    back = changed(mirror, direction=MirrorDirection.REVERSE, stopped_at=(100,) * 3, stopped_copy_at=(100,) * 3)
    await scene.plane.by_hand(replace(back, state=MirrorState.ACTIVE))
    scene.offsets.target_holds = {KEY: (140, "")}
    plan = await asked(scene, "demote")
    assert plan.blocker == ""
    assert "the mirror back of orders-0 has come to 100, the group is at 140" in plan.waits_for
    stopped = changed(mirror, state=MirrorState.STOPPED, stopped_at=(100,) * 3, stopped_copy_at=(100,) * 3)
    await scene.plane.by_hand(stopped)
    assert "mirror it back first" in (await asked(scene, "demote")).blocker
    assert scene.record.state is GroupState.PROMOTED


async def test_a_group_that_became_a_share_group_is_asked_as_one(scene: GroupScene) -> None:
    scene.offsets.type = "share"
    assert (await asked(scene, "promote")).offsets == (CarriedOffset("orders", 0, 40, 40, "m"),)
    scene.offsets.type_on_target = "classic"
    assert "a share group on the source and a consumer group on the target" in (await asked(scene, "promote")).blocker
