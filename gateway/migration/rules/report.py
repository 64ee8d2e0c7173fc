"""The report of a migration: what moved when, by whom, with which offsets on both sides. Pure.

It is built of what is kept anyway: the migration's record with its journal, the records of its mirrors and groups, what
audits have written. So two reports of one state are equal but for their time. What is not known is null, and said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from gateway.cutover.write_pause.rules.routing_build import written_on_target
from gateway.migration.rules.resolve import ApplicationPlan, MigrationPlan
from gateway.state.migration_records import JournalEntry, MigrationRecord
from gateway.state.records import Cutover, GroupRecord, MirrorRecord, MirrorState

VERSION: Final = 1
KIND: Final = "LockgateMigrationReport"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportScene:
    """All that goes into it. `mirrors`, `groups`: of the link. `source_cluster_id`: of the link for which the file was
    applied, '' when that is gone. `records_after_cutover`: of topics that are written on the target, by the source's
    name; one that nobody has measured since this process leads is not in it. `versions`: name -> version. `gateways`:
    of the fleet."""

    record: MigrationRecord
    file: Mapping[str, Any]
    plan: MigrationPlan
    mirrors: Sequence[MirrorRecord]
    groups: Sequence[GroupRecord]
    source_cluster_id: str
    target_cluster_id: str
    at_ms: int
    readiness: Mapping[str, int] = field(default_factory=dict)
    records_after_cutover: Mapping[str, int] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    gateways: Sequence[str] = ()


def report(scene: ReportScene) -> dict[str, Any]:
    """The report, as JSON holds it."""
    record = scene.record
    mirrors = {one.source_topic: one for one in scene.mirrors}
    groups = {one.source_name: one for one in scene.groups}
    return {
        "kind": KIND,
        "version": VERSION,
        "migration": record.name,
        "link": record.link,
        "state": record.state.value,
        "done": scene.plan.is_done,
        "problems": list(scene.plan.problems),
        "made": stamp(scene.at_ms),
        "created": stamp(record.created_ms),
        "applied_by": record.applied_by,
        "source_cluster_id": scene.source_cluster_id,
        "target_cluster_id": scene.target_cluster_id,
        "gateways": sorted(scene.gateways),
        "versions": dict(sorted(scene.versions.items())),
        "file": dict(scene.file),
        "applications": [_application(scene, one, mirrors, groups) for one in scene.plan.applications],
        "journal": [_entry(one) for one in record.journal],
        "journal_entries_not_kept": record.journal_dropped,
        "write_pauses_ms": [one.pause_ms for one in record.journal if one.pause_ms >= 0],
        "audits": [],
    }


def _application(
    scene: ReportScene,
    plan: ApplicationPlan,
    mirrors: Mapping[str, MirrorRecord],
    groups: Mapping[str, GroupRecord],
) -> dict[str, Any]:
    name = plan.application.name
    return {
        "name": name,
        "stage": plan.stage.value,
        "until": plan.application.until.value,
        "together": plan.application.together,
        "transactional_ids": list(plan.application.transactional_ids),
        "problems": list(plan.problems),
        "readiness": scene.readiness.get(name),
        "topics": [_topic(scene, topic, mirrors.get(topic)) for topic in plan.topics],
        "groups": [_group(group, groups.get(group)) for group in plan.groups],
    }


def _topic(scene: ReportScene, name: str, mirror: MirrorRecord | None) -> dict[str, Any]:
    if mirror is None:
        return {"name": name, "mirror_topic": None, "state": None}
    cutovers = [*mirror.failback.cutovers, *_last(mirror)]
    return {
        "name": name,
        "mirror_topic": mirror.mirror_topic,
        "state": mirror.state.value,
        "since": stamp(mirror.state_since_ms),
        "mode": mirror.mode.value,
        "source_topic_id": mirror.source_topic_id,
        "target_topic_id": mirror.mirror_topic_id,
        "partitions": len(mirror.starts),
        "starts": [one.source_start for one in mirror.starts],
        "failback_epoch": mirror.failback.epoch,
        "cutover_time": stamp(mirror.cutover.at_ms) if written_on_target(mirror) else None,
        "cutovers": [{"source_ends": list(one.source), "target_ends": list(one.target)} for one in cutovers],
        "records_lost_before_mirrored": sum(one.count for one in mirror.lost),
        **_left_behind(mirror),
        "records_after_cutover": scene.records_after_cutover.get(name) if written_on_target(mirror) else 0,
        "undo": mirror.cutover.undo.value or None,
        "undo_until": stamp(mirror.cutover.undo_until_ms),
        "error": mirror.error_message,
    }


def _left_behind(mirror: MirrorRecord) -> dict[str, Any]:
    """By the last failover. The count is null where that of a partition is unknown, and no more than a lower bound
    where the source did not answer."""
    counts, cutover = mirror.cutover.not_mirrored, mirror.cutover
    return {
        "records_left_behind": None if any(count < 0 for count in counts) else sum(counts),
        "records_left_behind_exact": not counts or cutover.source_answered,
    }


def _last(mirror: MirrorRecord) -> Iterable[Cutover]:
    """The cutover behind which it is STOPPED."""
    if mirror.state is MirrorState.STOPPED and mirror.cutover.stopped_at:
        yield Cutover(mirror.cutover.stopped_at, mirror.cutover.stopped_copy_at)


def _group(name: str, group: GroupRecord | None) -> dict[str, Any]:
    if group is None:
        return {"name": name, "group": None, "state": None, "offsets": []}
    return {
        "name": name,
        "group": group.group,
        "state": group.state.value,
        "since": stamp(group.state_since_ms),
        "note": group.note,
        "offsets": [
            {
                "topic": one.topic,
                "partition": one.partition,
                "source_offset": one.source_offset,
                "target_offset": one.target_offset,
                "rule": one.rule,
            }
            for one in group.offsets
        ],
    }


def _entry(entry: JournalEntry) -> dict[str, Any]:
    return {
        "time": stamp(entry.at_ms),
        "what": entry.what,
        "application": entry.application,
        "names": list(entry.names),
        "by": entry.by,
        "detail": entry.detail,
        "pause_ms": None if entry.pause_ms < 0 else entry.pause_ms,
    }


def stamp(at_ms: int) -> str | None:
    """ISO 8601 in UTC; None of a time that is not known."""
    if not at_ms:
        return None
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def audit_summary(report_of_audit: Any, sha256: str) -> dict[str, Any]:
    """What of an audit's JSON report goes into a migration's: its verdict and digests, and what tells that file.

    Raises:
        ValueError: it is no report of `lockgate job audit`.
    """
    try:
        partitions = report_of_audit["partitions"]
        return {
            "verdict": str(report_of_audit["verdict"]),
            "digest": str(report_of_audit["digest"]),
            "started": report_of_audit["started"],
            "finished": report_of_audit["finished"],
            "topics": [str(topic) for topic in report_of_audit["topics"]],
            "sample": float(report_of_audit["sample"]["fraction"]),
            "source_cluster_id": str(report_of_audit["source"]["cluster_id"]),
            "target_cluster_id": str(report_of_audit["target"]["cluster_id"]),
            "partitions": len(partitions),
            "different_partitions": sum(one["verdict"] == "DIFFERENT" for one in partitions),
            "report_sha256": sha256,
        }
    except (KeyError, TypeError, ValueError) as exc:
        raise ValueError(f"no JSON report of `lockgate job audit`: {exc!r}") from exc


def audit_of(migration: Mapping[str, Any], audit: Mapping[str, Any]) -> dict[str, Any]:
    """An audit as it goes into the report of a migration: what it says of topics of that, between its clusters.

    A verdict is of what was there when the audit began. `cut_over_since`: topics of it that were written on the source
    then, and on the target now.

    Args:
        migration: as `report` builds it.
        audit: as `audit_summary`.

    Raises:
        ValueError: it is of other clusters, or of none of the topics.
    """
    for key, side in (("source_cluster_id", "source"), ("target_cluster_id", "target")):
        if migration[key] and audit[key] != migration[key]:
            raise ValueError(
                f"the audit's {side} is the cluster {audit[key] or '(unknown)'}, the migration's is {migration[key]}: "
                "give one of these clusters"
            )
    topics = [one for application in migration["applications"] for one in application["topics"]]
    if not {one["name"] for one in topics} & set(audit["topics"]):
        raise ValueError(
            f"the audit is of {', '.join(audit['topics'][:3]) or 'no topic'}, none of which migration "
            f"'{migration['migration']}' has: give one of its topics"
        )
    began = _time(audit["started"])
    since = [
        one["name"]
        for one in topics
        if one["name"] in audit["topics"] and one.get("cutover_time") and _time(one["cutover_time"]) > began
    ]
    return {**audit, "cut_over_since": since}


def _time(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)
