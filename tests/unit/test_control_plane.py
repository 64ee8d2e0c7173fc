"""A term of leadership begins with the mirrors of the records, whatever the term before has left running here."""

from __future__ import annotations

from dataclasses import replace

from gateway.operations.running_mirrors import run_links_by_records
from gateway.state.records import MirrorState
from tests.support.control.control_plane import Plane
from tests.support.fakes.fake_kafka import FakeKafka

OTHER = "other:9092"


async def test_a_term_begins_with_the_mirrors_of_the_records() -> None:
    kept: dict[str, bytes] = {}
    before = Plane(kept)
    await before.start()
    grown = await before.with_mirror("grown", partitions=3)
    stopped = await before.with_mirror("stopped")
    same = await before.with_mirror("same")
    await before.by_hand(replace(stopped, state=MirrorState.PAUSED))
    await before.close()

    now = Plane(kept, clusters_of=before)
    now.engine.links["l"] = before.store.links["l"]
    gone = replace(same, mirror_topic="gone", mirror_id=9)
    for record in (replace(grown, starts=grown.starts[:2]), stopped, same, gone):
        now.engine.start_mirror(record)
    now.engine.log.clear()
    await now.start()
    assert now.engine.running == {("l", record.mirror_topic): record for record in (grown, same)}
    assert ("start_mirror", "same") not in now.engine.log
    await now.close()


async def test_a_term_begins_with_the_links_of_the_records() -> None:
    """Another leader has deleted a link and created it anew, while this gateway led without hearing of it."""
    plane = Plane()
    await plane.start()
    await plane.with_mirror()
    old, cluster = plane.store.links["l"], plane.sources.clusters["l"]
    await plane.service.close()
    new = replace(old, link_id=7, client={"bootstrap.servers": OTHER})
    plane.reachable[OTHER] = FakeKafka("O")
    await plane.store.put(new)
    await plane.store.delete(*plane.store.mirrors.values())
    plane.service.restore()
    await run_links_by_records(plane.engine, lambda: plane.store.links)
    assert plane.engine.started_links() == {"l": new}
    assert not plane.engine.running
    assert plane.sources.clusters["l"] is plane.reachable[OTHER].cluster is not cluster
    await plane.close()
