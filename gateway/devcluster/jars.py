"""The jars of a Kafka version: resolved by Maven once, kept in a folder of their own."""

import fcntl
import hashlib
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gateway.devcluster.errors import DevClusterError
from gateway.devcluster.home import brokers_folder, pom_text
from gateway.devcluster.logconfig import write_log_config
from gateway.devcluster.spec import check_version

_MAVEN_TIMEOUT_S: Final = 900


def class_path(kafka_version: str) -> str:
    """Java class path of a version's jars, which must have been resolved before."""
    return f"{brokers_folder(kafka_version) / 'libs'}/*"


def ensure_jars(kafka_version: str) -> Path:
    """Resolve the jars of a version unless they are there, and return their folder.

    Several processes may call this at once: one resolves, the others wait for it.

    Raises:
        DevClusterError: no such version, no Maven, or Maven failed.
    """
    check_version(kafka_version)
    folder = brokers_folder(kafka_version)
    stamp = folder / ".complete"
    pom = pom_text()
    wanted = hashlib.sha256(pom.encode()).hexdigest()
    with _locked(folder.with_name(folder.name + ".lock")):
        if not (stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted):
            _resolve(kafka_version, folder, pom)
            write_log_config(folder, level="WARN", stream="stderr")
            stamp.write_text(wanted, encoding="utf-8")
    return folder / "libs"


def _resolve(kafka_version: str, folder: Path, pom: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise DevClusterError("Maven is needed to fetch the Kafka brokers: install it (Debian: apt install maven)")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pom_file = folder / "pom.xml"
    pom_file.write_text(pom, encoding="utf-8")
    command = [
        maven,
        "--batch-mode",
        "--quiet",
        "--file",
        str(pom_file),
        "dependency:copy-dependencies",
        f"-Dkafka.version={kafka_version}",
        f"-DoutputDirectory={folder / 'libs'}",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_MAVEN_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise DevClusterError(f"Maven did not resolve Kafka {kafka_version} within {_MAVEN_TIMEOUT_S} s") from error
    if done.returncode != 0:
        reasons = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
        raise DevClusterError(f"Maven cannot resolve Kafka {kafka_version}: {reasons[0] if reasons else 'no reason'}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
