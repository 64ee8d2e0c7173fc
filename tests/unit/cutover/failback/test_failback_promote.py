"""The promote of a topic that is mirrored back: its writes fail back to the source."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.cutover.write_pause.rules.routing import WritePhase
from gateway.errors import Conflict
from gateway.state.producer_ids import MAX_FAILBACK_EPOCH
from gateway.state.records import MirrorDirection, MirrorState
from tests.support.control.control_plane import Plane
from tests.support.control.topic_scene import TABLE, TopicScene, mirrored_topic


@pytest.fixture
async def scene(plane: Plane) -> TopicScene:
    return await mirrored_topic(plane)


async def reversed_(scene: TopicScene, **changes: Any) -> None:
    """The topic is mirrored back; its target ends at 140, all of it is on the source."""
    scene.plane.engine.running.clear()
    record = await scene.turned_round(**changes)
    scene.plane.engine.start_mirror(record)
    scene.target_ends.ends["orders"] = [140, 140, 140]
    scene.mirrored("orders", 140)
    scene.plane.target.existing["orders"].ranges = [(0, 140)] * 3
    scene.phases.clear()


async def test_a_promote_of_a_mirror_back_fails_back(scene: TopicScene) -> None:
    await reversed_(scene)
    (record,) = await scene.promote()
    assert (record.state, record.failback.direction) == (MirrorState.PENDING_MIRROR, MirrorDirection.FORWARD)
    assert (record.failback.epoch, record.failback.handed_over_at, record.failback.handed_over_from) == (
        1,
        (140,) * 3,
        (100,) * 3,
    )
    assert (record.cutover.producers, record.cutover.pause_epoch) == (TABLE, 1)
    seen = [phase for index, phase in enumerate(scene.phases) if index == 0 or scene.phases[index - 1] is not phase]
    assert seen == [WritePhase.PAUSED, WritePhase.FORWARD]
    assert scene.gone_on == [("l", "orders")]
    assert scene.plane.progress.position("orders", 0) is None
    assert (
        scene.ends.reads == 2
    )  # before it, for records of others; and where the copy ends: else the source's ends say nothing at the failback


async def test_a_writer_beside_the_gateway_on_the_target_keeps_it_from_failing_back(scene: TopicScene) -> None:
    await reversed_(scene)

    under_pause: list[int] = []

    def write(number: int) -> None:
        if scene.forwarder.paused:
            under_pause.append(number)
        if len(under_pause) == 2:
            scene.target_ends.ends["orders"][1] += 1

    scene.target_ends.on_read = write
    with pytest.raises(Conflict, match="does not use the gateway"):
        await scene.promote()
    assert (scene.record.state, scene.record.failback.direction) == (MirrorState.ACTIVE, MirrorDirection.REVERSE)
    assert scene.plane.routing.current.topics["orders"].phase is WritePhase.SWITCHED
    assert scene.plane.engine.running["l", "orders"].is_reverse


async def test_there_is_an_end_to_failbacks(scene: TopicScene) -> None:
    await reversed_(scene, failback_epoch=MAX_FAILBACK_EPOCH)
    with pytest.raises(Conflict, match="has failed back 2047 times"):
        await scene.promote()


async def test_to_and_fro_is_no_set(scene: TopicScene) -> None:
    await scene.mirror("clicks")
    await reversed_(scene)
    with pytest.raises(Conflict, match="no set"):
        await scene.promote("orders", "clicks")


async def test_home_is_not_gone_to_with_partitions_that_are_not_mirrored_back(scene: TopicScene) -> None:
    await reversed_(scene)
    scene.plane.target.grow("orders", 4)
    with pytest.raises(Conflict, match="4 partitions on the target"):
        await scene.promote()


async def test_partitions_that_are_added_under_the_pause_are_seen_right_before_the_cutover(scene: TopicScene) -> None:
    """Home with too few of them the mirror ended FAILED."""
    await reversed_(scene)
    scene.target_ends.on_count = lambda: scene.target_ends.ends["orders"].append(0)

    with pytest.raises(Conflict, match="has 4 partitions on the target, its mirror 3; wait until the new ones"):
        await scene.promote()

    assert (scene.record.state, scene.record.failback.direction) == (MirrorState.ACTIVE, MirrorDirection.REVERSE)
    assert scene.record.failback.epoch == 0
    assert scene.plane.engine.running["l", "orders"].is_reverse


async def test_nor_does_a_promote_leave_partitions_of_the_source_behind(scene: TopicScene) -> None:
    scene.ends.on_count = lambda: scene.ends.ends["orders"].append(0)
    with pytest.raises(Conflict, match="has 4 partitions on the source, its mirror 3; wait until the new ones"):
        await scene.promote()
    assert scene.record.state is MirrorState.ACTIVE
