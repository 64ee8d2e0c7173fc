"""docs/reference/metrics.md, from the metrics that a gateway renders: `python -m tests.support.pages.metrics_page`.

What stands beside them, the peers' names for what means the same, is kept here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from prometheus_client.core import Metric

from gateway.access.acl_sync import AclCounts
from gateway.operations.link_tasks import LinkTask, TaskState, TaskStatus
from gateway.schemas.schema_sync import SchemaCounts
from gateway.state.records import MirrorError, MirrorState
from gateway.telemetry.metrics import Metrics
from gateway.telemetry.numbers import (
    ControlNumbers,
    FleetNumbers,
    GroupNumbers,
    LinkNumbers,
    MigrationNumbers,
    MirrorNumbers,
    ProxyNumbers,
    TokenNumbers,
)
from gateway.topics.auto_create import AutoCreated
from gateway.topics.catch_up import CatchUp
from gateway.transport.loop_watch import Stalls
from tests.support.fakes.fake_engine import status
from tests.support.pages.described import DESCRIBED

PAGE: Final = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"

PEERS: Final[Mapping[str, str]] = {
    "lockgate_link_up": "Confluent `cluster_link_count` by state",
    "lockgate_link_client_errors_total": "Redpanda `redpanda_shadow_link_client_errors`; MSK Replicator `AuthError`",
    "lockgate_link_fetch_throttled_seconds_total": "MSK Replicator `ThrottleTime`",
    "lockgate_link_task_state": "Confluent `cluster_link_task_count` by state",
    "lockgate_mirror_state": "Confluent `cluster_link_mirror_topic_count` by state; Redpanda "
    "`redpanda_shadow_link_shadow_topic_state`",
    "lockgate_mirror_error": "Confluent `mirror_topic_error`",
    "lockgate_mirror_promote_failed": "Confluent `cluster_link_mirror_transition_in_error`",
    "lockgate_mirror_lag_records": "Confluent `mirror_topic_lag`; Redpanda `redpanda_shadow_link_shadow_lag`; "
    "MSK Replicator `MessageLag`",
    "lockgate_mirror_lag_seconds": "MSK Replicator `ReplicationLatency`; MirrorMaker 2 `replication-latency-ms`",
    "lockgate_mirror_bytes_per_second": "MSK Replicator `ReplicatorThroughput`; MirrorMaker 2 `byte-rate`",
    "lockgate_mirror_bytes_total": "Redpanda `redpanda_shadow_link_total_bytes_written`; Confluent "
    "`cluster_link_mirror_topic_bytes`; MirrorMaker 2 `byte-count`",
    "lockgate_mirror_records_total": "MirrorMaker 2 `record-count`",
    "lockgate_group_lag_records": "Confluent `consumer_lag_offsets`",
    "lockgate_group_offset_sync_round_seconds": "MirrorMaker 2 `checkpoint-latency-ms`",
    "lockgate_connections_closed_total": "Kroxylicious `client_to_proxy_disconnects_total{cause}`",
    "lockgate_client_connections": "Kroxylicious `client_to_proxy_active_connections`",
    "lockgate_connections_refused_total": "Kroxylicious `client_to_proxy_errors_total`",
    "lockgate_requests_total": "Kroxylicious `client_to_proxy_request_total`",
}
"""Metric -> names that peers give to what means the same. Some are gauges there that are counters here."""

MISSING: Final = (
    (
        "Redpanda `redpanda_shadow_link_total_bytes_fetched`",
        "what is fetched is appended, or fetched again after a fault: `lockgate_mirror_bytes_total` has the first",
    ),
)
"""What peers have and the gateway has not, and what comes nearest."""

_OF_CLIENTS: Final = tuple(
    f"lockgate_{word}"
    for word in (
        "request",
        "client",
        "connections",
        "produce",
        "auto_create",
        "held",
        "waiters",
        "forwarded",
        "delegation",
    )
)
_GROUPS: Final = (
    ("Links", ("lockgate_link_",)),
    ("Mirror topics", ("lockgate_mirror_", "lockgate_catch_up_", "lockgate_write_pause_")),
    ("Mirror groups", ("lockgate_group",)),
    ("Migrations", ("lockgate_migration",)),
    ("Clients", _OF_CLIENTS),
    ("The gateway and its fleet", ("lockgate_",)),
)

_HEAD: Final = """# Metrics

Read this when you build a dashboard or an alert, or look for the metric that says what `describe` shows.

Written from `gateway/telemetry/` by `python -m tests.support.pages.metrics_page`: change it there.

`GET /metrics`, for Prometheus, takes the role viewer unless `api.public_metrics` is set. Every gateway shows its own
clients; links, mirrors and groups are shown by the one that leads (`lockgate_fleet_leader`), so take the maximum over
gateways. Numbers are read off at a scrape, and no cluster is asked for it. The one exception is consumer lag: every
`metrics.group_lag_interval_s` (30 s; 0: never) `metrics.group_lag_groups` groups (200, each in its turn) are looked at,
with two requests each. What is not known has no sample.

A name that ends in `_total` is a counter from the start of the process, or of the term where it says so. The column on
the right has what peers call the same thing, or what comes nearest. A gateway of several processes shows
`lockgate_workers` as well: how many of them have answered. One that has not counts with what it had counted before,
and one that was started again goes on from there, with all labels that some process still counts. When the first one,
which answers the scrape, is started again, all begin anew: with what the others have counted since the last scrape.
"""


def page() -> str:
    """The whole page."""
    return "\n".join(_lines()) + "\n"


def families() -> list[Metric]:
    """Every family, with a sample of each."""
    metrics = Metrics()
    metrics.control, metrics.proxy, metrics.fleet = _control, _proxy, _fleet
    metrics.pause_ended("l", "stopped", 0.1, {"read_ends": 0.1})
    metrics.create_ended("l", "created", 0.1)
    return [each for each in metrics.families() if each.name.startswith("lockgate_")]


def shown_name(family: Metric) -> str:
    """As it is scraped."""
    ending = {"counter": "_total", "info": "_info"}.get(family.type, "")
    return family.name + ending


def _lines() -> Iterator[str]:
    yield _HEAD
    left = sorted(families(), key=shown_name)
    for title, prefixes in _GROUPS:
        chosen = [each for each in left if each.name.startswith(prefixes)]
        left = [each for each in left if each not in chosen]
        yield f"## {title}\n"
        yield "| metric | labels | meaning | peers |"
        yield "|---|---|---|---|"
        yield from map(_row, chosen)
        yield ""
    yield "## What peers have besides\n"
    yield "| peers | here |"
    yield "|---|---|"
    for name, instead in MISSING:
        yield f"| {name} | {instead} |"
    yield ""
    yield from _described()


def _described() -> Iterator[str]:
    yield "## What `describe` and `list` show\n"
    yield "Field by field, as `-o json` prints it: the metric that has it (without `lockgate_`), or why none has.\n"
    yield "| body | field | metric |"
    yield "|---|---|---|"
    for model, rows in DESCRIBED.items():
        for field, said in rows.items():
            yield f"| {model.__name__.removesuffix('Data')} | `{field}` | {said} |"


def _row(family: Metric) -> str:
    name = shown_name(family)
    labels = sorted({label for sample in family.samples for label in sample.labels} - {"le"})
    shown = ", ".join(f"`{label}`" for label in labels)
    meaning = family.documentation + (" A histogram." if family.type == "histogram" else "")
    return f"| `{name}` | {shown} | {meaning} | {PEERS.get(name, '')} |"


def _control() -> ControlNumbers:
    job = CatchUp(
        job="j", by="spark", records_done=1, records_total=2, bytes_done=1, bytes_total=2, bytes_per_s=1.0, eta_s=1.0
    )
    partition = status(0, lag=1, lag_ms=1, segments=1, missing_ids=(1,), ids_written_total=1)
    mirror = MirrorNumbers(
        "l",
        "t",
        MirrorState.FAILED,
        [partition],
        error=MirrorError.TARGET_DIVERGED,
        partition_count=1,
        catch_up=job,
        undo_until_ms=1,
        at_risk=0,
    )
    group = GroupNumbers("l", "g", "ACTIVE", 0, synced_ms=1, members=1, source_lag={"t": 1}, target_lag={"t": 1})
    task = TaskStatus(LinkTask.AUTO_CREATE_MIRROR, TaskState.ACTIVE, last_run_ms=1)
    link = LinkNumbers(
        link="l",
        state="FAILED",
        error="AUTHENTICATION_ERROR",
        tasks=[task],
        auto_created=AutoCreated(1, 0, 0),
        acls=AclCounts(1, 0, 0, 0, 0, 1, 0),
        schemas=SchemaCounts(1, 1, 0, 0, 1, 0, 0),
    )
    migration = MigrationNumbers(
        migration="m", link="l", state="RUNNING", readiness={"a": 100}, client_errors_percent=1.0, answers_looked_at=1
    )
    return ControlNumbers(
        links={"l": True}, mirrors=[mirror], groups=[group], link_numbers=[link], migrations=[migration]
    )


def _proxy() -> ProxyNumbers:
    api: Any = SimpleNamespace(api_key=0, requests=1, request_bytes=1, buckets=(1, 0), latency_sum_s=0.1)
    one = {"x": 1}
    return ProxyNumbers(
        bounds_s=(1.0,), apis=[api], refused=one, closed=one, auto_create_refused=one, held=one,
        tokens={"": TokenNumbers(owners=1, made=1, refused=0)},
        client_errors={"l": {"connection": 1}}, writes_throttled_s={"l": 0.0},
    )  # fmt: skip


def _fleet() -> FleetNumbers:
    return FleetNumbers(
        leads=True,
        lease_left_s=1.0,
        mirrored=1,
        states={"up": 1},
        audit_lost=0,
        lost_lease_s=0.0,
        throttled_s={"l": 0.0},
        stalls={"state": Stalls(1, 0.1, 0.1)},
        append_throttled_s={"target": 0.0},
        state_losses=0,
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE} is written\n")
