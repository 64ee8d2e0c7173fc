"""The last line, and what is reached."""

from __future__ import annotations

import re

from bench.headline import FIGURES, last_line
from bench.stats import Sample, Samples

KEYS = [
    "produce_x",
    "fetch_x",
    "produce_tls_x",
    "fetch_tls_x",
    "forward_x",
    "mirror_cpu_s_gb",
    "mirror_vs_mm2_cpu",
    "mirror_vs_mm2_rate",
    "small_cpu_s_million",
    "small_x",
    "flood_x",
    "forward_small_x",
    "p99_added_ms",
    "rest_ms_s",
    "pause_p99_ms",
]


def figure(key: str, samples: Samples) -> tuple[float, bool | None]:
    (found,) = (each for each in FIGURES if each.key == key)
    value = found.value(samples)
    assert value is not None
    return value.median, found.reached(samples)


def test_the_last_line_names_every_figure_and_says_what_was_not_measured() -> None:
    line = last_line(Samples())
    assert line == "bench: " + " ".join(f"{key}=-" for key in KEYS)


def test_the_last_line_has_numbers_for_what_was_measured() -> None:
    samples = Samples([Sample("mirror_16k", 0, "gateway", {"cpu_s_per_gb": 1.5, "mb_per_s": 300.0})])
    assert re.search(r" mirror_cpu_s_gb=1\.50 mirror_vs_mm2_cpu=- ", last_line(samples))


def test_less_is_better_or_more_is() -> None:
    samples = Samples(
        [
            Sample("mirror_16k", 0, "gateway", {"cpu_s_per_gb": 1.5, "mb_per_s": 300.0}),
            Sample("mirror_16k", 0, "mm2", {"cpu_s_per_gb": 18.0, "mb_per_s": 150.0}),
        ]
    )
    assert figure("mirror_cpu_s_gb", samples) == (1.5, True)
    assert figure("mirror_vs_mm2_cpu", samples) == (12.0, True)
    assert figure("mirror_vs_mm2_rate", samples) == (2.0, False)


def test_the_write_pause_is_judged_by_its_worst() -> None:
    pauses = [20.0] * 19 + [250.0]
    samples = Samples([Sample("promote", at, "gateway", {"pause_ms": ms}) for at, ms in enumerate(pauses)])
    assert figure("pause_p99_ms", samples) == (250.0, False)
