"""One run of `lockgate job …` in a session of its own, with its CPU time."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.errors import BenchError
from bench.process import ROOT, last_lines
from bench.spark.settings import JOB_S
from bench.spark.tree import TreeMeter


@dataclass(slots=True)
class JobRun:
    """What a run took. `report`: its own. `marks`: what `watch` noted."""

    cpu_s: float
    wall_s: float
    report: dict[str, Any]
    marks: dict[str, float] = field(default_factory=dict)


Watch = Callable[[dict[str, float], float], None]
"""Called many times while the job runs, with the marks so far and the seconds since its start."""


def run_job(name: str, folder: Path, *arguments: str, watch: Watch = lambda _, __: None) -> JobRun:
    """Run it to its end. Raises BenchError when it fails or takes too long."""
    report, log = folder / f"{name}.json", folder / f"{name}.log"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-c", "from gateway.cli.main import main; main()", "job", *arguments]
    began, marks = time.monotonic(), dict[str, float]()
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, "--report", str(report)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            start_new_session=True,
        )
        meter = TreeMeter(process.pid)
        try:
            while process.poll() is None:
                watch(marks, time.monotonic() - began)
                if time.monotonic() - began > JOB_S:
                    raise BenchError(f"waited {JOB_S:.0f} s for {name}")
                time.sleep(0.02)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            cpu_s = meter.stop()
    if process.returncode:
        raise BenchError(f"{name} ended with exit code {process.returncode}:\n{last_lines(log.read_text())}")
    return JobRun(cpu_s, time.monotonic() - began, json.loads(report.read_text(encoding="utf-8")), marks)
