"""After the cutover: configs that were lifted are set back, and records after the cutover on the source are counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace

import pytest

from gateway.control_parts import records_after_cutover
from gateway.cutover.promote.rules.post_promote_watch import LOOK_S, MOST_S
from gateway.cutover.write_pause.rules.routing import Routing, WritePhase
from gateway.errors import Conflict
from gateway.operations.origin_ends import Asked, LogEnds
from gateway.state.records import LinkRecord, MirrorState
from tests.support.control.control_plane import Plane
from tests.support.control.topic_scene import TopicScene, mirrored_topic


@pytest.fixture
async def scene(plane: Plane) -> TopicScene:
    return await mirrored_topic(plane)


async def test_restores_configs_after_the_cutover(scene: TopicScene) -> None:
    topic = scene.plane.target.existing["orders"]
    scene.plane.source.existing["orders"].configs["retention.ms"] = "7"
    scene.plane.routing.subscribe(lambda _routing, _changed: scene.held.append(("l", topic.configs["retention.ms"])))
    (record,) = await scene.promote()
    assert topic.configs["retention.ms"] == "7"
    assert not record.restore_configs
    assert ("l", "7") not in scene.held[: scene.held.index(("l", "stopped"))]


async def test_a_topic_that_stamps_its_records_does_so_again_before_it_is_written_to(scene: TopicScene) -> None:
    topic = scene.plane.target.existing["orders"]
    scene.plane.source.existing["orders"].configs["message.timestamp.type"] = "LogAppendTime"
    at_the_switch: list[str] = []

    def note(routing: Routing, _changed: object) -> None:
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


class Clock:
    """Monotonic seconds, moved by hand."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


async def test_records_after_cutover_are_counted(scene: TopicScene) -> None:
    await scene.promote()
    clock = Clock()
    late = records_after_cutover(scene.plane.parts, scene.ends, clock)
    await late.look()
    assert not late.of("l", "orders")
    scene.ends.ends["orders"] = [100, 103, 100]
    clock.now += LOOK_S
    await late.look()
    assert late.of("l", "orders") == {1: 3}
    scene.ends.down = True
    clock.now += MOST_S
    await late.look()
    assert late.of("l", "orders") == {1: 3}


async def test_the_longer_nothing_comes_the_less_often_it_is_looked(scene: TopicScene) -> None:
    await scene.promote()
    clock, looks = Clock(), []
    late = records_after_cutover(scene.plane.parts, scene.ends, clock)
    scene.ends.on_read = lambda _: looks.append(clock.now - 1_000.0)
    for _ in range(300):
        await late.look()
        clock.now += LOOK_S
    assert looks == [0, 5, 15, 35, 75, 155, 315, 615, 915, 1215]
    scene.ends.ends["orders"] = [100, 103, 100]
    looks.clear()
    for _ in range(20):
        await late.look()
        clock.now += LOOK_S
    assert looks == [1515, 1520, 1530, 1550, 1590], "what is new is looked at again soon"


async def test_after_a_day_nobody_looks_any_more(scene: TopicScene) -> None:
    await scene.promote()
    late = records_after_cutover(scene.plane.parts, scene.ends, Clock())
    looks: list[int] = []
    scene.ends.on_read = lambda _: looks.append(1)
    day_ms = 86_400_000
    cutover = replace(scene.record.cutover, at_ms=scene.plane.parts.records.now_ms() - day_ms)
    await scene.plane.store.replace(scene.record, replace(scene.record, cutover=cutover))
    await late.look()
    assert not looks
    link = scene.plane.store.links["l"]
    await scene.plane.store.replace(link, replace(link, configs={"post.promote.watch": str(2 * day_ms)}))
    await late.look()
    assert looks


async def test_an_operator_ends_the_watch_by_the_option(scene: TopicScene) -> None:
    """At once, and what was seen until then is still told."""
    await scene.promote()
    clock, looks = Clock(), list[int]()
    late = records_after_cutover(scene.plane.parts, scene.ends, clock)
    scene.ends.on_read = lambda _: looks.append(1)
    scene.ends.ends["orders"] = [100, 103, 100]
    await late.look()
    assert looks
    link = scene.plane.store.links["l"]
    await scene.plane.store.replace(link, replace(link, configs={"post.promote.watch.ms": "0"}))
    looks.clear()
    clock.now += MOST_S
    await late.look()
    assert not looks
    assert late.of("l", "orders") == {1: 3}


async def test_a_topic_that_is_deleted_does_not_hide_the_others(
    scene: TopicScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.promote()
    late = records_after_cutover(scene.plane.parts, scene.ends, Clock())
    other = replace(scene.record, source_topic="gone", mirror_topic="gone", mirror_id=99)
    mirrors = {("l", "gone"): other, ("l", "orders"): scene.record}
    monkeypatch.setattr(late, "_store", SimpleNamespace(mirrors=mirrors, links=scene.plane.store.links))
    read = scene.ends.read

    async def refuses(
        link: LinkRecord, topics: Mapping[str, int], timeout_s: float, asked: Asked
    ) -> Mapping[str, LogEnds]:
        assert asked is Asked.MARKS, "log ends and transactions are not looked at"
        if "gone" in topics:
            raise Conflict("the source refuses: UNKNOWN_TOPIC_OR_PARTITION")
        return await read(link, topics, timeout_s)

    monkeypatch.setattr(scene.ends, "read", refuses)
    scene.ends.ends["orders"] = [100, 103, 100]
    await late.look()
    assert late.of("l", "orders") == {1: 3}


async def test_a_source_that_does_not_answer_is_not_asked_for_one_after_the_other(
    scene: TopicScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.promote()
    clock = Clock()
    late = records_after_cutover(scene.plane.parts, scene.ends, clock)
    names = [f"t-{number}" for number in range(20)]
    mirrors = {("l", name): replace(scene.record, source_topic=name, mirror_topic=name) for name in names}
    monkeypatch.setattr(late, "_store", SimpleNamespace(mirrors=mirrors, links=scene.plane.store.links))
    scene.ends.down = True
    scene.ends.reads = 0
    await late.look()
    assert scene.ends.reads == 1
    scene.ends.down = False
    scene.ends.ends |= {name: [100, 103, 100] for name in names}
    await late.look()
    assert {late.of("l", name).get(1) for name in names} == {3}, "they were still to be looked at"


async def test_records_in_a_partition_that_was_added_on_the_source_are_late_too(scene: TopicScene) -> None:
    """The promote went by the partitions that there were; what comes to others is told, not missed."""
    await scene.promote()
    late = records_after_cutover(scene.plane.parts, scene.ends)
    scene.ends.ends["orders"] = [100, 100, 100, 4]
    await late.look()
    assert late.of("l", "orders") == {3: 4}
