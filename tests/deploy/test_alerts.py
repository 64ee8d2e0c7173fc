"""Alerts: of metrics that there are, with a section in the runbook; each fires on its fault and on nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest
import yaml

from gateway.console.rules.alerts import RULES
from tests.support.deploy.alert_rules import ALERTS, FILE, RUNBOOK, called, names, text
from tests.support.deploy.chart import tool
from tests.support.pages.metrics_page import families, shown_name

PROMTOOL: Final = tool("promtool")
HEALTHY: Final = {
    'up{job="lockgate", instance="a"}': "1x60",
    'lockgate_fleet_leader{instance="a"}': "1x60",
    'lockgate_fleet_leader{instance="b"}': "0x60",
    'lockgate_fleet_agreed{instance="a"}': "1x60",
    'lockgate_write_lease_seconds{instance="a"}': "598x60",
    'lockgate_fleet_gateways{state="lost"}': "0x60",
    'lockgate_fleet_gateways{state="silent"}': "0x60",
    'lockgate_link_state{link="west", state="ACTIVE"}': "1x60",
    'lockgate_link_state{link="west", state="UNAVAILABLE"}': "0x60",
    'lockgate_link_client_errors_total{link="west", error="connection"}': "4x60",
    'lockgate_link_acls_refused{link="west"}': "0x60",
    'lockgate_link_schema_ids_unresolved{link="west"}': "0x60",
    'lockgate_mirror_state{link="west", topic="orders", state="FAILED"}': "0x60",
    'lockgate_mirror_state{link="west", topic="orders", state="ACTIVE"}': "1x60",
    'lockgate_mirror_promote_failed{link="west", topic="orders"}': "0x60",
    'lockgate_mirror_failing_partitions{link="west", topic="orders"}': "0x60",
    'lockgate_mirror_records_after_cutover{link="west", topic="orders"}': "0x60",
    'lockgate_mirror_lost_records{link="west", topic="orders"}': "0x60",
    'lockgate_mirror_not_mirrored_records{link="west", topic="orders"}': "0x60",
    'lockgate_mirror_retries_unknown_partitions{link="west", topic="orders"}': "0x60",
    'lockgate_mirror_undo_refused{link="west", topic="orders"}': "0x60",
    'lockgate_mirror_configs_set_back{link="west", topic="orders"}': "0x60",
    'lockgate_mirror_lag_seconds{link="west", topic="orders", partition="0"}': "1x60",
    'lockgate_group_state{link="west", group="billing", state="FAILED"}': "0x60",
    'lockgate_group_members_after_promote{link="west", group="billing"}': "0x60",
    'lockgate_group_commits_after_promote{link="west", group="billing"}': "0x60",
    'lockgate_group_offset_sync_failing{link="west", group="billing"}': "0x60",
    'lockgate_migration_state{link="west", migration="shop", state="STOPPED_BY_RULE"}': "0x60",
    'lockgate_migration_problems{link="west", migration="shop"}': "0x60",
    'lockgate_migration_refused_steps{link="west", migration="shop"}': "0x60",
    'lockgate_auto_create_refused_total{instance="a", topic="orders"}': "7x60",
    'lockgate_connections_refused_total{instance="a", limit="rate"}': "3x60",
    'lockgate_event_loop_stalled_seconds_total{instance="a", cause="state"}': "0+0.1x60",
    'lockgate_audit_lines_lost_total{instance="a"}': "0x60",
    'lockgate_state_topic_losses_total{instance="a"}': "0x60",
}
"""An hour of a fleet in order, minute by minute."""

FAULTS: Final = {
    "gateway-down": {'up{job="lockgate", instance="a"}': "0x60"},
    "no-leader": {'lockgate_fleet_leader{instance="a"}': "0x60"},
    "fleet-disagrees": {'lockgate_fleet_agreed{instance="a"}': "0x60"},
    "lease-over": {'lockgate_write_lease_seconds{instance="a"}': "0x60"},
    "gateway-lost": {'lockgate_fleet_gateways{state="lost"}': "1x60"},
    "gateway-silent": {'lockgate_fleet_gateways{state="silent"}': "1x60"},
    "link-unavailable": {'lockgate_link_state{link="west", state="UNAVAILABLE"}': "1x60"},
    "source-refuses": {'lockgate_link_client_errors_total{link="west", error="connection"}': "0+3x60"},
    "acls-refused": {'lockgate_link_acls_refused{link="west"}': "2x60"},
    "schema-ids-unresolved": {'lockgate_link_schema_ids_unresolved{link="west"}': "2x60"},
    "mirror-failed": {'lockgate_mirror_state{link="west", topic="orders", state="FAILED"}': "1x60"},
    "promote-failed": {'lockgate_mirror_promote_failed{link="west", topic="orders"}': "1x60"},
    "partitions-failing": {'lockgate_mirror_failing_partitions{link="west", topic="orders"}': "2x60"},
    "records-after-cutover": {'lockgate_mirror_records_after_cutover{link="west", topic="orders"}': "5x60"},
    "records-lost": {'lockgate_mirror_lost_records{link="west", topic="orders"}': "5x60"},
    "not-mirrored": {'lockgate_mirror_not_mirrored_records{link="west", topic="orders"}': "5x60"},
    "retries-unknown": {'lockgate_mirror_retries_unknown_partitions{link="west", topic="orders"}': "1x60"},
    "undo-refused": {'lockgate_mirror_undo_refused{link="west", topic="orders"}': "1x60"},
    "configs-set-back": {'lockgate_mirror_configs_set_back{link="west", topic="orders"}': "1x60"},
    "mirror-behind": {'lockgate_mirror_lag_seconds{link="west", topic="orders", partition="0"}': "300x60"},
    "group-failed": {'lockgate_group_state{link="west", group="billing", state="FAILED"}': "1x60"},
    "members-after-promote": {'lockgate_group_commits_after_promote{link="west", group="billing"}': "1x60"},
    "sync-failing": {'lockgate_group_offset_sync_failing{link="west", group="billing"}': "1x60"},
    "stopped-by-rule": {'lockgate_migration_state{link="west", migration="shop", state="STOPPED_BY_RULE"}': "1x60"},
    "migration-problem": {'lockgate_migration_problems{link="west", migration="shop"}': "1x60"},
    "migration-step-refused": {'lockgate_migration_refused_steps{link="west", migration="shop"}': "1x60"},
    "topic-not-mirrored": {'lockgate_auto_create_refused_total{instance="a", topic="orders"}': "0+5x60"},
    "clients-refused": {'lockgate_connections_refused_total{instance="a", limit="rate"}': "0+5x60"},
    "event-loop-stalled": {'lockgate_event_loop_stalled_seconds_total{instance="a", cause="state"}': "0+12x60"},
    "audit-lines-lost": {'lockgate_audit_lines_lost_total{instance="a"}': "0+1x60"},
    "state-topic-lost": {'lockgate_state_topic_losses_total{instance="a"}': "0+1x60"},
}


def test_the_rules_are_made_from_the_table() -> None:
    assert FILE.read_text(encoding="utf-8") == text(), "python -m tests.support.deploy.alert_rules"


def test_what_the_console_alerts_of_prometheus_alerts_of() -> None:
    """What a rule of a migration's file has stopped is one alert, whichever rule it was."""
    without = {rule.name for rule in RULES if rule.query is None}
    assert without == {"stopped-by-late-writes", "stopped-by-client-errors-percent", "stopped-by-target-lag"}


def test_rules_ask_for_metrics_that_there_are() -> None:
    there = {shown_name(family) for family in families()}
    asked = {name for rule in ALERTS if rule.query is not None for name in names(rule.query.expr)}
    assert asked - there == set()


def test_each_alert_has_its_section_in_the_runbook() -> None:
    sections = RUNBOOK.read_text(encoding="utf-8").split("\n## ")[1:]
    found = {section.partition("\n")[0]: section for section in sections}
    assert sorted(found) == sorted(called(rule) for rule in ALERTS)
    for name, section in found.items():
        for part in ("**Means**", "**Look at**", "**Do**", "**Try it**"):
            assert part in section, (name, part)


def test_each_alert_has_its_fault() -> None:
    assert sorted(FAULTS) == sorted(rule.name for rule in ALERTS)


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not there: Debian's package prometheus has it")
def test_each_alert_fires_on_its_fault_and_on_nothing_else(tmp_path: Path) -> None:
    shown = {rule.name: called(rule) for rule in ALERTS}
    cases = [
        _case("in order", HEALTHY, []),
        *(_case(name, HEALTHY | fault, [shown[name]]) for name, fault in FAULTS.items()),
    ]
    test = {"rule_files": [str(FILE)], "evaluation_interval": "1m", "tests": cases}
    (tmp_path / "alerts.test.yaml").write_text(yaml.safe_dump(test, sort_keys=False), encoding="utf-8")
    done = subprocess.run(
        [str(PROMTOOL), "test", "rules", str(tmp_path / "alerts.test.yaml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _case(name: str, series: dict[str, str], fire: list[str]) -> dict[str, object]:
    """One test of promtool: what fires after half an hour."""
    samples = [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in fire]
    question = 'count by (alertname) (ALERTS{alertstate="firing"})'
    return {
        "name": name,
        "interval": "1m",
        "input_series": [{"series": each, "values": values} for each, values in series.items()],
        "promql_expr_test": [{"expr": question, "eval_time": "30m", "exp_samples": samples}],
    }
