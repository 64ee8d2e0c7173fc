"""Kafka's own ProducerPerformance and ConsumerPerformance, run from the brokers' jars."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from bench.errors import BenchError
from bench.process import run_tool
from gateway.devcluster import java_command

KAFKA: Final = "4.3.1"
_PRODUCER: Final = "org.apache.kafka.tools.ProducerPerformance"
_CONSUMER: Final = "org.apache.kafka.tools.ConsumerPerformance"
_SUMMARY: Final = re.compile(
    r"^(\d+) records sent, ([\d.]+) records/sec .*? (\d+) ms 50th, .*? (\d+) ms 99th", re.MULTILINE
)


class Produced(NamedTuple):
    """What ProducerPerformance says of itself. Its latencies begin in the client's queue, in whole milliseconds."""

    records: int
    mb_per_s: float
    p50_ms: int
    p99_ms: int


def produce(bootstrap: str, topic: str, records: int, size: int, properties: Mapping[str, str | int] = {}) -> Produced:
    """Write `records` records of `size` bytes as fast as it goes, acks=all.

    Raises:
        BenchError: the tool failed, or not every record was acknowledged.
    """
    settings = {"bootstrap.servers": bootstrap, "acks": "all", **properties}
    pairs = [f"{key}={value}" for key, value in settings.items()]
    numbers = ["--num-records", str(records), "--record-size", str(size), "--throughput", "-1"]
    command = java_command(
        KAFKA, _PRODUCER, "--topic", topic, *numbers, "--reporting-interval", "600000", "--command-property", *pairs,
        heap_mb=256,
    )  # fmt: skip
    shown = run_tool(command)
    found = _SUMMARY.findall(shown)
    if not found or int(found[-1][0]) != records:
        raise BenchError(f"ProducerPerformance at {bootstrap} did not send {records} records:\n{shown[-600:]}")
    _, per_second, p50, p99 = found[-1]
    return Produced(records, float(per_second) * size / 1e6, int(p50), int(p99))


class Consumed(NamedTuple):
    """What ConsumerPerformance says of itself; the rate is without the time to join the group."""

    records: int
    mb_per_s: float


def consume(bootstrap: str, topic: str, records: int, properties: Mapping[str, str] = {}) -> Consumed:
    """Read `records` records from the beginning, in a group of its own.

    Raises:
        BenchError: the tool failed, or read fewer records.
    """
    where = ["--bootstrap-server", bootstrap, "--topic", topic]
    more = ["--num-records", str(records), "--timeout", "30000", "--hide-header"]
    for key, value in properties.items():
        more += ["--command-property", f"{key}={value}"]
    shown = run_tool(java_command(KAFKA, _CONSUMER, *where, *more, heap_mb=256))
    for line in reversed(shown.splitlines()):
        fields = [field.strip() for field in line.split(",")]
        if len(fields) >= 10 and int(fields[4]) >= records:
            return Consumed(int(fields[4]), float(fields[8]) * 1.048576)
    raise BenchError(f"ConsumerPerformance at {bootstrap} did not read {records} records:\n{shown[-600:]}")
