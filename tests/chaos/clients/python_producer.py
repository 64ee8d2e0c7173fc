"""kafka-python's producer: numbered records at an even rate, and an eye on a library that hangs."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Mapping
from typing import Any, Final

from kafka import KafkaProducer
from kafka.errors import KafkaTimeoutError

from tests.chaos.clients.actor import Actor
from tests.chaos.clients.producers import Keys, key_of
from tests.support.clients.recorder import Recorder

ONCE: Final[Mapping[str, Any]] = {
    "acks": "all",
    "enable_idempotence": False,
    "max_in_flight_requests_per_connection": 1,
    "retries": 0,
}
"""Sends each record once. Not with librdkafka: it takes a leader that has gone for one that has not appended, and sends
again, although brokers also say so of what they have appended a moment before."""
_DELIVERY_S: Final = 90.0
_HUNG_S: Final = 2 * _DELIVERY_S  # the library itself promises an end, good or bad, within one
_AHEAD: Final = 2_000  # unanswered records at most
_FRAMES: Final = 12


class KafkaPythonProducer(Actor):
    """kafka-python's producer, idempotent as it is by default, or one that sends each record once (`ONCE`).

    Its threads were seen to stop for good: no answer, and no end by its own delivery timeout either. Then the life
    ends, what it was doing is noted, and what it has not answered stays unknown.
    """

    def __init__(
        self, recorder: Recorder, name: str, keys: Keys, rate: float, config: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(recorder, name)
        self._keys, self._rate, self._config = keys, rate, config or {}

    def live(self) -> None:
        # A write without an answer may land behind what is sent after it, unless the broker looks at sequences.
        self.opened(ordered=not self._config)
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap.split(","),
            client_id=self.process,
            linger_ms=2,
            delivery_timeout_ms=_DELIVERY_S * 1000,
            request_timeout_ms=10_000,
            reconnect_backoff_max_ms=500,
            max_block_ms=60_000,
            **self._config,
        )
        self._unanswered, self._heard, self._fatal = 0, time.monotonic(), False
        try:
            number, due = 0, time.monotonic()
            while not self.stopping.wait(max(0.0, due - time.monotonic())) and not self._fatal:
                due = max(due + 1 / self._rate, time.monotonic() - 1)
                if self._unanswered < _AHEAD:
                    self._send(producer, number)
                    number += 1
                if self._unanswered and time.monotonic() - self._heard > _HUNG_S:
                    return self._hangs()
            self._flush(producer)
        finally:
            producer.close(timeout=5)

    def _flush(self, producer: Any) -> None:
        try:
            producer.flush(timeout=_DELIVERY_S + 5)
        except KafkaTimeoutError:  # longer than the library itself gives any record
            self._hangs()
            raise

    def _hangs(self) -> None:
        self.hung.append(self.process)
        self.failed(f"hangs:\n{stacks_of(self.process)}")

    def _send(self, producer: Any, number: int) -> None:
        (topic, partition), process = self._keys[number % len(self._keys)], self.process
        key, value = key_of(topic, partition), f"{process}:{number}"

        def done(metadata: Any) -> None:
            self._answered()
            told = metadata.offset if metadata.offset >= 0 else None
            self.recorder.write("ok", process, "send", [["send", key, [told, value]]], number)

        def failed(error: BaseException) -> None:
            self._answered()
            self._fatal = self._fatal or (not self._config and not getattr(error, "retriable", True))
            self.failed(f"{key}: {error!r}")
            self.recorder.write("unknown", process, "send", [["send", key, value]], number)

        if not self._unanswered:
            self._heard = time.monotonic()
        self._unanswered += 1
        self.recorder.write("invoke", process, "send", [["send", key, value]], number)
        future = producer.send(topic, value=value.encode(), partition=partition)
        future.add_callback(done)
        future.add_errback(failed)

    def _answered(self) -> None:
        self._unanswered -= 1
        self._heard = time.monotonic()


def stacks_of(name: str) -> str:
    """What the threads with `name` in their names are doing: their last few calls."""
    frames = sys._current_frames()
    threads = [thread for thread in threading.enumerate() if name in thread.name and thread.ident in frames]
    stacks = (traceback.format_stack(frames[thread.ident])[-_FRAMES:] for thread in threads if thread.ident)
    return "\n".join(f"{thread.name}:\n{''.join(lines)}" for thread, lines in zip(threads, stacks, strict=True))
