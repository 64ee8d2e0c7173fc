"""What a cutover's record is made of: one answer of the partitions that run here, or the promote is given up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from gateway.cutover.write_pause.interface import PauseAck
from gateway.cutover.write_pause.rules.routing import WritePhase
from gateway.cutover.write_pause.rules.write_pause import Pause
from gateway.errors import Conflict, TargetUnreachable
from gateway.mirror.rules.copy_ends import CopyEnds
from gateway.state.records import MirrorMode, MirrorRecord, MirrorState
from tests.support.control.control_plane import Plane
from tests.support.control.topic_scene import LIMITS, TABLE, TopicScene, mirrored_topic
from tests.support.waiting import wait_until_async

KEY = ("l", "orders")


@pytest.fixture(params=["promote", "home"])
async def scene(plane: Plane, request: pytest.FixtureRequest) -> TopicScene:
    """A promote, or a failback; source and target count differently."""
    made = await mirrored_topic(plane)
    record = replace(made.record, mode=MirrorMode.TRANSLATE)
    if request.param == "home":
        record = await made.turned_round(mode=MirrorMode.TRANSLATE)
        made.target_ends.ends["orders"], made.ends.ends["orders"] = [140] * 3, [0] * 3
    plane.engine.running.clear()
    if request.param != "home":
        await plane.by_hand(record)
    plane.engine.start_mirror(record)
    made.mirrored("orders", 140 if request.param == "home" else 100)
    made.phases.clear()
    return made


def origin_and_copy(scene: TopicScene) -> tuple[list[int], list[int]]:
    ends, target_ends = scene.ends.ends["orders"], scene.target_ends.ends["orders"]
    return (target_ends, ends) if scene.record.is_reverse else (ends, target_ends)


def assert_not_cut_over(scene: TopicScene) -> None:
    """The record, the routes and the mirror are as before: it can be asked for again."""
    record = scene.record
    assert record.state is MirrorState.ACTIVE
    written = scene.plane.routing.current.topics["orders"].phase
    assert written is (WritePhase.SWITCHED if record.is_reverse else WritePhase.FORWARD)
    assert KEY in scene.plane.engine.running


def ends_of_cutover(record: MirrorRecord) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(origin's, copy's) as the record has them."""
    if record.state is MirrorState.PENDING_MIRROR:
        return record.failback.handed_over_at, record.failback.handed_over_from
    return record.cutover.stopped_at, record.cutover.stopped_copy_at


async def cutovers(scene: TopicScene) -> None:
    origin, copy = origin_and_copy(scene)
    wanted = tuple(origin), tuple(copy)
    (record,) = await scene.promote()
    assert record.state in (MirrorState.STOPPED, MirrorState.PENDING_MIRROR)
    assert ends_of_cutover(record) == wanted
    assert record.cutover.producers == TABLE


def after_the_acknowledgement(scene: TopicScene, action: Callable[[], None]) -> None:
    drain = scene.forwarder.drain

    async def acknowledge(pause: Pause) -> PauseAck:
        found = await drain(pause)
        action()
        return found

    scene.forwarder.drain = acknowledge  # type: ignore[method-assign]


@pytest.mark.parametrize("given", [(0,), (1, 2), (0, 1, 2)], ids=str)
async def test_partitions_that_are_given_away_under_the_write_pause_end_the_promote(
    scene: TopicScene, given: tuple[int, ...]
) -> None:
    here = scene.plane.engine.here[KEY]
    before = dict(here)

    def give() -> None:
        for index in given:
            here.pop(index, None)

    after_the_acknowledgement(scene, give)
    with pytest.raises(Conflict, match="not mirrored by this gateway any more"):
        await scene.promote()
    assert_not_cut_over(scene)

    del scene.forwarder.drain
    here.update(before)
    await cutovers(scene)


async def test_a_partition_that_is_gone_at_the_last_moment_ends_it_too(scene: TopicScene) -> None:
    """After the last look, and before the stop: nothing empty is taken for an answer."""
    engine = scene.plane.engine
    ends = engine.ends

    def gone(mirror: MirrorRecord) -> CopyEnds | None:
        engine.here[KEY].pop(1, None)
        return ends(mirror)

    engine.ends = gone  # type: ignore[method-assign]
    with pytest.raises(Conflict, match=r"not whole under the write pause: .* \[1\]"):
        await scene.promote()
    assert_not_cut_over(scene)


async def test_the_write_pause_waits_for_partitions_that_another_gateway_has(scene: TopicScene) -> None:
    here = scene.plane.engine.here[KEY]
    taken = here.pop(2)
    run = asyncio.create_task(scene.promote())
    await wait_until_async(lambda: "partition 2" in scene.promoter.waiting_for(*KEY), what="the reason")
    assert not scene.forwarder.paused
    here[2] = taken._replace(warm=False)
    await wait_until_async(lambda: "last batches of the producers" in scene.promoter.waiting_for(*KEY))
    assert not scene.forwarder.paused
    here[2] = taken
    (record,) = await run
    assert record.cutover.producers == TABLE


async def test_producers_that_are_not_known_any_more_under_the_write_pause_are_waited_for(scene: TopicScene) -> None:
    """Another appender was faster: what it copied is yet to be read."""
    here = scene.plane.engine.here[KEY]
    warm = here[0]
    after_the_acknowledgement(scene, lambda: here.update({0: warm._replace(warm=False)}))
    with pytest.raises(Conflict, match="the last batches of the producers of orders, partition 0"):
        await scene.promote()
    assert_not_cut_over(scene)

    origins = scene.target_ends if scene.record.is_reverse else scene.ends
    under_pause: list[int] = []

    def read_on(number: int) -> None:
        under_pause.extend([number] * (len(scene.forwarder.paused) > 1))
        if len(under_pause) > 3:
            here[0] = warm

    here[0], origins.on_read = warm, read_on
    await cutovers(scene)


async def test_what_another_gateway_told_does_not_count(scene: TopicScene) -> None:
    """It was at the end, and the target lost it: here the partition is further back."""
    here = scene.plane.engine.here[KEY]
    here[1] = here[1]._replace(mirrored_to=here[1].mirrored_to - 5, copy_end=here[1].copy_end - 5)
    with pytest.raises(Conflict, match=f"the mirror of orders: partition 1 at {here[1].mirrored_to}"):
        await scene.promote()
    assert_not_cut_over(scene)


@pytest.mark.parametrize(("by", "reason"), [(-3, "lost records"), (2, "something else appended")])
async def test_the_copy_must_end_where_its_mirror_stood(scene: TopicScene, by: int, reason: str) -> None:
    _, copy = origin_and_copy(scene)
    copy[1] += by
    told = f"the copy of orders, partition 1, ends at {copy[1]}.*{reason}"
    if scene.record.is_reverse and by > 0:
        told = "2 record.s. were written to orders, partition 1, on the source after the cutover"
    with pytest.raises(Conflict, match=told):
        await scene.promote()
    assert_not_cut_over(scene)
    assert scene.plane.progress.position("orders", 1) is None  # it begins anew where the copy ends

    copy[1] -= by
    await cutovers(scene)


async def test_a_copy_that_cannot_be_read_ends_it_and_is_called_by_its_name(scene: TopicScene) -> None:
    copies = scene.ends if scene.record.is_reverse else scene.target_ends
    if scene.record.is_reverse:  # it has told before that nobody else wrote there
        copies.on_read = lambda number: setattr(copies, "down", number > 1)
    else:
        copies.down = True
    if not scene.record.is_reverse:
        copies.failure = TargetUnreachable("the target cluster: no answer in time")
    with pytest.raises(Conflict) as caught:
        await scene.promote()
    assert ("the source" in str(caught.value)) is scene.record.is_reverse
    assert_not_cut_over(scene)


async def test_an_origin_that_does_not_answer_is_called_by_its_name(scene: TopicScene) -> None:
    origins = scene.target_ends if scene.record.is_reverse else scene.ends
    origins.down = True
    if scene.record.is_reverse:
        origins.failure = TargetUnreachable("the target cluster: no answer in time")
    with pytest.raises(Conflict) as caught:
        await scene.promote()
    assert str(caught.value).startswith("the target" if scene.record.is_reverse else "the source")
    assert ("the source" in str(caught.value)) is not scene.record.is_reverse


async def test_partitions_that_are_added_under_the_write_pause_end_it(scene: TopicScene) -> None:
    origin, _ = origin_and_copy(scene)
    after_the_acknowledgement(scene, lambda: origin.append(5))
    where = "target" if scene.record.is_reverse else "source"
    with pytest.raises(Conflict, match=f"orders has 4 partitions on the {where}, its mirror 3"):
        await scene.promote()
    assert_not_cut_over(scene)


async def test_partitions_that_are_added_before_the_write_pause_end_it(scene: TopicScene) -> None:
    origin, _ = origin_and_copy(scene)
    origin[0] += 1000
    run = asyncio.create_task(scene.promote())
    await wait_until_async(lambda: "records behind" in scene.promoter.waiting_for(*KEY), what="the lag")
    origin.append(0)
    with pytest.raises(Conflict, match="has 4 partitions"):
        await run
    assert not scene.forwarder.paused
    assert_not_cut_over(scene)


# -- a gateway that is stopped in order ------------------------------------------------------------------------


async def test_a_promote_that_holds_writes_comes_to_its_end_before_the_gateway_leaves(scene: TopicScene) -> None:
    leaving: list[asyncio.Task[None]] = []
    after_the_acknowledgement(scene, lambda: leaving.append(asyncio.create_task(scene.promoter.leave(5.0))))
    await cutovers(scene)
    await leaving[0]
    assert not scene.promoter.under_way()


async def test_one_that_holds_none_yet_is_left_to_the_next_leader(scene: TopicScene) -> None:
    origin, _ = origin_and_copy(scene)
    origin[0] += 1000
    run = asyncio.create_task(scene.promote())
    await wait_until_async(lambda: "records behind" in scene.promoter.waiting_for(*KEY), what="the lag")
    await scene.promoter.leave(5.0)
    with pytest.raises(Conflict, match="is being stopped"):
        await run
    assert scene.record.state is MirrorState.PENDING_STOPPED
    assert not scene.forwarder.paused

    origin[0] -= 1000
    successor = scene.make()
    successor.resume()
    await wait_until_async(lambda: scene.record.state is not MirrorState.PENDING_STOPPED, what="the cutover")
    assert scene.record.cutover.producers == TABLE


async def test_a_gateway_that_leaves_begins_none(scene: TopicScene) -> None:
    await scene.promoter.leave(0.1)
    with pytest.raises(Conflict, match="is being stopped; ask again"):
        await scene.promote()
    assert scene.record.state is MirrorState.ACTIVE


async def test_one_that_does_not_end_is_not_waited_for_for_ever(scene: TopicScene) -> None:
    promoter = scene.make(replace(LIMITS, pause_timeout_s=30.0))
    scene.forwarder.silent = True
    run = asyncio.create_task(promoter.promote("l", ["orders"]))
    await wait_until_async(lambda: scene.forwarder.paused, what="the write pause")
    await promoter.leave(0.05)
    assert promoter.under_way() == {KEY}
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
