"""What a control plane asks of a source that is another fleet's target, and what it then refuses."""

from __future__ import annotations

import pytest

from gateway.errors import BadRequest, Conflict
from gateway.operations.rules.topology import FleetView
from gateway.operations.upstream import require_origins
from gateway.state.producer_ids import mirror_producer_id
from gateway.state.records import LinkRecord, MirrorCutover, MirrorRecord, MirrorState, PartitionStart, Upstream
from tests.support.control.control_plane import Plane
from tests.support.control.topic_scene import TopicScene, mirrored_topic

COPIED = mirror_producer_id(1, 1)


def fleet(source: str = "A", state: MirrorState = MirrorState.ACTIVE, ends: tuple[int, ...] = ()) -> FleetView:
    """Before the source S, with a mirror of `orders` from another cluster."""
    mirror = MirrorRecord(
        link="up",
        source_topic="orders",
        mirror_topic="orders",
        mirror_id=1,
        starts=(PartitionStart(0, 0),) * 3,
        state=state,
        cutover=MirrorCutover(stopped_at=ends, stopped_copy_at=ends),
    )
    return FleetView({"up": LinkRecord(name="up", link_id=1, source_cluster_id=source, client={})}, {"orders": mirror})


NOT_WRITTEN = '{"topicFilters":[{"name":"*","patternType":"LITERAL","filterType":"EXCLUDE"}]}'


@pytest.fixture
async def linked(plane: Plane) -> Plane:
    await plane.with_link()
    plane.source.add("orders", 3, 100)
    return plane


async def test_a_loop_is_refused_and_nothing_is_changed(linked: Plane) -> None:
    linked.source.fleet = fleet(source="T")
    before = dict(linked.log.kept)
    with pytest.raises(BadRequest, match="it would be a loop"):
        await linked.service.mirrors.create("l", "orders")
    assert linked.log.kept == before
    assert "orders" not in linked.target.existing


async def test_a_chain_that_clients_would_write_behind_is_refused(linked: Plane) -> None:
    linked.source.fleet = fleet()
    with pytest.raises(BadRequest, match=r"land behind that mirror.*bootstrap\.servers"):
        await linked.service.mirrors.create("l", "orders")


async def test_a_chain_that_is_only_read_is_mirrored_and_its_way_remembered(plane: Plane) -> None:
    await plane.with_link(**{"link.client.topic.filters": NOT_WRITTEN})
    plane.source.add("orders", 3, 100)
    plane.source.fleet = fleet()
    view = await plane.service.mirrors.create("l", "orders")
    assert view.record.upstream == (Upstream("A", "up", "orders"),)
    assert view.provenance is not None
    assert view.provenance.source_cluster_id == "S"
    assert view.provenance.upstream == view.record.upstream


async def test_what_the_source_copied_is_not_put_into_a_topic_that_is_there(plane: Plane) -> None:
    """It may be the one that all of it begins with, where the way is not known to its end."""
    await plane.with_link(**{"link.client.topic.filters": NOT_WRITTEN})
    plane.source.add("orders", 3, 100)
    plane.target.add("orders", 3)
    plane.source.fleet = fleet()
    with pytest.raises(Conflict, match="may be a loop"):
        await plane.service.mirrors.create("l", "orders")
    plane.source.fleet = None  # behind that fleet's gateways
    plane.source.writers = {("orders", partition): COPIED for partition in range(3)}
    with pytest.raises(Conflict, match="may be a loop"):
        await plane.service.mirrors.create("l", "orders")
    plane.source.writers["orders", 2] = -1
    await plane.service.mirrors.create("l", "orders")


@pytest.fixture
async def scene(plane: Plane) -> TopicScene:
    return await mirrored_topic(plane)


@pytest.mark.parametrize("force", [False, True])
async def test_the_second_link_of_a_chain_is_not_promoted_first(scene: TopicScene, force: bool) -> None:
    scene.plane.source.fleet = fleet()
    with pytest.raises(Conflict, match="promote it there first"):
        await scene.promote(force=force)
    scene.assert_back()
    scene.plane.source.fleet = fleet(state=MirrorState.STOPPED, ends=(7, 8, 9))
    (record,) = await scene.promote(force=force)
    assert record.state is MirrorState.STOPPED
    assert record.upstream == (Upstream("A", "up", "orders", (7, 8, 9)),), "which batches are from further up"


@pytest.mark.parametrize("force", [False, True])
async def test_a_dry_run_of_a_promote_writes_nothing_of_what_it_learns(scene: TopicScene, force: bool) -> None:
    scene.plane.source.fleet = fleet(state=MirrorState.STOPPED, ends=(7, 8, 9))
    before, kept = scene.record, dict(scene.plane.log.kept)
    await scene.promoter.check("l", ["orders"], force=force)
    assert (scene.record, dict(scene.plane.log.kept)) == (before, kept)
    assert before.upstream == ()


async def test_behind_gateways_it_goes_by_who_wrote_last(scene: TopicScene) -> None:
    source = scene.plane.source
    source.writers = {("orders", partition): COPIED for partition in range(3)}
    with pytest.raises(Conflict, match="use force"):
        await scene.promote()
    scene.assert_back()
    source.writers["orders", 1] = 5
    (record,) = await scene.promote()
    assert record.state is MirrorState.STOPPED


async def test_force_says_that_it_was_promoted_there(scene: TopicScene) -> None:
    scene.plane.source.writers = {("orders", partition): COPIED for partition in range(3)}
    (record,) = await scene.promote(force=True)
    assert record.state is MirrorState.STOPPED


async def test_nothing_goes_back_to_a_copy(scene: TopicScene) -> None:
    await scene.promote()
    plane = scene.plane
    plane.source.fleet = fleet()
    record = plane.store.mirrors["l", "orders"]
    with pytest.raises(Conflict, match="promote it there first"):
        await require_origins(plane.parts.records, plane.parts.sources, [record], by_writers=False)
    with pytest.raises(Conflict, match="promote it there first"):
        await plane.service.failbacks.reverse("l", ["orders"])
    with pytest.raises(Conflict, match="promote it there first"):
        await plane.service.failbacks.restore("l", ["orders"])
    assert plane.store.mirrors["l", "orders"] == record
