"""`lockgate job …` as a process: its driver can be killed, and the processes of its tasks."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from demo.errors import DemoError
from demo.process import Child
from demo.spark.standalone import StandaloneCluster, bare_python

_RETRIED = re.compile(r"Running task \d+\.[1-9]\d* in stage")


class JobProcess:
    """One job on a standalone cluster, with the wheel for its executors. `report`: its JSON file."""

    def __init__(self, name: str, spark: StandaloneCluster, wheel: Path, folder: Path, *arguments: str) -> None:
        self.report = folder / f"{name}.json"
        self.report.unlink(missing_ok=True)
        bare = bare_python()
        configs = {
            "spark.driver.host": "127.0.0.1",
            "spark.executor.memory": "768m",
            "spark.executorEnv.PYTHONPATH": bare["PYTHONPATH"],
        }
        command = [sys.executable, "-c", "from gateway.cli.main import main; main()", "job", *arguments]
        command += ["--master", spark.url, "--py-files", str(wheel), "--report", str(self.report)]
        for key, value in configs.items():
            command += ["--conf", f"{key}={value}"]
        self.child = Child(name, command, folder, bare)

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self.child.exit_code

    def kill(self) -> None:
        """SIGKILL to the driver, Python and JVM."""
        with suppress(ProcessLookupError):
            os.killpg(self.child.pid, signal.SIGKILL)
        self.child.end(10.0)

    def result(self) -> dict[str, Any]:
        """Its report. Raises DemoError when it failed."""
        if self.exit_code != 0:
            raise DemoError(f"{self.child.name} ended with exit code {self.exit_code}", self.child.tail())
        found: dict[str, Any] = json.loads(self.report.read_text(encoding="utf-8"))
        return found


def kill_a_task(spark: StandaloneCluster) -> list[int]:
    """SIGKILL the Python processes of the task that runs on one of the workers (one reads rows, one writes them).

    Returns their process ids; none when there is no task.
    """
    for pid in spark.pids():
        killed: list[int] = []
        for process in _python_workers(pid):
            with suppress(psutil.Error):
                process.kill()
                killed.append(int(process.pid))
        if killed:
            return killed
    return []


def retried_tasks(spark: StandaloneCluster, workers: int) -> int:
    """Second and further attempts that executors began, by their logs."""
    logs = [log for number in range(workers) for log in spark.executor_logs(number)]
    return sum(len(_RETRIED.findall(log.read_text(encoding="utf-8", errors="replace"))) for log in logs)


def _python_workers(pid: int) -> list[psutil.Process]:
    """Those that do the work: forked by an executor's `pyspark.daemon`, under the same command line."""
    found = []
    with suppress(psutil.Error):
        for process in psutil.Process(pid).children(recursive=True):
            with suppress(psutil.Error):
                parent = process.parent()
                if _is_daemon(process) and parent is not None and _is_daemon(parent):
                    found.append(process)
    return found


def _is_daemon(process: psutil.Process) -> bool:
    return "pyspark.daemon" in process.cmdline()
