"""After the cutover: configs that were lifted are set back, and records after the cutover on the source are counted."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest

from gateway.control_parts import records_after_cutover
from gateway.cutover.promote.rules.post_promote_watch import LOOK_S, MOST_S
from gateway.cutover.write_pause.rules.routing import Routing, WritePhase
from gateway.errors import Conflict, SourceUnreachable
from gateway.kafka.connection.errors import ClusterUnavailable
from gateway.mirror.partition.rules.log_tail import LogTail
from gateway.operations.origin_ends import Asked, LogEnds
from gateway.state.producer_ids import mirror_producer_id
from gateway.state.records import LinkRecord, MirrorDirection, MirrorRecord, MirrorState
from tests.support.control.control_plane import Plane
from tests.support.control.mirror_records import changed
from tests.support.control.topic_scene import TopicScene, mirrored_topic
from tests.support.waiting import wait_until_async


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

    def goes_down(number: int) -> None:
        scene.plane.target.down = True

    scene.ends.on_read = goes_down
    (record,) = await scene.promote()
    assert record.state is MirrorState.STOPPED
    assert record.restore_configs
    scene.plane.target.down = False
    await records_after_cutover(scene.plane.parts, scene.ends).look()
    assert scene.plane.target.existing["orders"].configs["retention.ms"] == "7"
    assert not scene.record.restore_configs


@pytest.mark.parametrize("keep_ms", [0, 60_000])
async def test_until_when_it_may_be_undone_is_stored_with_the_cutover(scene: TopicScene, keep_ms: int) -> None:
    """As the link says then: what it says later is for later promotes."""
    link = scene.plane.store.links["l"]
    await scene.plane.store.replace(link, replace(link, configs={"failback.keep.ms": str(keep_ms)}))
    (record,) = await scene.promote()
    assert record.cutover.undo_until_ms == (record.cutover.at_ms + keep_ms if keep_ms else 0)


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
    scene.ends.down = True
    await late.look()
    assert not late.is_known("l", "orders"), "whoever leads since a moment ago knows nothing of it"
    scene.ends.down = False
    await late.look()
    assert late.is_known("l", "orders")
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
    assert [late.of("l", name) for name in names] == [{1: 3}] * len(names), "they were still to be looked at"


async def test_a_source_that_answers_slowly_keeps_no_other_link_waiting(
    scene: TopicScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.promote()
    late = records_after_cutover(scene.plane.parts, scene.ends, Clock())
    links = {"a": replace(scene.plane.store.links["l"], name="a"), "l": scene.plane.store.links["l"]}
    monkeypatch.setattr(late, "_store", SimpleNamespace(mirrors=scene.plane.store.mirrors, links=links))
    look_at, slow = late._look_at, asyncio.Event()

    async def look(link: LinkRecord, mirrors: Sequence[MirrorRecord]) -> None:
        if link.name == "a":
            await slow.wait()
        await look_at(link, mirrors)

    monkeypatch.setattr(late, "_look_at", look)
    scene.ends.ends["orders"] = [100, 103, 100]
    looking = asyncio.create_task(late.look())
    await wait_until_async(lambda: late.of("l", "orders") == {1: 3}, 5.0, what="the other link's count")
    slow.set()
    await looking


async def test_records_in_a_partition_that_was_added_on_the_source_are_late_too(scene: TopicScene) -> None:
    """The promote went by the partitions that there were; what comes to others is told, not missed."""
    await scene.promote()
    late = records_after_cutover(scene.plane.parts, scene.ends)
    scene.ends.ends["orders"] = [100, 100, 100, 4]
    await late.look()
    assert late.of("l", "orders") == {3: 4}


async def test_what_nobody_has_compared_is_not_none(scene: TopicScene) -> None:
    """Whoever begins to lead knows nothing of a topic that is promoted."""
    late = records_after_cutover(scene.plane.parts, scene.ends)
    assert late.of("l", "orders") == {}, "it is written on the source"
    await scene.promote()
    assert late.of("l", "orders") is None
    await late.look()
    assert late.of("l", "orders") == {}


async def test_who_asks_the_logs_has_measured(scene: TopicScene) -> None:
    await mirrored_back(scene)
    late = records_after_cutover(scene.plane.parts, scene.ends)
    assert late.of("l", "orders") is None
    await late.require_none("l", ["orders"])
    assert late.of("l", "orders") == {}


async def mirrored_back(scene: TopicScene, state: MirrorState = MirrorState.ACTIVE) -> int:
    """A mirror back has appended offsets 100..109 to partition 1 on the source; its producer id."""
    await scene.promote()
    mirror = changed(
        scene.record,
        state=state,
        direction=MirrorDirection.REVERSE,
        handed_over_at=scene.record.cutover.stopped_at,
        handed_over_from=scene.record.cutover.stopped_copy_at,
    )
    await scene.plane.by_hand(mirror)
    back = mirror_producer_id(scene.plane.store.links["l"].link_id, mirror.mirror_id, reverse=True)
    scene.ends.ends["orders"] = [100, 110, 100]
    scene.plane.source.tails["orders", 1] = [LogTail(100, 110, back, 100, None)]
    return back


def written_late(scene: TopicScene, producer_id: int = 7) -> None:
    """Somebody writes three records beside the gateway to partition 1 on the source."""
    end = scene.ends.ends["orders"][1]
    scene.plane.source.tails["orders", 1].append(LogTail(end, end + 3, producer_id, 0, None))
    scene.ends.ends["orders"][1] = end + 3


@pytest.mark.parametrize("state", [MirrorState.ACTIVE, MirrorState.PAUSED, MirrorState.FAILED])
async def test_records_after_the_cutover_are_counted_while_the_topic_is_mirrored_back(
    scene: TopicScene, state: MirrorState
) -> None:
    await mirrored_back(scene, state)
    clock = Clock()
    late = records_after_cutover(scene.plane.parts, scene.ends, clock)
    await late.look()
    assert not late.of("l", "orders"), "the mirror back's own are none"
    written_late(scene)
    clock.now += MOST_S
    await late.look()
    assert late.of("l", "orders") == {1: 3}
    again = records_after_cutover(scene.plane.parts, scene.ends, Clock())
    await again.look()
    assert again.of("l", "orders") == {1: 3}, "whoever leads next finds them in the logs"


async def test_what_a_mirror_back_appended_before_it_ended_is_not_counted_with_what_came_then(
    scene: TopicScene,
) -> None:
    await mirrored_back(scene, MirrorState.ACTIVE)
    written_late(scene)
    await scene.plane.by_hand(changed(scene.record, state=MirrorState.STOPPED, direction=MirrorDirection.FORWARD))
    late = records_after_cutover(scene.plane.parts, scene.ends, Clock())
    await late.look()
    assert late.of("l", "orders") == {1: 3}


async def test_a_topic_with_records_after_the_cutover_does_not_go_home(scene: TopicScene) -> None:
    """It is not even begun, so that its mirror back does not FAIL for it."""
    await mirrored_back(scene)
    written_late(scene)
    before = scene.record
    for refused in (scene.promoter.check("l", ["orders"]), scene.promoter.promote("l", ["orders"])):
        with pytest.raises(Conflict, match=r"3 records .*3 in partition 1 from offset 110 on"):
            await refused
    assert scene.record == before
    assert scene.promoter.records_after_cutover("l", "orders") == {1: 3}


async def test_without_an_answer_of_the_source_nobody_says_that_there_are_none(scene: TopicScene) -> None:
    await mirrored_back(scene)
    scene.plane.source.refuse["writer_at"] = ClusterUnavailable("no answer")
    with pytest.raises(SourceUnreachable):
        await scene.promoter.require_no_late_writes("l", ["orders"])
