"""How the clients are started: a command line each, Python or Java."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from demo.errors import DemoError
from gateway.devcluster import ensure_jars
from gateway.devcluster.java import java_binary, jvm_options

COMPILED_S = 240.0  # on a machine that others use too; who waits for it may have less patience
CLIENT_JARS = ("kafka-clients", "slf4j-api", "lz4-java", "snappy-java", "zstd-jni")


class Role(StrEnum):
    """What a client does."""

    PRODUCER = "producer"
    MEMBER = "member"


@dataclass(frozen=True, slots=True)
class Part:
    """One client of the cast. `command(bootstrap, first)` starts it; `first` is a producer's next number.

    `group` is empty for a producer.
    """

    name: str
    library: str
    role: Role
    group: str
    command: Callable[[str, int], list[str]]


def compile_java(kafka: str, classes: Path, more: Path | None = None, jars: Iterable[Path] = ()) -> None:
    """Compile the Java clients, once per run, so that a restart costs no compiler.

    Args:
        more: a folder with sources of one demo alone; `jars`: what these need besides Kafka's client.

    Raises:
        DemoError: There is no JDK, or it refused.
    """
    java = Path(java_binary())
    places = [java.with_name("javac"), java.resolve().with_name("javac")]
    compiler = next((place for place in places if place.is_file()), None)
    if compiler is None:
        raise DemoError(f"there is no javac beside {java}: a JDK is needed, not only a JRE")
    folders = [Path(__file__).with_name("java"), *([more] if more else [])]
    sources = sorted(str(path) for folder in folders for path in folder.glob("*.java"))
    class_path = os.pathsep.join([_client_jars(kafka), *map(str, jars)])
    command = [str(compiler), "-cp", class_path, "-d", str(classes), *sources]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILED_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise DemoError(f"the Java clients are not compiled after {COMPILED_S:.0f} s") from error
    if done.returncode != 0:
        raise DemoError("the Java clients do not compile", done.stderr)


def java(kafka: str, classes: Path, main_class: str, options: list[str]) -> list[str]:
    """A Java client with the client library of a Kafka version."""
    class_path = f"{classes}{os.pathsep}{_client_jars(kafka)}"
    return [java_binary(), *jvm_options(96), "-cp", class_path, main_class, *options]


def _client_jars(kafka: str) -> str:
    """What a Java application has on its class path: the client and its codecs, none of the broker's other jars.

    No logging backend: it takes half of the start-up, and what an application is shown is in its event log.
    """
    folder = ensure_jars(kafka)
    return os.pathsep.join(str(jar) for name in CLIENT_JARS for jar in sorted(folder.glob(f"{name}-[0-9]*.jar")))


def tls(folder: Path | None) -> list[str]:
    """Where a client finds its certificate."""
    return [] if folder is None else ["--tls", str(folder)]


def producer_options(rate: float, first: int, codec: str) -> list[str]:
    """How fast (records per second), from which number on, how compressed."""
    return ["--rate", f"{rate:.3f}", "--first", str(first), "--codec", codec]


def python(module: str, bootstrap: str, topic: str, name: str) -> list[str]:
    """A client of `demo/clients`."""
    return [sys.executable, "-m", f"demo.clients.{module}", *who(bootstrap, topic, name)]


def who(bootstrap: str, topic: str, name: str) -> list[str]:
    """What every client is told."""
    return ["--bootstrap", bootstrap, "--topic", topic, "--name", name]
