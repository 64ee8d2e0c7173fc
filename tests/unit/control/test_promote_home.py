"""The promote of a topic that is mirrored back: its writes go home to the source."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.control.errors import Conflict
from gateway.domain.producer_ids import MAX_GENERATION
from gateway.domain.records import MirrorDirection, MirrorState
from gateway.domain.routing import Phase
from tests.support.control_plane import Plane
from tests.support.topic_scene import TABLE, TopicScene, mirrored_topic


@pytest.fixture
async def scene(plane: Plane) -> TopicScene:
    return await mirrored_topic(plane)


async def reversed_(scene: TopicScene, **changes: Any) -> None:
    """The topic is mirrored back; its target ends at 140, all of it is on the source."""
    scene.plane.engine.running.clear()
    record = replace(scene.record, direction=MirrorDirection.REVERSE, restore_configs={}, **changes)
    await scene.plane.store.put(record)
    scene.plane.engine.start_mirror(record)
    scene.target_ends.ends["orders"] = [140, 140, 140]
    scene.mirrored("orders", 140)
    scene.plane.target.existing["orders"].ranges = [(0, 140)] * 3
    scene.phases.clear()


async def test_a_promote_of_a_mirror_back_goes_home(scene: TopicScene) -> None:
    await reversed_(scene)
    told = []
    scene.plane.service.context.go_on = lambda link, topic: told.append((link, topic))
    (record,) = await scene.promote()
    assert (record.state, record.direction) == (MirrorState.PENDING_MIRROR, MirrorDirection.FORWARD)
    assert (record.generation, record.handed_over_at, record.handed_over_from) == (1, (140,) * 3, (100,) * 3)
    assert (record.producers, record.fence_epoch) == (TABLE, 1)
    seen = [phase for index, phase in enumerate(scene.phases) if index == 0 or scene.phases[index - 1] is not phase]
    assert seen == [Phase.SWITCHED, Phase.FENCED, Phase.FORWARD]
    assert told == [("l", "orders")]
    assert scene.plane.progress.position("orders", 0) is None
    assert scene.ends.reads == 1  # where the copy ends: else the source's ends say nothing on the way home


async def test_a_writer_beside_the_gateway_on_the_target_keeps_it_from_going_home(scene: TopicScene) -> None:
    await reversed_(scene)

    under_fence: list[int] = []

    def write(number: int) -> None:
        if scene.forwarder.fenced:
            under_fence.append(number)
        if len(under_fence) == 2:
            scene.target_ends.ends["orders"][1] += 1

    scene.target_ends.on_read = write
    with pytest.raises(Conflict, match="does not use the gateway"):
        await scene.promote()
    assert (scene.record.state, scene.record.direction) == (MirrorState.ACTIVE, MirrorDirection.REVERSE)
    assert scene.plane.routing.current.topics["orders"].phase is Phase.SWITCHED
    assert scene.plane.engine.running["l", "orders"].is_reverse


async def test_there_is_an_end_to_ways_home(scene: TopicScene) -> None:
    await reversed_(scene, generation=MAX_GENERATION)
    with pytest.raises(Conflict, match="has been home 2047 times"):
        await scene.promote()


async def test_to_and_fro_is_no_set(scene: TopicScene) -> None:
    await scene.mirror("clicks")
    await reversed_(scene)
    with pytest.raises(Conflict, match="no set"):
        await scene.promote("orders", "clicks")


async def test_home_is_not_gone_to_with_partitions_that_are_not_mirrored_back(scene: TopicScene) -> None:
    await reversed_(scene)
    await scene.plane.target.add_partitions("orders", 4)
    with pytest.raises(Conflict, match="4 partitions on the target"):
        await scene.promote()
