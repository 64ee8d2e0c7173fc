"""A run for people (tables on stdout) and for programs (build/bench.json)."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from bench.catalogue import all_loads
from bench.headline import FIGURES, told
from bench.machine import machine, versions
from bench.outcome import Outcome
from bench.stats import Samples, Spread

FORMAT: Final = 1
_COMPARED: Final = ("cpu_s_per_gb", "cpu_s_per_million", "cpu_ms_per_request", "idle_kb")
"""Metrics that get a column with the ratio to HAProxy, or to MirrorMaker 2 where that takes part."""


def write_report(path: Path, outcome: Outcome) -> None:
    """Write machine, versions, sizes, raw samples and the figures made of them."""
    samples = outcome.samples
    content: dict[str, Any] = {
        "format": FORMAT,
        "began": outcome.began.isoformat(timespec="seconds"),
        "seconds": round(outcome.seconds, 1),
        "machine": machine(),
        "load_averages": outcome.load_averages,
        "versions": versions(),
        "profile": outcome.settings(),
        "failures": outcome.failures,
        "figures": told(FIGURES, samples),
        "samples": [asdict(sample) for sample in samples.all],
        "micro": outcome.micro,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def print_report(console: Console, outcome: Outcome) -> None:
    """One table per load, then what is to be reached, then what failed."""
    for load in all_loads():
        if outcome.samples.contestants(load.name):
            console.print(_load_table(load.name, load.title, outcome.samples))
    if outcome.micro:
        console.print(_micro_table(outcome.micro))
    console.print(_figures_table(outcome))
    busiest = max(average[0] for average in outcome.load_averages)
    cores = machine()["cores"]
    console.print(
        f"{outcome.profile.name} run, {outcome.seconds:.0f} s, {cores} cores, load average up to {busiest:.1f}"
    )
    if outcome.load_averages[0][0] > cores / 2:
        console.print("The machine was busy when the run began: trust CPU figures and ratios, not rates and latencies.")
    for name, reason in outcome.failures.items():
        console.print(f"[red]{name}: could not be measured[/red]")
        console.print(reason, markup=False)


def _load_table(load: str, title: str, samples: Samples) -> Table:
    names = samples.contestants(load)
    metrics = list(dict.fromkeys(key for sample in samples.all if sample.load == load for key in sample.metrics))
    compared = next((metric for metric in metrics if metric in _COMPARED), "")
    base = next((name for name in ("haproxy", "mm2") if name in names), "")
    table = Table(title, title_justify="left")
    for metric in metrics:
        table.add_column(metric, justify="right")
    if compared and base:
        table.add_column(f"/ {base}", justify="right")
    for name in names:
        row = [name, *(_shown(samples.spread(load, name, metric)) for metric in metrics)]
        if compared and base:
            row.append(_shown(samples.ratio(load, compared, name, base)))
        table.add_row(*row)
    return table


def _figures_table(outcome: Outcome) -> Table:
    samples = outcome.samples
    table = Table("to reach")
    for column in ("", "bound", ""):
        table.add_column(column, justify="right")
    for figure in FIGURES:
        if outcome.partial and figure.value(samples) is None:
            continue
        bound = "" if figure.reach is None else f"{'≥' if figure.at_least else '≤'} {figure.reach:g} {figure.unit}"
        verdict = {True: "reached", False: "not yet", None: ""}[figure.reached(samples)]
        table.add_row(figure.title, _shown(figure.value(samples)), bound, verdict)
    return table


def _micro_table(micro: dict[str, dict[int, float]]) -> Table:
    """Nanoseconds; the last column is the cost of 16 times the work divided by 16 times the cost of one."""
    table = Table("micro-benchmark, CPU ns")
    for column in ("1×", "4×", "16×", "16× / (16 · 1×)"):
        table.add_column(column, justify="right")
    for name, times in micro.items():
        growth = times[16] / (16 * times[1]) if 1 in times and 16 in times else None
        row = [f"{times[n]:,.0f}" if n in times else "-" for n in (1, 4, 16)]
        table.add_row(name, *row, "-" if growth is None else f"{growth:.2f}")
    return table


def _shown(spread: Spread | None) -> str:
    if spread is None:
        return "-"
    if spread.count == 1:
        return _number(spread.median)
    return f"{_number(spread.median)} ({_number(spread.low)}–{_number(spread.high)})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
