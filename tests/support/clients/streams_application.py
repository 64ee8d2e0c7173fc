"""A Kafka Streams application with exactly_once_v2 in a process of its own: it counts words."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path
from typing import Final, Self

from gateway.devcluster.java import java_command

VERSION: Final = "4.3.1"
_HERE: Final = Path(__file__).parents[2] / "migration" / "streams"
_BUILD: Final = Path(__file__).parents[3] / "build"


def streams_jars() -> Path:
    """Kafka Streams' own jars; Maven fetches them once."""
    folder = _BUILD / "streams" / VERSION
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{VERSION}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not list(folder.glob("kafka-streams-*.jar")):
            maven = shutil.which("mvn")
            assert maven, "Maven is needed"
            goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
            subprocess.run([maven, "-q", "-B", "-f", str(_HERE / "pom.xml"), *goal], check=True, timeout=600)
    return folder


class StreamsApplication:
    """Runs until the block ends. `name` is its application.id, and so its group."""

    def __init__(self, bootstrap: str, name: str, source: str, sink: str, folder: Path) -> None:
        arguments = (bootstrap, name, source, sink, str(folder / "state"))
        jars = sorted(streams_jars().glob("*.jar"))
        self._command = java_command(VERSION, str(_HERE / "Count.java"), *arguments, extra_class_path=jars, heap_mb=192)
        self.log = folder / "streams.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=subprocess.STDOUT)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(60)
        finally:
            self._process.kill()
            self._process.wait(10)

    def assert_runs(self) -> None:
        """It has not ended by itself."""
        assert self._process is not None
        assert self._process.poll() is None, self.log.read_text(errors="replace")[-3000:]
