"""One producer for a test: writes numbered records until its input ends, and says on stdout what became of each.

Run as `python produce.py JSON`; see `Options`. A record's key is `NAME NUMBER`, with ` aborted` in a transaction that
will be aborted; its value has a size that goes round in `sizes`. Lines of output: `{"ack": n}`, `{"from": n, "to": m}`
for a committed transaction, `{"aborted": m}`, `{"error": text}`, `{"stopped": n}`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Any

TRANSACTION = 10  # records
ABORT_EVERY = 4


@dataclass
class Options:
    """`config`: the library's own names."""

    library: str
    bootstrap: str
    topic: str
    name: str
    partitions: int
    rate: int
    transactional: bool = False
    sizes: list[int] = field(default_factory=lambda: [100])
    config: dict[str, Any] = field(default_factory=dict)


def say(**event: Any) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


class Stop(threading.Event):
    """Set when the input ends."""

    def __init__(self) -> None:
        super().__init__()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        sys.stdin.read()
        self.set()


class Numbers:
    """What to write next, and when: at an even rate."""

    def __init__(self, options: Options) -> None:
        self.options, self.next = options, 0
        self._due = time.monotonic()

    def pause_s(self, records: int = 1) -> float:
        self._due += records / self.options.rate
        return max(0.0, self._due - time.monotonic())

    def record(self, n: int, *, abort: bool = False) -> tuple[int, bytes, bytes]:
        options = self.options
        key = f"{options.name} {n}{' aborted' if abort else ''}".encode()
        return n % options.partitions, key, b"v" * options.sizes[n % len(options.sizes)]

    def aborts(self) -> bool:
        return self.next // TRANSACTION % ABORT_EVERY == ABORT_EVERY - 1


def librdkafka(options: Options, stop: Stop) -> None:
    from confluent_kafka import Producer

    identity = {"transactional.id": options.name} if options.transactional else {}
    producer = Producer(
        {"bootstrap.servers": options.bootstrap, "linger.ms": 5, "log_level": 0, **identity, **options.config}
    )
    numbers = Numbers(options)
    fails: list[str] = []

    def send(n: int, abort: bool = False) -> None:
        partition, key, value = numbers.record(n, abort=abort)

        def delivered(error: object, _: object) -> None:
            if error is not None:
                fails.append(str(error))
                say(error=f"{n}: {error}")
            elif not options.transactional:
                say(ack=n)

        producer.produce(options.topic, value, key, partition=partition, on_delivery=delivered)

    if not options.transactional:
        while not stop.is_set():
            send(numbers.next)
            numbers.next += 1
            producer.poll(numbers.pause_s())
        producer.flush(60)
        return
    producer.init_transactions(60)
    while not stop.is_set():
        first, abort = numbers.next, numbers.aborts()
        producer.begin_transaction()
        for n in range(first, first + TRANSACTION):
            send(n, abort)
        numbers.next += TRANSACTION
        if abort:
            producer.flush(60)
            producer.abort_transaction(60)
            say(aborted=first)
        else:
            producer.commit_transaction(60)
            say(**{"from": first, "to": numbers.next})
        stop.wait(numbers.pause_s(TRANSACTION))


def kafka_python(options: Options, stop: Stop) -> None:
    from kafka import KafkaProducer

    identity = {"transactional_id": options.name} if options.transactional else {}
    producer = KafkaProducer(bootstrap_servers=options.bootstrap, linger_ms=5, **identity, **options.config)
    numbers = Numbers(options)
    if options.transactional:
        producer.init_transactions()
    while not stop.is_set():
        first, abort = numbers.next, options.transactional and numbers.aborts()
        if options.transactional:
            producer.begin_transaction()
        futures = []
        for n in range(first, first + TRANSACTION):
            partition, key, value = numbers.record(n, abort=abort)
            future = producer.send(options.topic, value, key, partition=partition)
            if not options.transactional:
                future.add_callback(lambda _, n=n: say(ack=n))
            future.add_errback(lambda error, n=n: say(error=f"{n}: {error!r}"))
            futures.append(future)
        numbers.next += TRANSACTION
        if abort:
            producer.flush()
            producer.abort_transaction()
            say(aborted=first)
        elif options.transactional:
            producer.commit_transaction()
            say(**{"from": first, "to": numbers.next})
        stop.wait(numbers.pause_s(TRANSACTION))
    producer.flush(60)
    producer.close()


async def aiokafka(options: Options, stop: Stop) -> None:
    from aiokafka import AIOKafkaProducer

    identity = {"transactional_id": options.name} if options.transactional else {}
    producer = AIOKafkaProducer(bootstrap_servers=options.bootstrap, linger_ms=5, **identity, **options.config)
    numbers = Numbers(options)
    await producer.start()
    pending: set[asyncio.Future[Any]] = set()

    def done(n: int, future: asyncio.Future[Any]) -> None:
        pending.discard(future)
        if future.exception() is not None:
            say(error=f"{n}: {future.exception()!r}")
        elif not options.transactional:
            say(ack=n)

    async def send(n: int, abort: bool = False) -> None:
        partition, key, value = numbers.record(n, abort=abort)
        future = await producer.send(options.topic, value, key, partition=partition)
        pending.add(future)
        future.add_done_callback(lambda future: done(n, future))

    while not stop.is_set():
        first, abort = numbers.next, options.transactional and numbers.aborts()
        if options.transactional:
            await producer.begin_transaction()
        for n in range(first, first + TRANSACTION):
            await send(n, abort)
        numbers.next += TRANSACTION
        if abort:
            await producer.flush()
            await producer.abort_transaction()
            say(aborted=first)
        elif options.transactional:
            await producer.commit_transaction()
            say(**{"from": first, "to": numbers.next})
        await asyncio.sleep(numbers.pause_s(TRANSACTION))  # noqa: TID251 - the rate of the producer
    await producer.flush()
    await producer.stop()


def main() -> None:
    options, stop = Options(**json.loads(sys.argv[1])), Stop()
    try:
        if options.library == "aiokafka":
            asyncio.run(aiokafka(options, stop))
        else:
            {"librdkafka": librdkafka, "kafka-python": kafka_python}[options.library](options, stop)
    except Exception as error:  # noqa: BLE001 - whatever an application would be shown is what the test is about
        say(error=repr(error))
    say(stopped=True)


if __name__ == "__main__":
    main()
