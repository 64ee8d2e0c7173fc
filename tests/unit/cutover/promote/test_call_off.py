"""A promote that is called off: at each of its steps, beside its cutover, over a change of the leader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from gateway.cutover.promote.rules.call_off import WAS_CALLED_OFF
from gateway.cutover.promote.rules.snapshot import StepKind
from gateway.cutover.promote.run import PromoteRun
from gateway.cutover.write_pause.rules.routing import WritePhase
from gateway.errors import BadRequest, Conflict, NotFound, TargetUnreachable
from gateway.state.promote_sets import CALLED_OFF, called_off
from gateway.state.records import MirrorState
from gateway.state.store import StoreError, StoreUncertain
from tests.support.control.control_plane import Plane
from tests.support.control.mirror_records import changed
from tests.support.control.topic_scene import LIMITS, TopicScene, mirrored_topic
from tests.support.waiting import wait_until_async

BEFORE_THE_CUTOVER = (
    StepKind.MARK_PENDING,
    StepKind.READ_CONFIGS,
    StepKind.PAUSE_WRITES,
    StepKind.READ_ENDS,
    StepKind.STOP_MIRROR,
    StepKind.READ_COPY,
    StepKind.PERSIST_STOPPED,
)


@pytest.fixture
async def scene(plane: Plane) -> TopicScene:
    return await mirrored_topic(plane)


async def waits_for_lag(scene: TopicScene) -> asyncio.Task[object]:
    """Its mirror is far behind."""
    scene.advance("orders", 1, 50)
    run: asyncio.Task[object] = asyncio.create_task(scene.promote())
    await wait_until_async(lambda: "behind" in scene.promoter.waiting_for("l", "orders"), what="a promote that waits")
    return run


def assert_never_cut_over(scene: TopicScene) -> None:
    assert not any('"STOPPED"' in str(commit) for commit in scene.plane.log.commits)
    assert WritePhase.SWITCHED not in scene.phases


async def test_it_goes_back_to_what_it_was_without_an_error(scene: TopicScene) -> None:
    before = scene.record
    run = await waits_for_lag(scene)
    assert await scene.promoter.call_off("l", ["orders"]) == ("orders",)
    scene.assert_back()
    with pytest.raises(Conflict, match=WAS_CALLED_OFF):
        await run
    unlike = replace(scene.record, cutover=before.cutover, state_since_ms=before.state_since_ms)
    assert unlike == before, "but for the number of the write pause, and since when it is ACTIVE"
    assert_never_cut_over(scene)


@pytest.mark.parametrize("kind", BEFORE_THE_CUTOVER)
async def test_at_each_step_before_the_cutover(
    scene: TopicScene, kind: StepKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked for while the step is being taken, whatever it was decided from."""
    calls: list[asyncio.Task[object]] = []
    decide = PromoteRun._next

    async def decided(run: PromoteRun) -> object:
        step = await decide(run)
        if step.kind is kind and not calls:
            calls.append(asyncio.create_task(scene.promoter.call_off("l", ["orders"])))
            await wait_until_async(lambda: scene.promoter._call_offs.is_asked("l", ["orders"]), what="it is asked for")
        return step

    monkeypatch.setattr(PromoteRun, "_next", decided)
    with pytest.raises(Conflict, match=WAS_CALLED_OFF):
        await scene.promote()
    assert await calls[0] == ("orders",)
    scene.assert_back()
    assert_never_cut_over(scene)
    assert (scene.record.cutover.promoted_with, scene.record.error_message) == ((), "")
    assert scene.record.transition_errors == ()
    (record,) = await scene.promote()
    assert record.state is MirrorState.STOPPED, "a later promote hears nothing of it"


async def test_before_its_checks_are_over_nothing_begins(scene: TopicScene, monkeypatch: pytest.MonkeyPatch) -> None:
    answered = asyncio.Event()
    check = scene.promoter._check

    async def slow(*args: object, **more: object) -> None:
        await answered.wait()
        await check(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(scene.promoter, "_check", slow)
    run = asyncio.create_task(scene.promote())
    await wait_until_async(scene.promoter.under_way, what="a promote that is checked")
    call = asyncio.create_task(scene.promoter.call_off("l", ["orders"]))
    await wait_until_async(lambda: scene.promoter._call_offs.is_asked("l", ["orders"]), what="it is called off")
    with pytest.raises(Conflict, match="the last promote of mirror topic 'orders' is being called off"):
        await scene.promote()
    answered.set()
    assert await call == ("orders",)
    with pytest.raises(Conflict, match=WAS_CALLED_OFF):
        await run
    assert not any("PENDING_STOPPED" in str(commit) for commit in scene.plane.log.commits)


async def test_writes_that_are_paused_go_on(scene: TopicScene) -> None:
    scene.ends.transactions = {"orders": ("payments",)}
    scene.promoter = scene.make(replace(LIMITS, pause_timeout_s=30.0))
    run = asyncio.create_task(scene.promote())
    await wait_until_async(lambda: scene.forwarder.paused, what="the write pause")
    await scene.promoter.call_off("l", ["orders"])
    scene.assert_back()
    assert scene.held == [("l", "aborted")]
    with pytest.raises(Conflict, match=WAS_CALLED_OFF):
        await run


async def test_behind_the_cutover_it_is_refused_with_what_is(scene: TopicScene) -> None:
    await scene.promote()
    with pytest.raises(Conflict, match="'orders' is promoted already, and written on the target"):
        await scene.promoter.call_off("l", ["orders"])
    assert scene.record.state is MirrorState.STOPPED


async def test_what_is_not_being_promoted_is_refused(scene: TopicScene) -> None:
    with pytest.raises(Conflict, match="'orders' is not being promoted: it is ACTIVE"):
        await scene.promoter.call_off("l", ["orders"])
    with pytest.raises(NotFound):
        await scene.promoter.call_off("l", ["nothing"])
    with pytest.raises(BadRequest, match="no topic"):
        await scene.promoter.call_off("l", [])
    scene.assert_back()


async def test_a_set_goes_back_as_one(scene: TopicScene) -> None:
    await scene.mirror("payments")
    scene.advance("payments", 1, 50)
    run = asyncio.create_task(scene.promote("orders", "payments"))
    await wait_until_async(lambda: scene.promoter.waiting_for("l", "orders"), what="a promote that waits")
    assert await scene.promoter.call_off("l", ["orders"], validate_only=True) == ("orders", "payments")
    assert scene.record.state is MirrorState.PENDING_STOPPED
    assert await scene.promoter.call_off("l", ["orders"]) == ("orders", "payments")
    scene.assert_back()
    assert scene.plane.state("payments") is MirrorState.ACTIVE
    with pytest.raises(Conflict, match=WAS_CALLED_OFF):
        await run


async def test_all_or_none_of_those_that_were_named(scene: TopicScene) -> None:
    await scene.mirror("payments")
    run = await waits_for_lag(scene)
    with pytest.raises(Conflict, match="'payments' is not being promoted"):
        await scene.promoter.call_off("l", ["orders", "payments"])
    assert CALLED_OFF not in scene.record.cutover.promoted_with
    scene.advance("orders", 1, 100)
    await run
    assert scene.record.state is MirrorState.STOPPED


@pytest.mark.parametrize("topics", [("orders",), ("orders", "payments")])
async def test_it_does_not_come_back_with_the_next_leader(scene: TopicScene, topics: tuple[str, ...]) -> None:
    """Whose leader is gone between the record that says so and the way back."""
    if "payments" in topics:
        await scene.mirror("payments")
    for topic in topics:
        record = scene.plane.store.mirrors["l", topic]
        pending = changed(record, state=MirrorState.PENDING_STOPPED, pause_epoch=3, promoted_with=topics)
        await scene.plane.store.put(called_off(pending))
    scene.promoter.resume()
    await wait_until_async(lambda: {scene.plane.state(t) for t in topics} == {MirrorState.ACTIVE}, 5, what="ACTIVE")
    assert scene.record.error_message == ""
    assert scene.forwarder.paused == []
    assert_never_cut_over(scene)


async def test_asked_of_a_leader_that_has_not_gone_on_with_it_yet(scene: TopicScene) -> None:
    await scene.plane.store.put(changed(scene.record, state=MirrorState.PENDING_STOPPED, pause_epoch=3))
    call = asyncio.create_task(scene.promoter.call_off("l", ["orders"]))
    scene.promoter.resume()
    assert await call == ("orders",)
    scene.assert_back()
    assert_never_cut_over(scene)


def failing(scene: TopicScene, failure: Exception, of: Callable[[str], bool]) -> None:
    """The next commit that `of` is true of fails."""
    commit = scene.plane.log.commit

    async def fail(changes: object, still: Callable[[], None]) -> int:
        if of(str(changes)):
            scene.plane.log.commit = commit  # type: ignore[method-assign]
            scene.plane.log.failures.append(failure)  # type: ignore[arg-type]
        return await commit(changes, still)  # type: ignore[arg-type]

    scene.plane.log.commit = fail  # type: ignore[method-assign]


async def test_what_could_not_be_stored_is_not_called_off(scene: TopicScene) -> None:
    run = await waits_for_lag(scene)
    failing(scene, StoreError("not enough replicas"), lambda text: CALLED_OFF in text)
    with pytest.raises(TargetUnreachable, match="could not be called off, and goes on: not enough replicas"):
        await scene.promoter.call_off("l", ["orders"])
    scene.advance("orders", 1, 100)
    await run
    assert scene.record.state is MirrorState.STOPPED


async def test_what_may_have_been_stored_is_asked_again(scene: TopicScene) -> None:
    run = await waits_for_lag(scene)
    failing(scene, StoreUncertain("no answer"), lambda text: CALLED_OFF in text)
    with pytest.raises(TargetUnreachable, match="whether the promote is called off is not known, ask again: no answer"):
        await scene.promoter.call_off("l", ["orders"])
    assert await scene.promoter.call_off("l", ["orders"]) == ("orders",)
    with pytest.raises(Conflict, match=WAS_CALLED_OFF):
        await run
    scene.assert_back()


async def test_beside_a_cutover_of_unknown_outcome_the_cutover_counts(scene: TopicScene) -> None:
    """Its outcome is found out first; it was committed, so there is nothing to call off."""
    tried = asyncio.Event()

    def of(text: str) -> bool:
        found = '"state":"STOPPED"' in text
        if found:
            tried.set()
        return found

    failing(scene, StoreUncertain("no answer"), of)
    run = asyncio.create_task(scene.promote())
    await tried.wait()
    with pytest.raises(Conflict, match="'orders' is promoted already"):
        await scene.promoter.call_off("l", ["orders"])
    (record,) = await run
    assert record.state is MirrorState.STOPPED


async def test_a_rehearsal_can_be_called_off(scene: TopicScene) -> None:
    scene.advance("orders", 1, 50)
    rehearsal = asyncio.create_task(scene.promoter.rehearse("l", ["orders"]))
    await wait_until_async(lambda: scene.record.state is MirrorState.PENDING_STOPPED, 5, what="PENDING_STOPPED")
    await scene.promoter.call_off("l", ["orders"])
    assert (await rehearsal).given_up == WAS_CALLED_OFF
    scene.assert_back()


async def test_a_way_home_can_be_called_off(scene: TopicScene) -> None:
    back = await scene.turned_round()
    scene.target_ends.ends["orders"] = [100, 150, 100]
    run = asyncio.create_task(scene.promote())
    await wait_until_async(lambda: scene.record.state is MirrorState.PENDING_STOPPED, 5, what="PENDING_STOPPED")
    await scene.promoter.call_off("l", ["orders"])
    with pytest.raises(Conflict, match=WAS_CALLED_OFF):
        await run
    assert (scene.record.state, scene.record.is_reverse) == (MirrorState.ACTIVE, True)
    assert scene.record.failback == back.failback
