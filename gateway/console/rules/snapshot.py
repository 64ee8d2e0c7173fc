"""The console's snapshot of the whole fleet: rows of links, mirror topics, groups, applications, gateways and alerts.

Pure: of numbers that the control plane has at hand (`telemetry/numbers.py`) and of records. Offsets are sums over
partitions; a sum that lacks one of them is null. Times are the wall clock's milliseconds, `longest_wait_s` is whole
seconds, so that a row changes when there is something to see.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gateway.console.rules.alerts import alerts
from gateway.console.rules.applications import applications
from gateway.console.rules.sections import Cell, Row, Snapshot
from gateway.console.rules.undo import of_topic
from gateway.fleet.views import GatewayView
from gateway.mirror.interface import PartitionStatus
from gateway.state.records import GroupRecord, LinkRecord, MirrorRecord
from gateway.state.views import StateViews
from gateway.telemetry.numbers import ControlNumbers, GroupNumbers, LinkNumbers, MirrorNumbers

WRITES_ELSEWHERE = ("STOPPED", "PENDING_SYNCHRONIZE", "PENDING_SETUP_FOR_RESTORE")


class ClientsSeen(NamedTuple):
    """Of all gateways that told. `writes`: route (`source`, `target`, `held`) -> Produce requests so far. `unmirrored`:
    topics that clients ask for, that are on a source, and that nobody mirrors -> its link, and who asked last."""

    writes: Mapping[str, int]
    unmirrored: Mapping[str, tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a snapshot is made of. `gateways`: the fleet, as its leader sees it."""

    now_ms: int
    target_cluster_id: str
    numbers: ControlNumbers
    views: StateViews
    gateways: Sequence[GatewayView] = ()
    clients: ClientsSeen | None = None


def snapshot(scene: Scene) -> Snapshot:
    """All sections."""
    views = scene.views
    topics = {
        f"{one.link}/{one.topic}": topic_row(one, views.mirrors.get((one.link, one.topic)))
        for one in scene.numbers.mirrors
    }
    groups = {
        f"{one.link}/{one.group}": _group(one, views.groups.get((one.link, one.group))) for one in scene.numbers.groups
    }
    links = {one.link: _link(one, views.links.get(one.link), topics.values()) for one in scene.numbers.link_numbers}
    gateways = {one.name: _gateway(one) for one in scene.gateways}
    return {
        "lock": {"": _lock(scene, topics.values())},
        "links": links,
        "topics": topics,
        "groups": groups,
        "applications": applications(views, topics, groups, scene.numbers.migrations),
        "gateways": gateways,
        "alerts": alerts(
            links, topics, groups, gateways, _stopped(views), _troubles(scene.numbers), _unmirrored(scene)
        ),
    }


def _stopped(views: StateViews) -> dict[str, Row]:
    """Migrations that a rule of their file has stopped; what each is in, its applications' rows say."""
    return {
        name: {"migration": name, "stopped_by": record.stopped_by}
        for name, record in views.migrations.items()
        if record.stopped_by
    }


def _troubles(numbers: ControlNumbers) -> dict[str, Row]:
    """What makes the status of a migration red: its problems, and steps that were refused, by what they are about."""
    found: dict[str, Row] = {}
    for one in numbers.migrations:
        for why in one.problems:
            found[f"{one.migration}/{why}"] = {"migration": one.migration, "step": "", "why": why}
        for step, why in one.refused.items():
            found[f"{one.migration}/{step}"] = {"migration": one.migration, "step": step, "why": why}
    return found


def _unmirrored(scene: Scene) -> dict[str, Row]:
    """Topics that clients ask for before they are mirrored."""
    seen = {} if scene.clients is None else scene.clients.unmirrored
    return {
        f"{link}/{topic}": {"link": link, "topic": topic, "client": client}
        for topic, (link, client) in seen.items()
        if (link, topic) not in scene.views.mirrors
    }


def _lock(scene: Scene, topics: Iterable[Row]) -> Row:
    writes = None if scene.clients is None else scene.clients.writes
    waiting = sum(one.waiting for one in scene.numbers.groups)
    return {
        "at_ms": scene.now_ms,
        "target_cluster_id": scene.target_cluster_id,
        "waiting": waiting,
        "paused": sum(topic["state"] == "PENDING_STOPPED" for topic in topics),
        "to_source": None if writes is None else writes.get("source", 0),
        "to_target": None if writes is None else writes.get("target", 0),
        "held": None if writes is None else writes.get("held", 0),
    }


def topic_row(one: MirrorNumbers, record: MirrorRecord | None) -> Row:
    """A mirror topic. `origin_end`, `copy_end`, `lag`: null while one of its partitions does not tell."""
    partitions = one.partitions
    phases = {part.last_error for part in partitions if part.last_error}
    job = one.catch_up
    return {
        "link": one.link,
        "topic": one.topic,
        "source_topic": "" if record is None else record.source_topic,
        "state": "CATCHING_UP" if job is not None else one.state.value,
        "since_ms": one.state_since_ms,
        "direction": "REVERSE" if one.reverse else "FORWARD",
        "written_on": _written_on(one),
        "partitions": one.partition_count,
        "origin_end": _total(part.source_end for part in partitions),
        "copy_end": sum(part.target_end for part in partitions) if partitions else None,
        "lag": _total(part.lag for part in partitions),
        "lag_ms": max((part.lag_ms for part in partitions if part.lag_ms is not None), default=None),
        "bytes_per_s": round(sum(part.bytes_per_s for part in partitions)),
        "bypassed": sum(part.bypassed_last_minute for part in partitions),
        "failing": len([part for part in partitions if part.last_error]),
        "error": "" if one.error.value == "NO_ERROR" else one.error.value,
        "message": _message(record, phases),
        "waits_for": next((part.waits_for for part in partitions if part.waits_for), ""),
        "promote_failed": one.promote_failed,
        "after_cutover": one.records_after_cutover,
        "lost": one.lost,
        "not_mirrored": one.not_mirrored,
        "retries_unknown": one.retries_unknown,
        "set_back": one.set_back,
        "translated": one.translated,
        "readable": one.readable,
        "job": "" if job is None else job.job,
        "pause_ms": None if one.last_pause is None else round(one.last_pause.seconds * 1000),
        **of_topic(one, record),
    }


def partition_rows(numbers: ControlNumbers, link: str = "", topic: str = "") -> list[list[object]]:
    """[link, topic, partition, phase, origin end, mirrored to, copy end, lag, lag_ms, bytes/s, what it waits for]."""
    return [
        [one.link, one.topic, *_partition(part)]
        for one in numbers.mirrors
        if link in ("", one.link) and topic in ("", one.topic)
        for part in one.partitions
    ]


def _partition(part: PartitionStatus) -> Iterable[object]:
    return (
        part.partition,
        part.phase,
        part.source_end,
        part.mirrored_to,
        part.target_end,
        part.lag,
        part.lag_ms,
        round(part.bytes_per_s),
        part.last_error or part.waits_for,
    )


def _written_on(one: MirrorNumbers) -> str:
    """The cluster that clients' writes go to."""
    return "target" if one.reverse or one.state.value in WRITES_ELSEWHERE else "source"


def _message(record: MirrorRecord | None, failing: Iterable[str]) -> str:
    said = "" if record is None else record.error_message
    return said or next(iter(sorted(failing)), "")


def _total(values: Iterable[int | None]) -> int | None:
    found = list(values)
    known = [value for value in found if value is not None]
    return sum(known) if found and len(known) == len(found) else None


def _group(one: GroupNumbers, record: GroupRecord | None) -> Row:
    return {
        "link": one.link,
        "group": one.group,
        "source_group": one.group if record is None else record.source_name,
        "type": "" if record is None else record.kind.value,
        "state": one.state,
        "since_ms": one.state_since_ms,
        "members": one.members,
        "waiting": one.waiting,
        "clients": [list(client) for client in one.clients],
        "longest_wait_s": round(one.longest_wait_s),
        "members_after_promote": one.members_after_promote,
        "commits_after_promote": one.commits_after_promote,
        "source_lag": sum(one.source_lag.values()) if one.source_lag else None,
        "target_lag": sum(one.target_lag.values()) if one.target_lag else None,
        "carried": one.carried,
        "synced": one.synced_ms is not None,
        "sync_failing": one.sync_failing,
        "demoted": record is not None and record.demoted,
        "message": "" if record is None else record.error_message,
    }


def _link(one: LinkNumbers, record: LinkRecord | None, topics: Iterable[Row]) -> Row:
    own = [topic for topic in topics if topic["link"] == one.link]
    return {
        "link": one.link,
        "state": one.state,
        "since_ms": one.state_since_ms,
        "error": one.error,
        "cluster_id": "" if record is None else record.source_cluster_id,
        "bootstrap": "" if record is None else record.client.get("bootstrap.servers", ""),
        "topics": len(own),
        "on_target": sum(topic["written_on"] == "target" for topic in own),
        "origin_end": _measured(topic["origin_end"] for topic in own),
        "copy_end": _measured(topic["copy_end"] for topic in own),
        "lag": _behind(own),
        "bypassed": sum(topic["bypassed"] for topic in own if isinstance(topic["bypassed"], int)),
    }


def _behind(topics: Iterable[Row]) -> int | None:
    """Of those that are mirrored to the target; None while one of them does not tell."""
    lags = [topic["lag"] for topic in topics if topic["written_on"] == "source"]
    known = [lag for lag in lags if isinstance(lag, int)]
    return sum(known) if len(known) == len(lags) else None


def _measured(ends: Iterable[Cell]) -> int | None:
    """The sum of those that are known: what is promoted is measured no more. None when none is."""
    known = [end for end in ends if isinstance(end, int)]
    return sum(known) if known else None


def _gateway(view: GatewayView) -> Row:
    record = view.record
    return {
        "name": view.name,
        "state": view.state,
        "leads": view.leads,
        "role": record.role,
        "peer": record.peer,
        "bootstrap": record.bootstrap,
        "lease_s": record.lease_ms / 1000,
        "lease_left_s": None if view.lease_left_s is None else round(view.lease_left_s),
        "workers": view.workers,
        "mirror_partitions": len(view.mirrors),
        "since_ms": record.since_ms,
    }
