"""`python -m tests.simulation.scale`: what many partitions cost the gateways of a fleet, each step apart.

The product itself, brokers of the model, virtual time. CPU is the real one: some hundred times a second of it, it is
noted whose code runs (the node stands in a context variable). So what is counted is the gateways' own work, whatever
brokers and network would add; and time that passes is virtual, so that nothing of it is CPU.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from tests.simulation.fleet import logs
from tests.simulation.fleet.gateway_node import GatewayNode
from tests.simulation.kafka.cluster import ClusterModel
from tests.simulation.kernel.loop import SimLoop
from tests.simulation.kernel.node import CURRENT

_PER_TOPIC: Final = 20
_TICK_S: Final = 0.001
_AT_ONCE: Final = 8
_SETTLED_S: Final = 70.0
_REST_S: Final = 20.0
_PATIENCE_S: Final = 3_600.0  # virtual


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


class Scale:
    """One run."""

    def __init__(self, loop: SimLoop, partitions: int, gateways: int, promoted_at_once: int) -> None:
        self._loop = loop
        self._topics = [f"team-{number % 37}.orders-{number}" for number in range(max(1, partitions // _PER_TOPIC))]
        self._gateways = [f"gw-{number}" for number in range(gateways)]
        self._at_once = promoted_at_once
        self._cpu = CpuByNode()
        self._fleet: dict[str, GatewayNode] = {}

    async def run(self) -> None:
        """All steps, a line for each."""
        loop = self._loop
        source = ClusterModel(loop, name="source", rng=loop.random("source"))
        target = ClusterModel(loop, name="target", rng=loop.random("target"))
        await source.start()
        await target.start()
        for topic in self._topics:
            source.create_topic(topic, _PER_TOPIC, 1)
        self._fleet = {name: GatewayNode(loop, name, target.bootstrap) for name in self._gateways}
        with self._cpu.counting():
            await self._step("the fleet comes up", self._up)
            await self._step("links and mirrors are created", lambda: self._create(source.bootstrap))
            await self._step("mirrors are spread evenly", self._even)
            await asyncio.sleep(_SETTLED_S)
            self._cpu.take()
            await self._step(f"{_REST_S:g} s at rest", lambda: asyncio.sleep(_REST_S))
            if len(self._gateways) > 1:
                await self._step("a gateway is restarted in order", self._restart)
                await self._step("mirrors are spread evenly again", self._even)
            await self._step("all is promoted", self._promote)
            await asyncio.sleep(_SETTLED_S)
            self._cpu.take()
            await self._step(f"{_REST_S:g} s at rest, promoted", lambda: asyncio.sleep(_REST_S))

    async def _step(self, name: str, step: Callable[[], Awaitable[object]]) -> None:
        self._cpu.take()
        now = self._loop.time()
        await step()
        (whole, used), leader = self._cpu.take(), self._leader
        own = {one: used.get(one, 0.0) for one in self._gateways}
        others = [seconds for one, seconds in own.items() if one != leader]
        mean = sum(others) / len(others) if others else 0.0
        sys.stdout.write(
            f"{name:34} {self._loop.time() - now:8.1f} s   CPU: leader {own.get(leader, 0.0):8.2f} s, "
            f"others {mean:8.2f} s each; with the brokers {whole:8.1f} s\n"
        )
        sys.stdout.flush()

    @property
    def _leader(self) -> str:
        for one in self._fleet.values():
            if one.serves:
                return one.gateway._peering.fleet.leader
        return ""

    @property
    def _led(self) -> GatewayNode:
        return self._fleet[self._leader]

    async def _up(self) -> None:
        await asyncio.gather(*(one.start() for one in self._fleet.values()))
        await self._until(self._together)

    async def _together(self) -> bool:
        known = (await self._led.api.get("/v3/gateways")).body["data"] if self._leader else []
        return len(known) == len(self._gateways) and all(one["state"] == "up" for one in known)

    async def _create(self, source: str) -> None:
        await self._asked("/v3/links", {"link_name": "l", "configs": [{"name": "bootstrap.servers", "value": source}]})
        await self._for_each(lambda topic: self._asked("/v3/links/l/mirrors", {"source_topic_name": topic}))
        await self._until(self._are("ACTIVE"))

    async def _restart(self) -> None:
        one = next(one for name, one in sorted(self._fleet.items()) if name != self._leader)
        await one.stop()
        await one.start()
        await self._until(self._together)

    async def _promote(self) -> None:
        for at in range(0, len(self._topics), self._at_once):
            some = self._topics[at : at + self._at_once]
            await self._asked("/v3/links/l/mirrors:promote", {"mirror_topic_names": some})
            await self._until(self._are("STOPPED", some))

    # -- helpers -------------------------------------------------------------------------------------------------

    async def _even(self) -> None:
        async def is_even() -> bool:
            counts = [len(one.gateway._peering.engine.running()) for one in self._fleet.values()]
            return max(counts) - min(counts) < 2 and sum(counts) == len(self._topics) * _PER_TOPIC

        await self._until(is_even)

    def _are(self, state: str, topics: Sequence[str] = ()) -> Callable[[], Awaitable[bool]]:
        async def are() -> bool:
            mirrors = self._led.gateway._store.mirrors
            found = [mirrors[key] for topic in topics or self._topics if (key := ("l", topic)) in mirrors]
            return len(found) == len(topics or self._topics) and all(
                one.state.value == state and one.readable for one in found
            )

        return are

    async def _asked(self, path: str, body: Any) -> None:
        answer = await self._led.api.post(path, body)
        if answer.status >= 300:
            raise RuntimeError(f"{path}: {answer}")

    async def _for_each(self, work: Callable[[str], Awaitable[None]]) -> None:
        gate = asyncio.Semaphore(_AT_ONCE)

        async def one(topic: str) -> None:
            async with gate:
                await work(topic)

        await asyncio.gather(*(one(topic) for topic in self._topics))

    async def _until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(_PATIENCE_S):
            while not await condition():  # noqa: ASYNC110 - the condition asks
                await asyncio.sleep(0.2)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.scale", description=__doc__)
    parser.add_argument("--partitions", type=int, default=4_000)
    parser.add_argument("--gateways", type=int, default=3)
    parser.add_argument("--set", type=int, default=50, help="topics that are promoted as one set")
    parser.add_argument("--profile", help="write a profile of all of it to this file")
    args = parser.parse_args()
    with logs.told_to(None), SimLoop(seed=1) as loop:
        scale = Scale(loop, args.partitions, args.gateways, args.set)
        if args.profile:
            import cProfile

            cProfile.runctx("loop.run_until_complete(scale.run())", {"loop": loop, "scale": scale}, {}, args.profile)
        else:
            loop.run_until_complete(scale.run())


if __name__ == "__main__":
    main()
