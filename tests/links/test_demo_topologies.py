"""The demo of topologies in small: a chain, links both ways, two sources of one target, judged as in the real one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_three_clusters_in_small(tmp_path: Path) -> None:
    report = tmp_path / "demo-topologies.json"
    options = ["--rate", "50", "--traffic", "1"]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "demo.topologies",
            *options,
            "--folder",
            str(tmp_path / "demo"),
            "--report",
            str(report),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    shown = done.stdout[-6000:] + done.stderr[-2000:]
    assert done.returncode == 0, shown
    expected = "demo-topologies: PASS lost=0 duplicated=0 reordered=0 loops_refused=4 client_errors=0"
    assert done.stdout.splitlines()[-1] == expected, shown
    result = json.loads(report.read_text(encoding="utf-8"))
    assert result["result"] == "PASS"
    assert result["verdict"]["acknowledged"] > 0
