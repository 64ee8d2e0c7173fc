"""Records of both clusters side by side: paired by offset, or by the offset map."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.errors import BadRequest, Busy, NotFound, SourceUnreachable
from gateway.kafka.logs.log_excerpt import RecordExcerpt, Shortened
from gateway.mirror.offset_map.rules.offset_map import Translation, TranslationRule
from gateway.topics import messages
from tests.support.control.control_plane import Plane
from tests.support.waiting import wait_until_async


def record(offset: int, value: bytes = b"v", note: str = "") -> RecordExcerpt:
    return RecordExcerpt(offset, 5, None, Shortened(len(value), value), 0, hash(value), note)


async def mirrored(plane: Plane) -> None:
    await plane.with_mirror(partitions=1, ends=10)
    for cluster in (plane.source, plane.target):
        cluster.existing["orders"].ranges[:] = [(0, 10)]


async def read(plane: Plane, offset: int | None = None, count: int = 3, partition: int = 0) -> Any:
    return await plane.service.messages.read("l", "orders", partition, offset, count, 64, "ann")


async def test_records_stand_beside_each_other_by_offset(plane):
    await mirrored(plane)
    plane.source.records["orders", 0] = [record(3), record(4), record(5, b"other"), record(6, note="not opened")]
    plane.target.records["orders", 0] = [record(3), record(5), record(6), record(7)]
    found = await read(plane, 3, 5)
    assert (found.source_range, found.target_range) == ((0, 10), (0, 10))
    assert [(one.offset, one.source is not None, one.target is not None, one.is_equal) for one in found.pairs] == [
        (3, True, True, True),
        (4, True, False, False),
        (5, True, True, False),
        (6, True, True, False),
        (7, False, True, False),
    ]


async def test_without_an_offset_the_last_ones_and_no_more_than_asked_for(plane):
    await mirrored(plane)
    for cluster in (plane.source, plane.target):
        cluster.records["orders", 0] = [record(at) for at in range(10)]
    assert [one.offset for one in (await read(plane)).pairs] == [7, 8, 9]


async def test_in_mode_translate_the_map_says_what_stands_beside_what(plane, monkeypatch):
    await mirrored(plane)
    plane.source.records["orders", 0] = [record(3), record(8)]
    plane.target.records["orders", 0] = [record(1), record(2)]

    class Between:
        async def maps_for(self, places: Any, *, on_target: bool) -> Any:
            return {"orders": self}

        def to_target(self, partition: int, offset: int) -> Translation:
            return Translation({3: 1, 8: 2}[offset], TranslationRule.EXACT)

    monkeypatch.setattr(plane.parts.maps, "between", lambda link: Between())
    found = await read(plane, 3)
    assert [(one.source.offset, one.target.offset, one.is_equal) for one in found.pairs] == [(3, 1, True), (8, 2, True)]


async def test_what_is_refused(plane):
    await mirrored(plane)
    with pytest.raises(BadRequest, match="has 1 partitions: there is no 1"):
        await read(plane, partition=1)
    with pytest.raises(NotFound):
        await plane.service.messages.read("l", "nope", 0, None, 1, 1, "ann")
    plane.source.down = True
    with pytest.raises(SourceUnreachable):
        await read(plane)
    plane.source.down = False
    assert (await read(plane)).pairs == []  # nothing is left of those that were refused


async def test_one_caller_at_a_time(plane, monkeypatch):
    await mirrored(plane)
    monkeypatch.setattr(messages, "WAIT_S", 0.01)
    go = asyncio.Event()
    excerpt = plane.source.excerpt

    async def slow(*given: Any) -> Any:
        await go.wait()
        return await excerpt(*given)

    monkeypatch.setattr(plane.source, "excerpt", slow)
    first = asyncio.create_task(read(plane))
    await wait_until_async(plane.service.messages._one_by_one.locked, 5.0, what="the first caller's turn")
    with pytest.raises(Busy, match="try again"):
        await read(plane)
    go.set()
    assert (await first).pairs == []
