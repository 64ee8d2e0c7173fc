"""The bench in small: that it works at all. No figure is judged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CONTESTANTS = {"direct", "gateway"}


def run_bench(folder: Path, *loads: str) -> tuple[dict[str, Any], str]:
    """Run some loads at the smallest size; returns the JSON file's content and the last line."""
    report = folder / "bench.json"
    options = ["--profile", "smoke", "--folder", str(folder / "bench"), "--report", str(report), "--only", *loads]
    done = subprocess.run(
        [sys.executable, "-m", "bench", *options], cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-4000:]
    result: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    assert result["failures"] == {}
    assert {sample["load"] for sample in result["samples"]} == {load for load in loads if load != "micro"}
    return result, done.stdout.splitlines()[-1]
