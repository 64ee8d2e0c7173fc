"""The exact demo in small: three kinds of topics go over and come back, judged as in `make demo-exact`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_there_and_back_in_small(tmp_path: Path) -> None:
    """Idempotent and transactional producers live through both cuts."""
    report = tmp_path / "demo-exact.json"
    options = ["--backlog", "20000", "--rate", "100", "--traffic", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "demo.exact", *options, "--folder", str(tmp_path / "demo"), "--report", str(report)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=420,
        check=False,
    )
    shown = done.stdout[-6000:] + done.stderr[-2000:]
    assert done.returncode == 0, shown
    assert done.stdout.splitlines()[-1] == (
        "demo-exact: PASS lost=0 duplicated=0 reordered=0 aborted_seen=0 offsets_exact=true client_errors=0"
        " round_trip=true"
    ), shown
    result = json.loads(report.read_text(encoding="utf-8"))
    assert result["result"] == "PASS"
    assert result["verdict"]["aborted"] > 0
