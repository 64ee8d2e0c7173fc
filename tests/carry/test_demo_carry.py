"""The demo of what comes along in small: an application with all that it depends on, judged as in `make demo-carry`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(1200)]


def test_an_application_in_small(tmp_path: Path) -> None:
    report = tmp_path / "demo-carry.json"
    options = ["--rate", "30", "--traffic", "2", "--folder", str(tmp_path / "demo"), "--report", str(report)]
    done = subprocess.run(
        [sys.executable, "-m", "demo.carry", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1100,
        check=False,
    )
    shown = done.stdout[-6000:] + done.stderr[-2000:]
    assert done.returncode == 0, shown
    expected = (
        "demo-carry: PASS lost=0 duplicated=0 acls_equal=true schemas_equal=true ids_fixed=true share_group=true"
        " client_errors=0"
    )
    assert done.stdout.splitlines()[-1] == expected, shown
    result = json.loads(report.read_text(encoding="utf-8"))
    assert result["result"] == "PASS"
    assert result["verdict"]["acknowledged"] > 0
