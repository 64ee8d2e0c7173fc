"""Whether the map topic has something of a mirror that does not run: one look, however many partitions there are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gateway.mirror.engine.engine import Engine
from gateway.mirror.offset_map.rules.codec import PartitionKey
from gateway.state.records import MirrorDirection, PartitionStart
from tests.support.control.mirror_records import changed, mirror_record

MIRROR = mirror_record(link="l", source_topic="t", mirror_topic="t", mirror_id=7, starts=(PartitionStart(0, 0),) * 3)
BACK = changed(
    MIRROR, direction=MirrorDirection.REVERSE, stopped_at=(5,) * 3, stopped_copy_at=(5,) * 3,
    handed_over_at=(5,) * 3, handed_over_from=(5,) * 3,
)  # fmt: skip


class MapTopic:
    """Has something of one partition, on the way to the target."""

    def __init__(self) -> None:
        self.reads = 0

    async def catch_up(self) -> None:
        self.reads += 1

    def is_used(self, of: PartitionKey) -> bool:
        return self.reads > 0 and of == PartitionKey(7, 0, 2)


async def test_of_the_present_way_of_a_mirror() -> None:
    topic = MapTopic()
    engine: Any = SimpleNamespace(_links={"l": object()}, _maps={"l": topic})
    assert await Engine.has_offset_map(engine, MIRROR)
    assert topic.reads == 1
    assert not await Engine.has_offset_map(engine, BACK)


async def test_a_link_that_demands_equal_offsets_and_one_that_does_not_run() -> None:
    engine: Any = SimpleNamespace(_links={"l": object()}, _maps={})
    assert not await Engine.has_offset_map(engine, MIRROR)
    engine._links.clear()
    with pytest.raises(ValueError, match="link 'l' does not run"):
        await Engine.has_offset_map(engine, MIRROR)
