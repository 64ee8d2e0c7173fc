"""Creates among other things: topics that are on the target already, failures, crashes, and others at the same time."""

from __future__ import annotations

import asyncio

import pytest

from gateway.control.errors import Conflict, NotFound
from gateway.control.store_errors import StoreError
from gateway.domain.routing import Phase
from gateway.domain.topic_configs import LIFTED
from tests.support.control_plane import Plane
from tests.support.waiting import wait_until_async
from tests.unit.control.refused import refused


async def test_a_target_topic_with_data_is_left_alone(plane):
    await plane.with_link()
    plane.source.add("orders")
    plane.target.add("orders", 3, ends=1)

    await refused(plane, Conflict, "exists on the target with other data")


async def test_a_target_topic_whose_records_were_deleted_held_data(plane):
    await plane.with_link()
    plane.source.add("orders")
    plane.target.add("orders").ranges = [(0, 0), (0, 0), (7, 7)]

    await refused(plane, Conflict, "other data")


async def test_a_target_topic_with_other_partitions(plane):
    await plane.with_link()
    plane.source.add("orders", 3)
    plane.target.add("orders", 2)

    await refused(plane, Conflict, "2 partitions, on the source it has 3")


async def test_an_empty_target_topic_of_a_crashed_create_is_taken_over(plane):
    await plane.with_link()
    plane.source.add("orders", retention_ms="5000")
    left = plane.target.add("orders", compression_type="zstd", retention_ms="7")

    await plane.service.mirrors.create("l", "orders")

    record = plane.store.mirrors["l", "orders"]
    assert record.mirror_topic_id == left.info.topic_id
    assert {name: plane.target.existing["orders"].configs[name] for name in LIFTED} == LIFTED
    assert (record.restore_configs["compression.type"], record.restore_configs["retention.ms"]) == ("zstd", "5000")
    assert "create_topic" not in plane.target.calls


async def test_a_store_that_fails_at_once_creates_nothing(plane):
    await plane.with_link()
    plane.source.add("orders")
    plane.log.failures = [StoreError("no")]

    await refused(plane, StoreError, "no")
    assert "create_topic" not in plane.target.calls


async def test_a_store_that_fails_takes_the_new_topic_back(plane):
    await plane.with_link()
    plane.source.add("orders")
    plane.log.failures = [None, StoreError("no")]

    await refused(plane, StoreError, "no")
    assert "create_topic" in plane.target.calls


async def test_a_store_that_fails_does_not_delete_a_topic_that_was_there(plane):
    await plane.with_link()
    plane.source.add("orders")
    plane.target.add("orders")
    plane.log.failures = [StoreError("no")]

    await refused(plane, StoreError, "no")
    assert "orders" in plane.target.existing


async def test_of_two_creates_at_once_one_wins_and_ids_differ(plane):
    await plane.with_link()
    for topic in ("a", "b", "c"):
        plane.source.add(topic)

    results = await asyncio.gather(
        *(plane.service.mirrors.create("l", topic) for topic in ("a", "b", "a", "c")), return_exceptions=True
    )

    assert [type(result) for result in results if isinstance(result, Exception)] == [Conflict]
    assert sorted(mirror.mirror_id for mirror in plane.store.mirrors.values()) == [1, 2, 3]


async def test_a_link_is_not_deleted_under_a_create(plane):
    await plane.with_link()
    plane.source.add("orders")

    async def delete() -> None:
        with pytest.raises(Conflict, match="not STOPPED"):
            await plane.service.links.delete("l")

    plane.target.before["create_topic"] = delete
    await plane.service.mirrors.create("l", "orders")
    assert plane.store.mirrors["l", "orders"].created


async def test_a_link_deleted_by_force_ends_the_create(plane):
    await plane.with_link()
    plane.source.add("orders")

    async def delete() -> None:
        await plane.service.links.delete("l", force=True)

    plane.target.before["create_topic"] = delete
    with pytest.raises(NotFound, match="link 'l'"):
        await plane.service.mirrors.create("l", "orders")

    assert "orders" not in plane.target.existing
    assert not plane.store.mirrors
    assert plane.routing.current.topics == {}


@pytest.mark.parametrize("topic_is_there", [True, False])
async def test_a_create_cut_short_by_a_crash_stays_routed_and_is_finished_at_the_next_start(topic_is_there):
    """What is on the target by then must not be written to directly: the source is where writes belong."""
    kept: dict[str, bytes] = {}
    plane = Plane(kept)
    await plane.start()
    await plane.with_link()
    plane.source.add("orders")
    left: dict[str, bytes] = {}

    async def crash() -> None:
        left.update(kept)

    plane.target.before["create_topic"] = crash
    await plane.service.mirrors.create("l", "orders")
    await plane.close()
    if not topic_is_there:
        del plane.target.existing["orders"]

    again = Plane(left, clusters_of=plane)
    await again.start()
    assert again.routing.current.topics["orders"].phase is Phase.FORWARD
    await wait_until_async(lambda: ("l", "orders") in again.engine.running, 10, what="the mirror runs")
    record = again.store.mirrors["l", "orders"]
    assert record.created
    assert record.mirror_topic_id == again.target.existing["orders"].info.topic_id
    await again.close()
