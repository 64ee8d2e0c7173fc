"""The demo of applications in small: over as sets, home, and over again, judged as in `make demo-app`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(1200)]


def test_applications_in_small(tmp_path: Path) -> None:
    report = tmp_path / "demo-app.json"
    options = ["--rate", "20", "--traffic", "2", "--folder", str(tmp_path / "demo"), "--report", str(report)]
    done = subprocess.run(
        [sys.executable, "-m", "demo.app", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1100,
        check=False,
    )
    shown = done.stdout[-6000:] + done.stderr[-2000:]
    assert done.returncode == 0, shown
    expected = (
        r"demo-app: PASS lost=0 duplicated=0 torn=0 counts_exact=true forced=0 client_errors=0"
        r" rehearsed_stall_ms=\d+ pause_ms=\d+ undone=true report_verified=true"
    )
    assert re.fullmatch(expected, done.stdout.splitlines()[-1]), shown
    result = json.loads(report.read_text(encoding="utf-8"))
    assert result["result"] == "PASS"
    assert result["verdict"]["acknowledged"] > 0
