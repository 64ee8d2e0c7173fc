"""A real worker of Kafka Connect, distributed, with the file connectors of Kafka itself from Maven."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx

from gateway.devcluster import claim_ports, release_ports
from gateway.devcluster.jars import brokers_folder
from gateway.devcluster.java import java_command
from tests.support.waiting import wait_until

KAFKA: Final = "4.3.1"
MAIN: Final = "org.apache.kafka.connect.cli.ConnectDistributed"
GROUP: Final = "connect-cluster"
INTERNAL: Final = ("connect-configs", "connect-offsets", "connect-status")
SOURCE: Final = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK: Final = "org.apache.kafka.connect.file.FileStreamSinkConnector"
_STRINGS: Final = "org.apache.kafka.connect.storage.StringConverter"
_MAVEN_S: Final = 300.0


def plugins() -> Path:
    """The folder of the file connectors' jar, fetched once."""
    folder = brokers_folder(KAFKA).with_name("connect-file")
    jar = folder / f"connect-file-{KAFKA}.jar"
    if not jar.is_file():
        maven = shutil.which("mvn")
        assert maven is not None, "Maven is needed to fetch the file connectors"
        command = [
            maven,
            "--batch-mode",
            "--quiet",
            "dependency:copy",
            f"-Dartifact=org.apache.kafka:connect-file:{KAFKA}",
        ]
        subprocess.run([*command, f"-DoutputDirectory={folder}"], check=True, timeout=_MAVEN_S)
    return folder


class ConnectWorker:
    """Asked by its REST API."""

    def __init__(self, api: httpx.Client) -> None:
        self._api = api

    def create(self, name: str, config: Mapping[str, str]) -> None:
        """A connector with one task."""
        answer = self._api.put(f"/connectors/{name}/config", json={"tasks.max": "1", **config})
        assert answer.is_success, answer.text

    def runs(self, *names: str) -> bool:
        """Each has a task, and all are RUNNING."""
        try:
            answers = [self._api.get(f"/connectors/{name}/status") for name in names]
        except httpx.TransportError:
            return False
        return all(one.is_success and _runs(one.json()) for one in answers)

    def offsets(self, name: str) -> Any:
        """Where a connector stands, as Connect tells (KIP-875)."""
        return self._api.get(f"/connectors/{name}/offsets").json()


def _runs(status: dict[str, Any]) -> bool:
    tasks = status["tasks"]
    return bool(tasks) and all(one["state"] == "RUNNING" for one in (status["connector"], *tasks))


@contextmanager
def connect_worker(bootstrap: str, folder: Path) -> Iterator[ConnectWorker]:
    """A worker for the time of the block, stopped in order."""
    (port,) = claim_ports(1)
    values = {
        "bootstrap.servers": bootstrap,
        "group.id": GROUP,
        "key.converter": _STRINGS,
        "value.converter": _STRINGS,
        **{f"{name.removeprefix('connect-').removesuffix('s')}.storage.topic": name for name in INTERNAL[:2]},
        "status.storage.topic": INTERNAL[2],
        **{f"{name}.storage.replication.factor": "1" for name in ("config", "offset", "status")},
        "offset.storage.partitions": "2",
        "status.storage.partitions": "1",
        "offset.flush.interval.ms": "1000",
        "listeners": f"http://127.0.0.1:{port}",
        "rest.advertised.host.name": "127.0.0.1",
        "plugin.path": str(plugins()),
        "plugin.discovery": "service_load",
    }
    config, log = folder / f"connect-{port}.properties", folder / f"connect-{port}.log"
    config.write_text("".join(f"{key} = {value}\n" for key, value in values.items()))
    with log.open("wb") as out, httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30.0, trust_env=False) as api:
        command = java_command(KAFKA, MAIN, str(config), heap_mb=256)
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT) as process:
            try:
                wait_until(lambda: _answers(api, process), 600, what="the worker's REST API")
                yield ConnectWorker(api)
            finally:
                process.terminate()
                try:
                    process.wait(60)
                except subprocess.TimeoutExpired:
                    process.kill()
                print(log.read_text(errors="replace")[-4000:])  # noqa: T201 - pytest shows it when a test failed
    release_ports({port})


def _answers(api: httpx.Client, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, "the worker has ended"
    try:
        return api.get("/connectors").is_success
    except httpx.TransportError:
        return False
