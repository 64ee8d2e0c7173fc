"""Who takes part: a Streams application, one that reads and writes in transactions (a member in Java, one on
librdkafka), a plain group, an idempotent producer; and who writes what they read."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Final

from demo.app.settings import BILLING, BOOKED, BOOKING, CLICKS, COUNTER, COUNTS, ORDERS, PAYMENTS, WORDS, AppSettings
from demo.commands import Part, Role, java, producer_options, python, who
from gateway.devcluster.java import java_command

JAVA_SOURCES: Final = Path(__file__).with_name("java")
CLICKER: Final = "clicks-java"
TOPIC_OF: Final = {
    "words-librdkafka": WORDS,
    "payments-librdkafka": PAYMENTS,
    "orders-librdkafka": ORDERS,
    CLICKER: CLICKS,
}
"""Producer -> what it writes. The first three only feed the applications."""
_STREAMS_HEAP_MB: Final = 160


def cast(settings: AppSettings, classes: Path, state: Path, jars: Sequence[Path]) -> tuple[Part, ...]:
    """The clients, in the order in which they are moved.

    Args:
        classes: of the compiled Java clients. `state`: where Streams keeps what it keeps. `jars`: Streams' own.
    """
    return (
        *(_writer(settings, name) for name in TOPIC_OF if name != CLICKER),
        _clicker(settings, classes),
        _counter(settings, classes, state, jars),
        _booking_java(settings, classes),
        _booking(),
        _billing(),
    )


def _writer(settings: AppSettings, name: str) -> Part:
    def command(bootstrap: str, first: int) -> list[str]:
        options = [*producer_options(settings.rate, first, "lz4"), "--partitions", str(settings.partitions)]
        return [*python("producer_confluent", bootstrap, TOPIC_OF[name], name), *options]

    return Part(name, "confluent-kafka", Role.PRODUCER, "", command)


def _clicker(settings: AppSettings, classes: Path) -> Part:
    def command(bootstrap: str, first: int) -> list[str]:
        options = [*who(bootstrap, CLICKS, CLICKER), *producer_options(settings.rate, first, "zstd")]
        return java(settings.kafka, classes, "LiveProducer", options)

    return Part(CLICKER, f"Java {settings.kafka}", Role.PRODUCER, "", command)


def _counter(settings: AppSettings, classes: Path, state: Path, jars: Sequence[Path]) -> Part:
    """Each start has a state folder of its own: what it has counted is in its changelog."""
    name, starts = "counter-streams", count(1)

    def command(bootstrap: str, _first: int) -> list[str]:
        own = ["--group", COUNTER, "--sink", COUNTS, "--state", str(state / str(next(starts)))]
        options = [*who(bootstrap, WORDS, name), *own]
        class_path = [classes, *jars]
        return java_command(settings.kafka, "Counter", *options, extra_class_path=class_path, heap_mb=_STREAMS_HEAP_MB)

    return Part(name, f"Kafka Streams {settings.kafka}", Role.MEMBER, COUNTER, command)


def _booking_java(settings: AppSettings, classes: Path) -> Part:
    name = "booking-java"

    def command(bootstrap: str, _first: int) -> list[str]:
        options = [*who(bootstrap, PAYMENTS, name), "--group", BOOKING, "--sink", BOOKED]
        return java(settings.kafka, classes, "Booking", options)

    return Part(name, f"Java {settings.kafka}", Role.MEMBER, BOOKING, command)


def _booking() -> Part:
    name = "booking-librdkafka"

    def command(bootstrap: str, _first: int) -> list[str]:
        own = ["--group", BOOKING, "--sink", BOOKED]
        return [sys.executable, "-m", "demo.app.clients.booking", *who(bootstrap, PAYMENTS, name), *own]

    return Part(name, "confluent-kafka", Role.MEMBER, BOOKING, command)


def _billing() -> Part:
    name = "billing-librdkafka"

    def command(bootstrap: str, _first: int) -> list[str]:
        return [*python("consumer_confluent", bootstrap, ORDERS, name), "--group", BILLING]

    return Part(name, "confluent-kafka", Role.MEMBER, BILLING, command)
