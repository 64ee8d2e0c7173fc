"""`python -m bench.production`: measure, write the JSON file, print the last line.

Exit code 0 when everything could be measured, 1 otherwise. There are no thresholds: a figure is not a verdict.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import httpx
from confluent_kafka.cimpl import KafkaException

from bench.errors import BenchError
from bench.headline import told
from bench.machine import machine, versions
from bench.proc import load_average
from bench.process import ROOT
from bench.production import backlog, distances, many, workers
from bench.production.backlog import Say
from bench.production.figures import FIGURES, last_line
from bench.production.lab import ProductionLab
from bench.production.sizes import PROFILES, Sizes
from bench.stats import Sample, Samples
from gateway.devcluster import DevClusterError

FORMAT: Final = 1
_FAILURES: Final = (BenchError, DevClusterError, KafkaException, httpx.HTTPError, OSError)
_LOADS: Final[Mapping[str, Callable[[ProductionLab, Say], None]]] = {
    "backlog": backlog.measure,
    "tail": distances.measure_tail,
    "far": distances.measure_far,
    "replicas": distances.measure_replicas,
    "workers": workers.measure,
    "many": many.measure,  # the last one: brokers that hold so much are slow
}


def main() -> int:
    """Run, write, print."""
    parser = argparse.ArgumentParser(prog="python -m bench.production", description=__doc__)
    parser.add_argument("--profile", choices=sorted(PROFILES), default="full", help="sizes (default: %(default)s)")
    parser.add_argument("--only", nargs="*", choices=list(_LOADS), default=list(_LOADS), metavar="LOAD")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "bench-production", help="logs and data")
    parser.add_argument("--report", type=Path, default=ROOT / "build" / "bench-production.json")
    args = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    samples, failures = Samples(), dict[str, str]()
    began, clock, load_before = datetime.now(UTC), time.monotonic(), load_average()

    def say(sample: Sample) -> None:
        samples.add(replace(sample, load_average=load_average()))
        shown = " ".join(f"{key}={value:.4g}" for key, value in sample.metrics.items())
        sys.stderr.write(f"{time.monotonic() - clock:7.1f} s  {sample.load} {sample.contestant}: {shown}\n")

    sizes = PROFILES[args.profile]
    try:
        _measure(sizes, args.folder.absolute(), args.only, say, failures)
    except KeyboardInterrupt as interrupt:
        failures["bench"] = f"interrupted by {str(interrupt) or 'Ctrl-C'}"
    except _FAILURES as error:
        failures["bench"] = str(error)
    for name, reason in failures.items():
        sys.stderr.write(f"{name}: could not be measured: {reason}\n")
    content = report(sizes, samples, failures, began, time.monotonic() - clock)
    content["load_averages"] = [load_before, load_average()]
    args.report.parent.mkdir(parents=True, exist_ok=True)
    args.report.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(last_line(samples) + "\n")
    return 1 if failures else 0


def _measure(sizes: Sizes, folder: Path, loads: Sequence[str], say: Say, failures: dict[str, str]) -> None:
    """All these loads. One that fails keeps no other from being measured."""
    lab = ProductionLab(sizes, folder)
    try:
        lab.start()
        for name in loads:
            try:
                _LOADS[name](lab, say)
            except _FAILURES as error:
                failures[name] = str(error) or type(error).__name__
    finally:
        previous = signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not leave brokers behind
        lab.close()
        signal.signal(signal.SIGINT, previous)


def _interrupt(number: int, _frame: object) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)


def report(
    sizes: Sizes, samples: Samples, failures: Mapping[str, str], began: datetime, seconds: float
) -> dict[str, Any]:
    """Machine, versions, sizes, raw samples and the figures made of them."""
    return {
        "format": FORMAT,
        "began": began.isoformat(timespec="seconds"),
        "seconds": round(seconds, 1),
        "machine": machine(),
        "versions": versions(),
        "sizes": asdict(sizes),
        "failures": dict(failures),
        "figures": told(FIGURES, samples),
        "samples": [asdict(sample) for sample in samples.all],
    }


if __name__ == "__main__":
    sys.exit(main())
