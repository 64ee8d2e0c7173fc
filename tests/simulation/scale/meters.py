"""What a step has cost: CPU by node, what nodes have sent one another, memory."""

from __future__ import annotations

import resource
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from tests.simulation.kernel.node import CURRENT
from tests.simulation.kernel.transport import Endpoint

_TICK_S: Final = 0.001


class CpuByNode:
    """Seconds of CPU, by the name of the node whose code ran."""

    def __init__(self) -> None:
        self._ticks: Counter[str] = Counter()
        self._began = time.process_time()

    @contextmanager
    def counting(self) -> Iterator[None]:
        """For the time of the block."""
        before = signal.signal(signal.SIGPROF, self._tick)
        signal.setitimer(signal.ITIMER_PROF, _TICK_S, _TICK_S)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)

    def _tick(self, _number: int, _frame: FrameType | None) -> None:
        node = CURRENT.get(None)
        self._ticks["" if node is None else node.name] += 1

    def take(self) -> tuple[float, dict[str, float]]:
        """Since the last time: of the process, and by node. The kernel ticks less often than it is asked to."""
        found, self._ticks = self._ticks, Counter()
        began, self._began = self._began, time.process_time()
        whole, total = self._began - began, sum(found.values())
        return whole, {name: whole * count / total for name, count in found.items()}


class Sent(NamedTuple):
    """What gateways have written to their sockets. `largest`: of one write, bytes."""

    writes: int = 0
    size: int = 0
    largest: int = 0

    def and_also(self, size: int) -> Sent:
        """With one more write."""
        return Sent(self.writes + 1, self.size + size, max(self.largest, size))


class Traffic:
    """What gateways write, to one another and to the clusters. `fleet`: the names of the gateways' nodes."""

    def __init__(self, fleet: frozenset[str]) -> None:
        self._fleet = fleet
        self._to_gateways, self._to_clusters = Sent(), Sent()

    @contextmanager
    def counting(self) -> Iterator[None]:
        """For the time of the block."""
        write, count = Endpoint.write, self._count

        def counted(endpoint: Endpoint, data: Any) -> None:
            count(endpoint, len(data))
            write(endpoint, data)

        with patch.object(Endpoint, "write", counted):
            yield

    def _count(self, endpoint: Endpoint, size: int) -> None:
        if endpoint.node.name not in self._fleet:
            return
        if endpoint.peer.node.name in self._fleet:
            self._to_gateways = self._to_gateways.and_also(size)
        else:
            self._to_clusters = self._to_clusters.and_also(size)

    def take(self) -> tuple[Sent, Sent]:
        """Since the last time: to gateways, to clusters."""
        found = self._to_gateways, self._to_clusters
        self._to_gateways, self._to_clusters = Sent(), Sent()
        return found


def memory_mb() -> int:
    """Resident now, of the whole process."""
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * resource.getpagesize() >> 20
