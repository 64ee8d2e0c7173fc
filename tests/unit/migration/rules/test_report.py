"""The report of a migration, built of records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.migration.rules.file import as_text, parsed, plain
from gateway.migration.rules.report import ReportScene, audit_of, audit_summary, report
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


def test_what_nobody_has_measured_is_null_and_said() -> None:
    """Whoever leads since a moment ago has not compared the source yet: 0 would be a claim."""
    found = report(replace(SCENE, records_after_cutover={}))
    assert found["applications"][0]["topics"][0]["records_after_cutover"] is None
    assert "an unknown number of records came to the source behind the cutover" in report_page(found, "0")
    before = report(replace(SCENE, records_after_cutover={}, mirrors=[MIRROR]))
    assert before["applications"][0]["topics"][0]["records_after_cutover"] == 0


@pytest.mark.parametrize(
    ("not_mirrored", "answered", "count", "exact", "words"),
    [
        ((), False, 0, True, ""),
        ((3, 4), True, 7, True, "7 records left behind by a failover"),
        ((3, 4), False, 7, False, "the source did not say what a failover left behind"),
        ((3, -1), False, None, False, "an unknown number of records left behind by a failover"),
    ],
)
def test_what_a_failover_left_behind(
    not_mirrored: tuple[int, ...], answered: bool, count: int | None, exact: bool, words: str
) -> None:
    mirror = changed(STOPPED, not_mirrored=not_mirrored, source_answered=answered)
    found = report(replace(SCENE, mirrors=[mirror]))
    (topic,) = found["applications"][0]["topics"]
    assert (topic["records_left_behind"], topic["records_left_behind_exact"]) == (count, exact)
    page = report_page(found, "0")
    assert words in page
    assert ("left behind" in page) is bool(words)


AUDIT: dict[str, Any] = {
    "verdict": "IDENTICAL",
    "digest": "d1",
    "started": "1970-01-01T00:00:02.000+00:00",
    "finished": "1970-01-01T00:00:03.000+00:00",
    "source": {"cluster_id": "S"},
    "target": {"cluster_id": "T"},
    "topics": ["orders"],
    "sample": {"fraction": 0.001, "seed": 1},
    "partitions": [],
}


def taken_in(**other: Any) -> dict[str, Any]:
    return audit_of(report(SCENE), audit_summary(AUDIT | other, "0"))


def test_an_audit_is_told_with_when_it_began_and_how_much_it_saw() -> None:
    audit = taken_in()
    assert (audit["sample"], audit["cut_over_since"]) == (0.001, [])
    page = report_page(report(SCENE) | {"audits": [audit]}, "0")
    assert "0.10%" in page
    assert "1970-01-01T00:00:02.000+00:00" in page


def test_an_audit_from_before_the_cutover_says_nothing_of_what_came_behind_it() -> None:
    assert taken_in(started="1970-01-01T00:00:00.500+00:00")["cut_over_since"] == ["orders"]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"source": {"cluster_id": "X"}}, "the audit's source is the cluster X, the migration's is S"),
        ({"target": {"cluster_id": "S"}}, "the audit's target is the cluster S, the migration's is T"),
        ({"topics": ["payments"]}, "the audit is of payments, none of which migration 'm' has"),
    ],
)
def test_an_audit_of_something_else_is_refused(other: dict[str, Any], words: str) -> None:
    """A report that is signed with it says IDENTICAL of what nobody has compared."""
    with pytest.raises(ValueError, match=words):
        taken_in(**other)


def test_clusters_that_are_not_known_any_more_refuse_no_audit() -> None:
    gone = report(replace(SCENE, source_cluster_id=""))
    assert audit_of(gone, audit_summary(AUDIT, "0"))["verdict"] == "IDENTICAL"
