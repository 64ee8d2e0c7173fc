"""One run: a fleet comes up, mirrors many partitions, loses a gateway and gets it back, is asked, promotes them all."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from cProfile import Profile
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import httpx

from tests.simulation.fleet.gateway_node import GatewayNode
from tests.simulation.kafka.cluster import ClusterModel
from tests.simulation.kernel.loop import SimLoop
from tests.simulation.scale.meters import CpuByNode, Sent, Traffic, memory_mb

_AT_ONCE: Final = 8
_SETTLED_S: Final = 70.0
_REST_S: Final = 20.0
_PATIENCE_S: Final = 36_000.0  # virtual


class Size(NamedTuple):
    """Of a run. `promoted_at_once`: topics of a set."""

    partitions: int
    per_topic: int = 20
    gateways: int = 3
    promoted_at_once: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one step has cost. `virtual_s`: of the loop's clock; else seconds of CPU: of the gateway that leads, of each
    other one, of the process with its brokers. `calls`: of functions of the product, of a run that counts them."""

    name: str
    virtual_s: float
    leader_s: float
    others_s: float
    whole_s: float
    to_gateways: Sent
    to_clusters: Sent
    memory_mb: int
    calls: int = 0

    def __str__(self) -> str:
        return (
            f"{self.name:32} {self.virtual_s:7.1f} s   CPU: leader {self.leader_s:7.2f} s, "
            f"others {self.others_s:7.2f} s each, all {self.whole_s:7.1f} s   {_said('gateways', self.to_gateways)}; "
            f"{_said('clusters', self.to_clusters)}; {self.memory_mb} MB"
        )


class Scale:
    """See the module.

    Args:
        profile: of each step, written to a file whose name begins with `profiles` if that is given.
        rest_s: at rest, each time; `settled_s`: before.
        has_cpu: seconds of CPU are counted, by signals.
    """

    def __init__(
        self,
        loop: SimLoop,
        size: Size,
        *,
        profile: Profile | None = None,
        profiles: str = "",
        rest_s: float = _REST_S,
        settled_s: float = _SETTLED_S,
        has_cpu: bool = True,
    ) -> None:
        self._rest_s, self._settled_s, self._has_cpu = rest_s, settled_s, has_cpu
        self._loop = loop
        self._size = size
        count = max(1, size.partitions // size.per_topic)
        self._topics = [f"team-{number % 37}.orders-{number}" for number in range(count)]
        self._gateways = [f"gw-{number}" for number in range(size.gateways)]
        self._cpu = CpuByNode()
        self._traffic = Traffic(frozenset(self._gateways))
        self._profile, self._profiles = profile, profiles
        self._fleet: dict[str, GatewayNode] = {}
        self.steps: list[Step] = []
        self.on_step: Callable[[Step], None] = _show

    async def run(self) -> None:
        """All steps."""
        loop = self._loop
        source = ClusterModel(loop, name="source", rng=loop.random("source"))
        target = ClusterModel(loop, name="target", rng=loop.random("target"))
        await source.start()
        await target.start()
        for topic in self._topics:
            source.create_topic(topic, self._size.per_topic, 1)
        self._fleet = {name: GatewayNode(loop, name, target.bootstrap) for name in self._gateways}
        with ExitStack() as counting:
            if self._has_cpu:
                counting.enter_context(self._cpu.counting())
            counting.enter_context(self._traffic.counting())
            await self._steps(source.bootstrap)

    async def _steps(self, source: str) -> None:
        await self._step("the fleet comes up", self._up)
        await self._step("links and mirrors are created", lambda: self._create(source))
        await self._step("mirrors are spread evenly", self._even)
        await asyncio.sleep(self._settled_s)
        await self._step("at rest", lambda: asyncio.sleep(self._rest_s))
        await self._step("all are listed", self._list)
        if len(self._gateways) > 1:
            await self._step("a gateway leaves", self._leave)
            await self._step("its mirrors are spread", self._even)
            await self._step("it starts again: reads the state", self._join)
            await self._step("mirrors are spread evenly again", self._even)
        await self._step("all is promoted", self._promote)
        await asyncio.sleep(self._settled_s)
        await self._step("at rest, promoted", lambda: asyncio.sleep(self._rest_s))

    async def _step(self, name: str, step: Callable[[], Awaitable[object]]) -> None:
        self._cpu.take()
        self._traffic.take()
        now = self._loop.time()
        if self._profile is not None:
            self._profile.clear()
            self._profile.enable()
        await step()
        if self._profile is not None:
            self._profile.disable()
        (whole, used), leader = self._cpu.take(), self._leader
        own = {one: used.get(one, 0.0) for one in self._gateways}
        others = [seconds for one, seconds in own.items() if one != leader]
        to_gateways, to_clusters = self._traffic.take()
        found = Step(
            name=name,
            virtual_s=self._loop.time() - now,
            leader_s=own.get(leader, 0.0),
            others_s=sum(others) / len(others) if others else 0.0,
            whole_s=whole,
            to_gateways=to_gateways,
            to_clusters=to_clusters,
            memory_mb=memory_mb(),
            calls=0 if self._profile is None else _calls(self._profile),
        )
        self.steps.append(found)
        self.on_step(found)
        if self._profile is not None and self._profiles:
            self._profile.dump_stats(f"{self._profiles}{len(self.steps):02d}.prof")

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

    async def _leave(self) -> None:
        self._left = next(one for name, one in sorted(self._fleet.items()) if name != self._leader)
        await self._left.stop()

    async def _join(self) -> None:
        await self._left.start()
        await self._until(self._together)

    async def _list(self) -> None:
        url, size, pages = "/v3/links/l/mirrors", 0, 0
        while url:
            answer = (await self._led.api.get(url)).body
            size, pages = size + len(json.dumps(answer)), pages + 1
            following = httpx.URL(answer["metadata"]["next"] or "")
            url = following.raw_path.decode() if following.query else ""
        sys.stdout.write(f"  {size / 1e6:.1f} MB in {pages} answers\n")

    async def _promote(self) -> None:
        for at in range(0, len(self._topics), self._size.promoted_at_once):
            some = self._topics[at : at + self._size.promoted_at_once]
            await self._asked("/v3/links/l/mirrors:promote", {"mirror_topic_names": some})
            await self._until(self._are("STOPPED", some))

    # -- helpers -------------------------------------------------------------------------------------------------

    async def _even(self) -> None:
        serving = [one for one in self._fleet.values() if one.serves]

        async def is_even() -> bool:
            counts = [len(one.gateway._peering.mirrors.here()) for one in serving]
            return max(counts) - min(counts) < 2 and sum(counts) == len(self._topics) * self._size.per_topic

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


def _said(to: str, sent: Sent) -> str:
    return f"to {to} {sent.writes} x, {sent.size / 1e6:.2f} MB, at most {sent.largest / 1e3:.0f} kB"


def _show(step: Step) -> None:
    sys.stdout.write(f"{step}\n")
    sys.stdout.flush()


def _calls(profile: Profile) -> int:
    """How often functions of the product were called."""
    return sum(
        entry.callcount
        for entry in profile.getstats()
        if not isinstance(entry.code, str) and "/gateway/" in entry.code.co_filename
    )
