"""What a round has decided before a topic changed sides is not done behind it, neither to configs nor to records."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from gateway.control_parts import config_sync
from gateway.kafka.admin import TOPICS_IN_A_REQUEST
from gateway.kafka.connection.errors import BrokerError, RequestTimedOut
from gateway.mirror.offset_map.rules.offset_map import OffsetMap
from gateway.state.records import Cutover, MirrorDirection, MirrorMode, MirrorRecord, MirrorState
from gateway.topics.config_sync import ConfigSync
from gateway.topics.lifted_configs import IN_DOUBT_S
from protocol.errors import ErrorCode
from tests.support.control.control_plane import Plane
from tests.support.control.mirror_records import changed
from tests.support.fakes.fake_engine import status

KEY = ("l", "orders")
LIFTED = {"retention.ms": "-1", "max.message.bytes": "2147483647", "message.timestamp.type": "CreateTime"}
OWN = {"retention.ms": "5000", "max.message.bytes": "1048588", "message.timestamp.type": "LogAppendTime"}


@pytest.fixture
def sync(plane: Plane) -> ConfigSync:
    return config_sync(plane.parts)


def once(work: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    """At the first call of a cluster alone."""
    left = [work]

    async def hook() -> None:
        while left:
            await left.pop()()

    return hook


def shown(configs: dict[str, str]) -> dict[str, str]:
    return {name: configs[name] for name in LIFTED}


async def changes_sides(plane: Plane, **values: Any) -> MirrorRecord:
    """The record as a promote leaves it, with what was lifted set back by the promote's own code."""
    record = changed(plane.store.mirrors[KEY], **values)
    await plane.by_hand(record)
    await plane.parts.lifted.restore(record)
    return plane.store.mirrors[KEY]


@pytest.mark.parametrize("asked", ["topics", "topic_configs"])
async def test_configs_are_not_lifted_again_behind_a_promote(plane: Plane, sync: ConfigSync, asked: str) -> None:
    link = await plane.with_link()
    plane.source.add("orders", 3).configs.update(OWN)
    await plane.service.mirrors.create("l", "orders")
    copy = plane.target.existing["orders"].configs
    await sync.sync_link(link)
    assert shown(copy) == LIFTED

    async def promoted() -> None:
        await changes_sides(plane, state=MirrorState.STOPPED, stopped_at=(0,) * 3, stopped_copy_at=(0,) * 3)

    plane.source.before[asked] = once(promoted)
    plane.source.existing["orders"].configs["delete.retention.ms"] = "77"  # so that there is something to alter
    await sync.sync_link(link)
    assert shown(copy) == OWN
    await sync.sync_link(link)
    assert shown(copy) == OWN


async def test_nor_on_the_source_behind_the_way_home(plane: Plane, sync: ConfigSync) -> None:
    link = await plane.with_link()
    record = await plane.with_mirror()
    ends = {"stopped_at": (100,) * 3, "stopped_copy_at": (100,) * 3, "handed_over_at": (100,) * 3}
    back = changed(record, direction=MirrorDirection.REVERSE, **ends, handed_over_from=(100,) * 3)
    await plane.by_hand(replace(back, restore_configs=dict(OWN)))
    source = plane.source.existing["orders"].configs
    plane.target.existing["orders"].configs.update(OWN)
    await sync.sync_link(link)
    assert shown(source) == LIFTED

    async def home() -> None:
        await changes_sides(
            plane, state=MirrorState.PENDING_MIRROR, direction=MirrorDirection.FORWARD, failback_epoch=1
        )
        await plane.by_hand(changed(plane.store.mirrors[KEY], state=MirrorState.ACTIVE))

    plane.target.before["topics"] = once(home)
    await sync.sync_link(link)
    assert shown(source) == OWN
    await sync.sync_link(link)
    assert shown(source) == OWN


async def test_records_of_the_written_source_are_not_deleted_by_what_was_measured_on_the_way_back(
    plane: Plane, sync: ConfigSync
) -> None:
    """In mode translate: the target's offsets of before are other ones of the source's."""
    link = await plane.with_link()
    record = await plane.with_mirror(partitions=1)
    back = changed(
        record,
        direction=MirrorDirection.REVERSE,
        mode=MirrorMode.TRANSLATE,
        readable=True,
        stopped_at=(900,),
        stopped_copy_at=(800,),
        handed_over_at=(900,),
        handed_over_from=(800,),
    )
    await plane.by_hand(back)
    measured(plane, source_start=0, source_end=900, mirrored_to=900, target_end=1000)
    plane.source.existing["orders"].ranges = [(500, 1000)]
    plane.target.existing["orders"].ranges = [(0, 900)]

    async def maps(mirror: MirrorRecord) -> list[OffsetMap]:
        one = OffsetMap(end=1000 if mirror.is_reverse else 900)
        one.append(*((0, 100) if mirror.is_reverse else (100, 0)))
        return [one]

    plane.parts.maps.read = maps

    async def home() -> None:
        forward = changed(
            plane.store.mirrors[KEY],
            direction=MirrorDirection.FORWARD,
            failback_epoch=1,
            handed_over_at=(900,),
            handed_over_from=(1000,),
            cutovers=(Cutover((900,), (800,)),),
        )
        await plane.by_hand(forward)
        measured(plane, source_start=500, source_end=1000, mirrored_to=1000, target_end=900)

    plane.target.before["topics"] = once(home)
    await sync.sync_link(link)
    assert plane.source.existing["orders"].ranges == [(500, 1000)]
    assert "delete_records" not in plane.source.calls


def measured(plane: Plane, **numbers: int) -> None:
    """By the mirror that runs now."""
    plane.engine.numbers[KEY] = [status(0, **numbers)]


async def test_partitions_are_not_added_to_a_topic_that_was_promoted_meanwhile(plane: Plane, sync: ConfigSync) -> None:
    link = await plane.with_link()
    await plane.with_mirror(partitions=2)
    plane.source.grow("orders", 3)

    async def promoted() -> None:
        await changes_sides(plane, state=MirrorState.STOPPED, stopped_at=(0,) * 2, stopped_copy_at=(0,) * 2)

    plane.target.before["topics"] = once(promoted)
    await sync.sync_link(link)
    assert plane.target.existing["orders"].info.partitions == 2


# -- many topics ----------------------------------------------------------------------------------------------------


async def stopped_topics(plane: Plane, count: int) -> list[MirrorRecord]:
    """Promoted, and their configs not set back yet."""
    await plane.with_link()
    records = []
    for at in range(count):
        topic = f"t{at:03}"
        plane.source.add(topic, 1).configs.update(OWN)
        await plane.service.mirrors.create("l", topic)
        record = plane.store.mirrors["l", topic]
        records.append(changed(record, state=MirrorState.STOPPED, stopped_at=(0,), stopped_copy_at=(0,)))
    await plane.by_hand(*records)
    plane.target.alter_requests.clear()
    return records


async def test_lifted_configs_of_many_topics_come_back_in_few_requests_and_writes(plane: Plane) -> None:
    records = await stopped_topics(plane, TOPICS_IN_A_REQUEST + 3)
    written = len(plane.log.commits)
    assert await plane.parts.lifted.restore_all(records) == {}
    assert [len(topics) for topics in plane.target.alter_requests] == [TOPICS_IN_A_REQUEST, 3]
    assert len(plane.log.commits) - written == 2
    for record in records:
        assert shown(plane.target.existing[record.mirror_topic].configs) == OWN
        assert not plane.store.mirrors["l", record.mirror_topic].restore_configs


async def test_who_asks_for_the_same_topics_a_second_time_finds_nothing_left_to_do(plane: Plane) -> None:
    records = await stopped_topics(plane, 3)
    assert await plane.parts.lifted.restore_all(records) == {}
    assert await plane.parts.lifted.restore_all(records) == {}
    assert len(plane.target.alter_requests) == 1


async def test_a_topic_that_is_refused_or_was_changed_keeps_no_other_one_waiting(plane: Plane) -> None:
    records = await stopped_topics(plane, 4)
    plane.target.refused_configs["t001"] = BrokerError(ErrorCode.INVALID_CONFIG, "no")
    await plane.by_hand(changed(records[2], state=MirrorState.PENDING_SYNCHRONIZE))
    late = await plane.parts.lifted.restore_all(records)
    assert {topic: str(error) for topic, error in late.items()} == {
        "t001": "no",
        "t002": "mirror topic 't002' was changed by another operation meanwhile; try again",
    }
    assert shown(plane.target.existing["t002"].configs) == LIFTED
    for topic in ("t000", "t003"):
        assert shown(plane.target.existing[topic].configs) == OWN


async def test_a_change_without_an_answer_may_land_behind_a_promote_and_is_set_back_once_more(
    plane: Plane, sync: ConfigSync
) -> None:
    """As by a broker that was paused with the request in its socket."""
    link = await plane.with_link()
    plane.source.add("orders", 1).configs.update(OWN)
    await plane.service.mirrors.create("l", "orders")
    copy = plane.target.existing["orders"].configs
    plane.source.existing["orders"].configs["delete.retention.ms"] = "77"
    plane.target.refuse["alter_topic_configs"] = RequestTimedOut("no answer")
    with pytest.raises(RequestTimedOut):
        await sync.sync_link(link)
    del plane.target.refuse["alter_topic_configs"]
    record = changed(plane.store.mirrors[KEY], state=MirrorState.STOPPED, stopped_at=(0,), stopped_copy_at=(0,))
    await plane.by_hand(record)

    late = await plane.parts.lifted.restore_all([record])
    assert shown(copy) == OWN  # at once, since clients write from now on
    assert str(late["orders"]).startswith("a change of the configs of topic 'orders' was not answered")
    copy.update(LIFTED)  # it lands
    plane.clock_s += IN_DOUBT_S
    assert await plane.parts.lifted.restore_all([record]) == {}
    assert shown(copy) == OWN
    assert not plane.store.mirrors[KEY].restore_configs


async def test_a_leader_without_a_lease_changes_no_topic(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was stopped, and wakes up behind another one's back."""
    link = await plane.with_link()
    await plane.with_mirror()
    plane.source.existing["orders"].configs["delete.retention.ms"] = "77"
    monkeypatch.setattr(plane.parts.door, "_lease_valid", lambda: False)
    plane.target.alter_requests.clear()
    await config_sync(plane.parts).sync_link(link)
    assert plane.target.existing["orders"].configs["delete.retention.ms"] != "77"


async def test_nor_does_one_whose_term_is_over(plane: Plane) -> None:
    (record,) = await stopped_topics(plane, 1)
    plane.parts.door.shut()
    late = await plane.parts.lifted.restore_all([record])
    assert str(late["t000"]) == "this gateway does not lead any more"
    assert shown(plane.target.existing["t000"].configs) == LIFTED
