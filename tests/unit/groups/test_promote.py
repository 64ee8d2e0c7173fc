"""The runner of group promote: when it begins, what it carries, and what undoes it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.errors import Conflict, SourceUnreachable
from gateway.groups import promote as promote_group
from gateway.groups.offsets import Offsets
from gateway.groups.rules.promote import BEYOND_S
from gateway.groups.rules.silences import QUIET_MOST_S
from gateway.kafka.commits import Committed
from gateway.kafka.groups import SHARE
from gateway.kafka.topic_partition import TopicPartition
from gateway.operations.fleet_wide import OnlyHere
from gateway.state.log import Change
from gateway.state.records import CarriedOffset, GroupKind, GroupRecord, GroupState, MirrorState, SourceOffset
from gateway.state.store import StoreError, StoreUncertain
from protocol.apis import ApiKey
from tests.support.control.control_plane import Plane
from tests.support.control.group_scene import KEY, GroupScene, gated_group
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


async def test_of_a_share_group_it_says_what_is_delivered_again(scene: GroupScene) -> None:
    scene.offsets.type = SHARE
    await scene.plane.by_hand(replace(scene.record, kind=GroupKind.SHARE))
    record = await scene.promoter.promote("l", "g")
    assert record.offsets == (CarriedOffset("orders", 0, 40, 40, "m"),)
    assert "2 records behind them were done with and are delivered again (orders-0: 2)" in record.note


@pytest.mark.parametrize(
    ("recorded", "told", "kind"),
    [
        (GroupKind.CONSUMER, SHARE, GroupKind.SHARE),
        (GroupKind.SHARE, "classic", GroupKind.CONSUMER),
        (GroupKind.STREAMS, "classic", GroupKind.STREAMS),  # one that nobody is in: its offsets are as a consumer's
    ],
)
async def test_a_group_is_carried_as_what_it_is_on_the_source_now(
    scene: GroupScene, recorded: GroupKind, told: str, kind: GroupKind
) -> None:
    """Deleted there and begun as the other kind: asked by the old one it has no offset, and none would be carried."""
    scene.offsets.type = told
    await scene.plane.by_hand(replace(scene.record, kind=recorded))
    record = await scene.promoter.promote("l", "g")
    assert (record.kind, record.state) == (kind, GroupState.PROMOTED)
    marked = scene.offsets.kinds_read.index(kind)
    assert set(scene.offsets.kinds_read[marked:]) == {kind}


async def test_a_group_that_becomes_another_kind_while_it_is_promoted_is_carried_as_what_it_is(
    scene: GroupScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = scene.offsets.commit_on_target

    async def then_another(record: GroupRecord, offsets: Offsets) -> None:
        await commit(record, offsets)
        scene.offsets.type, scene.offsets.source_holds = SHARE, {KEY: (55, "")}

    monkeypatch.setattr(scene.offsets, "commit_on_target", then_another)
    record = await scene.promoter.promote("l", "g")
    assert (record.kind, record.offsets) == (GroupKind.SHARE, (CarriedOffset("orders", 0, 55, 55, ""),))


async def test_by_itself_after_the_quiet_period(scene: GroupScene) -> None:
    scene.wait_at_the_gate()
    states = []
    for _ in range(13):
        await scene.attempts(1)
        states.append(scene.record.state)
    assert states == [GroupState.ACTIVE] * 11 + [GroupState.PROMOTED] * 2
    assert scene.open


async def test_by_itself_only_when_somebody_waits(scene: GroupScene) -> None:
    await scene.attempts(30)
    assert scene.record.state is GroupState.ACTIVE
    assert "no member waits" in scene.promoter.waits_for("l", "g")


@pytest.mark.parametrize("api", [ApiKey.OFFSET_FETCH, ApiKey.OFFSET_COMMIT])
async def test_not_for_who_only_asks_for_its_offsets(scene: GroupScene, api: ApiKey) -> None:
    """A lag exporter does all the time; its application, restarted on the source, has no member for some seconds."""
    scene.wait_at_the_gate(api)
    await scene.attempts(30)
    before = scene.record.state
    assert "1 request(s) for its offsets wait there" in scene.promoter.waits_for("l", "g")
    scene.wait_at_the_gate()
    await scene.attempts(13)
    assert (before, scene.record.state) == (GroupState.ACTIVE, GroupState.PROMOTED)


async def test_for_a_consumer_that_commits_for_a_group_that_nobody_has_joined(scene: GroupScene) -> None:
    scene.offsets.protocol_type = ""
    scene.wait_at_the_gate(ApiKey.OFFSET_COMMIT)
    scene.offsets.on_ask = lambda: scene.later(1.0)
    await scene.attempts(20)
    assert scene.record.state is GroupState.PROMOTED


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
        scene.later(0.9 if asked_at else 0.1)
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
        scene.later(0.9)
        scene.offsets.source_holds[KEY] = (next(offsets), "")

    scene.offsets.on_ask = commit
    await scene.attempts(20)
    assert scene.record.state is GroupState.ACTIVE
    assert "without a member: a consumer that assigns its partitions itself" in scene.promoter.waits_for("l", "g")
    last = scene.offsets.source_holds[KEY][0]
    scene.offsets.on_ask = lambda: scene.later(0.9)  # it was stopped
    await scene.attempts(24)
    assert scene.record.offsets == (CarriedOffset("orders", 0, last, last, ""),)


async def test_a_group_that_nobody_has_joined_is_watched_for_commits_first(scene: GroupScene) -> None:
    """Its consumer may live, and commit every 5 s; who asks for the promote has stopped it."""
    scene.offsets.protocol_type = ""
    scene.wait_at_the_gate()
    began = scene.now
    scene.offsets.on_ask = lambda: scene.later(1.0)
    while scene.record.state is not GroupState.PROMOTED:
        assert scene.now < began + 30
        await scene.attempts(1)
        if scene.record.state is GroupState.ACTIVE and scene.now < began + 15:
            assert "the source knows the group by its commits alone" in scene.promoter.waits_for("l", "g")
    assert scene.now >= began + 15


def commits_every(scene: GroupScene, seconds: float) -> None:
    """Its consumer on the source, which is no member, commits as often; it is looked at every second."""
    scene.offsets.protocol_type = ""
    due = [scene.now + seconds]

    def look() -> None:
        scene.later(1.0)
        if scene.now >= due[0]:
            due[0] += seconds
            offset, metadata = scene.offsets.source_holds[KEY]
            scene.offsets.source_holds[KEY] = (offset + 1, metadata)

    scene.offsets.on_ask = look


async def test_a_lag_exporter_promotes_no_group_whose_consumer_commits_now_and_then(scene: GroupScene) -> None:
    """It names partitions, as consumers do, and nobody has ever joined the group (assign + commit)."""
    commits_every(scene, 40.0)
    scene.wait_at_the_gate(ApiKey.OFFSET_FETCH)
    await scene.attempts(200)
    assert scene.record.state is GroupState.ACTIVE
    scene.offsets.on_ask = lambda: scene.later(1.0)  # it was stopped, to be started on the source again
    await scene.attempts(200)
    assert scene.record.state is GroupState.ACTIVE
    reason = scene.promoter.waits_for("l", "g")
    assert "1 request(s) for its offsets wait there" in reason
    assert "has neither committed nor fetched there: if it is a consumer" in reason
    assert reason.endswith("promote the group by hand")


@pytest.mark.parametrize("interval_s", [20.0, 60.0, 300.0])
async def test_who_commits_seldom_must_be_silent_for_longer(scene: GroupScene, interval_s: float) -> None:
    """One instance has moved and commits here; another one commits on the source at its checkpoints."""
    commits_every(scene, interval_s)
    await scene.attempts(int(3 * interval_s))  # nobody has come to the gateway yet
    scene.wait_at_the_gate(ApiKey.OFFSET_COMMIT)
    await scene.attempts(int(5 * interval_s))
    assert scene.record.state is GroupState.ACTIVE
    assert f"its last commits came up to {interval_s - 1:.0f} s apart" in scene.promoter.waits_for("l", "g")
    commits_every(scene, math.inf)  # it was stopped
    began = scene.now
    while not scene.open:
        assert scene.now < began + 2 * interval_s + 10
        await scene.attempts(1)
    assert scene.now >= began + interval_s


async def test_the_next_leader_knows_how_seldom_it_commits(scene: GroupScene) -> None:
    commits_every(scene, 60.0)
    await scene.attempts(200)
    assert scene.record.silent_s == 58
    scene.promoter = scene.leader()
    scene.wait_at_the_gate(ApiKey.OFFSET_COMMIT)
    commits_every(scene, math.inf)
    await scene.attempts(100)
    assert scene.record.state is GroupState.ACTIVE
    assert "its last commits came up to 58 s apart" in scene.promoter.waits_for("l", "g")
    await scene.attempts(40)
    assert scene.open


async def test_a_dry_run_knows_how_seldom_it_commits(scene: GroupScene) -> None:
    commits_every(scene, 60.0)
    await scene.attempts(200)
    plan = await scene.promoter.promote_plan("l", "g")
    assert "its last commits came up to 59 s apart" in plan.waits_for


async def test_who_asks_for_the_promote_of_a_group_that_nobody_has_joined_need_not_wait(scene: GroupScene) -> None:
    scene.offsets.protocol_type = ""
    record = await scene.promoter.promote("l", "g")
    assert record.state is GroupState.PROMOTED


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


async def test_waits_for_a_mirror_that_has_failed(scene: GroupScene) -> None:
    scene.offsets.source_holds = {KEY: (50, "")}
    mirror = scene.plane.store.mirrors["l", "orders"]
    await scene.plane.by_hand(replace(mirror, state=MirrorState.FAILED))
    run = asyncio.create_task(scene.promoter.promote("l", "g"))
    await wait_until_async(lambda: "has FAILED" in scene.promoter.waits_for("l", "g"), 5, what="the reason")
    assert not scene.offsets.commits
    await scene.plane.by_hand(mirror)
    assert (await run).state is GroupState.PROMOTED


async def test_offsets_are_translated_anew_when_the_mirror_failed_behind_their_commit(
    scene: GroupScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repair may give the copy other offsets."""
    scene.offsets.source_holds = {KEY: (50, "")}
    mirror = scene.plane.store.mirrors["l", "orders"]
    commit = scene.offsets.commit_on_target

    async def fails_behind_it(record: GroupRecord, offsets: Offsets) -> None:
        await commit(record, offsets)
        if scene.offsets.commits == 1:
            await scene.plane.by_hand(replace(mirror, state=MirrorState.FAILED))

    monkeypatch.setattr(scene.offsets, "commit_on_target", fails_behind_it)
    run = asyncio.create_task(scene.promoter.promote("l", "g"))
    await wait_until_async(lambda: "has FAILED" in scene.promoter.waits_for("l", "g"), 5, what="the reason")
    assert scene.offsets.commits == 1
    await scene.plane.by_hand(mirror)
    assert (await run).state is GroupState.PROMOTED
    assert scene.offsets.commits == 2


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


async def test_offsets_are_read_when_no_transaction_commits_them_at_the_source_any_more(scene: GroupScene) -> None:
    """What was on its way there when the promote began would come behind the last look, and be left behind."""
    asked: list[GroupState] = []

    class Fleet(OnlyHere):
        async def commits_settled(self, group: str) -> None:
            asked.append(scene.record.state)

    scene.plane.parts.fleet = Fleet()
    scene.promoter = scene.leader()
    scene.plane.gates.commit_begins("g")
    promoting = asyncio.create_task(scene.promoter.promote("l", "g"))
    await wait_until_async(lambda: bool(asked), 5, what="the other gateways to be asked")
    scene.offsets.source_holds[KEY] = (45, "m")  # it comes
    scene.plane.gates.commit_ends("g")
    assert (await promoting).offsets == (CarriedOffset(*KEY, 45, 45, "m"),)
    assert asked == [GroupState.PENDING_PROMOTED]


async def test_each_promote_asks_the_gateways_anew(scene: GroupScene) -> None:
    asked: list[str] = []

    class Fleet(OnlyHere):
        async def commits_settled(self, group: str) -> None:
            asked.append(group)
            scene.offsets.members = len(asked) % 2  # one comes, and leaves again

    scene.plane.parts.fleet = Fleet()
    scene.promoter = scene.leader()
    scene.wait_at_the_gate()
    await scene.attempts(15)
    assert scene.record.state is GroupState.ACTIVE
    scene.offsets.members = 0
    await scene.attempts(15)
    assert (asked, scene.record.state) == (["g", "g"], GroupState.PROMOTED)


async def test_a_commit_that_is_not_answered_is_told(scene: GroupScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promote_group, "COMMITS_S", 0.05)
    scene.plane.gates.commit_begins("g")
    with pytest.raises(Conflict, match="a commit of group 'g' was not answered"):
        await scene.promoter.promote("l", "g")
    scene.plane.gates.commit_ends("g")
    await scene.attempts(1)
    assert scene.open


async def test_what_stops_a_promote_is_shown_until_it_gets_over_it(scene: GroupScene) -> None:
    """A gateway died without a word: clients wait for the end of its lease, and `describe` says so."""
    lost = Conflict("gateway 'b' cannot be asked; its lease is over in 600 s")
    seen: list[str] = []

    class Fleet(OnlyHere):
        async def commits_settled(self, group: str) -> None:
            seen.append(scene.promoter.waits_for("l", "g"))
            if len(seen) < 3:
                raise lost

    scene.plane.parts.fleet = Fleet()
    scene.promoter = scene.leader()
    await scene.plane.store.put(GroupRecord(link="l", group="g", state=GroupState.PENDING_PROMOTED))
    for _ in range(2):
        with pytest.raises(Conflict, match="cannot be asked"):
            await scene.attempts(1)
        assert scene.promoter.waits_for("l", "g") == str(lost)
    await scene.attempts(1)
    assert seen == ["", str(lost), str(lost)]
    assert scene.record.state is GroupState.PROMOTED
    assert scene.promoter.waits_for("l", "g") == ""


async def test_a_lost_commit_of_the_state_keeps_the_gate_closed_until_known(scene: GroupScene) -> None:
    commit = scene.plane.log.commit

    async def lose(changes: object, still: Callable[[], None]) -> int:
        if '"state":"PROMOTED"' in str(changes):
            scene.plane.log.failures = [StoreUncertain("no answer")]
        return await commit(changes, still)  # type: ignore[arg-type]

    scene.plane.log.commit = lose  # type: ignore[method-assign]
    with pytest.raises(StoreError):
        await scene.promoter.promote("l", "g")
    before = scene.open
    await scene.attempts(1)
    assert (before, scene.open, scene.offsets.commits) == (False, True, 1)


async def test_commits_on_the_source_after_the_promote_are_counted(scene: GroupScene) -> None:
    scene.offsets.source_holds = {KEY: (40, ""), ("orders", 1): (7, "")}
    record = await scene.promoter.promote("l", "g")
    assert await scene.promoter.commits_after_promote(record) == 0
    scene.offsets.source_holds[KEY] = (41, "")
    assert await scene.promoter.commits_after_promote(record) == 1


@pytest.mark.parametrize("failure", [StoreError("not enough replicas"), StoreUncertain("no answer")])
async def test_a_mark_that_was_not_made_has_the_offsets_read_again(
    scene: GroupScene, failure: StoreError, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meanwhile a member came to the source, read on, committed, and left in order."""
    scene.offsets.on_ask = lambda: scene.later(0.9)
    scene.wait_at_the_gate()
    commit = scene.plane.log.commit
    failed: list[bool] = []

    async def fail(changes: object, still: Callable[[], None]) -> int:
        if '"state":"PROMOTED"' in str(changes) and not failed:
            failed.append(True)
            scene.plane.log.failures = [failure]
            scene.plane.log.outcome = StoreError("it was not made")
        return await commit(changes, still)  # type: ignore[arg-type]

    scene.plane.log.commit = fail  # type: ignore[method-assign]
    with pytest.raises(StoreError):
        await scene.attempts(30)
    scene.offsets.source_holds = {KEY: (95, "m")}
    scene.later(2)

    await scene.attempts(1)

    assert scene.record.state is GroupState.PROMOTED
    assert scene.record.offsets == (CarriedOffset("orders", 0, 95, 95, "m"),)
    assert scene.offsets.target_holds == {KEY: (95, "m")}


async def test_a_mark_that_had_to_wait_for_other_writes_is_not_made(
    scene: GroupScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last look at the source says nothing any more by the time the mark would be written."""
    guarded, waited = scene.plane.store.replace, list[bool]()
    scene.offsets.on_ask = lambda: scene.later(0.9)

    async def late(old: GroupRecord, new: GroupRecord, guard: Callable[[], None]) -> None:
        if new.state is GroupState.PROMOTED and not waited:
            waited.append(True)
            scene.offsets.source_holds = {KEY: (95, "m")}
            scene.later(2)
        await guarded(old, new, guard)

    scene.plane.store.replace = late  # type: ignore[method-assign, assignment]
    record = await scene.promoter.promote("l", "g")

    assert waited
    assert [offset.target_offset for offset in record.offsets] == [95]
    assert scene.offsets.target_holds == {KEY: (95, "m")}


async def test_a_commit_between_the_last_two_looks_is_seen(scene: GroupScene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The offsets were read back; a member comes, commits and leaves before the mark."""
    on_target, asks = scene.offsets.on_target, list[bool]()

    async def read_back(record: GroupRecord) -> Mapping[TopicPartition, Committed]:
        def came_and_left() -> None:
            scene.later(0.9 if asks else 0.1)
            if not asks:
                asks.append(True)
                scene.offsets.source_holds = {KEY: (95, "m")}

        scene.offsets.on_ask = came_and_left
        return await on_target(record)

    scene.offsets.on_target = read_back  # type: ignore[method-assign]
    record = await scene.promoter.promote("l", "g")
    assert asks
    assert [offset.target_offset for offset in record.offsets] == [95]
    assert scene.offsets.target_holds == {KEY: (95, "m")}


# -- facts are as old as their questions, and of one side ---------------------------------------------------------


async def test_the_last_look_is_as_old_as_its_question(scene: GroupScene) -> None:
    """Members are asked for, then offsets; the second answer takes 2.5 s, in which a consumer comes to the source."""
    on_source, slow = scene.offsets.on_source, list[float]()

    async def takes_long(record: GroupRecord) -> tuple[tuple[SourceOffset, ...], list[str]]:
        if scene.promoter.progress_of("l", "g").read_back is not None and not slow:
            scene.later(2.5)
            scene.offsets.members = 1
            slow.append(scene.now)
        return await on_source(record)

    scene.offsets.on_source = takes_long  # type: ignore[method-assign]
    with pytest.raises(Conflict, match=r"still has 1 member\(s\) on the source"):
        await scene.promoter.promote("l", "g")
    assert slow
    assert scene.record.state is GroupState.ACTIVE


async def test_one_answer_that_a_log_ends_before_the_groups_offset_is_no_proof(scene: GroupScene) -> None:
    """It may be of a leader that has lost its cluster: the mirror lacks what the group has read of its successor."""
    scene.offsets.source_holds = {KEY: (150, "")}
    scene.offsets.ranges = {KEY: (0, 90)}
    scene.plane.progress.forget("orders")
    scene.plane.progress.advance("orders", 0, 90)
    told = list[str]()

    def look() -> None:
        scene.later(0.5)
        told.append(scene.promoter.waits_for("l", "g"))
        if scene.offsets.leaders_asked == 2:  # another broker tells of the leader that there is now
            scene.offsets.ranges = {KEY: (0, 150)}

    scene.offsets.on_ask = look
    with pytest.raises(Conflict, match=r"the mirror of orders-0 has come to 90, the group is at 150"):
        await scene.promoter.promote("l", "g")
    assert scene.record.state is GroupState.ACTIVE
    assert any("a leader of the source says that the log ends at 90: looked at again for 10 s" in one for one in told)


async def test_an_offset_that_stays_beyond_the_end_is_carried(scene: GroupScene) -> None:
    scene.offsets.source_holds = {KEY: (150, "")}
    scene.offsets.ranges = {KEY: (0, 90)}
    began = scene.now
    scene.offsets.on_ask = lambda: scene.later(0.5)
    record = await scene.promoter.promote("l", "g")
    assert scene.now - began >= BEYOND_S
    assert scene.offsets.leaders_asked >= 2
    assert [offset.source_offset for offset in record.offsets] == [150]
    assert "beyond the log end 90" in record.note


EVENTS = st.sampled_from(["attempt", "attempt", "attempt", "member", "commit", "later", "error", "lost", "made"])


@settings(max_examples=60, deadline=None)
@given(st.lists(EVENTS, max_size=25))
@example(["attempt", "later", "later", "attempt", "commit"])
@example(["attempt", *["later"] * 25, "attempt", "commit"])
def test_whatever_happens_in_between_a_group_is_promoted_with_what_the_source_has(events: list[str]) -> None:
    """Members come and go, offsets change, writes of the state fail, or are made without an answer."""
    asyncio.run(_play(events))


async def _play(events: list[str]) -> None:
    plane = Plane()
    await plane.start()
    try:
        scene = await gated_group(plane)
        scene.offsets.source_holds[KEY] = (1, "")
        at_mark = noted_at_marks(scene)
        scene.wait_at_the_gate()
        for event in events:
            await _happens(scene, event)
            if scene.record.state is GroupState.PROMOTED:
                break
            assert not scene.open
        quiet_until = scene.now + 2 * QUIET_MOST_S  # a group that was silent for long has to be so once more
        while scene.record.state is not GroupState.PROMOTED and scene.now < quiet_until:
            await _happens(scene, "attempt")
        assert scene.record.state is GroupState.PROMOTED
        assert scene.open
        assert [o.source_offset for o in scene.record.offsets] == at_mark[-1:]
        assert [scene.offsets.target_holds[KEY][0]] == at_mark[-1:]
    finally:
        await plane.close()


def noted_at_marks(scene: GroupScene) -> list[int]:
    """What the source has whenever the group is marked as promoted; the last such write is the one that was made."""
    commit, noted = scene.plane.log.commit, list[int]()

    async def note(changes: Sequence[Change], still: Callable[[], None]) -> int:
        if '"state":"PROMOTED"' in str(changes):
            noted.append(scene.offsets.source_holds[KEY][0])
        return await commit(changes, still)

    scene.plane.log.commit = note  # type: ignore[method-assign]
    return noted


async def _happens(scene: GroupScene, event: str) -> None:
    log, offsets = scene.plane.log, scene.offsets
    match event:
        case "attempt":
            offsets.members = 0
            offsets.on_ask = lambda: scene.later(0.9)
            with suppress(StoreError):
                await scene.promoter.attempt("l", "g")
        case "member":
            offsets.members = 1
            with suppress(StoreError):
                await scene.promoter.attempt("l", "g")
        case "commit":
            offsets.source_holds[KEY] = (offsets.source_holds[KEY][0] + 1, "")
        case "later":
            scene.later(20.0)
        case "error":
            log.failures.append(StoreError("refused"))
        case "lost" | "made":
            log.failures.append(StoreUncertain("no answer"))
            log.outcome = True if event == "made" else StoreError("it was not made")


async def test_a_mirror_that_is_stored_after_the_last_look_has_the_offsets_read_again(plane, monkeypatch):
    """Of one topic more no offsets were read: the group is not promoted without them."""
    scene = await gated_group(plane)
    scene.wait_at_the_gate()
    store, marks = scene.promoter._offsets.store, []

    async def and_one_more(record, state, *args, **changes):
        if state is GroupState.PROMOTED:
            marks.append(record)
        if state is GroupState.PROMOTED and len(marks) == 1:
            plane.source.add("payments", 3, 100)
            orders = plane.store.mirrors["l", "orders"]
            await plane.store.put(replace(orders, source_topic="payments", mirror_topic="payments"))
        await store(record, state, *args, **changes)

    monkeypatch.setattr(scene.promoter._offsets, "store", and_one_more)
    await scene.promoter.promote("l", "g")
    assert len(marks) == 2
    assert scene.record.state is GroupState.PROMOTED


async def test_a_source_that_is_known_to_be_lost_is_not_waited_for(scene: GroupScene) -> None:
    scene.lose_source()
    with pytest.raises(SourceUnreachable, match="^the source of link 'l' is unavailable: connection refused$"):
        await scene.promoter.promote("l", "g")
    await scene.attempts(1)
    assert "the source does not answer: the source of link" not in scene.promoter.waits_for("l", "g")
