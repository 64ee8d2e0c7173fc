"""What a topic promote is told by the store, the routes, the mirror and the source: one snapshot after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from gateway.control.context import ControlContext
from gateway.control.errors import ControlError
from gateway.control.source_ends import SourceEnds
from gateway.domain.ports import Coverage, Fences
from gateway.domain.promote import LOOK_AGAIN_S
from gateway.domain.promote_memory import PromoteMemory, TopicFacts
from gateway.domain.promote_snapshot import CopyReading, EndReading, PromoteLimits, PromoteSnapshot
from gateway.domain.records import MirrorRecord, MirrorState
from gateway.domain.routing import Phase, RoutingTable
from gateway.domain.way_home import as_promote

_READ_S = 5.0  # before the fence; under it what is left of the fence's time


@dataclass(frozen=True, slots=True, kw_only=True)
class PromoteTools:
    """What every run uses. `fences`: the live gateways by name. `on_fence_ended(link, outcome, seconds)`.

    `ends` reads the log ends of a link's source, `target_ends` those of the target, for a way home.
    """

    context: ControlContext
    routing: RoutingTable
    fences: Mapping[str, Fences]
    ends: SourceEnds
    target_ends: SourceEnds
    limits: PromoteLimits
    on_fence_ended: Callable[[str, str, float], None]
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    earliest_fence: float
    coverage: Coverage | None = None  # None: this gateway is the only one


class Gatherer:
    """Reads what the decisions of one run are made on; changes nothing but the run's memory of the source."""

    def __init__(self, tools: PromoteTools, link: str, topics: Sequence[str], memory: PromoteMemory) -> None:
        self._tools = tools
        self._context = tools.context
        self._link = link
        self._topics = tuple(topics)
        self._memory = memory
        self.homeward = any(record.is_reverse for record in self.records())

    def records(self) -> list[MirrorRecord]:
        """The stored records of the run's topics; NotFound when one is gone."""
        return [self._context.mirror(self._link, topic) for topic in self._topics]

    async def snapshot(self) -> PromoteSnapshot:
        """All that is known now. Before the fence the source is asked how far the mirror is behind it."""
        lags: Mapping[str, int] = {}
        if self._memory.fenced_at is None and not self._memory.gave_up and not self._all_stopped():
            lags = await self._lags()
        gateways = frozenset(self._tools.fences)
        facts = [self._facts(record, gateways, lags.get(record.mirror_topic)) for record in self.records()]
        found = self._memory.snapshot(
            self._tools.clock(),
            gateways,
            facts,
            earliest_fence=self._tools.earliest_fence,
            origin="target" if self.homeward else "source",
        )
        return found if self._tools.coverage is None else self._covered(found, self._tools.coverage)

    def _covered(self, found: PromoteSnapshot, coverage: Coverage) -> PromoteSnapshot:
        """With the gateways that cannot be asked, and those that went."""
        departed, began = 0, self._memory.fenced_at
        if began is not None:
            acknowledged = [frozenset(topic.acks) for topic in found.topics]
            departed = coverage.departed(began, frozenset.intersection(*acknowledged))
        landed = coverage.last_departure() + self._tools.limits.unknown_grace_s
        earliest = max(found.earliest_fence, landed)
        return replace(found, departed=departed, earliest_fence=earliest, lost=coverage.lost())

    async def read(self, timeout_s: float) -> Mapping[str, EndReading]:
        """One reading of each topic, with the mirror's positions from before it; empty if the source is away."""
        records, asked = self.records(), self._tools.clock()
        mirrored = {record.mirror_topic: self._context.engine.standing(record).mirrored for record in records}
        origins = {r.mirror_topic: r.mirror_topic if self.homeward else r.source_topic for r in records}
        wanted = {origins[record.mirror_topic]: len(record.starts) for record in records}
        ends = self._tools.target_ends if self.homeward else self._tools.ends
        try:
            found = await ends.read(self._context.link(self._link), wanted, timeout_s)
        except ControlError as exc:
            self._memory.source_failed(self._tools.clock(), str(exc))
            return {}
        self._memory.source_answered()
        answered = self._tools.clock()
        return {
            record.mirror_topic: EndReading(
                asked,
                answered,
                found[origins[record.mirror_topic]].high_watermarks,
                found[origins[record.mirror_topic]].log_ends,
                mirrored[record.mirror_topic],
                found[origins[record.mirror_topic]].partitions,
                found[origins[record.mirror_topic]].last_stable,
            )
            for record in records
        }

    async def read_copies(self, timeout_s: float) -> None:
        """Where the copies end now that nothing is appended to them; a cluster that is away is noted."""
        records = self.records()
        copies = {r.mirror_topic: r.source_topic if self.homeward else r.mirror_topic for r in records}
        wanted = {copies[record.mirror_topic]: len(record.starts) for record in records}
        ends = self._tools.ends if self.homeward else self._tools.target_ends
        try:
            found = await ends.read(self._context.link(self._link), wanted, timeout_s)
        except ControlError as exc:
            self._memory.source_failed(self._tools.clock(), str(exc))
            return
        for topic, copy in copies.items():
            marks, tops = found[copy].high_watermarks, found[copy].log_ends
            self._memory.copy_read(topic, CopyReading(marks, marks if tops is None else tops))

    async def mirrored(self, timeout_s: float) -> None:
        """Until the mirror has come to the ends last read under the fence, or the time is over."""
        ends = {(topic, index): end for topic in self._topics for index, end in enumerate(self._memory.ends(topic))}
        reached, left = asyncio.Event(), len(ends) + 1

        def one() -> None:
            nonlocal left
            left -= 1
            if not left:
                reached.set()

        for (topic, index), end in ends.items():
            self._context.progress.when(topic, index, end, one)
        one()  # there may be no ends
        if reached.is_set():  # what is waited for is something else: for the producers to be known
            await self._tools.sleep(LOOK_AGAIN_S)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await reached.wait()

    async def _lags(self) -> Mapping[str, int]:
        """Per topic the records that its last partition is behind. Also warms what the fence will need."""
        standings = [self._context.engine.standing(record) for record in self.records()]
        if any(standing.absent or standing.cold for standing in standings):
            return {}  # a mirror that has just begun here: retries over the flip need the producers' last batches
        readings = await self.read(_READ_S)
        for topic, reading in readings.items():
            self._memory.read(topic, reading)
        if any(-1 in reading.mirrored for reading in readings.values()):
            return {}
        return {
            topic: max((end - at for at, end in zip(reading.mirrored, reading.tops, strict=True)), default=0)
            for topic, reading in readings.items()
        }

    def _all_stopped(self) -> bool:
        """Flipped, all of them."""
        if self.homeward:
            return not any(record.is_reverse for record in self.records())
        return all(record.state is MirrorState.STOPPED for record in self.records())

    def _facts(self, record: MirrorRecord, gateways: frozenset[str], lag: int | None) -> TopicFacts:
        route = self._tools.routing.current.topics.get(record.mirror_topic)
        phases = dict.fromkeys(gateways, Phase.FORWARD if route is None else route.phase)
        seen, as_seen = as_promote(record, phases) if self.homeward else (record, phases)
        held_up = (fences.held_up_by(record.mirror_topic) for fences in self._tools.fences.values())
        return TopicFacts(
            record=seen,
            phases=as_seen,
            standing=self._context.engine.standing(record),
            lag=lag,
            held_up_by="; ".join(filter(None, held_up)) if self._memory.fenced_at is not None else "",
        )
