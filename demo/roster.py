"""Who takes part: the producers and the group members, each with the command that starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from demo.errors import DemoError
from demo.settings import Settings
from gateway.devcluster import ensure_jars
from gateway.devcluster.java import java_binary, jvm_options

BACKLOG_CODECS = ("lz4", "zstd", "gzip", "snappy", "none")
BILLING, AUDIT = "billing", "audit"
GROUPS = (BILLING, AUDIT)
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


def backlog_parts(settings: Settings) -> tuple[Part, ...]:
    """The short-lived producers of the backlog, one per codec."""
    return tuple(_backlog_part(settings, codec) for codec in BACKLOG_CODECS)


def _backlog_part(settings: Settings, codec: str) -> Part:
    name, share = f"backlog-{codec}", settings.backlog // len(BACKLOG_CODECS)

    def command(bootstrap: str, _first: int) -> list[str]:
        options = ["--count", str(share), "--codec", codec, "--partitions", str(settings.partitions)]
        return [*_python("backlog", bootstrap, settings.topic, name), *options]

    return Part(name, "confluent-kafka", Role.PRODUCER, "", command)


def cast(settings: Settings, classes: Path) -> tuple[Part, ...]:
    """The live clients, in the order in which they are moved. `classes` holds the compiled Java clients."""
    return (
        _producer(settings, "shop-librdkafka", "confluent-kafka", "producer_confluent", "lz4"),
        _producer(settings, "shop-python", "kafka-python", "producer_kafka_python", "gzip"),
        _java_producer(settings, classes, "shop-java", "zstd"),
        _member(settings, BILLING, "billing-librdkafka", "confluent-kafka", "consumer_confluent"),
        _member(settings, BILLING, "billing-aiokafka", "aiokafka", "consumer_aiokafka"),
        _member(settings, BILLING, "billing-python", "kafka-python", "consumer_kafka_python"),
        _java_member(settings, classes, AUDIT, "audit-java"),
    )


def compile_java(settings: Settings, classes: Path) -> None:
    """Compile the Java clients, once per run, so that a restart costs no compiler.

    Raises:
        DemoError: There is no JDK, or it refused.
    """
    java = Path(java_binary())
    places = [java.with_name("javac"), java.resolve().with_name("javac")]
    compiler = next((place for place in places if place.is_file()), None)
    if compiler is None:
        raise DemoError(f"there is no javac beside {java}: a JDK is needed, not only a JRE")
    sources = sorted(str(path) for path in Path(__file__).with_name("java").glob("*.java"))
    command = [str(compiler), "-cp", _client_jars(settings.source_kafka), "-d", str(classes), *sources]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise DemoError("the Java clients do not compile", done.stderr)


def _producer(settings: Settings, name: str, library: str, module: str, codec: str) -> Part:
    def command(bootstrap: str, first: int) -> list[str]:
        base = _python(module, bootstrap, settings.topic, name)
        return [*base, *_producer_options(settings, first, codec), "--partitions", str(settings.partitions)]

    return Part(name, library, Role.PRODUCER, "", command)


def _member(settings: Settings, group: str, name: str, library: str, module: str) -> Part:
    def command(bootstrap: str, _first: int) -> list[str]:
        return [*_python(module, bootstrap, settings.topic, name), "--group", group]

    return Part(name, library, Role.MEMBER, group, command)


def _java_producer(settings: Settings, classes: Path, name: str, codec: str) -> Part:
    def command(bootstrap: str, first: int) -> list[str]:
        options = [*_who(bootstrap, settings.topic, name), *_producer_options(settings, first, codec)]
        return _java(settings.source_kafka, classes, "LiveProducer", options)

    return Part(name, f"Java {settings.source_kafka}", Role.PRODUCER, "", command)


def _java_member(settings: Settings, classes: Path, group: str, name: str) -> Part:
    def command(bootstrap: str, _first: int) -> list[str]:
        options = [*_who(bootstrap, settings.topic, name), "--group", group]
        return _java(settings.target_kafka, classes, "GroupMember", options)

    return Part(name, f"Java {settings.target_kafka}", Role.MEMBER, group, command)


def _java(kafka: str, classes: Path, main_class: str, options: list[str]) -> list[str]:
    class_path = f"{classes}{os.pathsep}{_client_jars(kafka)}"
    return [java_binary(), *jvm_options(96), "-cp", class_path, main_class, *options]


def _client_jars(kafka: str) -> str:
    """What a Java application has on its class path: the client and its codecs, none of the broker's other jars.

    No logging backend: it takes half of the start-up, and what an application is shown is in its event log.
    """
    folder = ensure_jars(kafka)
    return os.pathsep.join(str(jar) for name in CLIENT_JARS for jar in sorted(folder.glob(f"{name}-[0-9]*.jar")))


def _producer_options(settings: Settings, first: int, codec: str) -> list[str]:
    return ["--rate", f"{settings.rate / 3:.3f}", "--first", str(first), "--codec", codec]


def _python(module: str, bootstrap: str, topic: str, name: str) -> list[str]:
    return [sys.executable, "-m", f"demo.clients.{module}", *_who(bootstrap, topic, name)]


def _who(bootstrap: str, topic: str, name: str) -> list[str]:
    return ["--bootstrap", bootstrap, "--topic", topic, "--name", name]
