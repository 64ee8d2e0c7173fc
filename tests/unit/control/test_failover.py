"""A failover and a promote of one topic: one owner of its writes at a time, whatever is not known yet."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest

from gateway.control.errors import Conflict
from gateway.control.state_topic import Change
from gateway.control.store import StoreError, StoreUncertain
from gateway.control.ways_back import WaysBack
from gateway.domain.offset_map import OffsetMap
from gateway.domain.records import MirrorMode, MirrorRecord, MirrorState
from gateway.domain.routing import Phase
from tests.support.control_plane import Plane
from tests.support.fake_engine import status
from tests.support.fake_kafka import RangeEnds
from tests.support.topic_scene import TopicScene, mirrored_topic
from tests.support.waiting import wait_until_async

S = MirrorState


class Scene:
    """A mirror topic, level at 100, to be promoted and failed over. `trace`: its phases, and begins of its mirror."""

    def __init__(self, plane: Plane, topic: TopicScene) -> None:
        self.plane = plane
        self.topic = topic
        plane.target.existing["orders"].ranges = [(0, 100)] * 3
        plane.engine.numbers["l", "orders"] = [status(index) for index in range(3)]
        self.ways = WaysBack(
            context=plane.service.context,
            measure=plane.service.measure,
            routing=plane.routing,
            fences={"g": topic.forwarder},
            ends=RangeEnds(plane.source),
        )
        self.trace: list[str] = []
        plane.routing.subscribe(lambda routing: self.trace.append(routing.topics["orders"].phase.value))
        start = plane.engine.start_mirror

        def start_mirror(mirror: MirrorRecord) -> None:
            self.trace.append("mirror started")
            start(mirror)

        plane.engine.start_mirror = start_mirror  # type: ignore[method-assign]

    @property
    def record(self) -> MirrorRecord:
        return self.topic.record

    @property
    def phase(self) -> Phase:
        return self.plane.routing.current.topics["orders"].phase

    async def promote_in_doubt(self) -> asyncio.Task[list[MirrorRecord]]:
        """A promote whose flip's commit has no answer; what became of it is not known either."""
        log, real, begun = self.plane.log, self.plane.log.commit, threading.Event()

        def commit(changes: Sequence[Change]) -> int:
            if any(b'"STOPPED"' in (value or b"") for _, value in changes) and not begun.is_set():
                log.uncertain = list(changes)
                begun.set()
                raise StoreUncertain("the target has not answered a change of the state")
            return real(changes)

        log.commit = commit  # type: ignore[method-assign]
        log.settled_as = StoreUncertain("still none")
        run = asyncio.create_task(self.topic.promote())
        await wait_until_async(begun.is_set)
        self.trace.clear()
        return run

    async def failover(self) -> MirrorRecord:
        (record,) = await self.ways.failover("l", ["orders"])
        return record


@pytest.fixture
async def scene(plane: Plane) -> Scene:
    topic = await mirrored_topic(plane)
    await plane.store.put(replace(topic.record, settled=True))
    return Scene(plane, topic)


async def test_a_failover_ends_the_promote_that_is_under_way(scene: Scene) -> None:
    """It waits until the promote has taken back what it did: its time-out would begin the mirror anew later."""
    scene.topic.forwarder.silent = True  # a write to the source is in flight and not answered
    promote = asyncio.create_task(scene.topic.promote())
    await wait_until_async(lambda: scene.phase is Phase.FENCED)
    failed_over = await asyncio.wait_for(scene.failover(), 10)
    with pytest.raises(Conflict, match="is being failed over"):
        await asyncio.wait_for(promote, 10)
    assert failed_over.state is S.STOPPED
    held = scene.trace.index("mirror started")  # by the promote's end
    assert scene.trace[held + 1 :] == ["fenced", "switched"]
    assert ("l", "orders") not in scene.plane.engine.running


async def test_a_failover_does_not_wait_for_what_a_promote_waits_for(scene: Scene) -> None:
    """The source is gone: what the promote asks it is not answered, and need not be."""
    asked = asyncio.Event()

    async def read(*_: object) -> None:
        asked.set()
        await asyncio.Event().wait()

    scene.topic.ends.read = read  # type: ignore[assignment, method-assign]
    promote = asyncio.create_task(scene.topic.promote())
    await wait_until_async(asked.is_set)
    assert (await asyncio.wait_for(scene.failover(), 10)).state is S.STOPPED
    with pytest.raises(Conflict, match="is being failed over"):
        await asyncio.wait_for(promote, 10)


async def test_writes_are_held_while_a_promotes_flip_is_in_doubt(scene: Scene) -> None:
    promote = await scene.promote_in_doubt()
    with pytest.raises(Conflict, match="is not known: the target does not answer"):
        await asyncio.wait_for(scene.failover(), 10)
    assert scene.phase is Phase.FENCED

    scene.plane.log.settled_as = True
    await asyncio.wait_for(promote, 10)
    assert (scene.record.state, scene.phase) == (S.STOPPED, Phase.SWITCHED)
    assert "forward" not in scene.trace


@pytest.mark.parametrize("made", [True, False])
async def test_a_failover_waits_for_the_flip_that_is_in_doubt(scene: Scene, made: bool) -> None:
    promote = await scene.promote_in_doubt()
    failover = asyncio.create_task(scene.failover())
    scene.plane.log.settled_as = True if made else StoreError("aborted")
    failed_over = await failover
    await asyncio.wait_for(promote, 10)
    assert (failed_over.state, failed_over.not_mirrored, scene.phase) == (S.STOPPED, (), Phase.SWITCHED)
    assert "forward" not in scene.trace
    assert "mirror started" not in scene.trace


async def test_a_promote_that_breaks_off_in_its_commit_holds_until_it_is_known(scene: Scene) -> None:
    """By an error that no step expects, while nobody knows whether the flip is stored."""
    promote = await scene.promote_in_doubt()
    scene.plane.log.commit = lambda changes: 1 // 0  # type: ignore[method-assign]
    settle, broken = scene.plane.log.settle, threading.Event()

    def fails_once() -> int:
        if not broken.is_set():
            broken.set()
            raise ZeroDivisionError
        return settle()

    scene.plane.log.settle = fails_once  # type: ignore[method-assign]
    await wait_until_async(broken.is_set)
    assert scene.phase is Phase.FENCED
    assert not promote.done()
    scene.plane.log.settled_as = True
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(promote, 10)
    assert (scene.record.state, scene.phase) == (S.STOPPED, Phase.SWITCHED)


async def test_no_promote_begins_while_a_failover_is_in_doubt(scene: Scene) -> None:
    log = scene.plane.log
    log.failures, log.settled_as = [StoreUncertain("no answer")], StoreUncertain("still no answer")
    with pytest.raises(StoreUncertain):
        await asyncio.wait_for(scene.failover(), 10)
    with pytest.raises(Conflict, match="is being failed over"):
        await asyncio.wait_for(scene.topic.promote(), 10)
    with pytest.raises(Conflict, match="is being failed over already"):
        await asyncio.wait_for(scene.failover(), 10)
    assert scene.phase is Phase.FENCED

    log.settled_as = StoreError("aborted")
    await wait_until_async(lambda: scene.trace[-1:] == ["forward"])
    assert (await asyncio.wait_for(scene.topic.promote(), 10))[0].state is S.STOPPED


async def test_what_was_appended_while_the_mirror_stopped_is_on_the_copy(scene: Scene) -> None:
    """In mode translate: a position as it was told lacks what was acknowledged since, here and at other gateways."""
    await scene.plane.store.put(replace(scene.record, mode=MirrorMode.TRANSLATE))
    scene.plane.source.existing["orders"].ranges = [(0, 130)] * 3
    stopped = False

    async def maps(_: MirrorRecord) -> Sequence[OffsetMap]:
        found = [OffsetMap([(0, 0), (50, 40)], end=110 if stopped else 90) for _ in range(3)]
        found[2].advance(found[2].end, 125)  # holes behind the last record
        return found

    async def stop(link: str, topic: str) -> None:
        nonlocal stopped
        stopped = True

    scene.plane.service.context.offset_maps = maps
    scene.plane.engine.stop_mirror = stop  # type: ignore[method-assign]
    scene.plane.progress.advance("orders", 1, 122)  # it has seen holes, too
    failed_over = await asyncio.wait_for(scene.failover(), 10)
    assert failed_over.stopped_at == (120, 122, 125)
    assert failed_over.stopped_copy_at == (110, 110, 110)
    assert failed_over.not_mirrored == (10, 8, 5)
