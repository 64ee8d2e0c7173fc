"""Grafana's boards, from rows over the metrics: `python -m tests.support.deploy.boards` writes them into the chart.

*Migration* is what the leader tells of links, topics, groups and migrations, *Gateway* what each gateway tells of its
own clients. A panel is a row here: title, kind, unit, and its queries with their legends.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.support.deploy.values_schema import CHART

FOLDER: Final = CHART / "files" / "boards"
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH: Final = {"stat": 4, "timeseries": 12, "table": 12}
_HEIGHT: Final = {"stat": 4, "timeseries": 8, "table": 8}


class Panel(NamedTuple):
    """One panel. `queries`: expression -> legend."""

    title: str
    kind: str
    unit: str
    queries: dict[str, str]


class Board(NamedTuple):
    """One board. `rows`: title -> panels. `variables`: name -> the metric that has it as a label."""

    name: str
    uid: str
    variables: dict[str, str]
    rows: dict[str, Sequence[Panel]]


_TOPIC: Final = '{link=~"$link", topic=~"$topic"}'
_LINK: Final = '{link=~"$link"}'
_GATEWAY: Final = '{instance=~"$instance"}'


def _most(metric: str, by: str, where: str = _TOPIC) -> str:
    """Only the leader tells, and for a moment two may."""
    return f"max by ({by}) ({metric}{where})"


def _in_all(metric: str, by: str, kept: str, where: str = _TOPIC) -> str:
    """The sum over what is told once for each of `by`."""
    return f"sum by ({kept}) ({_most(metric, by, where)})"


def _rate(metric: str, by: str, where: str = _GATEWAY) -> str:
    return f"sum by ({by}) (rate({metric}{where}[$__rate_interval]))"


MIGRATION: Final = Board(
    "Migration",
    "lockgate-migration",
    {"link": "lockgate_link_state", "topic": "lockgate_mirror_state"},
    {
        "At a glance": (
            Panel("Links that answer", "stat", "none", {f"sum({_most('lockgate_link_up', 'link', _LINK)})": ""}),
            Panel(
                "Topics by state",
                "stat",
                "none",
                {f"sum by (state) ({_most('lockgate_mirror_state', 'link, topic, state')})": "{{state}}"},
            ),
            Panel(
                "Groups by state",
                "stat",
                "none",
                {_most("lockgate_groups", "link, state", _LINK): "{{link}} {{state}}"},
            ),
            Panel("Longest lag", "stat", "s", {f"max(lockgate_mirror_lag_seconds{_TOPIC})": ""}),
            Panel(
                "Records at risk",
                "stat",
                "none",
                {f"sum({_most('lockgate_mirror_records_at_risk', 'link, topic')})": ""},
            ),
            Panel(
                "Undo is open for",
                "stat",
                "s",
                {f"min(lockgate_mirror_undo_until_timestamp_seconds{_TOPIC}) - time()": ""},
            ),
        ),
        "Steps and readiness": (
            Panel(
                "Migrations by state",
                "timeseries",
                "none",
                {_most("lockgate_migration_state", "migration, state", _LINK): "{{migration}} {{state}}"},
            ),
            Panel(
                "Readiness of applications",
                "timeseries",
                "none",
                {_most("lockgate_migration_readiness", "migration, application", _LINK): "{{application}}"},
            ),
            Panel(
                "Problems and refused steps",
                "timeseries",
                "none",
                {
                    _most("lockgate_migration_problems", "migration", _LINK): "{{migration}}: problems",
                    _most("lockgate_migration_refused_steps", "migration", _LINK): "{{migration}}: refused steps",
                },
            ),
            Panel(
                "Errors of clients on the target",
                "timeseries",
                "percentunit",
                {_most("lockgate_migration_client_errors_ratio", "migration", _LINK): "{{migration}}"},
            ),
        ),
        "Mirrors": (
            Panel("Lag", "timeseries", "s", {_most("lockgate_mirror_lag_seconds", "topic"): "{{topic}}"}),
            Panel(
                "Records behind",
                "timeseries",
                "none",
                {_in_all("lockgate_mirror_lag_records", "link, topic, partition", "topic"): "{{topic}}"},
            ),
            Panel(
                "Bytes mirrored",
                "timeseries",
                "Bps",
                {_rate("lockgate_mirror_bytes_total", "topic", _TOPIC): "{{topic}}"},
            ),
            Panel(
                "Partitions that fail or wait",
                "timeseries",
                "none",
                {
                    _most("lockgate_mirror_failing_partitions", "topic"): "{{topic}}: fail",
                    _most("lockgate_mirror_waiting_partitions", "topic"): "{{topic}}: wait",
                },
            ),
        ),
        "Gates": (
            Panel(
                "Members that wait",
                "timeseries",
                "none",
                {_most("lockgate_group_held_members", "group", _LINK): "{{group}}"},
            ),
            Panel(
                "Longest wait",
                "timeseries",
                "s",
                {_most("lockgate_group_longest_wait_seconds", "group", _LINK): "{{group}}"},
            ),
            Panel(
                "Members still on the source",
                "timeseries",
                "none",
                {_most("lockgate_group_source_members", "group", _LINK): "{{group}}"},
            ),
            Panel(
                "Lag of groups",
                "timeseries",
                "none",
                {
                    _in_all(
                        "lockgate_group_lag_records", "group, side, topic", "group, side"
                    ): "{{group}} on the {{side}}"
                },
            ),
        ),
        "Cutovers": (
            Panel(
                "Write pause, 99th percentile of the last hour",
                "timeseries",
                "s",
                {
                    "histogram_quantile(0.99, sum by (le, outcome) ("
                    "increase(lockgate_write_pause_duration_seconds_bucket" + _LINK + "[1h])))": "{{outcome}}"
                },
            ),
            Panel(
                "What the pause went to",
                "timeseries",
                "s",
                {_rate("lockgate_write_pause_step_seconds_total", "step", _LINK): "{{step}}"},
            ),
            Panel(
                "Written to the source directly",
                "timeseries",
                "none",
                {
                    _in_all(
                        "lockgate_mirror_bypassed_records", "link, topic, partition", "topic"
                    ): "{{topic}}, last minute",
                    _most("lockgate_mirror_records_after_cutover", "topic"): "{{topic}}, after the cutover",
                },
            ),
            Panel(
                "Undo: records at risk",
                "timeseries",
                "none",
                {_most("lockgate_mirror_records_at_risk", "topic"): "{{topic}}"},
            ),
        ),
    },
)

GATEWAY: Final = Board(
    "Gateway",
    "lockgate-gateway",
    {"instance": "lockgate_build_info"},
    {
        "At a glance": (
            Panel("Gateways", "stat", "none", {"max by (state) (lockgate_fleet_gateways)": "{{state}}"}),
            Panel("Leader", "stat", "none", {"sum(lockgate_fleet_leader)": ""}),
            Panel("Connections", "stat", "none", {f"sum(lockgate_client_connections{_GATEWAY})": ""}),
            Panel("Shortest lease", "stat", "s", {f"min(lockgate_write_lease_seconds{_GATEWAY})": ""}),
            Panel("Requests", "stat", "reqps", {f"sum(rate(lockgate_requests_total{_GATEWAY}[$__rate_interval]))": ""}),
            Panel("Partitions mirrored", "stat", "none", {f"sum(lockgate_mirrored_partitions{_GATEWAY})": ""}),
        ),
        "Clients": (
            Panel("Connections", "timeseries", "none", {f"lockgate_client_connections{_GATEWAY}": "{{instance}}"}),
            Panel("Requests by API", "timeseries", "reqps", {_rate("lockgate_requests_total", "api"): "{{api}}"}),
            Panel(
                "Bytes of requests by API",
                "timeseries",
                "Bps",
                {_rate("lockgate_request_bytes_total", "api"): "{{api}}"},
            ),
            Panel(
                "Latency by API, 99th percentile",
                "timeseries",
                "s",
                {
                    "histogram_quantile(0.99, sum by (le, api) (rate(lockgate_request_seconds_bucket"
                    + _GATEWAY
                    + "[$__rate_interval])))": "{{api}}"
                },
            ),
            Panel(
                "Connections closed and refused",
                "timeseries",
                "cps",
                {
                    _rate("lockgate_connections_closed_total", "reason"): "closed: {{reason}}",
                    _rate("lockgate_connections_refused_total", "limit"): "refused: {{limit}}",
                },
            ),
            Panel(
                "Writes to sources",
                "timeseries",
                "reqps",
                {
                    _rate("lockgate_forwarded_writes_total", "instance"): "{{instance}}",
                    _rate("lockgate_produce_held_total", "topic"): "held: {{topic}}",
                },
            ),
            Panel(
                "Requests that wait here",
                "timeseries",
                "bytes",
                {f"lockgate_held_request_bytes{_GATEWAY}": "{{instance}}"},
            ),
            Panel(
                "Errors towards sources",
                "timeseries",
                "cps",
                {_rate("lockgate_link_client_errors_total", "link, error"): "{{link}}: {{error}}"},
            ),
        ),
        "The process": (
            Panel("CPU", "timeseries", "none", {_rate("process_cpu_seconds_total", "instance"): "{{instance}}"}),
            Panel("Memory", "timeseries", "bytes", {f"process_resident_memory_bytes{_GATEWAY}": "{{instance}}"}),
            Panel(
                "Turns of the event loop that served nobody",
                "timeseries",
                "percentunit",
                {_rate("lockgate_event_loop_stalled_seconds_total", "instance, cause"): "{{instance}}: {{cause}}"},
            ),
            Panel("Open files", "timeseries", "none", {f"process_open_fds{_GATEWAY}": "{{instance}}"}),
        ),
        "The fleet": (
            Panel("Write leases", "timeseries", "s", {f"lockgate_write_lease_seconds{_GATEWAY}": "{{instance}}"}),
            Panel(
                "Partitions mirrored", "timeseries", "none", {f"lockgate_mirrored_partitions{_GATEWAY}": "{{instance}}"}
            ),
            Panel(
                "Bytes mirrored",
                "timeseries",
                "Bps",
                {_rate("lockgate_mirror_bytes_total", "instance"): "{{instance}}"},
            ),
            Panel(
                "Throttled by brokers",
                "timeseries",
                "percentunit",
                {
                    _rate("lockgate_append_throttled_seconds_total", "side"): "appends, {{side}}",
                    _rate("lockgate_link_fetch_throttled_seconds_total", "link"): "fetches, {{link}}",
                },
            ),
        ),
    },
)
BOARDS: Final = (MIGRATION, GATEWAY)


def text(board: Board) -> str:
    """As the file has it."""
    made = {
        "uid": board.uid,
        "title": f"lockgate / {board.name}",
        "tags": ["lockgate", "kafka"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": list(_variables(board))},
        "panels": list(_panels(board)),
    }
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def _variables(board: Board) -> Iterator[dict[str, Any]]:
    yield {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}
    for name, metric in board.variables.items():
        query = f"label_values({metric}, {name})"
        yield {
            "name": name, "type": "query", "datasource": _SOURCE, "query": query, "refresh": 2, "multi": True,
            "includeAll": True, "allValue": ".*", "current": {"text": "All", "value": "$__all"},
        }  # fmt: skip


def _panels(board: Board) -> Iterator[dict[str, Any]]:
    number = y = 0
    for title, panels in board.rows.items():
        number += 1
        yield {
            "id": number, "type": "row", "title": title, "collapsed": False, "panels": [],
            "gridPos": {"x": 0, "y": y, "w": 24, "h": 1},
        }  # fmt: skip
        y, x = y + 1, 0
        for panel in panels:
            width, height = _WIDTH[panel.kind], _HEIGHT[panel.kind]
            if x + width > 24:
                x, y = 0, y + height
            number += 1
            yield _panel(panel, number, {"x": x, "y": y, "w": width, "h": height})
            x += width
        y += _HEIGHT[panels[-1].kind]


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + index), "datasource": _SOURCE, "expr": expr, "legendFormat": legend or "__auto"}
        for index, (expr, legend) in enumerate(panel.queries.items())
    ]
    return {
        "id": number, "type": panel.kind, "title": panel.title, "datasource": _SOURCE, "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []}, "targets": targets,
    }  # fmt: skip


def file_of(board: Board) -> Path:
    """Where it is."""
    return FOLDER / f"{board.name.lower()}.json"


def main() -> None:
    """Write them."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for board in BOARDS:
        file_of(board).write_text(text(board), encoding="utf-8")
        sys.stdout.write(f"{file_of(board)} is written\n")


if __name__ == "__main__":
    main()
