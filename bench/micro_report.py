"""Runs the micro-benchmarks and reads what pyperf wrote."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench.process import ROOT, run_tool

_TIMEOUT_S: Final = 180.0


def run_micro(options: Sequence[str], folder: Path) -> dict[str, dict[int, float]]:
    """Benchmark -> {times the work: median nanoseconds}. `options` are pyperf's.

    Raises:
        BenchError: pyperf is missing or failed.
    """
    out = folder / "micro.json"
    out.unlink(missing_ok=True)
    run_tool([sys.executable, str(ROOT / "bench" / "micro.py"), "--quiet", "-o", str(out), *options], _TIMEOUT_S)
    return read_micro(json.loads(out.read_text(encoding="utf-8")))


def read_micro(suite: dict[str, Any]) -> dict[str, dict[int, float]]:
    """The medians of a pyperf suite whose benchmarks are named `NAME xTIMES`."""
    found: dict[str, dict[int, float]] = {}
    for each in suite["benchmarks"]:
        metadata = each.get("metadata") or suite.get("metadata") or {}
        name, _, times = str(metadata.get("name")).rpartition(" x")
        values = [value for run in each["runs"] for value in run.get("values", ())]
        found.setdefault(name, {})[int(times)] = median(values) * 1e9
    return found
