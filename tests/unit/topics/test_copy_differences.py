"""What of a copy differs from its origin, and nobody mends by itself: an operator is told before the cutover."""

from __future__ import annotations

from dataclasses import replace

from gateway.state.link_config import LESS_DURABLE
from gateway.state.records import MirrorState
from tests.support.control.control_plane import Plane
from tests.support.control.mirror_records import changed


async def warnings(plane: Plane) -> list[str]:
    return list((await plane.service.mirrors.describe("l", "orders")).warnings)


async def looked_at(plane: Plane) -> None:
    plane.clock_s += 60
    await plane.service._copy_watch.look()


async def test_partitions_that_somebody_adds_on_the_target(plane: Plane) -> None:
    """Clients see them, and cannot write them: nothing said so."""
    await plane.with_mirror()
    plane.target.grow("orders", 5)
    await looked_at(plane)
    assert await warnings(plane) == [], "config sync may be adding them"
    await looked_at(plane)
    (said,) = await warnings(plane)
    assert said.startswith("the topic has 5 partitions on the target, its mirror 3")
    assert "add them on the source, too" in said

    plane.source.grow("orders", 5)
    await plane.service._sync.sync_link(plane.store.links["l"])
    await looked_at(plane)
    assert await warnings(plane) == []


async def test_fewer_replicas_to_acknowledge(plane: Plane) -> None:
    """min.insync.replicas 2 became 1 at the promote without a word."""
    record = await plane.with_mirror()
    plane.source.existing["orders"].configs["min.insync.replicas"] = "2"
    plane.target.existing["orders"].configs["min.insync.replicas"] = "1"
    await plane.service._sync.sync_link(plane.store.links["l"])
    (said,) = await warnings(plane)
    assert said.startswith("min.insync.replicas is 1 on the target, 2 on the source")
    assert plane.service.numbers().mirrors[0].warnings == 1

    plane.target.existing["orders"].configs["min.insync.replicas"] = "2"
    await plane.service._sync.sync_link(plane.store.links["l"])
    assert await warnings(plane) == []

    plane.target.existing["orders"].configs["min.insync.replicas"] = "1"
    await plane.service._sync.sync_link(plane.store.links["l"])
    await plane.by_hand(changed(record, state=MirrorState.STOPPED, failback_epoch=1))
    assert await warnings(plane) == [], "it was said of another mirror period"


async def test_a_copy_with_too_few_replicas_in_sync(plane: Plane) -> None:
    """It was met under the write pause only."""
    await plane.with_mirror()
    topic = plane.target.existing["orders"]
    topic.configs["min.insync.replicas"] = "2"
    await plane.service._sync.sync_link(plane.store.links["l"])
    topic.info = replace(topic.info, replication_factor=3, in_sync=(3, 1, 1))
    await looked_at(plane)
    (said,) = await warnings(plane)
    assert said.startswith("orders, partition 1, and 1 more partitions: 1 of 3 replicas on the target in sync, 2 are")
    assert "a promote is refused until then" in said
    assert (await plane.service.mirrors.describe("l", "orders")).not_durable.startswith("orders, partition 1")

    topic.info = replace(topic.info, in_sync=(3, 2, 3))
    await looked_at(plane)
    assert await warnings(plane) == []
    assert not (await plane.service.mirrors.describe("l", "orders")).not_durable


async def test_what_the_link_accepts_does_not_block(plane: Plane) -> None:
    await plane.with_mirror()
    plane.source.existing["orders"].configs["min.insync.replicas"] = "2"
    plane.target.existing["orders"].configs["min.insync.replicas"] = "1"
    link = plane.store.links["l"]
    await plane.service._sync.sync_link(link)
    assert "is 1 on the copy, 2 on its origin" in (await plane.service.mirrors.describe("l", "orders")).not_durable
    orders = '{"topicFilters":[{"name":"orders","patternType":"LITERAL","filterType":"INCLUDE"}]}'
    await plane.by_hand(replace(link, configs={**link.configs, LESS_DURABLE: orders}))
    view = await plane.service.mirrors.describe("l", "orders")
    assert (view.not_durable, len(view.warnings)) == ("", 1)
