"""Who takes part: an idempotent and a transactional producer in Java and on librdkafka each, a writer of the compacted
topic, and a group per topic."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from demo.commands import Part, Role, java, producer_options, python, who
from demo.exact.settings import ORDERS, PAYMENTS, PROFILES, TOPICS, ExactSettings

_WRITERS: Final = {
    "orders-librdkafka": (ORDERS, "producer_confluent", "lz4"),
    "payments-librdkafka": (PAYMENTS, "producer_transactional", "none"),
    "profiles-librdkafka": (PROFILES, "producer_confluent", "zstd"),
}
_JAVA_WRITERS: Final = {
    "orders-java": (ORDERS, "LiveProducer", "zstd"),
    "payments-java": (PAYMENTS, "LiveLedger", "gzip"),
}
BACKLOG: Final = {
    f"backlog-{ORDERS}": (ORDERS, "backlog", "snappy"),
    f"backlog-{PROFILES}": (PROFILES, "backlog", "lz4"),
}


def topic_of(producer: str) -> str:
    """The topic that a producer writes to."""
    return {**_WRITERS, **_JAVA_WRITERS, **BACKLOG}[producer][0]


def group_of(topic: str) -> str:
    """The group that reads a topic."""
    return f"readers-of-{topic}"


def backlog_parts(settings: ExactSettings) -> tuple[Part, ...]:
    """Short-lived producers that fill the topics; the transactional one is filled by its own writers."""
    return tuple(_backlog(settings, name) for name in BACKLOG)


def cast(settings: ExactSettings, classes: Path) -> tuple[Part, ...]:
    """The live clients. `classes` holds the compiled Java clients."""
    return (
        *(_writer(settings, name) for name in _WRITERS),
        *(_java_writer(settings, classes, name) for name in _JAVA_WRITERS),
        *(_reader(topic) for topic in TOPICS),
    )


def _backlog(settings: ExactSettings, name: str) -> Part:
    topic, module, codec = BACKLOG[name]

    def command(bootstrap: str, _first: int) -> list[str]:
        options = ["--count", str(settings.backlog), "--codec", codec, "--partitions", str(settings.partitions)]
        return [*python(module, bootstrap, topic, name), *options]

    return Part(name, "confluent-kafka", Role.PRODUCER, "", command)


def _writer(settings: ExactSettings, name: str) -> Part:
    topic, module, codec = _WRITERS[name]

    def command(bootstrap: str, first: int) -> list[str]:
        options = [*producer_options(settings.rate, first, codec), "--partitions", str(settings.partitions)]
        return [*python(module, bootstrap, topic, name), *options]

    return Part(name, "confluent-kafka", Role.PRODUCER, "", command)


def _java_writer(settings: ExactSettings, classes: Path, name: str) -> Part:
    topic, main_class, codec = _JAVA_WRITERS[name]

    def command(bootstrap: str, first: int) -> list[str]:
        options = [*who(bootstrap, topic, name), *producer_options(settings.rate, first, codec)]
        return java(settings.source_kafka, classes, main_class, options)

    return Part(name, f"Java {settings.source_kafka}", Role.PRODUCER, "", command)


def _reader(topic: str) -> Part:
    group = group_of(topic)

    def command(bootstrap: str, _first: int) -> list[str]:
        return [*python("consumer_confluent", bootstrap, topic, group), "--group", group]

    return Part(group, "confluent-kafka", Role.MEMBER, group, command)
