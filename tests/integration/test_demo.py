"""The demo in small: a whole migration, judged as in `make demo`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.integration
@pytest.mark.slow
def test_a_small_migration_passes(tmp_path: Path) -> None:
    """Nothing lost, repeated or reordered."""
    report = tmp_path / "demo.json"
    options = ["--backlog", "5000", "--rate", "900", "--traffic", "3"]
    done = subprocess.run(
        [sys.executable, "-m", "demo", *options, "--folder", str(tmp_path / "demo"), "--report", str(report)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    shown = done.stdout[-6000:] + done.stderr[-2000:]
    assert done.returncode == 0, shown
    last = done.stdout.splitlines()[-1]
    assert last.startswith("demo: PASS lost=0 duplicated=0 reordered=0 missed=0 reread=0 offsets_equal=true "), shown
    result = json.loads(report.read_text(encoding="utf-8"))
    assert result["result"] == "PASS"
    assert result["verdict"]["acknowledged"] == result["verdict"]["found"] > 5000
