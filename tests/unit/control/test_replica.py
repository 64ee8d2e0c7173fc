"""A gateway that follows has at hand what the records say: sources and mirrors."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.control.replica import Replica
from gateway.domain.records import MirrorRecord, MirrorState, PartitionStart
from tests.support.control_plane import Plane
from tests.support.waiting import wait_until_async

MIRROR = MirrorRecord(
    link="l", source_topic="t", mirror_topic="t", mirror_id=1, starts=(PartitionStart(0, 0),), settled=True
)
KEY = ("l", "t")


@pytest.fixture
async def replica(plane: Plane):
    await plane.with_link()
    plane.engine.links.clear()
    made = Replica(plane.store, plane.service.context.sources, plane.engine)
    await made.start()
    yield made
    await made.close()


async def test_links_and_mirrors_are_started_and_stopped_by_the_records(plane: Plane, replica: Replica) -> None:
    assert plane.engine.links == {"l"}
    await plane.store.put(MIRROR)
    await wait_until_async(lambda: KEY in plane.engine.running, 5.0)
    await plane.store.put(replace(MIRROR, state=MirrorState.PAUSED))
    await wait_until_async(lambda: KEY not in plane.engine.running, 5.0)
    await plane.store.put(replace(MIRROR, state=MirrorState.ACTIVE))
    await wait_until_async(lambda: KEY in plane.engine.running, 5.0)
    await plane.store.delete(MIRROR, plane.store.links["l"])
    await wait_until_async(lambda: not plane.engine.running and not plane.engine.links, 5.0)
    assert "l" not in plane.service.context.sources.clusters


async def test_a_mirror_that_is_another_one_now_is_started_anew(plane: Plane, replica: Replica) -> None:
    await plane.store.put(MIRROR)
    await wait_until_async(lambda: KEY in plane.engine.running, 5.0)
    grown = replace(MIRROR, starts=(PartitionStart(0, 0),) * 2)
    await plane.store.put(grown)
    await wait_until_async(lambda: plane.engine.running.get(KEY) == grown, 5.0)


async def test_while_this_gateway_leads_its_operations_do_it(plane: Plane, replica: Replica) -> None:
    await replica.pause()
    await plane.store.put(MIRROR)
    assert not plane.engine.running
    replica.go_on()
    await wait_until_async(lambda: KEY in plane.engine.running, 5.0)
