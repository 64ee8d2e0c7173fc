"""What somebody should look at, of the rows that a console shows: one line each, with the remedy. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from gateway.console.rules.sections import Cell, Row, Rows

ERROR: Final = "error"
WARNING: Final = "warning"


class AlertQuery(NamedTuple):
    """The same as an alert of Prometheus: what it asks of /metrics, for how many minutes it must hold, and its line, in
    which `$labels` and `$value` are Prometheus' own. Only the leader tells of links, topics and groups, and for a
    moment two may: so the maximum over gateways counts."""

    expr: str
    minutes: int
    said: str


class Rule(NamedTuple):
    """`holds` of a row makes `line` an alert of this severity. `remedy` may name the
    row's fields in braces. `query`: None: another rule's alert of Prometheus has it as well."""

    name: str
    severity: str
    holds: Callable[[Row], Cell]
    line: Callable[[Row], str]
    remedy: str
    query: AlertQuery | None = None


_TOPIC: Final = "{{ $labels.topic }}"


def _topics(expr: str, said: str, minutes: int = 0) -> AlertQuery:
    """Of a mirror topic's metric: `METRIC > 0` and the like."""
    metric, compared = expr.split(" ", 1)
    return AlertQuery(f"max by (link, topic) ({metric}) {compared}", minutes, said)


def _groups(expr: str, said: str, minutes: int = 0) -> AlertQuery:
    """Of a mirror group's."""
    metric, compared = expr.split(" ", 1)
    return AlertQuery(f"max by (link, group) ({metric}) {compared}", minutes, said)


def _migrations(expr: str, said: str, minutes: int = 0) -> AlertQuery:
    """Of a migration's."""
    metric, compared = expr.split(" ", 1)
    return AlertQuery(f"max by (link, migration) ({metric}) {compared}", minutes, said)


def _stopped_by(row: Row) -> str:
    """The name of the rule, the first word of what is kept of it."""
    return str(row["stopped_by"]).partition(" ")[0]


def _stopped_line(row: Row) -> str:
    return f"migration {row['migration']} is STOPPED_BY_RULE: {row['stopped_by']}"


def _stopped(rule: str, remedy: str) -> Rule:
    return Rule(
        "stopped-by-" + rule.replace("_", "-"), ERROR, lambda row: _stopped_by(row) == rule, _stopped_line, remedy
    )


_LINKS: Final = (
    Rule(
        "link-unavailable",
        ERROR,
        lambda row: row["error"] or row["state"] in ("UNAVAILABLE", "FAILED"),
        lambda row: f"link {row['link']}: its source cannot be used ({row['error'] or row['state']})",
        "See lockgate link describe; mirrors go on by themselves when it answers.",
        AlertQuery(
            'max by (link) (lockgate_link_state{state=~"UNAVAILABLE|FAILED"}) == 1',
            1,
            "link {{ $labels.link }}: its source cannot be used",
        ),
    ),
)
_TOPICS: Final = (
    Rule(
        "mirror-failed",
        ERROR,
        lambda row: row["state"] == "FAILED",
        lambda row: f"mirror topic {row['topic']} has FAILED: {row['message'] or row['error']}",
        "lockgate mirror repair says what can be done.",
        _topics('lockgate_mirror_state{state="FAILED"} == 1', f"mirror topic {_TOPIC} has FAILED"),
    ),
    Rule(
        "promote-failed",
        WARNING,
        lambda row: row["promote_failed"],
        lambda row: f"the last promote of {row['topic']} was given up; it is mirrored as before",
        "Open the topic for the reason, mend it, and promote again.",
        _topics(
            "lockgate_mirror_promote_failed == 1",
            f"the last promote of {_TOPIC} was given up; it is mirrored as before",
        ),
    ),
    Rule(
        "partitions-failing",
        WARNING,
        lambda row: row["failing"] and row["state"] != "FAILED",
        lambda row: f"{row['failing']} of {row['partitions']} partitions of {row['topic']} fail: {row['message']}",
        "They are tried again; open the topic for each one's reason.",
        _topics("lockgate_mirror_failing_partitions > 0", f"{{{{ $value }}}} partitions of {_TOPIC} fail", 5),
    ),
    Rule(
        "records-after-cutover",
        ERROR,
        lambda row: row["after_cutover"],
        lambda row: f"{row['after_cutover']} records of {row['topic']} were written to the source after its cutover",
        "A producer still goes to the source: restart it onto the gateway.",
        _topics(
            "lockgate_mirror_records_after_cutover > 0",
            f"{{{{ $value }}}} records of {_TOPIC} were written to the source after its cutover",
        ),
    ),
    Rule(
        "records-lost",
        WARNING,
        lambda row: row["lost"],
        lambda row: f"the source deleted {row['lost']} records of {row['topic']} before they were mirrored",
        "Longer retention on the source, or a job that copies the backlog, keeps the rest.",
        _topics(
            "lockgate_mirror_lost_records > 0",
            f"the source deleted {{{{ $value }}}} records of {_TOPIC} before they were mirrored",
        ),
    ),
    Rule(
        "not-mirrored",
        WARNING,
        lambda row: row["not_mirrored"],
        lambda row: f"a failover left {row['not_mirrored']} records of {row['topic']} on the source",
        "lockgate mirror describe names them by partition.",
        _topics(
            "lockgate_mirror_not_mirrored_records > 0",
            f"a failover left {{{{ $value }}}} records of {_TOPIC} on the source",
        ),
    ),
    Rule(
        "retries-unknown",
        WARNING,
        lambda row: row["retries_unknown"],
        lambda row: (
            f"retries over the failover of {row['topic']} may be there twice, in {row['retries_unknown']} partitions"
        ),
        "Readers that count should look for them.",
        _topics(
            "lockgate_mirror_retries_unknown_partitions > 0",
            f"retries over the failover of {_TOPIC} may be there twice, in {{{{ $value }}}} partitions",
        ),
    ),
    Rule(
        "undo-refused",
        WARNING,
        lambda row: row["undo"] == "refused",
        lambda row: f"{row['topic']} is promoted and has no undo: its mirror back could not be begun",
        "lockgate mirror describe says why; mend it, and lockgate mirror reverse.",
        _topics(
            "lockgate_mirror_undo_refused == 1",
            f"{_TOPIC} is promoted and has no undo: its mirror back could not be begun",
        ),
    ),
    Rule(
        "configs-set-back",
        WARNING,
        lambda row: row["set_back"],
        lambda row: f"{row['set_back']} configs of {row['topic']} were changed on the copy, and set back",
        "Change them on the source, or give the mirror configs of its own.",
        _topics(
            "lockgate_mirror_configs_set_back > 0",
            f"{{{{ $value }}}} configs of {_TOPIC} were changed on the copy, and set back",
        ),
    ),
)
_GROUPS: Final = (
    Rule(
        "group-failed",
        ERROR,
        lambda row: row["state"] == "FAILED",
        lambda row: f"group {row['group']} was not promoted: {row['message']}",
        "Mend what it says, and promote it again.",
        _groups('lockgate_group_state{state="FAILED"} == 1', "group {{ $labels.group }} was not promoted"),
    ),
    Rule(
        "members-after-promote",
        ERROR,
        lambda row: row["members_after_promote"] or row["commits_after_promote"],
        lambda row: f"group {row['group']} reads on the source again after its promote",
        "A consumer was started against the source: restart it onto the gateway.",
        AlertQuery(
            "max by (link, group) (lockgate_group_members_after_promote) > 0 "
            "or max by (link, group) (lockgate_group_commits_after_promote) > 0",
            0,
            "group {{ $labels.group }} reads on the source again after its promote",
        ),
    ),
    Rule(
        "sync-failing",
        WARNING,
        lambda row: row["sync_failing"],
        lambda row: f"offsets of group {row['group']} are not synced at the moment",
        "Open the group for the reason.",
        _groups(
            "lockgate_group_offset_sync_failing == 1",
            "offsets of group {{ $labels.group }} are not synced at the moment",
            5,
        ),
    ),
)
_GATEWAYS: Final = (
    Rule(
        "gateway-lost",
        ERROR,
        lambda row: row["state"] == "lost",
        lambda row: f"gateway {row['name']} is lost: write pauses wait for its lease",
        "Start it again; if it has stopped for good, lockgate gateway forget.",
        AlertQuery(
            'max(lockgate_fleet_gateways{state="lost"}) > 0',
            0,
            "{{ $value }} gateways are lost: write pauses wait for their leases",
        ),
    ),
    Rule(
        "gateway-silent",
        WARNING,
        lambda row: row["state"] == "silent",
        lambda row: f"gateway {row['name']} was not heard for a moment",
        "Nothing to do unless it stays so.",
        AlertQuery('max(lockgate_fleet_gateways{state="silent"}) > 0', 2, "{{ $value }} gateways are not heard"),
    ),
)
_GO_ON: Final = "lockgate migration resume accepts it and goes on, lockgate migration undo goes home."
_STOPPED: Final = {
    "late_writes": f"A producer still goes to the source: restart it onto the gateway; then {_GO_ON}",
    "client_errors_percent": "Clients are refused on the target: mend what the error says (rights, limits, configs); "
    "then lockgate migration resume goes on and counts anew, lockgate migration undo goes home.",
    "target_lag": f"Its readers do not keep up on the target: look at them; then {_GO_ON}",
}
_MIGRATIONS: Final = (
    *(_stopped(rule, remedy) for rule, remedy in _STOPPED.items()),
    Rule(
        "stopped-by-rule",
        ERROR,
        lambda row: _stopped_by(row) not in ("", *_STOPPED),
        _stopped_line,
        f"Mend what it has found; then {_GO_ON}",
        _migrations(
            'lockgate_migration_state{state="STOPPED_BY_RULE"} == 1',
            "migration {{ $labels.migration }} was stopped by a rule of its file",
        ),
    ),
)


_TROUBLES: Final = (
    Rule(
        "migration-problem",
        ERROR,
        lambda row: not row["step"],
        lambda row: f"migration {row['migration']}: {row['why']}",
        "It cannot come to its end before: mend what it says, or apply a file without it.",
        _migrations(
            "lockgate_migration_problems > 0",
            "migration {{ $labels.migration }} has {{ $value }} problems that keep it from its end",
            2,
        ),
    ),
    Rule(
        "migration-step-refused",
        WARNING,
        lambda row: row["step"],
        lambda row: f"migration {row['migration']}: {row['step']} was refused: {row['why']}",
        "It is tried again, later and later; lockgate migration status shows what is left.",
        _migrations(
            "lockgate_migration_refused_steps > 0",
            "{{ $value }} steps of migration {{ $labels.migration }} are refused again and again",
            5,
        ),
    ),
)


_UNMIRRORED: Final = (
    Rule(
        "topic-not-mirrored",
        ERROR,
        lambda _: True,
        lambda row: (
            f"{row['client']} asks for topic {row['topic']}, which is on the source of link {row['link']} and not "
            "mirrored: it gets UNKNOWN_TOPIC_OR_PARTITION"
        ),
        "lockgate mirror create {topic} --link {link}",
        AlertQuery(
            "sum by (topic) (rate(lockgate_auto_create_refused_total[5m])) > 0",
            1,
            f"clients ask for topic {_TOPIC}, which is on a source and not mirrored",
        ),
    ),
)


RULES: Final = (*_LINKS, *_TOPICS, *_GROUPS, *_GATEWAYS, *_MIGRATIONS, *_TROUBLES, *_UNMIRRORED)
"""All of them."""


def alerts(
    links: Rows, topics: Rows, groups: Rows, gateways: Rows, migrations: Rows, troubles: Rows, unmirrored: Rows
) -> dict[str, Row]:
    """By `rule/key of the row`: severity, what it is about, the line, the remedy.

    `migrations`: those that a rule of their file has stopped. `troubles`: problems of migrations, and steps that were
    refused. `unmirrored`: topics that clients ask for before they are mirrored.
    """
    found: dict[str, Row] = {}
    for kind, rows, rules in (
        ("link", links, _LINKS),
        ("topic", topics, _TOPICS),
        ("group", groups, _GROUPS),
        ("gateway", gateways, _GATEWAYS),
        ("migration", migrations, _MIGRATIONS),
        ("migration", troubles, _TROUBLES),
        ("unmirrored", unmirrored, _UNMIRRORED),
    ):
        found |= dict(_of(kind, rows, rules))
    return found


def _of(kind: str, rows: Rows, rules: tuple[Rule, ...]) -> Iterator[tuple[str, Row]]:
    for key, row in rows.items():
        for rule in rules:
            if rule.holds(row):
                yield (
                    f"{rule.name}/{key}",
                    {
                        "rule": rule.name,
                        "severity": rule.severity,
                        "kind": kind,
                        "key": row["migration"] if kind == "migration" else key,
                        "line": rule.line(row),
                        "remedy": rule.remedy.format_map(row),
                    },
                )
