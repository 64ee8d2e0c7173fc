"""The figures that a run is known by, and what is to be reached. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench.stats import Samples, Spread, percentile

CPU_GB = "cpu_s_per_gb"
CPU_MILLION = "cpu_s_per_million"


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure. `key`: in the last line, or empty. `reach`: the bound; `at_least`: whether more is better."""

    title: str
    value: Callable[[Samples], Spread | None]
    reach: float | None = None
    at_least: bool = False
    key: str = ""
    unit: str = ""

    def reached(self, samples: Samples) -> bool | None:
        """Whether the median keeps the bound; None without a bound or a figure."""
        found = self.value(samples)
        if found is None or self.reach is None:
            return None
        return found.median >= self.reach if self.at_least else found.median <= self.reach


def _ratio(load: str, metric: str, above: str, below: str) -> Callable[[Samples], Spread | None]:
    return lambda samples: samples.ratio(load, metric, above, below)


def _difference(load: str, metric: str, left: str, right: str) -> Callable[[Samples], Spread | None]:
    return lambda samples: samples.difference(load, metric, left, right)


def _spread(load: str, metric: str, contestant: str = "gateway") -> Callable[[Samples], Spread | None]:
    return lambda samples: samples.spread(load, contestant, metric)


def _p99(load: str, metric: str, contestant: str = "gateway") -> Callable[[Samples], Spread | None]:
    """The 99th percentile in the place of the median."""

    def value(samples: Samples) -> Spread | None:
        values = sorted(samples.values(load, contestant, metric))
        if not values:
            return None
        return Spread(percentile(values, 99), values[0], values[-1], len(values))

    return value


def told(figures: Sequence[Figure], samples: Samples) -> list[dict[str, Any]]:
    """The figures as plain values, for a report."""
    return [
        {
            "title": figure.title,
            "key": figure.key,
            "unit": figure.unit,
            "reach": figure.reach,
            "at_least": figure.at_least,
            "value": None if (found := figure.value(samples)) is None else asdict(found),
        }
        for figure in figures
    ]


FIGURES: tuple[Figure, ...] = (
    Figure(
        "pass-through produce, 16 KB batches: CPU / HAProxy's",
        _ratio("produce_16k", CPU_GB, "gateway", "haproxy"),
        1.25,
        key="produce_x",
        unit="x",
    ),
    Figure(
        "the same against HAProxy without splicing",
        _ratio("produce_16k", CPU_GB, "gateway", "haproxy_copy"),
        unit="x",
    ),
    Figure(
        "the same, librdkafka",
        _ratio("produce_16k_librdkafka", CPU_GB, "gateway", "haproxy"),
        1.25,
        unit="x",
    ),
    Figure(
        "pass-through produce, 1 MB batches: CPU / HAProxy's",
        _ratio("produce_1m", CPU_GB, "gateway", "haproxy"),
        unit="x",
    ),
    Figure(
        "pass-through fetch: CPU / HAProxy's",
        _ratio("fetch", CPU_GB, "gateway", "haproxy"),
        1.15,
        key="fetch_x",
        unit="x",
    ),
    Figure(
        "the same against HAProxy without splicing",
        _ratio("fetch", CPU_GB, "gateway", "haproxy_copy"),
        unit="x",
    ),
    Figure(
        "produce over TLS: CPU / HAProxy's",
        _ratio("produce_tls", CPU_GB, "gateway_tls", "haproxy_tls"),
        1.5,
        key="produce_tls_x",
        unit="x",
    ),
    Figure(
        "fetch over TLS: CPU / HAProxy's",
        _ratio("fetch_tls", CPU_GB, "gateway_tls", "haproxy_tls"),
        1.5,
        key="fetch_tls_x",
        unit="x",
    ),
    Figure(
        "forwarded produce (ack source): CPU / pass-through's",
        _ratio("produce_16k", CPU_GB, "forwarded", "gateway"),
        2.0,
        key="forward_x",
        unit="x",
    ),
    Figure("mirror engine, 16 KB batches", _spread("mirror_16k", CPU_GB), 2.0, key="mirror_cpu_s_gb", unit="CPU-s/GB"),
    Figure(
        "MirrorMaker 2's CPU / the mirror engine's",
        _ratio("mirror_16k", CPU_GB, "mm2", "gateway"),
        10.0,
        at_least=True,
        key="mirror_vs_mm2_cpu",
        unit="x",
    ),
    Figure(
        "the same, MirrorMaker 2 tuned",
        _ratio("mirror_16k", CPU_GB, "mm2_tuned", "gateway"),
        unit="x",
    ),
    Figure(
        "the mirror engine's rate / MirrorMaker 2's",
        _ratio("mirror_16k", "mb_per_s", "gateway", "mm2"),
        3.0,
        at_least=True,
        key="mirror_vs_mm2_rate",
        unit="x",
    ),
    Figure("mirror engine, 1 MB batches", _spread("mirror_1m", CPU_GB), 1.0, unit="CPU-s/GB"),
    Figure(
        "small requests, interception on",
        _spread("small", CPU_MILLION, "gateway_on"),
        key="small_cpu_s_million",
        unit="CPU-s/million",
    ),
    Figure(
        "the same: CPU / HAProxy's",
        _ratio("small", CPU_MILLION, "gateway_on", "haproxy"),
        1.4,
        key="small_x",
        unit="x",
    ),
    Figure(
        "the same at full speed",
        _spread("flood", CPU_MILLION, "gateway_on"),
        unit="CPU-s/million",
    ),
    Figure(
        "the same at full speed: CPU / HAProxy's",
        _ratio("flood", CPU_MILLION, "gateway_on", "haproxy"),
        1.4,
        key="flood_x",
        unit="x",
    ),
    Figure(
        "forwarded small requests at full speed: CPU / pass-through's",
        _ratio("flood", CPU_MILLION, "forwarded", "gateway"),
        2.0,
        key="forward_small_x",
        unit="x",
    ),
    Figure(
        "p99 added over HAProxy, small requests",
        _difference("small", "p99_ms", "gateway_on", "haproxy"),
        1.0,
        key="p99_added_ms",
        unit="ms",
    ),
    Figure("p99 added over direct, small requests", _difference("small", "p99_ms", "gateway_on", "direct"), unit="ms"),
    Figure("memory per idle connection", _spread("connections", "idle_kb"), 20.0, unit="KB"),
    Figure("CPU at rest", _spread("rest", "rest_ms_per_s"), 2.0, key="rest_ms_s", unit="ms/s"),
    Figure("Metadata of 10,000 partitions", _spread("metadata", "cpu_ms_per_10k"), 1.0, unit="CPU-ms"),
    Figure("promote: write pause, p99", _p99("promote", "pause_ms"), 100.0, key="pause_p99_ms", unit="ms"),
)


def last_line(samples: Samples) -> str:
    """The last line on stdout; `-` for what was not measured."""
    parts = []
    for figure in FIGURES:
        if figure.key:
            found = figure.value(samples)
            parts.append(f"{figure.key}={'-' if found is None else f'{found.median:.2f}'}")
    return "bench: " + " ".join(parts)
