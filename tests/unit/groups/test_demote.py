"""The failback of a group: what it needs, what it carries, and what leaves it promoted."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

import pytest

from gateway.errors import Conflict
from gateway.groups import demote as demote_group
from gateway.groups.rules.demote import DemoteLimits
from gateway.state.records import CarriedOffset, GroupKind, GroupState, MirrorDirection, MirrorState, SourceOffset
from gateway.state.store import StoreError, StoreUncertain
from tests.support.control.control_plane import Plane
from tests.support.control.group_scene import KEY, GroupScene, gated_group
from tests.support.control.mirror_records import changed
from tests.support.waiting import wait_until_async


@pytest.fixture
async def scene(plane: Plane) -> GroupScene:
    return await gated_group(plane)


async def test_demote_is_exact_in_the_other_direction(scene: GroupScene) -> None:
    await scene.promoted()
    scene.offsets.target_holds = {KEY: (77, "later")}
    record = await scene.promoter.demote("l", "g")
    assert record.state is GroupState.ACTIVE
    assert scene.offsets.source_holds == {KEY: (77, "later")}
    assert not scene.open
    again = await scene.promoter.promote("l", "g")
    assert again.offsets == (CarriedOffset("orders", 0, 77, 77, "later"),)


@pytest.mark.parametrize("on_source", ["", "share", "classic"])
async def test_a_group_that_became_a_share_group_on_the_target_goes_back_as_one(
    scene: GroupScene, on_source: str
) -> None:
    """Deleted there and begun anew: asked by the old kind it has no offset, and the source would keep its old ones."""
    await scene.promoted()
    await scene.plane.by_hand(replace(scene.record, offsets=()))
    scene.offsets.type_on_target, scene.offsets.type = "share", on_source
    scene.offsets.target_holds = {KEY: (77, "")}
    scene.offsets.kinds_written.clear()
    if on_source == "classic":
        with pytest.raises(Conflict, match="'g' is a share group on the target and a consumer group on the source"):
            await scene.promoter.demote("l", "g")
        assert (scene.record.state, scene.open, scene.offsets.kinds_written) == (GroupState.PROMOTED, True, [])
        return
    record = await scene.promoter.demote("l", "g")
    assert (record.state, record.kind) == (GroupState.ACTIVE, GroupKind.SHARE)
    assert scene.offsets.kinds_written == [GroupKind.SHARE]
    assert scene.offsets.source_holds[KEY] == (77, "")


async def test_a_demoted_group_is_not_promoted_by_itself_before_it_was_on_the_source(scene: GroupScene) -> None:
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


async def test_a_demoted_group_that_commits_on_the_source_without_a_member_is_back_there(scene: GroupScene) -> None:
    await scene.promoted()
    await scene.promoter.demote("l", "g")
    await scene.attempts(3)
    scene.later(2)
    scene.offsets.source_holds[KEY] = (90, "")
    await scene.attempts(1)
    assert not scene.record.demoted


async def test_a_new_leader_sees_that_a_demoted_group_has_read_on_the_source(scene: GroupScene) -> None:
    """Its members have come, committed and left while nobody led."""
    await scene.promoted()
    await scene.promoter.demote("l", "g")
    await scene.attempts(3)
    scene.promoter = scene.leader()
    scene.offsets.source_holds[KEY] = (90, "")
    scene.wait_at_the_gate()
    await scene.attempts(30)
    assert (scene.record.state, scene.record.demoted, scene.record.sent_back) == (GroupState.PROMOTED, False, ())
    assert scene.offsets.target_holds[KEY] == (90, "")


@pytest.mark.parametrize("expired", [False, True])
async def test_nobody_has_come_to_a_demoted_group_as_long_as_nobody_commits(scene: GroupScene, expired: bool) -> None:
    """Whoever leads: offsets that the source has forgotten meanwhile are nobody's commits."""
    await scene.promoted()
    await scene.promoter.demote("l", "g")
    assert scene.record.sent_back == (SourceOffset("orders", 0, *scene.offsets.source_holds[KEY]),)
    scene.promoter = scene.leader()
    if expired:
        del scene.offsets.source_holds[KEY]
    scene.wait_at_the_gate()
    await scene.attempts(30)
    assert scene.record.demoted


async def test_a_member_that_was_seen_is_not_forgotten_when_that_could_not_be_stored(scene: GroupScene) -> None:
    await scene.promoted()
    await scene.promoter.demote("l", "g")
    scene.offsets.members = 1
    scene.plane.log.failures = [StoreError("not enough replicas")]
    with pytest.raises(StoreError):
        await scene.attempts(1)
    scene.offsets.members = 0
    await scene.attempts(1)
    assert not scene.record.demoted


async def test_a_demoted_group_is_promoted_by_hand(scene: GroupScene) -> None:
    await scene.promoted()
    await scene.promoter.demote("l", "g")
    await scene.promoted()
    assert not scene.record.demoted


async def test_demote_waits_for_commits_that_passed_the_gate(scene: GroupScene) -> None:
    await scene.promoted()
    scene.plane.gates.commit_begins("g")
    run = asyncio.create_task(scene.promoter.demote("l", "g"))
    await wait_until_async(lambda: not scene.open, 5, what="the gate to be closed")
    scene.offsets.target_holds = {KEY: (99, "last")}  # what was under way arrives
    scene.plane.gates.commit_ends("g")
    await run
    assert scene.offsets.source_holds == {KEY: (99, "last")}


async def test_demote_leaves_offsets_of_other_topics(scene: GroupScene) -> None:
    await scene.promoted()
    scene.offsets.target_holds[("other", 0)] = (5, "")
    await scene.promoter.demote("l", "g")
    assert ("other", 0) not in scene.offsets.source_holds


async def test_demote_names_members_on_the_target(scene: GroupScene) -> None:
    await scene.promoted()
    scene.offsets.members_on_target = "c1 (10.0.0.1), c2 (10.0.0.2)"
    with pytest.raises(Conflict, match=r"members on the target: stop them first: c1 \(10\.0\.0\.1\), c2"):
        await scene.promoter.demote("l", "g")
    assert scene.open


async def test_demote_needs_an_empty_group_on_the_source(scene: GroupScene) -> None:
    await scene.promoted()
    scene.offsets.members = 1
    with pytest.raises(Conflict, match="members on the source"):
        await scene.promoter.demote("l", "g")
    assert scene.record.state is GroupState.PROMOTED
    assert scene.open


async def test_demote_that_the_source_refuses_changes_nothing(scene: GroupScene) -> None:
    await scene.promoted()
    scene.offsets.refuse = True
    with pytest.raises(Conflict, match="refuses"):
        await scene.promoter.demote("l", "g")
    assert scene.record.state is GroupState.PROMOTED
    assert scene.open


async def test_no_failback_after_the_topic_was_promoted(scene: GroupScene) -> None:
    await scene.promoted()
    mirror = scene.plane.store.mirrors["l", "orders"]
    await scene.plane.by_hand(replace(mirror, state=MirrorState.STOPPED))
    with pytest.raises(Conflict, match="does not have what was written to orders since it was promoted"):
        await scene.promoter.demote("l", "g")
    assert scene.open


async def test_the_failback_of_a_topic_that_is_mirrored_back(scene: GroupScene) -> None:
    """Written on the target since its promote; the source follows, so the group may go back once it has followed."""
    await scene.promoted()
    mirror = scene.plane.store.mirrors["l", "orders"]
    reverse = changed(mirror, direction=MirrorDirection.REVERSE, handed_over_at=(100, 100, 100))
    await scene.plane.by_hand(reverse)
    scene.offsets.target_holds = {KEY: (130, "m")}
    scene.plane.progress.advance("orders", 0, 120)
    run = asyncio.create_task(scene.promoter.demote("l", "g"))
    await wait_until_async(lambda: not scene.open, 5, what="the gate to be closed")
    scene.plane.progress.advance("orders", 0, 130)
    assert (await run).state is GroupState.ACTIVE
    assert scene.offsets.source_holds == {KEY: (130, "m")}
    again = await scene.promoter.promote("l", "g")  # the target is the origin: nothing to wait for
    assert again.offsets == (CarriedOffset("orders", 0, 130, 130, "m"),)


async def test_a_mirror_back_that_does_not_come_refuses_the_demote(scene: GroupScene) -> None:
    await scene.promoted()
    mirror = scene.plane.store.mirrors["l", "orders"]
    await scene.plane.by_hand(changed(mirror, direction=MirrorDirection.REVERSE, state=MirrorState.PAUSED))
    scene.offsets.target_holds = {KEY: (130, "m")}
    behind = "the mirror back of orders-0 has come to 100, the group is at 130 (PAUSED)"
    run = asyncio.create_task(scene.promoter.demote("l", "g"))
    await wait_until_async(lambda: behind in scene.promoter.waits_for("l", "g"), 5, what="the mirror to be waited for")
    scene.later(31)
    with pytest.raises(Conflict, match=re.escape(behind)):
        await run
    assert scene.open


async def test_demote_whose_commit_is_lost_goes_on_until_known(scene: GroupScene) -> None:
    await scene.promoted()
    scene.plane.log.failures = [StoreUncertain("no answer")]
    record = await scene.promoter.demote("l", "g")
    assert record.state is GroupState.ACTIVE
    assert not scene.open


async def test_demote_that_cannot_be_written_opens_again(scene: GroupScene) -> None:
    await scene.promoted()
    scene.plane.log.failures = [StoreError("target is away")]
    with pytest.raises(StoreError, match="away"):
        await scene.promoter.demote("l", "g")
    assert scene.record.state is GroupState.PROMOTED
    assert scene.open


async def test_demote_of_a_group_that_is_not_promoted(scene: GroupScene) -> None:
    with pytest.raises(Conflict, match="is ACTIVE, not PROMOTED"):
        await scene.promoter.demote("l", "g")


async def test_a_demote_goes_on_when_whoever_asked_for_it_has_gone(scene: GroupScene) -> None:
    await scene.promoted()
    scene.plane.gates.commit_begins("g")
    asked = asyncio.create_task(scene.promoter.demote("l", "g"))
    await wait_until_async(lambda: not scene.open, 5, what="the gate to be closed")
    asked.cancel()
    await asyncio.wait([asked])
    scene.plane.gates.commit_ends("g")
    await wait_until_async(lambda: scene.record.state is GroupState.ACTIVE, 5, what="the demote")
    assert not scene.open


async def test_a_demote_that_is_cut_off_by_the_end_of_the_term_leaves_the_gate_shut(scene: GroupScene) -> None:
    """ACTIVE may be written: nobody knows here before the next leader has told."""
    await scene.promoted()
    with scene.plane.log.held():
        run = asyncio.create_task(scene.promoter.demote("l", "g"))
        await wait_until_async(lambda: "state-write" in names_of_tasks(), 5, what="the record being written")
        await scene.plane.parts.background.close()
        await asyncio.wait([run])
        assert not scene.open
    scene.plane.gates.assigned(9, scene.plane.store.applied, ())  # the next leader's, which read whatever was written
    await wait_until_async(lambda: scene.record.state is GroupState.ACTIVE, 5, what="the record")
    assert not scene.open


async def test_an_offset_that_the_target_has_lost_is_no_offset(scene: GroupScene) -> None:
    """It was carried over at the promote: the source still has the old one, and the group would read again."""
    await scene.promoted()
    scene.offsets.target_holds.clear()
    with pytest.raises(
        Conflict, match=r"the target holds no offset for orders-0, where one was carried over .* Set it"
    ):
        await scene.promoter.demote("l", "g")
    assert scene.record.state is GroupState.PROMOTED
    assert scene.open


async def test_a_mirror_back_that_is_failed_over_meanwhile_refuses_the_demote(scene: GroupScene) -> None:
    await scene.promoted()
    mirror = scene.plane.store.mirrors["l", "orders"]
    await scene.plane.by_hand(changed(mirror, direction=MirrorDirection.REVERSE))
    scene.offsets.target_holds = {KEY: (130, "m")}
    run = asyncio.create_task(scene.promoter.demote("l", "g"))
    await wait_until_async(lambda: "the mirror back of orders-0" in scene.promoter.waits_for("l", "g"), 5)
    await scene.plane.by_hand(replace(mirror, state=MirrorState.STOPPED))
    with pytest.raises(Conflict, match="does not have what was written to orders since it was promoted"):
        await run
    assert scene.open


async def test_a_topic_that_is_being_reversed_is_waited_for(scene: GroupScene) -> None:
    """The mirror back has not begun: a position that is known is one of the mirror period before."""
    await scene.promoted()
    mirror = scene.plane.store.mirrors["l", "orders"]
    pending = changed(mirror, direction=MirrorDirection.REVERSE, state=MirrorState.PENDING_MIRROR)
    await scene.plane.by_hand(pending)
    scene.plane.progress.advance("orders", 0, 500)
    run = asyncio.create_task(scene.promoter.demote("l", "g"))
    await wait_until_async(lambda: "(PENDING_MIRROR)" in scene.promoter.waits_for("l", "g"), 5)
    await scene.plane.by_hand(replace(pending, state=MirrorState.ACTIVE))
    assert (await run).state is GroupState.ACTIVE


async def test_describe_says_what_a_demote_waits_for(scene: GroupScene) -> None:
    await scene.promoted()
    scene.plane.gates.commit_begins("g")
    run = asyncio.create_task(scene.promoter.demote("l", "g"))
    await wait_until_async(
        lambda: scene.promoter.waits_for("l", "g") == "being demoted: the target to answer a commit of the group", 5
    )
    scene.plane.gates.commit_ends("g")
    await run
    assert scene.promoter.waits_for("l", "g") == ""


async def test_a_commit_that_is_not_answered_refuses_the_demote(scene: GroupScene, monkeypatch) -> None:
    monkeypatch.setattr(demote_group, "LIMITS", DemoteLimits(commits_s=0.1))
    await scene.promoted()
    scene.plane.gates.commit_begins("g")
    with pytest.raises(Conflict, match=r"the target has not answered a commit of group 'g' for 0\.1 s"):
        await scene.promoter.demote("l", "g")
    assert scene.open


def names_of_tasks() -> set[str]:
    return {task.get_name() for task in asyncio.all_tasks()}
