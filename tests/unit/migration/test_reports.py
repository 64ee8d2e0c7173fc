"""What the report of a migration is made of, by a control plane in memory."""

from __future__ import annotations

from dataclasses import replace

from gateway.migration.rules.file import parsed
from gateway.state.records import MirrorState
from tests.support.control.control_plane import Plane
from tests.support.waiting import wait_until_async

FILE = parsed({"migration": "m", "link": "l", "applications": [{"name": "a", "topics": ["orders"]}]})


async def test_a_link_made_anew_is_not_the_source_of_what_was_done(plane: Plane) -> None:
    """Its cluster is perhaps another one than that of the journal."""
    await plane.with_mirror("orders")
    await plane.service.migrations.apply(FILE, "ann")
    await plane.service.migrations.abort("m", "ann")
    made = await plane.service.migration_reports.make("m")
    assert made["source_cluster_id"] == "S"
    link = plane.store.links["l"]
    await plane.by_hand(replace(link, link_id=link.link_id + 1, source_cluster_id="other"))
    made = await plane.service.migration_reports.make("m")
    assert made["source_cluster_id"] == ""
    assert made["problems"]


async def test_late_records_that_nobody_has_measured_are_not_none(plane: Plane) -> None:
    await plane.with_mirror("orders")
    await plane.service.migrations.apply(FILE, "ann")
    await plane.service.migrations.abort("m", "ann")
    await plane.service.mirrors.promote("l", ["orders"])
    await wait_until_async(lambda: plane.state("orders") is MirrorState.STOPPED, 30, what="the promote")
    for measured, told in ((True, 3), (False, None)):
        plane.promoters.after_cutover, plane.promoters.measured = {0: 3}, measured
        made = await plane.service.migration_reports.make("m")
        assert made["applications"][0]["topics"][0]["records_after_cutover"] == told
