"""The promote of a topic that is mirrored back: its writes fail back to the source."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.cutover.write_pause.rules.routing import WritePhase
from gateway.errors import Conflict
from gateway.mirror.partition.rules.log_tail import LogTail
from gateway.state.producer_ids import MAX_FAILBACK_EPOCH
from gateway.state.records import MirrorDirection, MirrorState
from tests.support.control.control_plane import Plane
from tests.support.control.mirror_records import changed
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


def written_late(scene: TopicScene, *batches: tuple[int, int]) -> None:
    """Behind what the mirror back has in partition 1: (producer id, records) each; -2 is the mirror's."""
    own = scene.plane.source.writer
    tails, at = [LogTail(0, 100, own, 0, None)], 100
    for producer_id, count in batches:
        tails.append(LogTail(at, at + count, own if producer_id == -2 else producer_id, 0, None))
        at += count
    scene.plane.source.tails["orders", 1] = tails
    scene.ends.ends["orders"][1] = at


async def test_late_writes_go_home_in_their_place_if_somebody_says_so(scene: TopicScene) -> None:
    """The cutover is stored below them: so the mirror forward begins with them, and both logs are the same."""
    await reversed_(scene)
    written_late(scene, (7, 3), (-1, 2))
    with pytest.raises(Conflict, match=r"5 records .*5 in partition 1 from offset 100 on.*--keep-late-writes"):
        await scene.promote()
    await scene.promoter.check("l", ["orders"], keep_late=True)
    (record,) = await scene.promoter.promote("l", ["orders"], keep_late=True)
    assert (record.state, record.failback.direction) == (MirrorState.PENDING_MIRROR, MirrorDirection.FORWARD)
    assert record.failback.handed_over_at == (140,) * 3
    assert record.failback.handed_over_from == (100,) * 3, "not 105: the mirror forward reads on where it stood"


async def test_late_writes_of_a_mirror_that_failed_for_them_cannot_be_kept(scene: TopicScene) -> None:
    await reversed_(scene)
    written_late(scene, (7, 3))
    await scene.plane.by_hand(changed(scene.record, state=MirrorState.FAILED))
    with pytest.raises(Conflict, match="both logs have records at the same offsets"):
        await scene.promoter.require_no_late_writes("l", ["orders"], keep=True)


async def test_what_the_mirror_appended_behind_them_keeps_the_topic_there(scene: TopicScene) -> None:
    """An append of unknown outcome, that landed: it is found under the write pause at the latest."""
    await reversed_(scene)
    written_late(scene, (7, 3))
    counts: list[int] = []

    def lands(number: int) -> None:
        counts.append(number)
        if scene.forwarder.paused:
            written_late(scene, (7, 3), (-2, 1))

    scene.ends.on_read = lands
    with pytest.raises(Conflict, match="on the source after the cutover: somebody has written to the source beside"):
        await scene.promoter.promote("l", ["orders"], keep_late=True)
    assert (scene.record.state, scene.record.failback.direction) == (MirrorState.ACTIVE, MirrorDirection.REVERSE)
    assert counts


async def test_a_late_write_behind_the_check_is_named_with_its_remedy(scene: TopicScene) -> None:
    await reversed_(scene)

    def comes(number: int) -> None:
        if scene.forwarder.paused:
            written_late(scene, (7, 1))

    scene.ends.on_read = comes
    with pytest.raises(Conflict, match=r"beside the gateway; `lockgate mirror undo` with --dry-run says how many"):
        await scene.promote()
    assert (scene.record.state, scene.record.failback.direction) == (MirrorState.ACTIVE, MirrorDirection.REVERSE)


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


async def test_partitions_that_somebody_added_on_the_source_are_not_waited_for(scene: TopicScene) -> None:
    """Nobody will ever mirror them: on the target there is nothing of them."""
    await reversed_(scene)
    info = scene.plane.source.existing["orders"].info
    scene.plane.source.existing["orders"].info = replace(info, partitions=4)
    with pytest.raises(Conflict, match="4 partitions on the source, its mirror back 3: somebody .* on the target, too"):
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
