"""What the source deletes is deleted on the mirror, as far as the mirror has come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
import structlog

from gateway.control_parts import config_sync
from gateway.errors import Conflict
from gateway.kafka.acts import RestRefused
from gateway.kafka.connection.errors import BrokerError, LeadersUnreachable, PartitionErrors
from gateway.mirror.interface import PartitionStatus
from gateway.mirror.offset_map.rules.offset_map import OffsetMap
from gateway.mirror.offset_map.rules.translation import TranslationMaps
from gateway.state.records import MirrorDirection, MirrorMode, MirrorRecord, MirrorState
from gateway.topics.config_sync import ConfigSync
from protocol.errors import ErrorCode
from tests.support.control.control_plane import Plane
from tests.support.control.mirror_records import changed


@pytest.fixture
def sync(plane: Plane) -> ConfigSync:
    return config_sync(plane.parts)


@pytest.fixture
def clock() -> list[float]:
    return [100.0]


async def mirrored(
    plane: Plane, ends: int, *, topic: str = "orders", readable: bool = True, **changes: object
) -> MirrorRecord:
    if "l" not in plane.store.links:
        await plane.with_link()
    mirror = changed(await plane.with_mirror(topic), readable=readable, **changes)
    await plane.store.put(mirror)
    plane.engine.numbers["l", topic] = [
        PartitionStatus(
            partition=p,
            phase="copying",
            source_end=ends,
            mirrored_to=ends,
            target_end=ends,
            lag=0,
            lag_ms=0,
            bytes_per_s=0,
        )
        for p in range(3)
    ]
    plane.target.existing[topic].ranges = [(0, ends)] * 3
    return mirror


async def starts(plane: Plane, sync: ConfigSync, *source: int) -> list[int]:
    numbers = plane.engine.numbers["l", "orders"]
    told = zip(numbers, source, strict=True)
    plane.engine.numbers["l", "orders"] = [replace(one, source_start=start) for one, start in told]
    await sync.sync_link(plane.store.links["l"])
    return [start for start, _ in plane.target.existing["orders"].ranges]


async def test_the_log_start_follows(plane, sync):
    await mirrored(plane, 50)
    assert await starts(plane, sync, 10, 0, 50) == [10, 0, 50]
    assert await starts(plane, sync, 10, 20, 50) == [10, 20, 50]
    assert plane.target.calls.count("delete_records") == 2
    asked = plane.target.calls.count("log_starts")
    await starts(plane, sync, 10, 20, 50)
    assert plane.target.calls.count("delete_records") == 2
    assert plane.target.calls.count("log_starts") == asked, "nothing has moved: nobody is asked"


async def test_what_is_not_mirrored_yet_is_left_to_the_engine(plane, sync):
    await mirrored(plane, 50)
    assert await starts(plane, sync, 51, 90, 0) == [0, 0, 0]
    numbers = plane.engine.numbers["l", "orders"]
    plane.engine.numbers["l", "orders"] = [replace(one, target_end=60) for one in numbers]
    plane.target.existing["orders"].ranges = [(0, 60)] * 3
    assert await starts(plane, sync, 51, 90, 0) == [51, 0, 0], "it is looked at again when more is copied"


async def test_a_delete_that_did_not_go_through_is_made_up_for(plane, sync):
    await mirrored(plane, 50)
    plane.target.refuse["delete_records"] = TimeoutError()
    with pytest.raises(TimeoutError):
        await starts(plane, sync, 10, 0, 0)
    del plane.target.refuse["delete_records"]
    assert await starts(plane, sync, 10, 0, 0) == [10, 0, 0]


def silent_leader(plane: Plane, kind: type[PartitionErrors], topic: str, partition: int) -> None:
    """From now on one partition of the copies' cluster takes no DeleteRecords; the others' leaders answer."""
    target: Any = plane.target
    shipped = target.delete_records

    async def delete_records(name: str, before: Mapping[int, int]) -> None:
        if name != topic or partition not in before:
            await shipped(name, before)
            return
        rest = {index: offset for index, offset in before.items() if index != partition}
        await shipped(name, rest)
        errors = {(name, partition): int(ErrorCode.NETWORK_EXCEPTION)}
        raise kind("DeleteRecords", errors, {(name, index): offset for index, offset in rest.items()})

    target.delete_records = delete_records


def origins_delete(plane: Plane, *topics: str) -> None:
    for topic in topics:
        numbers = plane.engine.numbers["l", topic]
        plane.engine.numbers["l", topic] = [replace(one, source_start=10) for one in numbers]


async def two_copies(plane: Plane, sync: ConfigSync) -> None:
    """The origin of both has begun to delete; one round."""
    for topic in ("audit", "orders"):
        await mirrored(plane, 50, topic=topic)
    origins_delete(plane, "audit", "orders")
    await sync.sync_link(plane.store.links["l"])


def log_starts(plane: Plane, topic: str) -> list[int]:
    return [start for start, _ in plane.target.existing[topic].ranges]


async def test_a_partition_without_an_answer_keeps_nothing_else_from_being_deleted(plane, sync):
    """What other leaders had deleted was taken as not done, and the topics behind it waited."""
    silent_leader(plane, LeadersUnreachable, "audit", 1)
    with pytest.raises(PartitionErrors):
        await two_copies(plane, sync)
    assert log_starts(plane, "audit") == [10, 0, 10]
    assert log_starts(plane, "orders") == [10, 10, 10]
    del plane.target.delete_records
    asked: list[Mapping[int, int]] = []
    shipped = plane.target.delete_records

    async def delete_records(name: str, before: Mapping[int, int]) -> None:
        asked.append(before)
        await shipped(name, before)

    plane.target.delete_records = delete_records
    await sync.sync_link(plane.store.links["l"])
    assert asked == [{1: 10}], "and no more than that"


async def test_a_partition_that_does_not_tell_its_log_start_keeps_no_other_topic_waiting(plane, sync):
    shipped = plane.target.log_starts

    async def told(partitions: Mapping[str, int]) -> Mapping[str, Sequence[int]]:
        if "audit" in partitions:
            raise PartitionErrors("ListOffsets", {("audit", 0): int(ErrorCode.LEADER_NOT_AVAILABLE)}, {})
        found: Mapping[str, Sequence[int]] = await shipped(partitions)
        return found

    plane.target.log_starts = told
    with pytest.raises(PartitionErrors):
        await two_copies(plane, sync)
    assert log_starts(plane, "audit") == [0, 0, 0]
    assert log_starts(plane, "orders") == [10, 10, 10]


async def test_a_topic_whose_configs_are_refused_keeps_no_log_start_waiting(plane, sync):
    """As by an alter policy of the target, for good: nothing was deleted any more on any copy of the link."""
    plane.target.refused_configs["audit"] = BrokerError(ErrorCode.POLICY_VIOLATION, "not here")
    for topic in ("audit", "orders"):
        await mirrored(plane, 50, topic=topic)
    origins_delete(plane, "audit", "orders")
    plane.source.existing["audit"].configs["delete.retention.ms"] = "77"
    with pytest.raises(BrokerError, match="not here"):
        await sync.sync_link(plane.store.links["l"])
    assert log_starts(plane, "audit") == [10, 10, 10]
    assert log_starts(plane, "orders") == [10, 10, 10]


async def test_trouble_of_one_direction_keeps_the_other_one_from_nothing(plane, sync):
    mirror = await mirrored(plane, 50)
    await plane.by_hand(changed(mirror, direction=MirrorDirection.REVERSE))
    plane.source.existing["orders"].ranges = [(0, 50)] * 3
    await mirrored(plane, 50, topic="audit")
    silent_leader(plane, LeadersUnreachable, "audit", 1)
    origins_delete(plane, "audit", "orders")
    with pytest.raises(PartitionErrors):
        await sync.sync_link(plane.store.links["l"])
    assert log_starts(plane, "audit") == [10, 0, 10]
    assert [start for start, _ in plane.source.existing["orders"].ranges] == [10, 10, 10]


async def test_what_was_deleted_before_the_door_was_shut_is_told(plane, sync):
    silent_leader(plane, RestRefused, "audit", 1)
    with structlog.testing.capture_logs() as logs:
        await two_copies(plane, sync)
    told = {one["event"]: one for one in logs if one.get("topic") == "audit"}
    assert told["records deleted as on the origin"]["before"] == {0: 10, 2: 10}
    assert "records left for the next round" in told
    assert log_starts(plane, "orders") == [10, 10, 10]


async def test_another_period_of_the_mirror_is_followed_anew(plane, sync):
    mirror = await mirrored(plane, 50)
    assert await starts(plane, sync, 10, 0, 0) == [10, 0, 0]
    await plane.store.put(changed(mirror, mirror_id=mirror.mirror_id + 1))
    plane.target.existing["orders"].ranges = [(0, 50)] * 3
    assert await starts(plane, sync, 10, 0, 0) == [10, 0, 0]


async def test_a_mirror_that_begins_later_than_its_source_stays(plane, sync):
    await mirrored(plane, 50)
    plane.target.existing["orders"].ranges = [(40, 50)] * 3
    assert await starts(plane, sync, 10, 20, 30) == [40, 40, 40]


async def test_a_mirror_that_is_not_settled_is_left_alone(plane, sync):
    await mirrored(plane, 50, readable=False)
    assert await starts(plane, sync, 10, 20, 30) == [0, 0, 0]


async def test_in_mode_translate_by_the_offset_map(plane, sync):
    await mirrored(plane, 50, mode=MirrorMode.TRANSLATE)
    one = OffsetMap(end=50)
    one.append(30, 0)  # source 30.. is target 0..
    one.append(70, 20)

    async def maps(_: MirrorRecord) -> list[OffsetMap]:
        return [one] * 3

    plane.parts.maps.read = maps
    assert await starts(plane, sync, 35, 60, 75) == [5, 20, 25]


async def reverse_map(plane: Plane) -> None:
    one = OffsetMap(end=50)
    one.append(30, 0)  # the origin's 30.. is the copy's 0..
    one.append(70, 20)

    async def maps(_: MirrorRecord) -> list[OffsetMap]:
        return [one] * 3

    plane.parts.maps.read = maps


async def test_of_a_mirror_back_in_mode_translate_by_the_offset_map(plane, sync):
    """Its origin is the target, so its map leads from the target's offsets to the source's."""
    mirror = await mirrored(plane, 50, mode=MirrorMode.TRANSLATE)
    await plane.by_hand(changed(mirror, direction=MirrorDirection.REVERSE))
    await reverse_map(plane)
    plane.source.existing["orders"].ranges = [(0, 50)] * 3

    await starts(plane, sync, 35, 60, 75)

    assert [start for start, _ in plane.source.existing["orders"].ranges] == [5, 20, 25]
    assert [start for start, _ in plane.target.existing["orders"].ranges] == [0, 0, 0]


@pytest.mark.parametrize("reverse", [False, True])
async def test_of_a_paused_mirror_now_and_then(plane, clock, reverse):
    """Nobody hears of its origin: it is asked, of all of them at once."""
    sync = config_sync(plane.parts, clock=lambda: clock[0])
    mirror = await mirrored(plane, 50)
    way = MirrorDirection.REVERSE if reverse else MirrorDirection.FORWARD
    await plane.by_hand(changed(mirror, state=MirrorState.PAUSED, direction=way))
    plane.engine.numbers.clear()
    origin, copy = (plane.target, plane.source) if reverse else (plane.source, plane.target)
    origin.existing["orders"].ranges = [(10, 90), (0, 90), (60, 90)]
    copy.existing["orders"].ranges = [(0, 50)] * 3

    await sync.sync_link(plane.store.links["l"])
    assert [start for start, _ in copy.existing["orders"].ranges] == [10, 0, 0], "60 is not mirrored yet"

    origin.existing["orders"].ranges = [(20, 90)] * 3
    clock[0] += 59
    await sync.sync_link(plane.store.links["l"])
    assert copy.existing["orders"].ranges[0][0] == 10
    clock[0] += 1
    await sync.sync_link(plane.store.links["l"])
    assert [start for start, _ in copy.existing["orders"].ranges] == [20, 20, 20]


async def test_a_paused_mirror_of_another_topic_is_left_alone(plane, sync):
    mirror = await mirrored(plane, 50)
    await plane.by_hand(changed(mirror, state=MirrorState.PAUSED))
    source = plane.source.existing["orders"]
    source.info, source.ranges = replace(source.info, topic_id="another"), [(10, 90)] * 3
    await sync.sync_link(plane.store.links["l"])
    assert plane.target.existing["orders"].ranges[0][0] == 0


async def test_a_topic_with_a_retention_of_its_own_is_not_followed(plane, sync):
    link = {"topic.config.sync.include": "retention.bytes"}
    await plane.with_link(**link)
    await mirrored(plane, 50)
    assert await starts(plane, sync, 10, 10, 10) == [0, 0, 0]


async def test_where_nobody_knows_the_offset_any_more_nothing_is_deleted_or_asked_again(plane, sync):
    await mirrored(plane, 50, mode=MirrorMode.TRANSLATE)
    await reverse_map(plane)
    with patch.object(TranslationMaps, "to_target", side_effect=Conflict("older than what is known")):
        assert await starts(plane, sync, 35, 0, 0) == [0, 0, 0]
        asked = plane.target.calls.count("log_starts")
        await starts(plane, sync, 35, 0, 0)
        assert plane.target.calls.count("log_starts") == asked
