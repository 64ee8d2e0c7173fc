"""Spark's own standalone cluster on this machine: a master and workers, each a process of its own."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pyspark

from demo.errors import DemoError
from demo.process import Child
from gateway.devcluster import claim_ports, release_ports
from gateway.devcluster.java import java_binary

HOST: Final = "127.0.0.1"
_UP_S: Final = 180.0
_POLL_S: Final = 0.1


class StandaloneCluster:
    """Workers with one core each. Their logs, and those of what they run, are in `folder`."""

    def __init__(self, folder: Path, workers: int, *, memory: str = "1g") -> None:
        self._folder = folder
        self._workers = workers
        self._memory = memory
        self._ports = claim_ports(2)
        self._children: list[Child] = []

    @property
    def url(self) -> str:
        """For --master."""
        return f"spark://{HOST}:{self._ports[0]}"

    def start(self) -> None:
        """Start all, and wait until the master knows the workers. Raises DemoError when it does not in time."""
        port, page = self._ports
        self._spawn("spark-master", "master.Master", "--host", HOST, "--port", f"{port}", "--webui-port", f"{page}")
        for number in range(self._workers):
            work = self.work_folder(number)
            self._spawn(
                f"spark-worker-{number}",
                "worker.Worker",
                *("--host", HOST, "--webui-port", "0", "--cores", "1", "--memory", self._memory),
                *("--work-dir", str(work), self.url),
            )
        deadline = time.monotonic() + _UP_S
        while self.state().get("aliveworkers") != self._workers:
            for child in self._children:
                child.check_alive()
            if time.monotonic() > deadline:
                raise DemoError(f"waited {_UP_S:.0f} s for {self._workers} Spark workers")
            time.sleep(_POLL_S)

    def state(self) -> dict[str, Any]:
        """What the master says of workers and applications; empty while it does not answer."""
        try:
            found: dict[str, Any] = httpx.get(f"http://{HOST}:{self._ports[1]}/json/", timeout=5.0).json()
        except (httpx.HTTPError, ValueError):
            return {}
        return found

    def work_folder(self, number: int) -> Path:
        """Where a worker keeps what it runs: a folder per application, in it one per executor with its logs."""
        return self._folder / f"spark-work-{number}"

    def pids(self) -> list[int]:
        """Process ids of master and workers."""
        return [child.pid for child in self._children]

    def executor_logs(self, number: int) -> list[Path]:
        """The logs of all executors that a worker has run."""
        return sorted(self.work_folder(number).glob("app-*/*/stderr"))

    def stop(self) -> None:
        """End all; executors end with their worker."""
        while self._children:
            self._children.pop().end(10.0)
        release_ports(self._ports)

    def _spawn(self, name: str, main: str, *arguments: str) -> None:
        home = Path(pyspark.__file__).parent
        command = [java_binary(), "-Xmx256m", "-cp", f"{home}/jars/*", f"org.apache.spark.deploy.{main}", *arguments]
        (core,) = (home / "jars").glob("spark-core_*.jar")
        scala = core.name.removeprefix("spark-core_").partition("-")[0]  # else a worker looks for build folders
        env = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": HOST, "SPARK_SCALA_VERSION": scala}
        self._children.append(Child(name, command, self._folder, env))


@contextmanager
def standalone_cluster(folder: Path, workers: int = 2) -> Iterator[StandaloneCluster]:
    """A cluster for the time of the block."""
    cluster = StandaloneCluster(folder, workers)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def bare_python() -> dict[str, str]:
    """Environment in which Spark's Python processes have all installed packages but this project, as on a machine that
    only has its dependencies.

    The project is installed in editable mode here, which only an interpreter's own site-packages folder brings about.
    """
    packages = Path(pyspark.__file__).parents[1]
    base = str(getattr(sys, "_base_executable", sys.executable))
    return {"PYSPARK_PYTHON": base, "PYSPARK_DRIVER_PYTHON": sys.executable, "PYTHONPATH": str(packages)}
