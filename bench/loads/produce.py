"""Loads 1 and 4: produce with acks=all through a contestant, and forwarded produce by the gateway."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from bench.clients import java_tools, rdkafka
from bench.contestants.contestant import Contestant
from bench.lab import Lab
from bench.loads.load import Metrics
from bench.loads.writing import WritingLoad
from bench.proc import Meter
from bench.topics import Topics

RECORD_BYTES: Final = 1000
Writer = Callable[[str, str, int], float]
"""(bootstrap, topic, records) -> MB/s"""


def write_16k(bootstrap: str, topic: str, records: int) -> float:
    """Kafka's tool with Kafka's defaults: batches of 16 KB, linger 5 ms."""
    return java_tools.produce(bootstrap, topic, records, RECORD_BYTES, {"batch.size": 16_384}).mb_per_s


def write_1m(bootstrap: str, topic: str, records: int) -> float:
    """Kafka's tool with batches of 1 MB."""
    settings: Mapping[str, str | int] = {
        "batch.size": 1_000_000,
        "linger.ms": 200,
        "max.request.size": 4_000_000,
        "buffer.memory": 64_000_000,
    }
    return java_tools.produce(bootstrap, topic, records, RECORD_BYTES, settings).mb_per_s


def write_rdkafka(bootstrap: str, topic: str, records: int) -> float:
    """librdkafka with batches of 16 KB."""
    settings = {"batch.size": 16_384, "linger.ms": 5}
    written = rdkafka.write(bootstrap, topic, records, RECORD_BYTES, properties=settings)
    return written.records * RECORD_BYTES / written.seconds / 1e6


class Produce(WritingLoad):
    """One client and size of batches, 1 KB records. `main`: what the bench is known by, with every contestant."""

    def __init__(self, name: str, title: str, writer: Writer, *, big: bool = False, main: bool = False) -> None:
        self.name = name
        self.title = title
        self.share = 150.0 if main else 60.0
        self.copies = self.intercepts = self.warms_up = self._main = main
        self._writer = writer
        self._big = big

    def rounds(self, lab: Lab) -> int:
        """See `Load`."""
        return lab.profile.rounds if self._main else super().rounds(lab)

    def write(self, lab: Lab, through: Contestant, where: Topics, topic: str, scale: float) -> Metrics:
        """See `WritingLoad`."""
        megabytes = lab.profile.produce_big_mb if self._big else lab.profile.produce_mb
        records = max(100, int(megabytes * 1e6 * scale / RECORD_BYTES))
        meter = Meter(through.pid)
        rate = self._writer(through.bootstrap, topic, records)
        metrics = {"mb_per_s": rate, **meter.per(records * RECORD_BYTES / 1e9, "cpu_s_per_gb")}
        where.wait_for_records(topic, records, 5.0)
        return metrics
