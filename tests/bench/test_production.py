"""The bench in production's shape, at the smallest size: that it works at all. No figure is judged here."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench.production.figures import FIGURES
from tests.support.small_bench import ROOT


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_all_loads(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    options = ["--profile", "smoke", "--folder", str(tmp_path / "lab"), "--report", str(report)]
    done = subprocess.run(
        [sys.executable, "-m", "bench.production", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-4000:]
    result = json.loads(report.read_text(encoding="utf-8"))
    assert result["failures"] == {}
    loads = {sample["load"] for sample in result["samples"]}
    assert loads >= {"backlog-1x100-p6", "backlog-16x1000-p1", "tail", "far", "replicas-1x100-p1", "many-40", "workers"}
    last = done.stdout.splitlines()[-1]
    assert last.startswith("bench-production: ")
    assert re.findall(r"(\w+)=", last) == [figure.key for figure in FIGURES]
    assert re.search(r" tiny6_vs_mm2_rate=[\d.]+ .*tail_lag_p99_ms=[\d.]+ ", last)
