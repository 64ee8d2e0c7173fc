"""Metrics of migrations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric

from gateway.telemetry.numbers import MigrationNumbers


def migration_metrics(numbers: Sequence[MigrationNumbers]) -> Iterator[Metric]:
    """Of all migrations."""
    states = GaugeMetricFamily(
        "lockgate_migration_state", "1 for the state the migration is in.", labels=["link", "migration", "state"]
    )
    ready = GaugeMetricFamily(
        "lockgate_migration_readiness",
        "How ready an application is to be promoted, 0 to 100, judged once a minute while its migration is RUNNING.",
        labels=["link", "migration", "application"],
    )
    errors = GaugeMetricFamily(
        "lockgate_migration_client_errors_ratio",
        "Errors among the answers to clients of what the migration has promoted, in the last minute, 0 to 1; while its "
        "file has client_errors_percent, and enough answers were looked at.",
        labels=["link", "migration"],
    )
    looked_at = GaugeMetricFamily(
        "lockgate_migration_answers_looked_at",
        "Answers to clients of what the migration has promoted that were looked at in the last minute; while its file "
        "has client_errors_percent.",
        labels=["link", "migration"],
    )
    problems = GaugeMetricFamily(
        "lockgate_migration_problems",
        "What keeps the migration from its end until somebody mends it; `migration status` says what.",
        labels=["link", "migration"],
    )
    refused = GaugeMetricFamily(
        "lockgate_migration_refused_steps",
        "Steps of the migration that were refused and are tried again; `migration status` says which.",
        labels=["link", "migration"],
    )
    for one in numbers:
        problems.add_metric([one.link, one.migration], float(len(one.problems)))
        refused.add_metric([one.link, one.migration], float(len(one.refused)))
        states.add_metric([one.link, one.migration, one.state], 1.0)
        for application, score in one.readiness.items():
            ready.add_metric([one.link, one.migration, application], float(score))
        if one.client_errors_percent is not None:
            errors.add_metric([one.link, one.migration], one.client_errors_percent / 100)
        if one.answers_looked_at is not None:
            looked_at.add_metric([one.link, one.migration], float(one.answers_looked_at))
    yield from (states, ready, errors, looked_at, problems, refused)
