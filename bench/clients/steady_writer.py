"""A producer that writes at a steady rate to one topic after the other, for promotes.

    python -m bench.clients.steady_writer BOOTSTRAP --mb-per-s 20

Told on stdin, answers each line: `topic NAME` (write there from now on; answers once it was acknowledged there),
`mark` (forget what was seen), `seen` (what the client felt since then, as JSON), and the end of stdin ends it.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from typing import Final

from confluent_kafka import KafkaError, Message, Producer

_RECORD_BYTES: Final = 4000
_STEP_S: Final = 0.005


class Seen:
    """What came back since the last mark."""

    def __init__(self) -> None:
        self.topic = ""
        self.errors: list[str] = []
        self.mark()

    def mark(self) -> None:
        """Begin anew."""
        self.acks = 0
        self.longest_ms = 0.0
        self.silence_ms = 0.0
        self._began = self._last = time.monotonic()

    @property
    def mb_per_s(self) -> float:
        """What was acknowledged since the mark."""
        return self.acks * _RECORD_BYTES / 1e6 / max(1e-3, time.monotonic() - self._began)

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        """A delivery report."""
        if error is not None:
            self.errors.append(str(error))
            return
        if message.topic() != self.topic:
            return
        now = time.monotonic()
        self.silence_ms = max(self.silence_ms, (now - self._last) * 1000)
        self.longest_ms = max(self.longest_ms, (message.latency() or 0.0) * 1000)
        self._last = now
        self.acks += 1


class Writer(threading.Thread):
    """Writes to `seen.topic`, and only this thread talks to the producer."""

    def __init__(self, producer: Producer, rate: float, seen: Seen) -> None:
        super().__init__(name="writer", daemon=True)
        self._producer = producer
        self._rate = rate
        self._seen = seen
        self.ending = False

    def run(self) -> None:
        """Write so many records per step that the rate holds; what a full queue refuses is not made up for."""
        value = bytes(_RECORD_BYTES)
        last, owed = time.monotonic(), 0.0
        while not self.ending:
            self._producer.poll(_STEP_S)
            now = time.monotonic()
            owed = min(owed + (now - last) * self._rate, self._rate / 10)
            last = now
            while owed >= 1 and self._seen.topic:
                try:
                    self._producer.produce(self._seen.topic, value)
                except BufferError:
                    owed = 0.0
                    break
                owed -= 1
        self._producer.flush(30)


def main() -> None:
    """Obey stdin."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("--mb-per-s", type=float, required=True)
    args = parser.parse_args()
    seen = Seen()
    settings: dict[str, str | int | bool] = {
        "bootstrap.servers": args.bootstrap,
        "enable.idempotence": True,
        "linger.ms": 5,
        "batch.size": 131_072,
        "queue.buffering.max.kbytes": 262_144,
        "log_level": 0,
    }
    producer = Producer({**settings, "on_delivery": seen.delivered})
    writer = Writer(producer, args.mb_per_s * 1e6 / _RECORD_BYTES, seen)
    writer.start()
    for line in sys.stdin:
        answer = _obey(line.split(), seen)
        if seen.errors:
            sys.exit(f"{len(seen.errors)} records failed: {seen.errors[0]}")
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()
    writer.ending = True
    writer.join()
    if seen.errors:
        sys.exit(f"{len(seen.errors)} records failed: {seen.errors[0]}")


def _obey(words: list[str], seen: Seen) -> str:
    if words[0] == "topic":
        seen.topic = words[1]
        seen.mark()
        while not seen.acks and not seen.errors:
            time.sleep(_STEP_S)
    elif words[0] == "mark":
        seen.mark()
    return json.dumps({"mb_per_s": seen.mb_per_s, "longest_ms": seen.longest_ms, "silence_ms": seen.silence_ms})


if __name__ == "__main__":
    main()
