"""A failover and a promote of one topic: one owner of its writes at a time, whatever is not known yet."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import pytest

from gateway.cutover.failover import run as failover_run
from gateway.cutover.failover.rules.failover import UNKNOWN
from gateway.cutover.failover.rules.snapshot import FailoverLimits
from gateway.cutover.write_pause.rules.routing import WritePhase
from gateway.cutover.write_pause.rules.write_pause import Pause
from gateway.errors import Conflict
from gateway.mirror.offset_map.rules.offset_map import OffsetMap
from gateway.state.log import Change
from gateway.state.records import MirrorMode, MirrorRecord, MirrorState
from gateway.state.store import StoreError, StoreUncertain
from tests.support.control.control_plane import Plane
from tests.support.control.topic_scene import TopicScene, mirrored_topic
from tests.support.fakes.fake_engine import status
from tests.support.fakes.fake_kafka import RangeEnds
from tests.support.waiting import wait_until_async

S = MirrorState


class Scene:
    """A mirror topic, level at 100, to be promoted and failed over. `trace`: its phases, and begins of its mirror."""

    def __init__(self, plane: Plane, topic: TopicScene) -> None:
        self.plane = plane
        self.topic = topic
        plane.target.existing["orders"].ranges = [(0, 100)] * 3
        plane.engine.numbers["l", "orders"] = [status(index) for index in range(3)]
        self.periods = plane.failbacks(
            pauses={"g": topic.forwarder}, ends=RangeEnds(plane.source), without_promote=topic.promoter.without
        )
        self.trace: list[str] = []
        plane.routing.subscribe(lambda routing, _changed: self.trace.append(routing.topics["orders"].phase.value))
        start = plane.engine.start_mirror

        def start_mirror(mirror: MirrorRecord) -> None:
            self.trace.append("mirror started")
            start(mirror)

        plane.engine.start_mirror = start_mirror  # type: ignore[method-assign]

    @property
    def record(self) -> MirrorRecord:
        return self.topic.record

    @property
    def phase(self) -> WritePhase:
        return self.plane.routing.current.topics["orders"].phase

    async def promote_outcome_unknown(self) -> asyncio.Task[list[MirrorRecord]]:
        """A promote whose cutover's commit has no answer; what became of it is not known either."""
        log, real, begun = self.plane.log, self.plane.log.commit, threading.Event()

        async def commit(changes: Sequence[Change], still: Callable[[], None]) -> int:
            if any(b'"STOPPED"' in (value or b"") for _, value in changes) and not begun.is_set():
                log.uncertain = list(changes)
                begun.set()
                raise StoreUncertain("the target has not answered a change of the state")
            return await real(changes, still)

        log.commit = commit  # type: ignore[method-assign]
        log.outcome = StoreUncertain("still none")
        run = asyncio.create_task(self.topic.promote())
        await wait_until_async(begun.is_set)
        self.trace.clear()
        return run

    async def failover(self) -> MirrorRecord:
        (record,) = await self.periods.failover("l", ["orders"])
        return record


class Coverage:
    """One gateway has gone."""

    gone = 0.0

    def lost(self) -> str:
        return ""

    def departed(self, since: float, acknowledged: Collection[str]) -> int:
        return 0

    def last_departure(self) -> float:
        return self.gone


@pytest.fixture
async def scene(plane: Plane) -> Scene:
    topic = await mirrored_topic(plane)
    await plane.store.put(replace(topic.record, readable=True))
    return Scene(plane, topic)


async def test_a_failover_ends_the_promote_that_is_under_way(scene: Scene) -> None:
    """It waits until the promote has taken back what it did: its time-out would begin the mirror anew later."""
    scene.topic.forwarder.silent = True  # a write to the source is in flight and not answered
    promote = asyncio.create_task(scene.topic.promote())
    await wait_until_async(lambda: scene.phase is WritePhase.PAUSED)
    failed_over = await asyncio.wait_for(scene.failover(), 10)
    with pytest.raises(Conflict, match="is being failed over"):
        await asyncio.wait_for(promote, 10)
    assert failed_over.state is S.STOPPED
    held = scene.trace.index("mirror started")  # by the promote's end
    assert scene.trace[held + 1 :] == ["paused", "switched"]
    assert ("l", "orders") not in scene.plane.engine.running


async def test_what_the_source_does_not_answer_in_time_is_given_up_before_its_end_is_read(scene: Scene) -> None:
    """An answer behind that would acknowledge a record that stays behind, and is not counted."""
    scene.topic.forwarder.silent = True
    failed_over = await asyncio.wait_for(scene.failover(), 10)
    assert failed_over.state is S.STOPPED
    assert scene.topic.forwarder.cuts == ["orders"]


async def test_nobody_is_failed_over_while_a_gateway_may_acknowledge_writes_to_the_source(scene: Scene) -> None:
    scene.topic.forwarder.silent = scene.topic.forwarder.deaf = True
    with pytest.raises(Conflict, match="gateway 'g' may still acknowledge writes to mirror topic 'orders'"):
        await asyncio.wait_for(scene.failover(), 10)
    assert scene.record.state is S.ACTIVE
    assert scene.phase is WritePhase.FORWARD


async def test_a_failover_does_not_wait_for_what_a_promote_waits_for(scene: Scene) -> None:
    """The source is gone: what the promote asks it is not answered, and need not be."""
    asked = asyncio.Event()

    async def read(*_: object, **_named: object) -> None:
        asked.set()
        await asyncio.Event().wait()

    scene.topic.ends.read = read  # type: ignore[assignment, method-assign]
    promote = asyncio.create_task(scene.topic.promote())
    await wait_until_async(asked.is_set)
    assert (await asyncio.wait_for(scene.failover(), 10)).state is S.STOPPED
    with pytest.raises(Conflict, match="is being failed over"):
        await asyncio.wait_for(promote, 10)


async def test_writes_are_held_while_a_promotes_cutover_is_of_unknown_outcome(scene: Scene) -> None:
    promote = await scene.promote_outcome_unknown()
    with pytest.raises(Conflict, match="is not known: the target does not answer"):
        await asyncio.wait_for(scene.failover(), 10)
    assert scene.phase is WritePhase.PAUSED

    scene.plane.log.outcome = True
    await asyncio.wait_for(promote, 10)
    assert (scene.record.state, scene.phase) == (S.STOPPED, WritePhase.SWITCHED)
    assert "forward" not in scene.trace


@pytest.mark.parametrize("made", [True, False])
async def test_a_failover_waits_for_the_cutover_that_is_of_unknown_outcome(scene: Scene, made: bool) -> None:
    promote = await scene.promote_outcome_unknown()
    failover = asyncio.create_task(scene.failover())
    scene.plane.log.outcome = True if made else StoreError("aborted")
    failed_over = await failover
    await asyncio.wait_for(promote, 10)
    assert (failed_over.state, failed_over.cutover.not_mirrored, scene.phase) == (S.STOPPED, (), WritePhase.SWITCHED)
    assert "forward" not in scene.trace
    assert "mirror started" not in scene.trace


async def test_a_promote_that_breaks_off_in_its_commit_holds_until_it_is_known(scene: Scene) -> None:
    """By an error that no step expects, while nobody knows whether the cutover is stored."""
    promote = await scene.promote_outcome_unknown()

    async def breaks(changes: Sequence[Change], still: Callable[[], None]) -> int:
        return 1 // 0

    scene.plane.log.commit = breaks  # type: ignore[method-assign]
    resolve_outcome, broken = scene.plane.log.resolve_outcome, threading.Event()

    async def fails_once() -> int:
        if not broken.is_set():
            broken.set()
            raise ZeroDivisionError
        return await resolve_outcome()

    scene.plane.log.resolve_outcome = fails_once  # type: ignore[method-assign]
    await wait_until_async(broken.is_set)
    assert scene.phase is WritePhase.PAUSED
    assert not promote.done()
    scene.plane.log.outcome = True
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(promote, 10)
    assert (scene.record.state, scene.phase) == (S.STOPPED, WritePhase.SWITCHED)


async def test_no_promote_begins_while_a_failover_is_of_unknown_outcome(scene: Scene) -> None:
    log = scene.plane.log
    log.failures, log.outcome = [StoreUncertain("no answer")], StoreUncertain("still no answer")
    with pytest.raises(StoreUncertain):
        await asyncio.wait_for(scene.failover(), 10)
    with pytest.raises(Conflict, match="is being failed over"):
        await asyncio.wait_for(scene.topic.promote(), 10)
    with pytest.raises(Conflict, match="is being failed over already"):
        await asyncio.wait_for(scene.failover(), 10)
    assert scene.phase is WritePhase.PAUSED

    log.outcome = StoreError("aborted")
    await wait_until_async(lambda: scene.trace[-1:] == ["forward"])
    assert (await asyncio.wait_for(scene.topic.promote(), 10))[0].state is S.STOPPED


async def test_what_was_appended_while_the_mirror_stopped_is_on_the_copy(scene: Scene) -> None:
    """In mode translate: a position as it was told lacks what was acknowledged since, here and at other gateways."""
    await scene.plane.store.put(replace(scene.record, mode=MirrorMode.TRANSLATE))
    scene.plane.source.existing["orders"].ranges = [(0, 130)] * 3
    stopped = False

    async def maps(_: MirrorRecord) -> Sequence[OffsetMap]:
        found = [OffsetMap([(0, 0), (50, 40)], end=110 if stopped else 90) for _ in range(3)]
        found[2].advance(found[2].end, 125)  # gaps behind the last record
        return found

    async def stop(link: str, topic: str) -> None:
        nonlocal stopped
        stopped = True

    scene.plane.parts.maps.read = maps
    scene.plane.engine.stop_mirror = stop  # type: ignore[method-assign]
    told = status(1, source_end=130, mirrored_to=122, target_end=110)  # its gateway has seen gaps, too
    scene.plane.engine.numbers["l", "orders"] = [status(0), told, status(2)]
    failed_over = await asyncio.wait_for(scene.failover(), 10)
    assert failed_over.cutover.stopped_at == (120, 122, 125)
    assert failed_over.cutover.stopped_copy_at == (110, 110, 110)
    assert failed_over.cutover.not_mirrored == (10, 8, 5)
    assert failed_over.cutover.source_answered


async def test_a_copy_that_does_not_say_where_it_ends_is_asked_again_and_then_refuses(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is taken for an end: neither an answer without partitions, nor a log of which the map says nothing."""
    monkeypatch.setattr(failover_run, "LIMITS", FailoverLimits(copy_s=0.3))
    scene.plane.target.existing["orders"].ranges = [(0, 100)]
    with pytest.raises(Conflict, match="not known after 0.3 s: where the copy of 'orders' ends, partition 1, 2; try"):
        await asyncio.wait_for(scene.periods._failover.run("l", "orders"), 10)
    assert (scene.record.state, scene.phase) == (S.ACTIVE, WritePhase.FORWARD)
    assert ("l", "orders") in scene.plane.engine.running

    await scene.plane.store.put(replace(scene.record, mode=MirrorMode.TRANSLATE))

    async def maps(_: MirrorRecord) -> Sequence[OffsetMap]:
        return [OffsetMap([(0, 0)], end=60), OffsetMap(end=60), OffsetMap(end=0)]

    scene.plane.parts.maps.read = maps
    scene.plane.progress.forget("orders")
    with pytest.raises(Conflict, match="does not say where the copy of mirror topic 'orders' ends, partition 1; try"):
        await scene.periods.failover_plan("l", "orders")
    with pytest.raises(Conflict, match="where the copy of 'orders' ends, partition 1; try again"):
        await asyncio.wait_for(scene.periods._failover.run("l", "orders"), 10)
    assert (scene.record.state, scene.phase) == (S.ACTIVE, WritePhase.FORWARD)


async def test_describe_says_what_a_failover_waits_for(scene: Scene) -> None:
    """And nothing any more when it has ended."""
    scene.topic.forwarder.silent = True
    scene.plane.pauses["g"] = scene.topic.forwarder
    run = asyncio.create_task(scene.plane.service.failbacks.failover("l", ["orders"]))
    mirrors = scene.plane.service.mirrors
    await wait_until_async(
        lambda: (
            mirrors.view(scene.record).waiting_for
            == "being failed over: what is in flight to the source to be answered"
        )
    )
    (record,) = await asyncio.wait_for(run, 10)
    assert record.state is S.STOPPED
    assert mirrors.view(scene.record).waiting_for == ""


async def test_what_a_gateway_that_has_gone_had_in_flight_lands_before_the_mirror_is_stopped(scene: Scene) -> None:
    """Else it lands behind the cutover: its sequence is the next one of the mirror's producer id."""
    loop = asyncio.get_running_loop()
    coverage, gone = Coverage(), loop.time()
    coverage.gone = gone
    scene.periods = scene.plane.failbacks(
        pauses={"g": scene.topic.forwarder}, ends=RangeEnds(scene.plane.source), landing_s=0.2, coverage=coverage
    )
    stopped: list[float] = []
    stop = scene.plane.engine.stop_mirror

    async def stop_mirror(link: str, topic: str) -> None:
        stopped.append(loop.time())
        await stop(link, topic)

    scene.plane.engine.stop_mirror = stop_mirror  # type: ignore[method-assign]
    assert (await asyncio.wait_for(scene.failover(), 10)).state is S.STOPPED
    assert stopped[0] >= gone + 0.2


async def test_a_failover_whose_caller_is_cut_off_takes_all_back(scene: Scene) -> None:
    scene.topic.forwarder.silent = True
    run = asyncio.create_task(scene.failover())
    await wait_until_async(lambda: scene.phase is WritePhase.PAUSED)
    run.cancel()
    await asyncio.wait([run])
    await wait_until_async(lambda: scene.phase is WritePhase.FORWARD)
    assert scene.record.state is S.ACTIVE
    scene.topic.forwarder.silent = False
    assert (await asyncio.wait_for(scene.failover(), 10)).state is S.STOPPED


async def test_a_gateway_that_leaves_ends_its_failovers_first_and_begins_none(scene: Scene) -> None:
    """What the mirror here knows of producers goes into the record: a retry over the failover is answered by it."""
    scene.topic.forwarder.silent = True
    run = asyncio.create_task(scene.failover())
    await wait_until_async(lambda: scene.phase is WritePhase.PAUSED)
    leaving = asyncio.create_task(scene.periods.leave(10.0))
    await wait_until_async(lambda: bool(scene.periods._failover._leaving))
    assert not leaving.done()
    scene.topic.forwarder.silent = False
    assert (await asyncio.wait_for(run, 10)).state is S.STOPPED
    await asyncio.wait_for(leaving, 10)


async def test_a_failover_that_does_not_end_is_not_waited_for_without_end(scene: Scene) -> None:
    scene.topic.forwarder.silent = True
    run = asyncio.create_task(scene.failover())
    await wait_until_async(lambda: scene.phase is WritePhase.PAUSED)
    await asyncio.wait_for(scene.periods.leave(0.01), 5)
    run.cancel()
    await asyncio.wait([run])


async def test_a_gateway_that_leaves_begins_no_failover(scene: Scene) -> None:
    await scene.periods.leave(1.0)
    with pytest.raises(Conflict, match="this gateway is being stopped; ask again in a moment"):
        await scene.failover()
    assert (scene.record.state, scene.phase) == (S.ACTIVE, WritePhase.FORWARD)


async def test_a_gateway_that_does_not_hold_its_writes_ends_the_failover(scene: Scene) -> None:
    async def refuses(pause: Pause) -> None:
        raise OSError("no route to host")

    scene.topic.forwarder.pause = refuses  # type: ignore[method-assign]
    with pytest.raises(Conflict, match="gateway 'g' does not stop writing to mirror topic 'orders' on the source: no"):
        await asyncio.wait_for(scene.failover(), 10)
    assert (scene.record.state, scene.phase) == (S.ACTIVE, WritePhase.FORWARD)


async def test_a_record_that_others_change_meanwhile_is_read_again(scene: Scene) -> None:
    """The engine tells that the source is lost, right before the cutover is stored."""
    store = scene.plane.store
    replace_as_shipped, conflicts = store.replace, list[MirrorState]()

    async def replaced(old: Any, new: Any, *guard: Any) -> None:
        if not conflicts:
            await store.put(replace(scene.record, state=S.SOURCE_UNAVAILABLE))
            conflicts.append(old.state)
        await replace_as_shipped(old, new, *guard)

    store.replace = replaced  # type: ignore[method-assign, assignment]
    assert (await asyncio.wait_for(scene.failover(), 10)).state is S.STOPPED
    assert conflicts == [S.ACTIVE]


async def test_what_nobody_told_of_the_offsets_the_map_does(scene: Scene) -> None:
    """A job, or a process that is gone, began to translate: the record still says that offsets are equal."""
    await scene.plane.service.mirrors.pause("l", "orders")
    scene.plane.source.existing["orders"].ranges = [(0, 130)] * 3

    async def ask(_: MirrorRecord) -> bool:
        return True

    async def maps(_: MirrorRecord) -> Sequence[OffsetMap]:
        return [OffsetMap([(0, 0), (50, 40)], end=100, read_to=110) for _ in range(3)]

    scene.plane.parts.maps.ask, scene.plane.parts.maps.read = ask, maps
    failed_over = await asyncio.wait_for(scene.failover(), 10)
    assert (failed_over.cutover.stopped_at, failed_over.cutover.stopped_copy_at) == ((110,) * 3, (100,) * 3)
    assert failed_over.cutover.not_mirrored == (20, 20, 20)
    assert failed_over.mode is MirrorMode.TRANSLATE


async def test_a_position_goes_with_the_end_of_the_copy_that_it_was_told_of(scene: Scene) -> None:
    """The copy has lost records since: what was mirrored once is not there, and is left behind on the source."""
    await scene.plane.store.put(replace(scene.record, mode=MirrorMode.TRANSLATE))
    scene.plane.source.existing["orders"].ranges = [(0, 130)] * 3

    async def maps(_: MirrorRecord) -> Sequence[OffsetMap]:
        return [OffsetMap([(0, 0), (50, 40)], end=90) for _ in range(3)]

    scene.plane.parts.maps.read = maps
    scene.plane.engine.numbers["l", "orders"] = [
        status(index, source_end=130, mirrored_to=122, target_end=110) for index in range(3)
    ]
    for index in range(3):
        scene.plane.progress.advance("orders", index, 122)
    failed_over = await asyncio.wait_for(scene.failover(), 10)
    assert failed_over.cutover.stopped_at == (100, 100, 100)
    assert failed_over.cutover.stopped_copy_at == (90, 90, 90)
    assert failed_over.cutover.not_mirrored == (30, 30, 30)


async def test_an_end_that_nobody_has_seen_is_not_an_empty_log(scene: Scene) -> None:
    """A mirror that has just begun, of a source that is gone: what it leaves behind is not known, and not none."""
    scene.plane.engine.numbers["l", "orders"] = [
        status(index, source_end=None, mirrored_to=None, lag=None, lag_ms=None) for index in range(3)
    ]
    scene.plane.target.existing["orders"].ranges = [(0, 0)] * 3
    scene.plane.source.down = True
    assert (await asyncio.wait_for(scene.failover(), 10)).cutover.not_mirrored == (UNKNOWN,) * 3


async def test_what_was_seen_last_of_a_source_that_is_gone_is_not_all_there_is(scene: Scene) -> None:
    """It was level when it was last heard of: nothing is known to be left behind, and nobody says that nothing is."""
    scene.plane.engine.numbers["l", "orders"] = [status(index) for index in range(3)]
    scene.plane.source.down = True
    assert not (await scene.periods._failover.plan("l", "orders")).exact
    cutover = (await asyncio.wait_for(scene.failover(), 10)).cutover
    assert (cutover.not_mirrored, cutover.source_answered) == ((0, 0, 0), False)
