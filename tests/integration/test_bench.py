"""The bench in small: that it works at all. No figure is judged here."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONTESTANTS = {"direct", "gateway"}


def run_bench(folder: Path, *loads: str) -> tuple[dict[str, Any], str]:
    """Run some loads at the smallest size; returns the JSON file's content and the last line."""
    report = folder / "bench.json"
    options = ["--profile", "smoke", "--folder", str(folder / "bench"), "--report", str(report), "--only", *loads]
    done = subprocess.run(
        [sys.executable, "-m", "bench", *options], cwd=ROOT, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-4000:]
    result: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    assert result["failures"] == {}
    assert {sample["load"] for sample in result["samples"]} == {load for load in loads if load != "micro"}
    return result, done.stdout.splitlines()[-1]


@pytest.mark.slow
def test_loads_through_the_gateway(tmp_path: Path) -> None:
    loads = ["rest", "fetch", "produce_tls", "fetch_tls", "small"]
    loads += ["promote", "together", "connections", "gate", "metadata", "micro"]
    result, last = run_bench(tmp_path, *loads)
    took_part = {sample["contestant"] for sample in result["samples"] if sample["load"] == "fetch"}
    assert took_part >= CONTESTANTS
    passed = {"pass_fetch", "pass_produce", "pass_produce_topics"}
    assert set(result["micro"]) == {"framing", "header_peek", "produce_split", "batch_rewrite"} | passed
    assert result["machine"]["cores"] >= 1
    assert result["versions"]["target_kafka"] == "4.3.1"
    assert re.fullmatch(r"bench: produce_x=- .*small_cpu_s_million=[\d.]+ .*pause_p99_ms=[\d.]+", last)


@pytest.mark.slow
def test_the_engine_beside_mirror_maker(tmp_path: Path) -> None:
    result, last = run_bench(tmp_path, "mirror_16k")
    assert {sample["contestant"] for sample in result["samples"]} == {"gateway", "mm2"}
    assert re.search(r" mirror_cpu_s_gb=[\d.]+ mirror_vs_mm2_cpu=[\d.]+ ", last)
