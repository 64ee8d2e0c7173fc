"""One run: clusters, Spark, gateway, writers and the running job, and the one way to wait for anything."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from demo.clusters import new_cluster
from demo.errors import DemoError
from demo.lockgate import Lockgate
from demo.process import Child
from demo.readback import LogEnds
from demo.spark.groups import Offsets
from demo.spark.job import JobProcess
from demo.spark.settings import LINK, PARTITIONS, TOPIC, WORKERS, WRITER_STOPPED_S, Settings
from demo.spark.standalone import StandaloneCluster
from demo.view import View

POLL_S = 0.05


class Run:
    """Everything that is up, and what the acts leave for the judge.

    Attributes:
        acknowledged: of each writer that has ended.
        copied_to: the target's log ends when the job had ended.
        reports: what the jobs reported.
    """

    def __init__(self, settings: Settings, view: View) -> None:
        self.settings = settings
        self.view = view
        self.logs = settings.folder / "logs"
        shutil.rmtree(self.logs, ignore_errors=True)
        self.logs.mkdir(parents=True)
        self.source = new_cluster("source", settings.source_kafka, settings.folder)
        self.target = new_cluster("target", settings.target_kafka, settings.folder)
        self.spark = StandaloneCluster(self.logs, WORKERS)
        self.gateway: Lockgate | None = None
        self.wheel = Path()
        self.writers: list[Child] = []
        self.job: JobProcess | None = None
        self.acknowledged: dict[str, int] = {}
        self.groups: Offsets = {}
        self.copied_to: dict[int, int] = {}
        self.killed_tasks = 0
        self.handoff_ms = -1
        self.reports: dict[str, Any] = {}
        self._ends: dict[str, LogEnds] = {}

    def until(self, condition: Callable[[], bool], what: str, timeout_s: float) -> None:
        """Wait for a condition; meanwhile the gateway and the writers may not end. Raises DemoError."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if self.gateway is not None:
                self.gateway.check()
            for writer in self.writers:
                writer.check_alive()
            self.view.draw()
            if time.monotonic() > deadline:
                raise DemoError(f"waited {timeout_s:.0f} s for {what}", self.job.child.tail() if self.job else "")
            time.sleep(POLL_S)

    def ends(self, where: str) -> dict[int, int]:
        """Log ends on `source` or `target`."""
        if where not in self._ends:
            bootstrap = (self.source if where == "source" else self.target).bootstrap
            self._ends[where] = LogEnds(bootstrap, TOPIC, PARTITIONS)
        return self._ends[where].read()

    def copied(self) -> int:
        """Records on the target."""
        done = sum(self.ends("target").values())
        self.view.backlog(done, sum(self.ends("source").values()))
        return done

    def state(self) -> str:
        """The mirror topic's, as `mirror describe` shows it."""
        assert self.gateway is not None
        answer = httpx.get(f"{self.gateway.url}/v3/links/{LINK}/mirrors/{TOPIC}", timeout=20.0, auth=self.gateway.auth)
        return str(answer.json()["mirror_status"])

    def start_job(self, name: str, *arguments: str) -> JobProcess:
        """Start a job on the standalone cluster."""
        assert self.gateway is not None
        common = ("--link", LINK, "--url", self.gateway.url, "--token-file", str(self.gateway.token_file))
        self.job = JobProcess(name, self.spark, self.wheel, self.logs, *arguments, *common)
        return self.job

    def finish_job(self, name: str, timeout_s: float) -> dict[str, Any]:
        """Wait for the job's end; its report. Raises DemoError when it failed."""
        job = self.job
        assert job is not None
        self.until(lambda: job.exit_code is not None, f"the end of {name}", timeout_s)
        self.reports[name] = job.result()
        self.job = None
        return self.reports[name]  # type: ignore[no-any-return]

    def write(self, name: str, bootstrap: str, *how: str) -> Child:
        """Start a writer."""
        command = [sys.executable, "-m", "demo.spark.writer", "--bootstrap", bootstrap, "--topic", TOPIC]
        command += ["--name", name, "--partitions", str(PARTITIONS), *how]
        return Child(name, command, self.logs)

    def stop_writers(self) -> None:
        """Stop the live writers and take in what was acknowledged."""
        writers, self.writers = self.writers, []
        for writer in writers:
            writer.ask_to_stop()
        for writer in writers:
            self.until(lambda each=writer: each.exit_code is not None, f"{writer.name} to stop", WRITER_STOPPED_S)  # type: ignore[misc]
            self.add_to_transaction(writer)

    def add_to_transaction(self, writer: Child) -> None:
        """What an ended writer says. Raises DemoError when not every record was acknowledged."""
        lines = writer.new_lines()
        last = json.loads(lines[-1]) if lines else {}
        if writer.exit_code != 0 or last.get("errors") != 0 or last.get("acked") != last.get("next"):
            raise DemoError(f"{writer.name}: not all records were acknowledged: {last}", writer.tail())
        self.acknowledged[writer.name] = last["next"]

    def clean_up(self) -> None:
        """Stop whatever still runs, by process id. Never raises."""
        if self.job is not None:
            self.job.kill()
        for writer in self.writers:
            writer.end(2.0)
        for ends in self._ends.values():
            ends.close()
        if self.gateway is not None:
            with suppress(DemoError):
                self.gateway.stop(5.0)
        self.spark.stop()
        for cluster in (self.source, self.target):
            cluster.kill()
            shutil.rmtree(cluster.folder / "data", ignore_errors=True)
