"""Jars by plain HTTPS: each is the one of the lock, or it is refused."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from gateway.devcluster import KAFKA_VERSIONS, DevClusterError
from gateway.devcluster.downloads import LockedJar, download, locked_jars

GIVEN = b"the jar"
JAR = LockedJar("org/some/thing/1/thing-1.jar", hashlib.sha256(GIVEN).hexdigest())


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[httpx.Request], httpx.Response]], None]:
    """What the repository answers."""
    client = httpx.Client

    def answer(handler: Callable[[httpx.Request], httpx.Response]) -> None:
        monkeypatch.setattr(
            httpx, "Client", lambda **options: client(transport=httpx.MockTransport(handler), **options)
        )

    return answer


@pytest.mark.parametrize("version", KAFKA_VERSIONS)
def test_each_version_has_a_lock_that_names_no_host(version: str) -> None:
    jars = locked_jars(version)
    assert len(jars) > 50
    assert len({jar.name for jar in jars}) == len(jars)
    assert all(jar.path.endswith(".jar") and len(jar.sha256) == 64 and ":" not in jar.path for jar in jars)


def test_a_version_without_a_lock_needs_maven() -> None:
    with pytest.raises(DevClusterError, match="Kafka 1\\.0 has no lock of its jars here: install Maven"):
        locked_jars("1.0")


def test_jars_come_from_the_repository_that_is_named(
    tmp_path: Path, answers: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCKGATE_MAVEN_REPOSITORY", "https://repository.example/maven/")
    asked: list[str] = []
    told: list[tuple[int, int]] = []

    def handler(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        return httpx.Response(200, content=GIVEN)

    answers(handler)
    download([JAR], tmp_path / "libs", lambda *counts: told.append(counts))
    download([JAR], tmp_path / "libs")
    assert asked == [f"https://repository.example/maven/{JAR.path}"], "what is there is not fetched again"
    assert told == [(1, 1)]
    assert (tmp_path / "libs" / "thing-1.jar").read_bytes() == GIVEN


def test_another_jar_than_the_lock_says_is_not_kept(tmp_path: Path, answers: Callable[..., None]) -> None:
    answers(lambda _: httpx.Response(200, content=b"another one"))
    with pytest.raises(DevClusterError, match="thing-1.jar is not the jar of the lock: its SHA-256 is"):
        download([JAR], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_one_that_cannot_be_had_is_asked_for_again_and_named(tmp_path: Path, answers: Callable[..., None]) -> None:
    asked: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        return httpx.Response(503)

    answers(handler)
    with pytest.raises(DevClusterError, match="503.*another Maven repository: LOCKGATE_MAVEN_REPOSITORY=URL"):
        download([JAR], tmp_path)
    assert len(asked) == 3
