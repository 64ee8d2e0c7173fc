"""For how long a partition is not mirrored: the longest time between two arrivals on the target.

Every partition of the topic must be written to all the time, at some hundred records a second: what is measured is
the writer's own pause between two records, and the mirror's. Gateways are not asked: it is what a consumer sees.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Self

from confluent_kafka import OFFSET_END, Consumer, TopicPartition

_POLL_S = 0.01


class MirrorGaps:
    """Reads a topic of the target from its end on, in the background, and notes when records arrive (monotonic s)."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._arrivals: dict[int, list[float]] = defaultdict(list)
        self._stopping = threading.Event()
        self._partitions = partitions
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "mirror-gaps",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 5,
                "fetch.error.backoff.ms": 5,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, index, OFFSET_END) for index in range(partitions)])
        self._thread = threading.Thread(target=self._run, name="mirror gaps", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            messages = self._consumer.consume(500, _POLL_S)
            now = time.monotonic()
            for index in {message.partition() for message in messages if message.error() is None}:
                self._arrivals[index or 0].append(now)

    def flows(self, since: float) -> bool:
        """Every partition has got something after `since`."""
        return all(self._arrivals[index][-1:] > [since] for index in range(self._partitions))

    def longest(self, since: float, until: float, partitions: Sequence[int] | None = None) -> dict[int, float]:
        """Per partition the longest time without an arrival, in seconds, of those that overlap since..until."""
        found = {}
        for index in range(self._partitions) if partitions is None else partitions:
            times = list(self._arrivals[index])
            pairs = pairwise(times)
            found[index] = max((b - a for a, b in pairs if b >= since and a <= until), default=float("inf"))
        return found


def percentile(values: Sequence[float], share: float) -> float:
    """The value that so large a share of them does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
