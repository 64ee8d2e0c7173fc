"""The librdkafka load: a process of its own that writes, unbounded or at a steady rate, and prints one line of JSON.

    python -m bench.clients.rdkafka BOOTSTRAP TOPIC --records 100000 --size 1000 [--rate 3000] [--set linger.ms=0 …]

With a rate each record's time from `produce` to its acknowledgement is kept; librdkafka measures it in microseconds.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from typing import NamedTuple

from confluent_kafka import KafkaError, Message, Producer

from bench.process import run_tool
from bench.stats import percentile


class Written(NamedTuple):
    """What the load saw. Latencies are 0 for an unbounded run, where they would only measure the client's queue."""

    records: int
    seconds: float
    p50_ms: float
    p99_ms: float


def write(
    bootstrap: str, topic: str, records: int, size: int, *, rate: int = 0, properties: Mapping[str, str | int] = {}
) -> Written:
    """Run the load in a process of its own.

    Raises:
        BenchError: it failed; a record that was not acknowledged is a failure.
    """
    pairs = [f"{key}={value}" for key, value in properties.items()]
    numbers = ["--records", str(records), "--size", str(size), "--rate", str(rate)]
    module = [sys.executable, "-m", "bench.clients.rdkafka"]
    return Written(**json.loads(run_tool([*module, bootstrap, topic, *numbers, "--set", *pairs])))


class _Acks:
    """Counts what came back."""

    def __init__(self, *, timed: bool) -> None:
        self._timed = timed
        self.count = 0
        self.latencies_ms: list[float] = []
        self.error = ""

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.error = str(error)
            return
        self.count += 1
        latency = message.latency() if self._timed else None
        if latency is not None:
            self.latencies_ms.append(latency * 1000)


def _write_all(producer: Producer, topic: str, value: bytes, records: int, acks: _Acks) -> None:
    for number in range(records):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.01)
        if number % 1000 == 0:
            producer.poll(0)


def _write_paced(producer: Producer, topic: str, value: bytes, records: int, rate: int, acks: _Acks) -> None:
    """One record at a time; a late one is not followed by a burst, so that a pause counts once."""
    step, due = 1 / rate, time.monotonic()
    for _ in range(records):
        wait = due - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        producer.produce(topic, value, on_delivery=acks.delivered)
        producer.poll(0)
        due = max(due + step, time.monotonic() - step)


def main() -> None:
    """Write and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--size", type=int, required=True, help="bytes of each record's value")
    parser.add_argument("--rate", type=int, default=0, help="records per second; 0: as fast as it goes")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="properties of librdkafka")
    args = parser.parse_args()
    acks = _Acks(timed=bool(args.rate))
    settings: dict[str, str | int | bool] = {"bootstrap.servers": args.bootstrap, "acks": "all", "log_level": 0}
    settings |= dict(pair.split("=", 1) for pair in args.set)
    producer = Producer(settings)
    producer.list_topics(args.topic, timeout=20)
    began = time.monotonic()
    value = bytes(args.size)
    if args.rate:
        _write_paced(producer, args.topic, value, args.records, args.rate, acks)
    else:
        _write_all(producer, args.topic, value, args.records, acks)
    left = producer.flush(60)
    if acks.error or left or (args.rate and acks.count != args.records):
        sys.exit(f"{left} records were not acknowledged; {acks.error}")
    times = sorted(acks.latencies_ms) or [0.0]
    seen = Written(args.records, time.monotonic() - began, percentile(times, 50), percentile(times, 99))
    sys.stdout.write(json.dumps(seen._asdict()) + "\n")


if __name__ == "__main__":
    main()
