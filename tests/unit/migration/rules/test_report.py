"""The report of a migration, built of records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.migration.rules.file import as_text, parsed, plain
from gateway.migration.rules.report import ReportScene, audit_summary, report
from gateway.migration.rules.report_page import report_page
from gateway.migration.rules.resolve import resolve
from gateway.migration.rules.world import GroupStanding, MirrorStanding, World
from gateway.state.migration_records import JournalEntry, MigrationRecord, MigrationState
from gateway.state.records import CarriedOffset, GroupRecord, GroupState, MirrorRecord, MirrorState, PartitionStart
from tests.support.control.mirror_records import changed

FILE = parsed({"migration": "m", "link": "l", "applications": [{"name": "a", "topics": ["orders"], "groups": ["g"]}]})
MIRROR = MirrorRecord(
    link="l", source_topic="orders", mirror_topic="w.orders", mirror_id=1, starts=(PartitionStart(0, 0),)
)
STOPPED = changed(MIRROR, state=MirrorState.STOPPED, stopped_at=(70,), stopped_copy_at=(66,), cutover_ms=1_000)
GROUP = GroupRecord(link="l", group="g", state=GroupState.PROMOTED, offsets=(CarriedOffset("w.orders", 0, 40, 38),))
WORLD = World(
    mirrors={"orders": MirrorStanding(mirror_topic="w.orders", state=MirrorState.STOPPED, link="l")},
    groups={"g": GroupStanding(group="g", state=GroupState.PROMOTED)},
)
RECORD = MigrationRecord(
    name="m",
    link="l",
    file=as_text(FILE),
    state=MigrationState.DONE,
    applied_by="ann",
    journal=(
        JournalEntry(500, "APPLIED", by="ann"),
        JournalEntry(900, "PROMOTE_TOPICS", "a", ("orders",), pause_ms=31),
    ),
)
SCENE = ReportScene(
    record=RECORD,
    file=plain(FILE),
    plan=resolve(FILE, WORLD),
    mirrors=[STOPPED],
    groups=[GROUP],
    source_cluster_id="S",
    target_cluster_id="T",
    at_ms=2_000,
    records_after_cutover={"orders": 3},
)


def test_offsets_on_both_sides_pauses_and_who() -> None:
    found = report(SCENE)
    (application,) = found["applications"]
    (topic,) = application["topics"]
    assert topic["cutovers"] == [{"source_ends": [70], "target_ends": [66]}]
    assert topic["cutover_time"] == "1970-01-01T00:00:01.000Z"
    assert topic["records_after_cutover"] == 3
    assert application["groups"][0]["offsets"][0] == {
        "topic": "w.orders",
        "partition": 0,
        "source_offset": 40,
        "target_offset": 38,
        "rule": "exact",
    }
    assert found["write_pauses_ms"] == [31]
    assert [(one["what"], one["by"]) for one in found["journal"]] == [("APPLIED", "ann"), ("PROMOTE_TOPICS", "")]
    assert found["done"] is True


def test_what_is_not_there_is_null() -> None:
    found = report(replace(SCENE, mirrors=[], groups=[]))
    (application,) = found["applications"]
    assert application["topics"] == [{"name": "orders", "mirror_topic": None, "state": None}]
    assert application["groups"][0]["state"] is None
    assert application["readiness"] is None
    assert "not mirrored" in report_page(found | {"audits": []}, "0")


def test_the_page_shows_it_and_escapes() -> None:
    found: dict[str, Any] = report(replace(SCENE, record=replace(RECORD, applied_by="<ann>")))
    page = report_page(found, "abc")
    for words in ("31 ms", "1 of 1 applications are promoted", "&lt;ann&gt;", "66", "abc"):
        assert words in page
    assert "<ann>" not in page


def test_an_audit_that_is_none() -> None:
    with pytest.raises(ValueError, match="no JSON report"):
        audit_summary({"verdict": "x"}, "0")
    with pytest.raises(ValueError, match="no JSON report"):
        audit_summary([], "0")
