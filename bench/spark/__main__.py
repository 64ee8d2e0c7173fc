"""`python -m bench.spark`: catch-up beside MirrorMaker 2, and the audit. Tables, one last line, build/bench-spark.json.

Exit code 0 when everything could be measured, 1 otherwise. There are no thresholds: a figure is not a verdict.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyspark
from rich.console import Console
from rich.table import Table

from bench.errors import BenchError
from bench.machine import machine, versions
from bench.spark.lab import Lab
from bench.spark.rounds import COPIES, Rounds
from bench.spark.settings import Settings
from bench.stats import Samples, Spread
from gateway.devcluster import DevClusterError


def main() -> int:
    """Run, report, clean up."""
    settings = _arguments()
    for wanted in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(wanted, _interrupt)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 150)
    samples, failure, loads = Samples(), "", [os.getloadavg()]
    lab = Lab(settings, [topic for topic, _ in COPIES.values()])
    try:
        lab.start()
        rounds = Rounds(lab, samples)
        for load, count in (("copy_16k", settings.rounds), ("copy_1m", settings.big_rounds)):
            for number in range(1, count + 1):
                sys.stderr.write(f"{load}: round {number} of {count}\n")
                rounds.run(load, number)
    except KeyboardInterrupt:
        failure = "interrupted"
    except (BenchError, DevClusterError) as error:
        failure = str(error)
    finally:
        previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
        lab.close()
        signal.signal(signal.SIGINT, previous)
    loads.append(os.getloadavg())
    _report(settings, samples, failure, loads)
    for load in (*COPIES, "audit"):
        if samples.contestants(load):
            console.print(_table(load, samples))
    if failure:
        console.print(f"[red]{failure}[/red]")
    sys.stdout.write(last_line(samples) + "\n")
    return 1 if failure else 0


def figures(samples: Samples) -> dict[str, Spread | None]:
    """What the run is known by; ratios round by round."""
    return {
        "catch_up_vs_mm2_rate": samples.ratio("copy_16k", "mb_per_s", "catch-up", "mm2"),
        "catch_up_vs_mm2_cpu": samples.ratio("copy_16k", "cpu_s_per_gb", "catch-up", "mm2"),
        "catch_up_vs_mm2_cpu_with_start": _with_start(samples),
        "catch_up_vs_mm2_rate_1m": samples.ratio("copy_1m", "mb_per_s", "catch-up", "mm2"),
        "catch_up_vs_mm2_cpu_1m": samples.ratio("copy_1m", "cpu_s_per_gb", "catch-up", "mm2"),
        "audit_mb_s_core": samples.spread("audit", "audit", "mb_per_cpu_s"),
        "audit_log_mb_s_core": samples.spread("audit", "audit", "log_mb_per_cpu_s"),
    }


def _with_start(samples: Samples) -> Spread | None:
    ours = samples.values("copy_16k", "catch-up", "all_cpu_s_per_gb")
    theirs = samples.values("copy_16k", "mm2", "cpu_s_per_gb")
    return Spread.of([one / other for one, other in zip(ours, theirs, strict=False)])


def last_line(samples: Samples) -> str:
    """The last line on stdout; `-` for what was not measured."""
    parts = (f"{name}={'-' if found is None else f'{found.median:.2f}'}" for name, found in figures(samples).items())
    return "bench-spark: " + " ".join(parts)


def _table(load: str, samples: Samples) -> Table:
    names = samples.contestants(load)
    metrics = list(dict.fromkeys(key for one in samples.all if one.load == load for key in one.metrics))
    table = Table(load, title_justify="left")
    for metric in metrics:
        table.add_column(metric, justify="right")
    for name in names:
        found = (samples.spread(load, name, metric) for metric in metrics)
        table.add_row(
            name, *("" if one is None else f"{one.median:.2f} ({one.low:.2f}–{one.high:.2f})" for one in found)
        )
    return table


def _report(settings: Settings, samples: Samples, failure: str, loads: list[tuple[float, float, float]]) -> None:
    content: dict[str, Any] = {
        "failure": failure,
        "machine": machine(),
        "versions": {**versions(), "pyspark": pyspark.__version__},
        "load_averages": loads,
        "settings": {name: str(value) for name, value in asdict(settings).items()},
        "figures": {name: None if one is None else asdict(one) for name, one in figures(samples).items()},
        "samples": [asdict(one) for one in samples.all],
    }
    settings.report.parent.mkdir(parents=True, exist_ok=True)
    settings.report.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _interrupt(number: int, _frame: object) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)


def _arguments() -> Settings:
    known = Settings()
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    parser.add_argument("--size-mb", type=int, default=known.size_mb, help="per round (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=known.rounds, help="with 16 KB batches (default: %(default)s)")
    parser.add_argument("--big-rounds", type=int, default=known.big_rounds, help="1 MB batches (default: %(default)s)")
    parser.add_argument("--master", default=known.master, help="of the jobs (default: %(default)s)")
    parser.add_argument("--folder", type=Path, default=known.folder, help="logs and data (default: %(default)s)")
    parser.add_argument("--report", type=Path, default=known.report, help="JSON (default: %(default)s)")
    args = parser.parse_args()
    return Settings(
        size_mb=args.size_mb,
        rounds=args.rounds,
        big_rounds=args.big_rounds,
        master=args.master,
        folder=args.folder.absolute(),
        report=args.report.absolute(),
    )


if __name__ == "__main__":
    sys.exit(main())
