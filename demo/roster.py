"""Who takes part: the producers and the group members, each with the command that starts it."""

from __future__ import annotations

from pathlib import Path

from demo.commands import Part, Role, java, producer_options, python, tls, who
from demo.settings import Settings

BACKLOG_CODECS = ("lz4", "zstd", "gzip", "snappy", "none")
BILLING, AUDIT = "billing", "audit"
GROUPS = (BILLING, AUDIT)


def backlog_parts(settings: Settings) -> tuple[Part, ...]:
    """The short-lived producers of the backlog, one per codec."""
    return tuple(_backlog_part(settings, codec) for codec in BACKLOG_CODECS)


def _backlog_part(settings: Settings, codec: str) -> Part:
    name, share = f"backlog-{codec}", settings.backlog // len(BACKLOG_CODECS)

    def command(bootstrap: str, _first: int) -> list[str]:
        options = ["--count", str(share), "--codec", codec, "--partitions", str(settings.partitions)]
        return [*python("backlog", bootstrap, settings.topic, name), *options, *tls(settings.tls)]

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


def _producer(settings: Settings, name: str, library: str, module: str, codec: str) -> Part:
    def command(bootstrap: str, first: int) -> list[str]:
        base = python(module, bootstrap, settings.topic, name)
        options = [*producer_options(settings.rate / 3, first, codec), "--partitions", str(settings.partitions)]
        return [*base, *options, *tls(settings.tls)]

    return Part(name, library, Role.PRODUCER, "", command)


def _member(settings: Settings, group: str, name: str, library: str, module: str) -> Part:
    def command(bootstrap: str, _first: int) -> list[str]:
        return [*python(module, bootstrap, settings.topic, name), "--group", group, *tls(settings.tls)]

    return Part(name, library, Role.MEMBER, group, command)


def _java_producer(settings: Settings, classes: Path, name: str, codec: str) -> Part:
    def command(bootstrap: str, first: int) -> list[str]:
        options = [*who(bootstrap, settings.topic, name), *producer_options(settings.rate / 3, first, codec)]
        return java(settings.source_kafka, classes, "LiveProducer", [*options, *tls(settings.tls)])

    return Part(name, f"Java {settings.source_kafka}", Role.PRODUCER, "", command)


def _java_member(settings: Settings, classes: Path, group: str, name: str) -> Part:
    def command(bootstrap: str, _first: int) -> list[str]:
        options = [*who(bootstrap, settings.topic, name), "--group", group]
        return java(settings.target_kafka, classes, "GroupMember", [*options, *tls(settings.tls)])

    return Part(name, f"Java {settings.target_kafka}", Role.MEMBER, group, command)
