"""Apicurio Registry, as Maven has it: a real registry that speaks Confluent's API under `/apis/ccompat/v7`.

Version 2.6 needs Java 17, has no modes and gives ids of its own; 3.3 needs Java 21, has modes, and gives ids of its own
all the same.
"""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx

from gateway.devcluster import claim_ports, release_ports
from tests.support.waiting import wait_until

V2: Final = "2.6.13.Final"
V3: Final = "3.3.3"
_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
_BUILD: Final = Path(__file__).parents[3] / "build" / "registries"
_JDKS: Final = Path("/usr/lib/jvm")


class Registry:
    """A registry that runs. `url`: before `/subjects`."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
        self._http = httpx.Client(base_url=self.url, timeout=30.0, trust_env=False)

    def get(self, path: str, **params: str) -> Any:
        """What it answers."""
        answer = self._http.get(path, params=params)
        assert answer.is_success, answer.text
        return answer.json()

    def register(self, subject: str, body: Mapping[str, Any]) -> int:
        """Returns the id."""
        answer = self._http.post(f"/subjects/{subject}/versions", json=body)
        assert answer.is_success, answer.text
        return int(answer.json()["id"])

    def set_level(self, subject: str, level: str) -> None:
        """Of one subject."""
        assert self._http.put(f"/config/{subject}", json={"compatibility": level}).is_success

    def delete(self, subject: str, version: int) -> None:
        """So that it can be taken back."""
        assert self._http.delete(f"/subjects/{subject}/versions/{version}").is_success

    def is_there(self) -> bool:
        """Whether it answers."""
        try:
            return self._http.get("/subjects").is_success
        except httpx.TransportError:
            return False

    def close(self) -> None:
        """The client."""
        self._http.close()


def java(at_least: int) -> str:
    """A JDK of this machine that is new enough; '' when there is none."""
    for folder in (Path("/"), *sorted(_JDKS.glob("*"))):
        path = shutil.which("java") if folder == Path("/") else str(folder / "bin" / "java")
        if path and Path(path).is_file() and _version_of(path) >= at_least:
            return path
    return ""


def _version_of(path: str) -> int:
    said = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return 0 if found is None else int(found[1])


def home(artifact: str, version: str) -> Path:
    """Its folder; Maven fetches it once, however many processes ask for it at once."""
    folder = _BUILD / f"{artifact}-{version}"
    _BUILD.mkdir(parents=True, exist_ok=True)
    with (_BUILD / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until it is closed
        if not (folder / ".complete").is_file():
            _fetch(artifact, version, folder)
    return folder


def _fetch(artifact: str, version: str, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    named = f"-Dartifact=io.apicurio:{artifact}:{version}:tar.gz:all"
    command = ["mvn", "--batch-mode", "--quiet", f"{_PLUGIN}:copy", named, f"-DoutputDirectory={folder}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=540, check=False, cwd=folder)
    assert done.returncode == 0, done.stdout[-2000:]
    (archive,) = folder.glob("*.tar.gz")
    shutil.unpack_archive(archive, folder)  # Python 3.11.2, Debian's, has no filters
    archive.unlink()
    (folder / ".complete").touch()


def start_of(version: str, there: Path, ports: Sequence[int]) -> tuple[list[str], dict[str, str]]:
    """How it is started: command and environment. `there`: its folder; `ports`: of clients, and of its own metrics."""
    path = java(17 if version == V2 else 21)
    jars = f"{next(there.glob('*-runner.jar'), '')}:{there / 'lib'}/*"
    start = (
        ["-cp", jars, "io.quarkus.runner.GeneratedMain"] if version == V2 else ["-jar", str(there / "quarkus-run.jar")]
    )
    environment = {
        "QUARKUS_HTTP_PORT": str(ports[0]),
        "QUARKUS_HTTP_HOST": "127.0.0.1",
        "QUARKUS_MANAGEMENT_PORT": str(ports[1]),
    }
    return [path, "-Xmx256m", "-XX:TieredStopAtLevel=1", *start], environment


@contextmanager
def running(
    version: str, folder: Path, *, artifact: str = "apicurio-registry-app", settings: Mapping[str, str] = {}
) -> Iterator[Registry]:
    """A registry of its own, empty. `settings`: environment variables."""
    there, port = home(artifact, version), claim_ports(2)
    command, environment = start_of(version, there, port)
    environment |= {"PATH": "/usr/bin:/bin", **settings}
    log = (folder / f"{artifact}-{version}-{port[0]}.log").open("wb")
    process = subprocess.Popen(command, cwd=there, env=environment, stdout=log, stderr=log)
    registry = Registry(port[0])
    try:
        wait_until(registry.is_there, 400.0, what=f"Apicurio {version}")
        yield registry
    finally:
        registry.close()
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(20)
        log.close()
        release_ports(port)
