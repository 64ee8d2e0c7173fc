"""A version's jars by plain HTTPS, where there is no Maven: each checked against the lock that the package brings.

A lock (`locks/VERSION.lock`) names jars by their path, which is the same in every Maven repository, and by their
SHA-256. So it does not matter which repository is asked: its operator cannot give another jar.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.resources import files
from pathlib import Path
from typing import Final, NamedTuple

import httpx

from gateway.devcluster.spec import DevClusterError

REPOSITORY_VARIABLE: Final = "LOCKGATE_MAVEN_REPOSITORY"
CENTRAL: Final = "https://repo.maven.apache.org/maven2"
_AT_ONCE: Final = 8
_TRIES: Final = 3
_TIMEOUT: Final = httpx.Timeout(60.0, connect=10.0)
_MOST_BYTES: Final = 64 * 1024 * 1024
"""Of one jar; the largest one has some 20 MB."""


class LockedJar(NamedTuple):
    """A line of a lock: the path in a Maven repository, and the SHA-256 of the file in hexadecimal digits."""

    path: str
    sha256: str

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.path.rpartition("/")[2]


def locked_jars(kafka_version: str) -> Sequence[LockedJar]:
    """The lock of a version of Kafka.

    Raises:
        DevClusterError: there is none.
    """
    lock = files("gateway.devcluster").joinpath("locks", f"{kafka_version}.lock")
    try:
        text = lock.read_text(encoding="ascii")
    except FileNotFoundError as exc:
        raise DevClusterError(
            f"Kafka {kafka_version} has no lock of its jars here: install Maven (Debian: apt install maven)"
        ) from exc
    return tuple(LockedJar(*line.split()) for line in text.splitlines())


def repository() -> str:
    """The URL of the Maven repository to ask: that of LOCKGATE_MAVEN_REPOSITORY, else Maven Central."""
    return (os.environ.get(REPOSITORY_VARIABLE) or CENTRAL).rstrip("/")


def download(jars: Sequence[LockedJar], folder: Path, told: Callable[[int, int], None] = lambda *_: None) -> None:
    """Fetch the jars into a folder, several at once; those that are there already and are right are left alone.

    Args:
        told: called with how many are there, and how many there are in all.

    Raises:
        DevClusterError: one could not be had, or is another one than the lock says.
    """
    folder.mkdir(parents=True, exist_ok=True)
    at = repository()
    with httpx.Client(timeout=_TIMEOUT, follow_redirects=True) as client, ThreadPoolExecutor(_AT_ONCE) as threads:
        waiting = [threads.submit(_fetch, client, at, jar, folder / jar.name) for jar in jars]
        try:
            for count, done in enumerate(as_completed(waiting), 1):
                done.result()
                told(count, len(jars))
        except BaseException:
            threads.shutdown(wait=True, cancel_futures=True)
            raise


def _fetch(client: httpx.Client, at: str, jar: LockedJar, to: Path) -> None:
    if to.is_file() and _sha256(to.read_bytes()) == jar.sha256:
        return
    url = f"{at}/{jar.path}"
    data = _read_or_again(client, url)
    if (found := _sha256(data)) != jar.sha256:
        raise DevClusterError(f"{url} is not the jar of the lock: its SHA-256 is {found}, not {jar.sha256}")
    part = to.with_suffix(".part")
    part.write_bytes(data)
    part.replace(to)


def _read_or_again(client: httpx.Client, url: str) -> bytes:
    for left in reversed(range(_TRIES)):
        try:
            return _read(client, url)
        except httpx.HTTPError as exc:
            if not left:
                raise DevClusterError(
                    f"{url}: {str(exc) or type(exc).__name__}; another Maven repository: {REPOSITORY_VARIABLE}=URL"
                ) from exc
    raise AssertionError(_TRIES)


def _read(client: httpx.Client, url: str) -> bytes:
    with client.stream("GET", url) as response:
        response.raise_for_status()
        data = bytearray()
        for piece in response.iter_bytes():
            data += piece
            if len(data) > _MOST_BYTES:
                raise DevClusterError(f"{url} has more than {_MOST_BYTES} bytes")
    return bytes(data)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
