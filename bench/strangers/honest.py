"""The honest client: writes at a steady rate, asks small requests at a steady rate, and reads in a consumer group.

    python -m bench.strangers.honest BOOTSTRAP CA USER TOPIC --partitions 6

Prints `ready` once all three go on. Told on stdin: `mark` (forget what was seen), `seen` (what it felt since then, as
JSON). The end of stdin ends it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import uvloop
from confluent_kafka import Consumer, KafkaError, Message, Producer

from bench.clients.raw import produce, read_frame
from bench.stats import percentile
from bench.strangers.wire import Wire, logged_in, trusting

WRITES_PER_S: Final = 1_000
WRITE_BYTES: Final = 1_000
ASKS_PER_S: Final = 1_000
_CONNECTIONS: Final = 20
_STEP_S: Final = 0.01
_SMALL: Final = bytes(100)
_SESSION_MS: Final = 6_000


class Felt:
    """Since the last mark. `asked_ms`, `written_ms`: of each request, each write; `lost`: assignments taken away."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.errors: list[str] = []
        self.mark()

    def mark(self) -> None:
        """Begin anew."""
        with self._lock:
            self.asked_ms: list[float] = []
            self.written_ms: list[float] = []
            self.read = self.lost = 0
            self._began = time.monotonic()

    def asked(self, milliseconds: float) -> None:
        """One small request was answered."""
        with self._lock:
            self.asked_ms.append(milliseconds)

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        """One write."""
        with self._lock:
            if error is not None:
                self.errors.append(str(error))
            else:
                self.written_ms.append((message.latency() or 0.0) * 1_000)

    def told(self) -> dict[str, Any]:
        """Percentiles in ms, rates a second, and what went wrong."""
        with self._lock:
            seconds = max(1e-3, time.monotonic() - self._began)
            asked, written = sorted(self.asked_ms), sorted(self.written_ms)
            return {
                "asked_p99_ms": percentile(asked, 99) if asked else -1.0,
                "written_p99_ms": percentile(written, 99) if written else -1.0,
                "longest_ms": max((*asked[-1:], *written[-1:]), default=-1.0),
                "asked_per_s": len(asked) / seconds,
                "written_per_s": len(written) / seconds,
                "read_per_s": self.read / seconds,
                "lost": self.lost,
                "errors": self.errors[:3],
            }


def _login(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "bootstrap.servers": args.bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(args.ca),
        "sasl.mechanism": "PLAIN",
        "sasl.username": args.user,
        "sasl.password": args.user,
        "log_level": 0,
    }


def _writes(args: argparse.Namespace, felt: Felt, over: threading.Event) -> None:
    producer = Producer({**_login(args), "linger.ms": 5, "acks": "all", "on_delivery": felt.delivered})
    value, last, owed = bytes(WRITE_BYTES), time.monotonic(), 0.0
    while not over.is_set():
        producer.poll(_STEP_S)
        now = time.monotonic()
        owed = min(owed + (now - last) * WRITES_PER_S, WRITES_PER_S / 10)
        last = now
        while owed >= 1:
            producer.produce(args.topic, value)
            owed -= 1
    producer.flush(10)


def _reads(args: argparse.Namespace, felt: Felt, over: threading.Event) -> None:
    consumer = Consumer(
        {
            **_login(args),
            "group.id": f"{args.user}-group",
            "session.timeout.ms": _SESSION_MS,
            "heartbeat.interval.ms": 500,
            "auto.offset.reset": "latest",
        }
    )

    def revoked(*_: object) -> None:
        felt.lost += not over.is_set()

    consumer.subscribe([args.topic], on_revoke=revoked, on_lost=revoked)
    while not over.is_set():
        felt.read += sum(message.error() is None for message in consumer.consume(500, 0.1))
    consumer.close()


async def _asks(args: argparse.Namespace, felt: Felt, over: threading.Event) -> None:
    context = trusting(args.ca)
    wires = [await logged_in(args.bootstrap, args.user, tls=context) for _ in range(_CONNECTIONS)]
    step = _CONNECTIONS / ASKS_PER_S
    start = time.monotonic()
    try:
        await asyncio.gather(
            *(
                _keep_asking(
                    wire,
                    produce(args.topic, number % args.partitions, _SMALL),
                    start + step * number / _CONNECTIONS,
                    step,
                    felt,
                    over,
                )
                for number, wire in enumerate(wires)
            )
        )
    except (OSError, EOFError) as error:
        felt.errors.append(f"a connection of small requests: {error!r}")


async def _keep_asking(wire: Wire, request: bytes, due: float, step: float, felt: Felt, over: threading.Event) -> None:
    """A late one is not made up for."""
    reader, writer = wire
    while not over.is_set():
        await asyncio.sleep(due - time.monotonic())
        began = time.monotonic()
        writer.write(request)
        await read_frame(reader)
        done = time.monotonic()
        felt.asked((done - began) * 1_000)
        due = max(due + step, done)


def _until_ready(felt: Felt) -> None:
    while not (felt.asked_ms and felt.written_ms and felt.read) and not felt.errors:
        time.sleep(_STEP_S)


def main() -> None:
    """Obey stdin."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("ca", type=Path)
    parser.add_argument("user")
    parser.add_argument("topic")
    parser.add_argument("--partitions", type=int, required=True)
    args = parser.parse_args()
    felt, over = Felt(), threading.Event()
    works: list[Callable[[], None]] = [
        lambda: _writes(args, felt, over),
        lambda: _reads(args, felt, over),
        lambda: uvloop.run(_asks(args, felt, over)),
    ]
    threads = [threading.Thread(target=work, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    _until_ready(felt)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        if line.strip() == "mark":
            felt.mark()
        sys.stdout.write(json.dumps(felt.told()) + "\n")
        sys.stdout.flush()
    over.set()
    for thread in threads:
        thread.join(15)


if __name__ == "__main__":
    main()
