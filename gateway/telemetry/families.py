"""Families of metrics from tables: name, meaning, and how the value is read off plain numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

_T = TypeVar("_T")

Table: TypeAlias = Sequence[tuple[str, str, Callable[[_T], float | None]]]
"""Name, meaning, value; a name that ends in _total is a counter. What is not known (None) has no sample."""


def of_each(table: Table[_T], labels: Sequence[str], rows: Sequence[tuple[Sequence[str], _T]]) -> Iterator[Metric]:
    """One family per entry of the table, with a sample for each row: its labels' values, and what the value is of."""
    for name, meaning, value in table:
        made = family(name, meaning, labels)
        for values, each in rows:
            if (number := value(each)) is not None:
                made.add_metric(values, float(number))
        yield made


def counted(name: str, meaning: str, label: str, counts: Mapping[str, float]) -> Metric:
    """One family with a sample for each value of its label."""
    made = family(name, meaning, [label])
    for value, count in counts.items():
        made.add_metric([value], float(count))
    return made


def family(name: str, meaning: str, labels: Iterable[str]) -> CounterMetricFamily | GaugeMetricFamily:
    """A counter when its name ends in _total, else a gauge."""
    kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
    return kind(name, meaning, labels=list(labels))


def without_created(metric: Metric) -> Metric:
    """Without the times at which its series began, which the client library tells as gauges with a borrowed HELP."""
    metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
    return metric
