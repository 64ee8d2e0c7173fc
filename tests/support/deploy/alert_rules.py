"""Alert rules of Prometheus, from the table of the console's alerts: `python -m tests.support.deploy.alert_rules`.

They are in the chart (`files/alerts.yaml`), and anybody's Prometheus takes them from there. What the console does not
tell, since it is about a single gateway or about time, stands here. Each has a section in docs/operate/runbook.md.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

import yaml

from gateway.console.rules.alerts import ERROR, RULES, WARNING, AlertQuery, Rule
from tests.support.deploy.values_schema import CHART

FILE: Final = CHART / "files" / "alerts.yaml"
RUNBOOK: Final = Path(__file__).parents[3] / "docs" / "operate" / "runbook.md"
_SEVERITIES: Final = {ERROR: "critical", WARNING: "warning"}
_INSTANCE: Final = "gateway {{ $labels.instance }}"


def _watched(name: str, severity: str, query: AlertQuery, remedy: str) -> Rule:
    return Rule(name, severity, lambda row: False, lambda row: "", remedy, query)


WATCHED: Final = (
    _watched(
        "gateway-down",
        ERROR,
        AlertQuery('up{job="lockgate"} == 0', 1, f"{_INSTANCE} does not answer Prometheus"),
        "Look at its process and its log.",
    ),
    _watched(
        "no-leader",
        ERROR,
        AlertQuery("sum(lockgate_fleet_leader) == 0", 1, "no gateway leads: nothing is promoted, created or changed"),
        "lockgate gateway list; the log of a node says what keeps it from leading.",
    ),
    _watched(
        "fleet-disagrees",
        WARNING,
        AlertQuery("lockgate_fleet_agreed == 0", 2, f"the fleet's coordinator does not agree with {_INSTANCE}"),
        "fleet_trouble of /v3/status says why.",
    ),
    _watched(
        "lease-over",
        ERROR,
        AlertQuery("lockgate_write_lease_seconds == 0", 1, f"{_INSTANCE} has no lease: it writes to no source"),
        "Its way to the target cluster is cut: look at the network and at the target.",
    ),
    _watched(
        "mirror-behind",
        WARNING,
        AlertQuery(
            "max by (link, topic) (lockgate_mirror_lag_seconds) > 60",
            5,
            "mirror topic {{ $labels.topic }} is {{ $value }} s behind",
        ),
        "lockgate mirror describe says which partitions, and what they wait for.",
    ),
    _watched(
        "source-refuses",
        WARNING,
        AlertQuery(
            "sum by (link, error) (rate(lockgate_link_client_errors_total[5m])) > 0",
            5,
            "connections to the source of link {{ $labels.link }} fail ({{ $labels.error }})",
        ),
        "lockgate link describe; look at the link's login and at the network.",
    ),
    _watched(
        "acls-refused",
        WARNING,
        AlertQuery(
            "max by (link) (lockgate_link_acls_refused) > 0",
            15,
            "the target refuses {{ $value }} ACLs of link {{ $labels.link }}",
        ),
        "lockgate link acls plan says why.",
    ),
    _watched(
        "schema-ids-unresolved",
        WARNING,
        AlertQuery(
            "max by (link) (lockgate_link_schema_ids_unresolved) > 0",
            10,
            "{{ $value }} schema ids of link {{ $labels.link }} are not on the target's registry",
        ),
        "lockgate link schemas plan says why.",
    ),
    _watched(
        "clients-refused",
        WARNING,
        AlertQuery(
            "sum by (instance, limit) (rate(lockgate_connections_refused_total[5m])) > 0",
            5,
            f"{_INSTANCE} refuses connections by the limit {{{{ $labels.limit }}}}",
        ),
        "Raise the limit, add gateways, or find who connects so often.",
    ),
    _watched(
        "event-loop-stalled",
        WARNING,
        AlertQuery(
            "sum by (instance) (rate(lockgate_event_loop_stalled_seconds_total[5m])) > 0.05",
            5,
            f"{_INSTANCE} serves nobody for {{{{ $value | humanizePercentage }}}} of the time",
        ),
        "Give it more CPU, more workers, or more gateways beside it.",
    ),
    _watched(
        "audit-lines-lost",
        ERROR,
        AlertQuery(
            "increase(lockgate_audit_lines_lost_total[15m]) > 0",
            0,
            f"lines of the audit trail of {_INSTANCE} are not in its topic",
        ),
        "They are in the gateway's audit file, or standard output; look at the topic's rights and size.",
    ),
    _watched(
        "state-topic-lost",
        ERROR,
        AlertQuery(
            "max(increase(lockgate_state_topic_losses_total[1h])) > 0",
            0,
            "the state topic has lost records that were acknowledged; they are written again",
        ),
        "Look at the target's disks, and for elections of unclean leaders.",
    ),
)
"""Alerts of Prometheus alone."""

ALERTS: Final = tuple(rule for rule in (*RULES, *WATCHED) if rule.query is not None)


def called(rule: Rule) -> str:
    """The alert's name: `mirror-failed` is LockgateMirrorFailed."""
    return "Lockgate" + "".join(word.capitalize() for word in rule.name.split("-"))


def names(expr: str) -> set[str]:
    """The metrics of ours that an expression asks for."""
    return set(re.findall(r"lockgate_[a-z_]+", expr))


def text() -> str:
    """As the file has it."""
    rules = [_alert(rule, rule.query) for rule in ALERTS if rule.query is not None]
    head = "# Made from the console's alerts by `python -m tests.support.deploy.alert_rules`: change it there.\n"
    groups = {"groups": [{"name": "lockgate", "rules": rules}]}
    return head + yaml.safe_dump(groups, sort_keys=False, width=110, allow_unicode=True)


def _alert(rule: Rule, query: AlertQuery) -> dict[str, object]:
    return {
        "alert": called(rule),
        "expr": query.expr,
        **({"for": f"{query.minutes}m"} if query.minutes else {}),
        "labels": {"severity": _SEVERITIES[rule.severity]},
        "annotations": {
            "summary": query.said,
            "description": re.sub(r"{(\w+)}", lambda field: _field(field[1], query.expr), rule.remedy),
            "runbook_url": f"docs/operate/runbook.md#{called(rule).lower()}",
        },
    }


def _field(name: str, expr: str) -> str:
    """A field of the console's row: the label that the query keeps, or a word to fill in."""
    by = re.search(r"by \(([^)]*)\)", expr)
    return f"{{{{ $labels.{name} }}}}" if by and name in by[1].split(", ") else name.upper()


def main() -> None:
    """Write the file."""
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(text(), encoding="utf-8")
    sys.stdout.write(f"{FILE} is written\n")


if __name__ == "__main__":
    main()
