"""What a group that waits has committed on its source, for tools."""

from __future__ import annotations

from dataclasses import replace

from gateway.groups.gated_offsets import GatedOffsets
from gateway.kafka.commits import Committed
from gateway.state.records import GroupRecord, GroupState, MirrorMode


async def test_offsets_of_mirrored_topics_by_their_names_on_the_target(plane):
    await plane.with_mirror()
    await plane.store.put(GroupRecord(link="l", group="g"))
    plane.source.offsets["g"] = {("orders", 1): Committed(7, 3, "mine"), ("elsewhere", 0): Committed(1, -1, "")}
    offsets = GatedOffsets(plane.store, plane.parts.sources)
    assert await offsets.of("g") == {("orders", 1): Committed(7, 3, "mine")}
    await plane.by_hand(replace(plane.store.mirrors["l", "orders"], mode=MirrorMode.TRANSLATE))
    assert await offsets.of("g") == {("orders", 1): None}


async def test_nothing_is_told_of_a_source_that_is_silent_or_of_a_group_that_does_not_wait(plane):
    await plane.with_mirror()
    offsets = GatedOffsets(plane.store, plane.parts.sources)
    assert await offsets.of("g") is None
    await plane.store.put(GroupRecord(link="l", group="g", state=GroupState.PROMOTED))
    assert await offsets.of("g") is None
    await plane.store.put(GroupRecord(link="l", group="h"))
    plane.source.down = True
    assert await offsets.of("h") is None
