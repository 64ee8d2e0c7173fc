"""What is known of the offsets of a mirror that nobody runs: its map is asked, no more often than it can change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from gateway.errors import Conflict
from gateway.mirror.offset_map.rules.offset_map import OffsetMap
from gateway.state.records import MirrorMode, MirrorRecord, SourceOffset
from gateway.topics.catch_up import CatchUp, JobState
from tests.support.control.control_plane import Plane

AT_REST_MS = 120_000


class MapTopic:
    """Of a link: `used` once it has something of the topic. `asked`: how often it was read."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.used = False
        self.asked = 0
        plane.parts.maps.ask, plane.parts.maps.read = self._ask, self._read

    async def _ask(self, mirror: MirrorRecord) -> bool:
        self.asked += 1
        return self.used

    async def _read(self, mirror: MirrorRecord) -> Sequence[OffsetMap]:
        return [OffsetMap([(0, 0), (500, 400)], end=500, read_to=600) for _ in mirror.starts]

    @property
    def record(self) -> MirrorRecord:
        return self.plane.store.mirrors["l", "orders"]

    async def carried(self, offset: int = 504) -> tuple[int, str]:
        """What a group at this offset of the source gets on the target."""
        between = self.plane.parts.maps.between("l")
        (found,) = await between.to_target([SourceOffset("orders", 0, offset)])
        return found.target_offset, found.rule

    async def job(self, state: JobState) -> None:
        progress = CatchUp(
            job="j", by="spark", records_done=0, records_total=1, bytes_done=0, bytes_total=1, bytes_per_s=0.0, eta_s=-1
        )
        await self.plane.service.catch_ups.report("l", "j", state, {"orders": progress})


@pytest.fixture
async def topic(plane: Plane) -> MapTopic:
    await plane.with_mirror()
    return MapTopic(plane)


async def paused(topic: MapTopic) -> None:
    await topic.plane.service.mirrors.pause("l", "orders")
    topic.plane.now_ms += AT_REST_MS


async def test_a_paused_mirror_whose_process_died_before_it_told(topic: MapTopic) -> None:
    await paused(topic)
    topic.used = True
    with pytest.raises(Conflict, match="is being changed to mode translate"):
        await topic.carried()

    await topic.plane.service.events.reconcile()
    assert topic.record.mode is MirrorMode.TRANSLATE
    assert topic.record.mode_reason == "offsets are translated: its offset map says so"
    assert await topic.carried() == (404, "exact")


async def test_a_mirror_that_a_job_copies(topic: MapTopic) -> None:
    await topic.job(JobState.RUNNING)
    assert await topic.carried() == (504, "exact")
    topic.used = True
    with pytest.raises(Conflict, match="is being changed to mode translate"):
        await topic.carried()


@pytest.mark.parametrize("killed", [True, False])
async def test_a_paused_mirror_after_a_job_that_began_to_translate(topic: MapTopic, killed: bool) -> None:
    """A driver that is killed says nothing: the record is right all the same, before anybody asks."""
    await paused(topic)
    assert await topic.carried() == (504, "exact")
    await topic.job(JobState.RUNNING)
    topic.used = True
    if killed:
        topic.plane.clock_s += 3600
        await topic.plane.service.catch_ups.expire()
    else:
        await topic.job(JobState.DONE)
    await topic.plane.service.events.reconcile()
    assert topic.record.mode is MirrorMode.TRANSLATE


async def test_an_executor_that_outlives_its_driver_may_still_write_the_map(topic: MapTopic) -> None:
    await paused(topic)
    await topic.job(JobState.RUNNING)
    await topic.job(JobState.DONE)
    assert await topic.carried() == (504, "exact")
    topic.used = True
    with pytest.raises(Conflict, match="is being changed to mode translate"):
        await topic.carried()


async def test_a_mirror_at_rest_is_asked_once(topic: MapTopic) -> None:
    await paused(topic)
    for _ in range(3):
        assert await topic.carried() == (504, "exact")
    assert topic.asked == 1
    await topic.plane.store.replace(topic.record, replace(topic.record, restore_configs={"a": "b"}))
    await topic.carried()
    assert topic.asked == 2


async def test_a_mirror_that_was_paused_a_moment_ago_may_still_write_its_map(topic: MapTopic) -> None:
    await topic.plane.service.mirrors.pause("l", "orders")
    assert await topic.carried() == (504, "exact")
    topic.used = True
    with pytest.raises(Conflict, match="is being changed to mode translate"):
        await topic.carried()


async def test_a_mirror_that_runs_is_not_asked(topic: MapTopic) -> None:
    await topic.carried()
    assert topic.asked == 0


async def test_how_far_a_mirror_at_rest_has_come_is_told_by_its_map(topic: MapTopic) -> None:
    await paused(topic)
    topic.used = True
    shown = await topic.plane.parts.measure.now(topic.record)
    assert {one.mirrored_to for one in shown} == {600}
