"""What becomes of a group when its topic has failed over, with its source there or away."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gateway.errors import TargetUnreachable
from gateway.mirror.offset_map.rules.offset_map import OffsetMap
from gateway.operations.sources import LinkHealth
from gateway.state.records import (
    CarriedOffset,
    GroupKind,
    GroupState,
    MirrorMode,
    MirrorRecord,
    MirrorState,
    SourceOffset,
)
from tests.support.control.control_plane import Plane
from tests.support.control.group_scene import KEY, GroupScene, gated_group
from tests.support.control.mirror_records import changed


@pytest.fixture
async def scene(plane: Plane) -> GroupScene:
    return await gated_group(plane)


async def fail_over(scene: GroupScene, stopped_at: int) -> None:
    """What a failover of the topic leaves, and then asks of its groups."""
    mirror = scene.plane.store.mirrors["l", "orders"]
    stopped = changed(mirror, state=MirrorState.STOPPED, stopped_at=(stopped_at,) * 3, not_mirrored=(-1,) * 3)
    await scene.plane.store.put(stopped)
    scene.plane.target.existing["orders"].ranges = [(0, stopped_at)] * 3
    await scene.promoter.failovers.failed_over(stopped)


async def test_a_failover_goes_on_from_what_is_known_cut_to_what_is_there(scene: GroupScene) -> None:
    scene.offsets.source_holds = {KEY: (95, "m"), ("orders", 1): (80, "")}
    await scene.attempts(1)
    scene.lose_source()
    scene.later(7)

    await fail_over(scene, 90)

    assert scene.open
    assert scene.offsets.target_holds == {KEY: (90, "m"), ("orders", 1): (80, "")}
    assert [(o.source_offset, o.target_offset) for o in scene.record.offsets] == [(95, 90), (80, 80)]
    assert "offsets as the source had them 7 s before" in scene.record.note
    assert (
        "orders-0: the group was at 95 on the source; cut to 90, where the mirrored records end: 5 record(s)"
        in scene.record.note
    )


async def test_behind_a_demote_what_was_read_before_the_promote_says_nothing(scene: GroupScene) -> None:
    """The group has read on, on the target, and went home with that."""
    scene.offsets.source_holds = {KEY: (40, "")}
    await scene.promoted()
    scene.offsets.target_holds = {KEY: (95, "")}
    await scene.promoter.demote("l", "g")
    assert scene.offsets.source_holds == {KEY: (95, "")}
    scene.offsets.members = 2  # its consumers are started on the source at once
    await scene.attempts(3)
    scene.later(3600)
    scene.lose_source()
    await fail_over(scene, 100)
    assert scene.record.state is GroupState.PROMOTED
    assert scene.offsets.target_holds == {KEY: (95, "")}


async def test_a_failover_of_a_process_that_never_saw_the_source_uses_what_was_synced(scene: GroupScene) -> None:
    scene.lose_source()
    scene.offsets.target_holds = {KEY: (33, "synced")}

    await fail_over(scene, 90)

    assert scene.record.state is GroupState.PROMOTED
    assert scene.offsets.target_holds == {KEY: (33, "synced")}
    assert scene.record.note == "failed over: offsets as offset sync committed them last"


async def test_a_group_of_a_source_that_answers_is_promoted_as_ever_and_cut(scene: GroupScene) -> None:
    """The topic failed over at 90, the source came back: there is nothing more to wait for."""
    scene.offsets.source_holds = {KEY: (95, "")}
    await fail_over(scene, 90)
    assert scene.record.state is GroupState.ACTIVE

    record = await scene.promoter.promote("l", "g")

    assert record.offsets == (CarriedOffset("orders", 0, 95, 90, "", "beyond_end"),)
    assert "offset 95 was not mirrored when the topic failed over; cut to 90" in record.note


async def test_a_source_that_stays_away_after_a_failover_is_given_up(scene: GroupScene) -> None:
    scene.offsets.source_holds = {KEY: (70, "")}
    await fail_over(scene, 90)  # it still answers
    scene.lose_source(silent_s=0)
    scene.offsets.on_ask = lambda: scene.later(4)
    await scene.attempts(3)
    assert not scene.offsets.target_holds
    await scene.attempts(4)
    assert scene.open
    assert scene.offsets.target_holds == {KEY: (70, "")}


async def test_without_a_failover_a_lost_source_promotes_nobody(scene: GroupScene) -> None:
    scene.lose_source()
    scene.offsets.on_ask = lambda: scene.later(20)
    scene.wait_at_the_gate()
    await scene.attempts(5)
    assert scene.record.state is GroupState.ACTIVE


async def test_a_group_of_other_topics_is_not_failed_over(scene: GroupScene) -> None:
    await scene.plane.with_mirror("other")
    scene.offsets.source_holds = {("other", 0): (5, "")}
    await scene.attempts(1)
    scene.lose_source()

    await fail_over(scene, 90)

    assert scene.record.state is GroupState.ACTIVE
    assert not scene.open


async def test_a_group_of_which_nothing_is_known_waits_while_it_may_read_what_only_the_source_has(
    scene: GroupScene,
) -> None:
    """A leader that has never seen the source; one of two topics failed over."""
    other = await scene.plane.with_mirror("other")
    scene.lose_source()
    await fail_over(scene, 90)
    await scene.attempts(1)
    assert scene.record.state is GroupState.ACTIVE
    assert "nothing is known of what the group reads, and 'other' did not" in scene.promoter.waits_for("l", "g")

    cut_over = changed(other, state=MirrorState.STOPPED, stopped_at=(90,) * 3, not_mirrored=(-1,) * 3)
    await scene.plane.store.put(cut_over)
    await scene.promoter.failovers.failed_over(cut_over)

    assert scene.open
    assert scene.record.note == "failed over: no offset of it is known, auto.offset.reset decides"


@pytest.mark.parametrize(
    "health",
    [
        None,
        LinkHealth(True, 0),
        LinkHealth(False, 0, "credentials refused", refused=True, failed=True),
        LinkHealth(False, 0, "connection refused", silent_since=1000.0),
    ],
    ids=["unknown", "answers", "refuses", "since now"],
)
async def test_a_source_that_does_not_tell_of_a_group_is_not_gone(scene: GroupScene, health: LinkHealth | None) -> None:
    """A coordinator that loads, a pending transaction, expired credentials, gateways of a chain: members may live."""
    scene.offsets.source_holds = {KEY: (95, "m")}
    await scene.attempts(1)
    scene.offsets.down = True
    if health is not None:
        scene.plane.parts.health["l"] = health
    await fail_over(scene, 90)
    for _ in range(5):
        await scene.attempts(1)
        assert not scene.open
    assert scene.offsets.target_holds == {}
    assert scene.promoter.waits_for("l", "g").startswith(
        "the source does not answer: connection refused; topics of its link failed over: the group goes on without"
    )


async def test_a_source_that_comes_back_between_the_steps_has_its_groups_again(scene: GroupScene) -> None:
    scene.offsets.source_holds = {KEY: (95, "m")}
    await scene.attempts(1)
    scene.lose_source()
    shipped = scene.offsets.store

    async def back(*args: object, **named: object) -> object:
        scene.plane.parts.health["l"] = LinkHealth(True, 0)
        return await shipped(*args, **named)  # type: ignore[arg-type]

    scene.offsets.store = back  # type: ignore[assignment, method-assign]
    await fail_over(scene, 90)
    assert scene.record.state is GroupState.ACTIVE
    assert "the source answers again" in scene.promoter.waits_for("l", "g")


async def test_what_became_another_kind_before_its_source_goes_is_remembered_as_what_it_is(scene: GroupScene) -> None:
    scene.offsets.type = "share"
    await fail_over(scene, 90)
    scene.lose_source()
    assert scene.record.kind is GroupKind.SHARE
    assert scene.promoter.progress_of("l", "g").known == (SourceOffset("orders", 0, 40, "m"),)


async def test_what_a_group_of_a_source_that_is_about_to_go_had_committed_is_remembered(scene: GroupScene) -> None:
    scene.offsets.source_holds = {KEY: (70, "")}
    scene.offsets.members = 1
    await scene.attempts(1)
    await fail_over(scene, 90)
    assert scene.record.state is GroupState.ACTIVE
    scene.lose_source()
    await scene.attempts(1)
    assert scene.open
    assert scene.offsets.target_holds == {KEY: (70, "")}


async def test_a_group_that_cannot_be_failed_over_says_why(scene: GroupScene) -> None:
    scene.lose_source()
    scene.offsets.refuse = True
    scene.offsets.target_holds = {KEY: (33, "")}
    await fail_over(scene, 90)
    assert "its topics failed over, the group could not" in scene.promoter.waits_for("l", "g")
    assert not scene.open


@pytest.mark.parametrize("mode", MirrorMode)
@pytest.mark.parametrize("target_end", [120, 500])
async def test_what_clients_wrote_since_the_cutover_is_not_skipped(
    scene: GroupScene, mode: MirrorMode, target_end: int
) -> None:
    """A group's turn comes a moment after the cutover, or 15 s: the target's log has grown from where the copy
    ended."""
    scene.offsets.source_holds = {KEY: (95, "m")}
    await scene.attempts(1)
    scene.lose_source()
    maps = [OffsetMap([(0, 0)], end=80, read_to=90) for _ in range(3)]

    async def offset_maps(_: MirrorRecord) -> Sequence[OffsetMap]:
        return maps

    scene.plane.parts.maps.read = offset_maps
    ends = 90 if mode is MirrorMode.PRESERVE else 80
    mirror = changed(
        scene.plane.store.mirrors["l", "orders"],
        state=MirrorState.STOPPED,
        mode=mode,
        stopped_at=(90,) * 3,
        stopped_copy_at=(ends,) * 3,
        not_mirrored=(10,) * 3,
    )
    await scene.plane.store.put(mirror)
    scene.plane.target.existing["orders"].ranges = [(0, target_end)] * 3

    await scene.promoter.failovers.failed_over(mirror)

    assert scene.offsets.target_holds == {KEY: (ends, "m")}
    assert f"cut to {ends}, where the mirrored records end: 5 record(s)" in scene.record.note


async def test_what_was_synced_is_cut_to_where_the_copy_ended_too(scene: GroupScene) -> None:
    scene.lose_source()
    scene.offsets.target_holds = {KEY: (95, "synced")}
    mirror = scene.plane.store.mirrors["l", "orders"]
    stopped = changed(mirror, state=MirrorState.STOPPED, stopped_at=(90,) * 3, not_mirrored=(-1,) * 3)
    await scene.plane.store.put(stopped)
    scene.plane.target.existing["orders"].ranges = [(0, 500)] * 3
    await scene.promoter.failovers.failed_over(stopped)
    assert scene.offsets.target_holds == {KEY: (90, "synced")}


async def test_a_topic_that_fails_over_while_its_log_is_looked_at_is_looked_at_again(scene: GroupScene) -> None:
    """Until then its log on the target is the mirror's alone; from then on clients write there."""
    other = await scene.plane.with_mirror("other")
    scene.offsets.source_holds = {KEY: (80, ""), ("other", 0): (95, "")}
    await scene.attempts(1)
    scene.lose_source()

    async def fails_over() -> None:
        scene.plane.target.before.clear()
        cut_over = changed(other, state=MirrorState.STOPPED, stopped_at=(90,) * 3, not_mirrored=(10,) * 3)
        await scene.plane.store.put(cut_over)
        scene.plane.target.existing["other"].ranges = [(0, 500)] * 3

    scene.plane.target.before["log_ranges"] = fails_over
    await fail_over(scene, 90)
    assert not scene.open
    await scene.promoter.failovers.attempt("l", "g")

    assert scene.offsets.target_holds[("other", 0)] == (90, "")


async def test_a_record_that_does_not_say_where_the_copy_ended_fails_nothing_over(scene: GroupScene) -> None:
    scene.offsets.source_holds = {KEY: (95, "")}
    await scene.attempts(1)
    scene.lose_source()
    mirror = scene.plane.store.mirrors["l", "orders"]
    stopped = changed(mirror, state=MirrorState.STOPPED, stopped_at=(90,), not_mirrored=(1,) * 3)
    await scene.plane.store.put(stopped)
    await scene.promoter.failovers.failed_over(stopped)
    assert not scene.open
    assert "says for 1 of 3 partitions where the copy ended" in scene.promoter.waits_for("l", "g")


async def test_a_target_that_does_not_say_where_a_copy_ends_fails_nothing_over(scene: GroupScene) -> None:
    """Of a topic that is mirrored still; an offset without an end would be left out, and the group begin anew."""
    await scene.plane.with_mirror("other")
    scene.offsets.source_holds = {KEY: (80, ""), ("other", 0): (95, "")}
    await scene.attempts(1)
    scene.lose_source()
    scene.plane.target.existing["other"].ranges = []
    await fail_over(scene, 90)
    assert scene.record.state is GroupState.ACTIVE
    assert "says for 0 of 3 partitions where the copy of mirror topic 'other'" in scene.promoter.waits_for("l", "g")
    scene.plane.target.existing["other"].ranges = [(0, 100)] * 3
    await scene.promoter.failovers.attempt("l", "g")
    assert scene.open
    assert scene.promoter.waits_for("l", "g") == ""


@pytest.mark.parametrize("method", ["on_target", "commit_on_target", "store"])
@pytest.mark.parametrize("taken", [False, True], ids=["before", "after"])
async def test_an_attempt_that_breaks_off_at_a_step_is_made_again(scene: GroupScene, method: str, taken: bool) -> None:
    scene.offsets.source_holds = {KEY: (95, "m")}
    await scene.attempts(1)
    scene.lose_source()
    shipped = getattr(scene.offsets, method)

    async def breaks_off(*args: object, **named: object) -> object:
        setattr(scene.offsets, method, shipped)
        if taken:
            await shipped(*args, **named)
        raise TargetUnreachable("the target cluster: no answer in time")

    setattr(scene.offsets, method, breaks_off)
    await fail_over(scene, 90)
    assert scene.open is (taken and method == "store")
    await scene.promoter.failovers.attempt("l", "g")
    assert scene.open
    assert scene.offsets.target_holds == {KEY: (90, "m")}
