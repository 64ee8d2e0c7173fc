"""The figures that a run in production's shape is known by, and what is to be reached. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bench.headline import Figure
from bench.production import workers
from bench.production.backlog import load_of
from bench.production.sizes import K16_1, TINY_1, TINY_6, Cell
from bench.stats import Samples, Spread

Value = Callable[[Samples], Spread | None]
_MILLION: Final = "cpu_s_per_million"
_GB: Final = "cpu_s_per_gb"


def _beside(cell: Cell, metric: str) -> Value:
    return lambda samples: samples.ratio(load_of(cell), metric, "gateway", "mm2")


def _of(load: str, metric: str) -> Value:
    return lambda samples: samples.spread(load, "gateway", metric)


def _far(far: str) -> Value:
    return lambda samples: samples.ratio("far", "mb_per_s", far, "0 ms")


def _two_workers(samples: Samples) -> Spread | None:
    return samples.ratio(workers.LOAD, _MILLION, workers.name_of(2), workers.name_of(1))


FIGURES: Final = (
    Figure(
        "one partition, batches of one: rate / MM2's", _beside(TINY_1, "records_per_s"), 1, True, "tiny1_vs_mm2_rate"
    ),
    Figure("six partitions, the same", _beside(TINY_6, "records_per_s"), 1, True, "tiny6_vs_mm2_rate"),
    Figure("one partition, batches of one: CPU / MM2's", _beside(TINY_1, _MILLION), 0.2, key="tiny_cpu_vs_mm2"),
    Figure("one partition, 16 KB batches: rate / MM2's", _beside(K16_1, "mb_per_s"), 3, True, "k16_1_vs_mm2_rate"),
    Figure("the same: CPU / MM2's", _beside(K16_1, _GB), 0.15, key="k16_cpu_vs_mm2"),
    Figure("steady tiny batches: lag, p99", _of("tail", "lag_p99_ms"), 250, key="tail_lag_p99_ms", unit="ms"),
    Figure("a source 100 ms away: rate / that of one at hand", _far("100 ms"), 0.8, True, "far_mb_s_ratio"),
    Figure(
        "at rest, per 1,000 partitions",
        _of("many-4000", "rest_ms_s_per_1000"),
        10,
        key="rest_ms_s_per_1000",
        unit="ms/s",
    ),
    Figure(
        "promoted and at rest, per 1,000",
        _of("many-4000", "stopped_ms_s_per_1000"),
        1,
        key="stopped_ms_s_per_1000",
        unit="ms/s",
    ),
    Figure("creating 1,000 partitions", _of("many-4000", "create_s_per_1000"), 5, key="create_s_per_1000", unit="s"),
    Figure("write pause of a set of 1,000", _of("many-1000", "pause_ms"), 150, key="pause_1000_ms", unit="ms"),
    Figure("write pause of a set of 4,000", _of("many-4000", "pause_ms"), 500, key="pause_4000_ms", unit="ms"),
    Figure("CPU of a small request: two workers / one", _two_workers, 1.1, key="workers2_cpu_x"),
    Figure(
        "of two workers, what the smaller one serves",
        lambda samples: samples.spread(workers.LOAD, workers.name_of(2), "share"),
        0.4,
        True,
        "workers2_share",
    ),
)


def last_line(samples: Samples) -> str:
    """What CI and people look for; `-` where nothing was measured."""
    shown = []
    for figure in FIGURES:
        found = figure.value(samples)
        shown.append(f"{figure.key}={'-' if found is None else f'{found.median:.2f}'}")
    return "bench-production: " + " ".join(shown)
