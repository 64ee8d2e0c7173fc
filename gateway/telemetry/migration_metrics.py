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
    for one in numbers:
        states.add_metric([one.link, one.migration, one.state], 1.0)
        for application, score in one.readiness.items():
            ready.add_metric([one.link, one.migration, application], float(score))
    yield from (states, ready)
