"""Groups of a topic in mode translate: their offsets go through the maps, both ways."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.errors import Conflict
from gateway.mirror.offset_map.rules.offset_map import OffsetMap
from gateway.state.records import CarriedOffset, Cutover, GroupState, MirrorDirection, MirrorMode, MirrorRecord
from tests.support.control.control_plane import Plane
from tests.support.control.group_scene import KEY, GroupScene, gated_group
from tests.support.control.mirror_records import changed
from tests.support.waiting import wait_until_async


@pytest.fixture
async def scene(plane: Plane) -> GroupScene:
    return await gated_group(plane)


@pytest.mark.parametrize(("target", "source"), [(5, 15), (12, 32), (20, 40), (23, 43), (25, 50)])
async def test_with_maps_both_ways_each_offset_goes_by_the_one_it_belongs_to(translated, target, source) -> None:
    """Flipped at target 20 = source 40; since then 20-23 were copied to 40-43, and 24 to 50: there was an offset
    gap."""
    scene, forward = translated
    back = OffsetMap([(20, 40), (24, 49)], end=52, read_to=27)
    mirror = scene.plane.store.mirrors["l", "orders"]
    reverse = {"direction": MirrorDirection.REVERSE, "handed_over_at": (40,) * 3, "handed_over_from": (20,) * 3}
    await scene.promoted()
    await scene.plane.by_hand(changed(mirror, **reverse))

    async def maps(record: MirrorRecord) -> list[OffsetMap]:
        return [back if record.is_reverse else forward]

    scene.plane.parts.maps.read = maps
    scene.offsets.target_holds = {KEY: (target, "")}

    await scene.promoter.demote("l", "g")

    assert scene.offsets.source_holds == {KEY: (source, "")}
    again = await scene.promoter.promote("l", "g")
    assert again.offsets[0].target_offset == target


@pytest.mark.parametrize(("target", "source"), [(4, 14), (7, 27), (10, 30), (19, 39), (20, 40), (25, 50)])
async def test_after_changes_of_sides_each_offset_goes_by_the_way_it_belongs_to(translated, target, source) -> None:
    """As above, but it had gone to the target at 5 = 15 and home at 10 = 30 before."""
    scene, _ = translated
    maps_of = {
        (MirrorDirection.FORWARD, 0): OffsetMap([(10, 0)], end=5, read_to=15),
        (MirrorDirection.REVERSE, 0): OffsetMap([(5, 15), (7, 27)], end=30, read_to=10),
        (MirrorDirection.FORWARD, 1): OffsetMap([(30, 10)], end=20, read_to=40),
        (MirrorDirection.REVERSE, 1): OffsetMap([(20, 40), (24, 49)], end=52, read_to=27),
    }
    mirror = scene.plane.store.mirrors["l", "orders"]
    asked: list[MirrorRecord] = []

    async def maps(record: MirrorRecord) -> list[OffsetMap]:
        asked.append(record)
        return [maps_of[record.failback.direction, record.failback.epoch]]

    await scene.promoted()
    scene.plane.parts.maps.read = maps
    sides = {"handed_over_at": (40,) * 3, "handed_over_from": (20,) * 3}
    reverse = changed(mirror, direction=MirrorDirection.REVERSE, failback_epoch=1, **sides)
    cutovers = (Cutover((15,) * 3, (5,) * 3), Cutover((30,) * 3, (10,) * 3))
    await scene.plane.by_hand(changed(reverse, cutovers=cutovers))
    scene.offsets.target_holds = {KEY: (target, "")}

    await scene.promoter.demote("l", "g")

    assert scene.offsets.source_holds == {KEY: (source, "")}
    assert (
        len({(one.failback.direction, one.failback.epoch) for one in asked})
        == sum(target < at for at in (5, 10, 20)) + 1
    )
    again = await scene.promoter.promote("l", "g")
    assert again.offsets[0].target_offset == target


async def test_an_offset_from_before_what_is_remembered_is_refused(translated) -> None:
    scene, _ = translated
    mirror = scene.plane.store.mirrors["l", "orders"]
    back = OffsetMap([(20, 40)], end=52, read_to=32)
    await scene.promoted()

    async def maps(_: MirrorRecord) -> list[OffsetMap]:
        return [back]

    scene.plane.parts.maps.read = maps
    sides = {"handed_over_at": (40,) * 3, "handed_over_from": (20,) * 3}
    await scene.plane.by_hand(changed(mirror, direction=MirrorDirection.REVERSE, failback_epoch=1, **sides))
    scene.offsets.target_holds = {KEY: (19, "")}
    with pytest.raises(Conflict, match="offset 19 of orders-0 is older than the change of sides at 20"):
        await scene.promoter.demote("l", "g")


@pytest.fixture
async def translated(scene: GroupScene) -> tuple[GroupScene, OffsetMap]:
    """Of the source's offsets 10-19 and 30-39 are on the target, as 0-19; 20-29 are an offset gap."""
    mirror = scene.plane.store.mirrors["l", "orders"]
    await scene.plane.by_hand(replace(mirror, mode=MirrorMode.TRANSLATE))
    between = OffsetMap([(10, 0), (30, 10)], end=20, read_to=40)

    async def maps(_: MirrorRecord) -> list[OffsetMap]:
        return [between]

    scene.plane.parts.maps.read = maps
    return scene, between


@pytest.mark.parametrize(
    ("source", "target", "rule"),
    [(15, 5, "exact"), (30, 10, "exact"), (25, 10, "next_record"), (3, 0, "log_start"), (40, 20, "exact")],
)
async def test_offsets_are_carried_through_the_map(translated, source, target, rule) -> None:
    scene, _ = translated
    scene.offsets.source_holds = {KEY: (source, "m")}

    record = await scene.promoter.promote("l", "g")

    assert record.offsets == (CarriedOffset("orders", 0, source, target, "m", rule),)
    assert scene.offsets.target_holds == {KEY: (target, "m")}


async def test_an_offset_beyond_the_map_waits_for_the_mirror(translated) -> None:
    scene, between = translated
    scene.offsets.source_holds = {KEY: (45, "")}
    run = asyncio.create_task(scene.promoter.promote("l", "g"))
    await wait_until_async(lambda: "has come to 40" in scene.promoter.waits_for("l", "g"), 5, what="the reason")
    assert not scene.offsets.commits
    between.append(43, 20)
    between.advance(22, 45)
    assert (await run).offsets[0].target_offset == 22


async def test_demote_translates_back(translated) -> None:
    scene, _ = translated
    scene.offsets.source_holds = {KEY: (12, "m")}
    await scene.promoted()
    scene.offsets.target_holds = {KEY: (13, "n")}

    await scene.promoter.demote("l", "g")

    assert scene.offsets.source_holds == {KEY: (33, "n")}


async def test_a_topic_that_is_just_becoming_translated_is_waited_for(translated) -> None:
    """The engine translates already, the record does not say so yet: its numbers would be carried as they are."""
    scene, _ = translated
    mirror = scene.plane.store.mirrors["l", "orders"]
    await scene.plane.by_hand(replace(mirror, mode=MirrorMode.PRESERVE))
    scene.plane.service.events.topic_translated("l", "orders", "an offset gap at 20")
    scene.offsets.source_holds = {KEY: (15, "")}
    with pytest.raises(Conflict, match="is being changed to mode translate"):
        await scene.promoter.promote("l", "g")
    assert not scene.offsets.commits
    await scene.plane.service.events.reconcile()
    while scene.record.state is not GroupState.PROMOTED:
        await scene.promoter.attempt("l", "g")
    assert scene.offsets.target_holds == {KEY: (5, "")}


async def test_without_its_map_a_topic_s_offsets_are_not_carried(scene: GroupScene) -> None:
    mirror = scene.plane.store.mirrors["l", "orders"]
    await scene.plane.by_hand(replace(mirror, mode=MirrorMode.TRANSLATE))
    with pytest.raises(Conflict, match="offset map of mirror topic 'orders' is not there"):
        await scene.promoter.promote("l", "g")
    assert not scene.offsets.commits
    assert not scene.open
