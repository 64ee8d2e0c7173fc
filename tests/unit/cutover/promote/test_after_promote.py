"""After the cutover: configs that were lifted are set back, and records after the cutover on the source are counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.control_parts import records_after_cutover
from gateway.cutover.write_pause.rules.routing import Routing, WritePhase
from gateway.state.records import MirrorState
from tests.support.control_plane import Plane
from tests.support.topic_scene import TopicScene, mirrored_topic


@pytest.fixture
async def scene(plane: Plane) -> TopicScene:
    return await mirrored_topic(plane)


async def test_restores_configs_after_the_cutover(scene: TopicScene) -> None:
    topic = scene.plane.target.existing["orders"]
    await scene.plane.store.replace(scene.record, replace(scene.record, restore_configs={"retention.ms": "7"}))
    scene.plane.routing.subscribe(lambda _: scene.held.append(("l", topic.configs["retention.ms"])))
    (record,) = await scene.promote()
    assert topic.configs["retention.ms"] == "7"
    assert not record.restore_configs
    assert ("l", "7") not in scene.held[: scene.held.index(("l", "stopped"))]


async def test_a_topic_that_stamps_its_records_does_so_again_before_it_is_written_to(scene: TopicScene) -> None:
    topic = scene.plane.target.existing["orders"]
    restore = {"message.timestamp.type": "LogAppendTime"}
    await scene.plane.store.replace(scene.record, replace(scene.record, restore_configs=restore))
    at_the_switch: list[str] = []

    def note(routing: Routing) -> None:
        if routing.topics["orders"].phase is WritePhase.SWITCHED:
            at_the_switch.append(topic.configs["message.timestamp.type"])

    scene.plane.routing.subscribe(note)
    await scene.promote()
    assert at_the_switch
    assert set(at_the_switch) == {"LogAppendTime"}


async def test_configs_that_cannot_be_restored_now_are_later(scene: TopicScene) -> None:
    await scene.plane.store.replace(scene.record, replace(scene.record, restore_configs={"retention.ms": "7"}))
    scene.plane.target.down = True
    (record,) = await scene.promote()
    assert record.state is MirrorState.STOPPED
    assert record.restore_configs
    scene.plane.target.down = False
    await records_after_cutover(scene.plane.parts, scene.ends).look()
    assert scene.plane.target.existing["orders"].configs["retention.ms"] == "7"
    assert not scene.record.restore_configs


async def test_records_after_cutover_are_counted(scene: TopicScene) -> None:
    await scene.promote()
    late = records_after_cutover(scene.plane.parts, scene.ends)
    await late.look()
    assert not late.of("l", "orders")
    scene.ends.ends["orders"] = [100, 103, 100]
    await late.look()
    assert late.of("l", "orders") == {1: 3}
    scene.ends.down = True
    await late.look()
    assert late.of("l", "orders") == {1: 3}


async def test_records_in_a_partition_that_was_added_on_the_source_are_late_too(scene: TopicScene) -> None:
    """The promote went by the partitions that there were; what comes to others is told, not missed."""
    await scene.promote()
    late = records_after_cutover(scene.plane.parts, scene.ends)
    scene.ends.ends["orders"] = [100, 100, 100, 4]
    await late.look()
    assert late.of("l", "orders") == {3: 4}
