"""What is done with all partitions at once, each by itself: `python -m tests.simulation.scale --rounds`.

A gateway that starts reads the state; the leader assigns, and tells the group; every gateway reads that, and decides
what it runs. No brokers, no network: the functions of the product, and how long their answers are.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Any, Final, NamedTuple, TypeVar, cast

from gateway.cutover.write_pause.publisher import RoutingPublisher
from gateway.cutover.write_pause.rules.routing import RoutingTable
from gateway.fleet.mirrors import FleetMirrors
from gateway.fleet.rules.assignment import (
    PACKED,
    FleetAssignment,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from gateway.fleet.rules.membership import FleetMember, FleetRole, assign, balanced
from gateway.fleet.rules.ownership import spread
from gateway.mirror.rules.period import MirrorPartition
from gateway.mirror.rules.progress import MirrorProgress
from gateway.state.codec import Record, decode, encode, key_of
from gateway.state.records import LinkRecord, MirrorRecord, PartitionStart
from gateway.state.views import StateViews
from tests.simulation.scale.meters import memory_mb
from tests.simulation.scale.table_engine import TableEngine

_LINK: Final = LinkRecord(name="l", link_id=1, source_cluster_id="s", client={"bootstrap.servers": "source:9092"})
_T = TypeVar("_T")


class Cost(NamedTuple):
    """`size`: bytes of what it answers, 0 where that is no message. `times`: how often it is done for one event."""

    name: str
    cpu_s: float
    size: int = 0
    times: int = 1

    def __str__(self) -> str:
        size = f", {self.size / 1e3:9.1f} kB" if self.size else ""
        return f"{self.name:58} {self.cpu_s * 1e3:9.1f} ms{size}{f'   {self.times} times' if self.times > 1 else ''}"


class _Silent:
    """A channel to nobody: `Peers`."""

    def __init__(self) -> None:
        self.handlers: dict[str, Any] = {}
        self.on_gone: Callable[[str], None] = lambda peer: None
        self.said = self.told = 0

    def connected(self) -> frozenset[str]:
        return frozenset()

    def expected(self) -> frozenset[str]:
        return frozenset()

    def heartbeat(self, body: Mapping[str, Any]) -> None:
        self.said = len(json.dumps(body, separators=(",", ":")))

    def tell(self, peer: str, body: Mapping[str, Any]) -> bool:
        self.told = len(json.dumps(body, separators=(",", ":")))
        return True

    async def ask(self, peer: str, what: str, body: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
        return {"tables": []}


class Rounds:
    """`costs`: in order."""

    def __init__(self, partitions: int, per_topic: int = 20, gateways: int = 10) -> None:
        self._names = [f"gw-{number}.example.com:9092" for number in range(gateways)]
        self._mirrors = [
            MirrorRecord(
                link="l",
                source_topic=f"team-{number % 37}.orders-{number}",
                mirror_topic=f"team-{number % 37}.orders-{number}",
                mirror_id=number,
                source_topic_id="ZmFrZSBpZCBvZiBhIHRvcA",
                mirror_topic_id="ZmFrZSBpZCBvZiBhIHRvcA",
                starts=(PartitionStart(0, 0),) * per_topic,
                readable=True,
            )
            for number in range(partitions // per_topic)
        ]
        self.costs: list[Cost] = []

    def run(self) -> None:
        """All of it."""
        asyncio.run(self._run())

    async def _run(self) -> None:
        records: list[Record] = [_LINK, *self._mirrors]
        entries = [(key_of(record), encode(record)) for record in records]
        size = sum(len(key) + len(value) for key, value in entries)
        views = StateViews()
        with self._costs("state read by a gateway that starts: decoded", size):
            found = [(key, decode(key, value)) for key, value in entries]
        RoutingPublisher(cast("Any", views), RoutingTable(), lambda: 0.0)
        with self._costs("state taken into views and routes"):
            views.apply(found, len(found))
        wanted = self._costs_of("leader: what there is to give out", lambda: spread(views.mirrors.values()))
        owned = self._costs_of(
            "leader: assigned for the first time", lambda: assign(dict.fromkeys(self._names, frozenset()), wanted)
        )
        mixed = [each for held in owned.values() for each in held]
        Random(1).shuffle(mixed)  # as after many rounds: an assignment in order is packed to next to nothing
        count = len(self._names)
        await self._told(views, {name: frozenset(mixed[at::count]) for at, name in enumerate(self._names)})
        left = {name: held for name, held in owned.items() if name != self._names[-1]}
        self._even("a gateway leaves", left, wanted)
        full = assign(left, wanted)
        self._even("a gateway joins", full | {self._names[-1]: frozenset()}, wanted)

    def _even(self, what: str, owned: Mapping[str, frozenset[MirrorPartition]], wanted: Any) -> None:
        """Rounds until the fleet is even."""
        rounds, began = 0, time.process_time()
        while True:
            owned = assign(owned, wanted)
            rounds += 1
            if balanced(owned):
                break
        self.costs.append(Cost(f"leader: {what}: one round", (time.process_time() - began) / rounds, times=rounds))

    async def _told(self, views: StateViews, owned: Mapping[str, frozenset[MirrorPartition]]) -> None:
        me = self._names[0]
        gateway = FleetMember(name=me, incarnation="i", role=FleetRole.NODE, peer=me, lease_s=600.0, owned=owned[me])
        said = self._costs_of("what a gateway says of itself: encoded", lambda: encode_subscription(gateway), len)
        self._costs_of("the same decoded, by the leader", lambda: decode_subscription(said))
        assignment = FleetAssignment(leader=self._names[-1], peers=dict.fromkeys(self._names, "host:1"), owners=owned)
        told = self._costs_of("assignment: encoded, by the leader", lambda: encode_assignment(assignment, PACKED), len)
        read = self._costs_of("the same decoded, by each gateway", lambda: decode_assignment(told))
        peers, progress = _Silent(), MirrorProgress()
        engine = TableEngine(cast("Any", None), progress, cast("Any", None))
        mirrors = FleetMirrors(
            name=me, peers=cast("Any", peers), engine=engine, progress=progress, records=views, clock=lambda: 0.0
        )
        for record in self._mirrors:
            engine.start_mirror(record)
        before = memory_mb()
        with self._costs("the first assignment is decided on, by each gateway"):
            mirrors.assigned(read)
            while len(mirrors.here()) < len(owned[me]):  # noqa: ASYNC110 - what it waits for takes no time
                await asyncio.sleep(0)
        sys.stdout.write(f"  who mirrors what, at a gateway: {memory_mb() - before} MB\n")
        moved = dict(owned) | {me: owned[me] - set(sorted(owned[me])[:50])}
        again = decode_assignment(encode_assignment(replace(assignment, owners=moved), PACKED))
        with self._costs("another assignment is decided on, of which 50 moved"):
            mirrors.assigned(again)
        one = self._mirrors[0]
        views.apply([(key_of(one), one)], views.applied + 1)
        with self._costs("a record of one mirror is decided on"):
            mirrors.decide()
        with self._costs("a heartbeat with a piece of what lies still"):
            mirrors._heartbeats.heartbeat()
        self.costs[-1] = self.costs[-1]._replace(size=peers.said)
        self.costs.append(Cost("what the leader is told with it", 0.0, peers.told))
        with self._costs("somebody is silent: decided on, by each gateway"):
            mirrors._heartbeats.silent = frozenset(self._names[1:2])
            mirrors.decide()
        await mirrors.close()

    def _costs_of(self, name: str, work: Callable[[], _T], size: Callable[[Any], int] = lambda _: 0) -> _T:
        began = time.process_time()
        found = work()
        self.costs.append(Cost(name, time.process_time() - began, size(found)))
        return found

    @contextmanager
    def _costs(self, name: str, size: int = 0) -> Iterator[None]:
        began = time.process_time()
        yield
        self.costs.append(Cost(name, time.process_time() - began, size))
