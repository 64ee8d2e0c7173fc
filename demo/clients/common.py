"""What the Python clients share: arguments, the event log on stdout, the stop signal, the pace."""

from __future__ import annotations

import argparse
import json
import signal
import ssl
import sys
import time
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from demo.records import RecordId, parse_value

TICK_S = 0.01  # how often a producer sends what is due


def now_ms() -> int:
    """The wall clock in milliseconds, as in every event."""
    return time.time_ns() // 1_000_000


class EventLog:
    """JSON lines on stdout. Safe to call from several threads: one `write` per line."""

    def __init__(self, name: str) -> None:
        self._name = name

    def event(self, ev: str, **fields: Any) -> None:
        """Log one event now and flush it: what is not logged did not happen."""
        sys.stdout.write(json.dumps({"ev": ev, "t": now_ms(), **fields}, separators=(",", ":")) + "\n")
        sys.stdout.flush()

    def ack(self, seq: int, partition: int, offset: int) -> None:
        """Log an acknowledgement. The hot event: no flush, `flush` is called every tick."""
        sys.stdout.write(f'{{"ev":"ack","t":{now_ms()},"s":{seq},"p":{partition},"o":{offset}}}\n')

    def flush(self) -> None:
        """Hand the lines written so far to the operating system."""
        sys.stdout.flush()


class Stoppable(Protocol):
    """Something that is told when to stop."""

    def is_set(self) -> bool:
        """Whether it was told."""


class StopSignal:
    """Remembers that SIGTERM or SIGINT came."""

    def __init__(self) -> None:
        self._set = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)

    def is_set(self) -> bool:
        """Whether the signal came."""
        return self._set

    def _stop(self, _number: int, _frame: object) -> None:
        self._set = True


class Fetched(NamedTuple):
    """One record as a client library gave it."""

    partition: int
    offset: int
    value: bytes | None


Parse = Callable[[bytes | None], RecordId]
"""Which record a value is; raises ValueError for none of the demo's."""


def log_reads(log: EventLog, records: Iterable[Fetched], parse: Parse = parse_value) -> dict[int, int]:
    """Log records as read, one event per run of the same partition; returns the offsets to commit."""
    positions: dict[int, int] = {}
    for partition, group in groupby(records, key=lambda record: record.partition):
        run = list(group)
        ids = [parse(record.value) for record in run]
        log.event("read", p=partition, o=[record.offset for record in run], ids=ids)
        positions[partition] = run[-1].offset + 1
    return positions


def producer_arguments() -> argparse.Namespace:
    """Arguments of a producer: where, as whom, how fast, from which number on."""
    parser = _arguments()
    parser.add_argument("--rate", type=float, required=True, help="records per second")
    parser.add_argument("--first", type=int, required=True, help="the first sequence number to write")
    parser.add_argument("--codec", default="none")
    parser.add_argument("--partitions", type=int, required=True)
    return parser.parse_args()


def backlog_arguments() -> argparse.Namespace:
    """Arguments of a producer of the backlog: how many records, and how compressed."""
    parser = _arguments()
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--codec", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    return parser.parse_args()


def consumer_arguments() -> argparse.Namespace:
    """Arguments of a consumer: where, as whom, in which group."""
    parser = _arguments()
    parser.add_argument("--group", required=True)
    return parser.parse_args()


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--name", required=True, help="the client.id; for a producer also the name in its records")
    parser.add_argument("--tls", type=Path, default=None, help="SSL with ca.pem, NAME.crt and NAME.key of this folder")
    return parser


def librdkafka_tls(args: argparse.Namespace) -> dict[str, Any]:
    """Settings of confluent-kafka for `--tls`."""
    if args.tls is None:
        return {}
    return {
        "security.protocol": "SSL",
        "ssl.ca.location": str(args.tls / "ca.pem"),
        "ssl.certificate.location": str(args.tls / f"{args.name}.crt"),
        "ssl.key.location": str(args.tls / f"{args.name}.key"),
    }


def python_tls(args: argparse.Namespace) -> dict[str, Any]:
    """Settings of kafka-python and aiokafka for `--tls`."""
    if args.tls is None:
        return {}
    context = ssl.create_default_context(cafile=str(args.tls / "ca.pem"))
    context.load_cert_chain(args.tls / f"{args.name}.crt", args.tls / f"{args.name}.key")
    return {"security_protocol": "SSL", "ssl_context": context}


def send_at_rate(
    rate: float,
    first: int,
    stop: Stoppable,
    send: Callable[[int], None],
    idle: Callable[[float], None],
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Call `send(seq)` for first, first + 1, ... at an even rate until stopped; returns the next number.

    `idle(seconds)` is called between two ticks. A producer that was blocked does not catch up in one burst: at most
    a second's worth is made good.
    """
    seq, due, last = first, 0.0, clock()
    while not stop.is_set():
        now = clock()
        due, last = min(due + (now - last) * rate, rate), now
        while due >= 1 and not stop.is_set():
            send(seq)
            seq, due = seq + 1, due - 1
        idle(TICK_S)
    return seq
