"""The jars of a Kafka version: resolved once, by Maven or by plain HTTPS, kept in a
folder of their own; and where that is.

Beside them is an archive of a broker's classes, parsed and verified once: brokers that map it start with much less CPU
time. A JVM writes such an archive as it ends (JEP 350, dynamic class data sharing), here the one of a broker that was
started for nothing else. It suits the JVM and the jars that it was made with; with others it is not used, and the
broker starts as it would without.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Final

from gateway.devcluster.downloads import download, locked_jars
from gateway.devcluster.properties import write_log_config
from gateway.devcluster.spec import DevClusterError, check_version

HOME_VARIABLE: Final = "LOCKGATE_DEV_HOME"


def dev_home() -> Path:
    """Folder of everything that is made here.

    $LOCKGATE_DEV_HOME if set; the `build` folder when the package is used from a checkout; the user's cache folder
    when it is installed from a wheel.
    """
    chosen = os.environ.get(HOME_VARIABLE)
    if chosen:
        return Path(chosen).absolute()
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "pyproject.toml").is_file() and (checkout / "configs" / "brokers").is_dir():
        return checkout / "build"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lockgate"


def brokers_folder(kafka_version: str) -> Path:
    """Folder of one version's jars and of the log settings for its tools."""
    return dev_home() / "brokers" / kafka_version


def clusters_folder() -> Path:
    """Folder that holds one folder per cluster, unless the caller names another."""
    return dev_home() / "clusters"


def pom_text() -> str:
    """The Maven pom that names the jars. It is package data, so that an installed wheel has it too."""
    return files("gateway.devcluster").joinpath("pom.xml").read_text(encoding="utf-8")


def class_archive(kafka_version: str) -> Path:
    """Where the archive of a version is, or would be."""
    return brokers_folder(kafka_version) / "classes.jsa"


def archive_options(kafka_version: str) -> list[str]:
    """JVM options to map the archive of a version, if there is one."""
    archive = class_archive(kafka_version)
    return [f"-XX:SharedArchiveFile={archive}"] if archive.is_file() else []


def archiving_options(archive: Path) -> list[str]:
    """JVM options to write an archive at the end of the process."""
    return [f"-XX:ArchiveClassesAtExit={archive}"]


_MAVEN_TIMEOUT_S: Final = 900


def class_path(kafka_version: str) -> str:
    """Java class path of a version's jars, which must have been resolved before."""
    return f"{brokers_folder(kafka_version) / 'libs'}/*"


def ensure_jars(kafka_version: str, told: Callable[[int, int], None] = lambda *_: None) -> Path:
    """Resolve the jars of a version unless they are there, and return their folder: by Maven where it is installed,
    else by plain HTTPS.

    Several processes may call this at once: one resolves, the others wait for it.

    Args:
        told: called with how many jars are there and how many there are in all, without Maven.

    Raises:
        DevClusterError: no such version, or its jars cannot be had.
    """
    check_version(kafka_version)
    folder = brokers_folder(kafka_version)
    stamp = folder / ".complete"
    pom = pom_text()
    wanted = hashlib.sha256(pom.encode()).hexdigest()
    with _locked(folder.with_name(folder.name + ".lock")):
        if not (stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted):
            if shutil.which("mvn") is None:
                download(locked_jars(kafka_version), folder / "libs", told)
            else:
                _resolve(kafka_version, folder, pom)
            write_log_config(folder, level="WARN", stream="stderr")
            stamp.write_text(wanted, encoding="utf-8")
    return folder / "libs"


def _resolve(kafka_version: str, folder: Path, pom: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pom_file = folder / "pom.xml"
    pom_file.write_text(pom, encoding="utf-8")
    command = [
        "mvn",
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
