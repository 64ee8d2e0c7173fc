"""How far behind a steady stream is; and what distance to the source, or between replicas, does to a backlog."""

from __future__ import annotations

import sys
import time
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from bench.errors import BenchError
from bench.proc import Meter
from bench.process import Server
from bench.production.backlog import Say, batches_of, copied
from bench.production.filling import fill
from bench.production.lab import ProductionLab
from bench.production.sizes import K16_1, TINY_1, Cell
from bench.stats import Sample, percentile

_LINK: Final = "distances"
_PATIENCE_S: Final = 60.0
_AT_ONCE: Final = 50


def measure_tail(lab: ProductionLab, say: Say) -> None:
    """One partition takes batches of one record at a steady rate: how old is each when it is read from the copy?"""
    topic, sizes = "tail", lab.sizes
    lab.on_source.create(topic, 1)
    with lab.gateway.link(_LINK, lab.source.bootstrap):
        lab.gateway.mirror(_LINK, topic)
        lab.gateway.wait_for(_LINK, topic, "ACTIVE")
        consumer = Consumer({"bootstrap.servers": lab.target.bootstrap, "group.id": "bench", "fetch.wait.max.ms": 5})
        consumer.assign([TopicPartition(topic, 0, 0)])
        consumer.poll(0.5)
        options = [lab.source.bootstrap, topic, str(sizes.tail_rate), str(sizes.tail_s)]
        writer = Server("writer", [sys.executable, "-m", "bench.production.steady", *options], lab.folder)
        meter = Meter(lab.gateway.pid)
        try:
            lags_ms, per_s = _lags_ms(consumer, int(sizes.tail_rate * sizes.tail_s))
            cpu = meter.cpu_s or 0.0
        finally:
            consumer.close()
            writer.end()
    ordered = sorted(lags_ms[len(lags_ms) // 10 :])  # the first ones wait for connections
    metrics = {"lag_p50_ms": percentile(ordered, 50), "lag_p99_ms": percentile(ordered, 99), "lag_max_ms": ordered[-1]}
    say(Sample("tail", 0, "gateway", metrics | {"per_s": per_s, "cpu_s_per_million": cpu / len(lags_ms) * 1e6}))
    lab.on_target.drop(topic)
    lab.on_source.drop(topic)


def _lags_ms(consumer: Consumer, wanted: int) -> tuple[list[float], float]:
    """How old each record is when it is read, and how many were written in a second: not as many as were to be, when
    the writer did not get the processor in time. Up to some 10 ms of each lag are this reader's own."""
    found: list[float] = []
    made: list[int] = []
    end = time.monotonic() + _PATIENCE_S + wanted / 500
    while len(found) < wanted:
        if time.monotonic() > end:
            raise BenchError(f"{len(found)} of {wanted} records came through")
        for message in consumer.consume(_AT_ONCE, 0.005):
            value = message.value()
            if message.error() or value is None:
                continue
            made.append(int.from_bytes(value[:8]))
            found.append((time.time_ns() - made[-1]) / 1e6)
    return found, (len(made) - 1) / max(1e-9, (made[-1] - made[0]) / 1e9)


def measure_far(lab: ProductionLab, say: Say) -> None:
    """A backlog of one partition, from a source that is at hand, and from one that is far away."""
    for number in range(lab.sizes.rounds):
        for round_trip_ms in (0, *lab.sizes.far_ms):
            lab.to_source.set(round_trip_ms)
            topic, mb = f"far-{number}-{round_trip_ms}", lab.sizes.far_mb
            metrics = _by_gateway(lab, K16_1, topic, lab.far_source, mb)
            say(Sample("far", number, f"{round_trip_ms} ms", metrics))
    lab.to_source.set(0)


def measure_replicas(lab: ProductionLab, say: Say) -> None:
    """Backlogs of one partition, to a target whose brokers are far from each other."""
    lab.between_replicas.set(lab.sizes.replicas_ms)
    for cell in (TINY_1, K16_1):
        metrics = _by_gateway(lab, cell, f"replicas-{cell.name}", lab.source.bootstrap)
        say(Sample(f"replicas-{cell.name}", 0, f"{lab.sizes.replicas_ms} ms", metrics))
    lab.between_replicas.set(0)


def _by_gateway(lab: ProductionLab, cell: Cell, topic: str, source: str, mb: int = 0) -> dict[str, float]:
    lab.on_source.create(topic, 1)
    fill(lab.source.bootstrap, topic, cell._replace(batch=1), 1)
    with lab.gateway.link(_LINK, source):
        lab.gateway.mirror(_LINK, topic)
        lab.on_target.wait_for_records(topic, 1, _PATIENCE_S, partitions=1)
        lab.gateway.pause(_LINK, topic)
        written = fill(lab.source.bootstrap, topic, cell, batches_of(cell, lab.sizes, mb))
        meter = Meter(lab.gateway.pid)
        lab.gateway.resume(_LINK, topic)
        metrics = copied(lab, cell, topic, meter, 1, written)
    lab.on_target.drop(topic)
    lab.on_source.drop(topic)
    return metrics
