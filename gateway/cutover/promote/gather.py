"""Gathers a topic promote's snapshots from the store, the gateways, the mirror and the source."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from gateway.cutover.failback.rules.failback_promote import as_promote
from gateway.cutover.promote.rules.memory import PromoteMemory, TopicObservations
from gateway.cutover.promote.rules.promote import LOOK_AGAIN_S
from gateway.cutover.promote.rules.snapshot import CopyReading, EndReading, PromoteLimits, PromoteSnapshot
from gateway.cutover.write_pause.interface import Coverage, PausesWrites
from gateway.cutover.write_pause.publisher import RoutingPublisher
from gateway.cutover.write_pause.rules.routing import RoutingTable
from gateway.errors import Conflict, ControlError
from gateway.groups.moves import GroupMoves, GroupSet
from gateway.kafka.connection.errors import NetError
from gateway.mirror.interface import MirrorEngine
from gateway.mirror.rules.progress import MirrorProgress
from gateway.operations.origin_ends import Asked, SourceEnds
from gateway.operations.records import Records
from gateway.state.records import LinkRecord, MirrorRecord, MirrorState
from gateway.state.store import ProducerFenced, StoreError
from gateway.topics.config_sync import LastConfigs, LastReading
from gateway.topics.lifted_configs import LiftedConfigs
from gateway.transport.locks import KeyedLocks

_ACLS_S = 10.0
_KEPT_S = 3.0
_READ_S = 5.0  # before the write pause; under it, the rest of the pause's time


@dataclass(frozen=True, slots=True, kw_only=True)
class PromoteTools:
    """Shared by all runs. `pauses`: the live gateways by name. `on_pause_ended(link, topics, outcome, seconds, steps)`:
    `steps`: step -> seconds.
    `earliest_pause`: by `clock`; by then the writes in flight of a killed predecessor have landed. `go_on(link,
    topic)`: continue a failback whose record says so.

    `ends` reads the log ends of a link's source, `target_ends` those of the target, for a failback.
    """

    records: Records
    engine: MirrorEngine
    progress: MirrorProgress
    publisher: RoutingPublisher
    lifted: LiftedConfigs
    configs: LastConfigs
    acls: FollowsAcls
    locks: KeyedLocks
    routing: RoutingTable
    pauses: Mapping[str, PausesWrites]
    ends: SourceEnds
    target_ends: SourceEnds
    limits: PromoteLimits
    on_pause_ended: Callable[[str, Sequence[str], str, float, Mapping[str, float]], None]
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    earliest_pause: float
    go_on: Callable[[str, str], None]
    coverage: Coverage | None = None  # None: this gateway is the only one
    schema_gate: SchemaGate | None = None  # None: schema ids are not checked
    missing_ids: Callable[[str, Sequence[str]], str] = lambda link, topics: (
        ""
    )  # (link, mirror topics) -> ids waited for
    groups: GroupMoves | None = None  # None: topics only
    keep_ms: Callable[[MirrorRecord], int] = lambda record: 0  # how long to keep a mirror back; 0: none begins


OthersOnly = Callable[[LinkRecord, MirrorRecord, Mapping[int, tuple[int, int]]], Awaitable[frozenset[int]]]
"""`RecordsAfterCutover.others_only`."""


class SchemaGate(Protocol):
    """`schemas/gate.py`."""

    def waits(self, link: str, topics: Sequence[str]) -> str:
        """Why a promote of these mirror topics must wait; '' when it need not. Does no I/O."""

    async def check(self, link: str, topics: Sequence[str]) -> None:
        """Refuse a promote if the link's configs say so. Raises Conflict, which names the ids."""


class FollowsAcls(Protocol):
    """`access/acl_sync.py`."""

    async def follow(self, name: str) -> None:
        """Bring the target's ACLs up to date for the mirror topics' states. Raises ControlError, StoreError."""


class Gatherer:
    """Reads the inputs of one run's decisions; changes only the run's memory."""

    def __init__(
        self,
        tools: PromoteTools,
        link: str,
        topics: Sequence[str],
        memory: PromoteMemory,
        *,
        groups: Sequence[str] = (),
        forced: bool = False,
        keeps: OthersOnly | None = None,
    ) -> None:
        """`groups`: change sides with the topics. `forced`: skip the schema gate. `keeps`: late writes on the source
        are kept; returns the partitions with nothing else beyond the mirror's position."""
        self._tools = tools
        self._link = link
        self._topics = tuple(topics)
        self._memory = memory
        self.forced = forced
        self._keeps = keeps
        self.is_failback = any(record.is_reverse for record in self.records())
        self._configs: LastReading | None = None
        self.groups: GroupSet | None = None
        if groups:
            if tools.groups is None:
                raise Conflict(f"group '{groups[0]}' cannot change sides with topics here")
            self.groups = tools.groups.of(link, topics, groups, home=self.is_failback)

    def records(self) -> list[MirrorRecord]:
        """The stored records of the run's topics; NotFound when one is gone."""
        return [self._tools.records.mirror(self._link, topic) for topic in self._topics]

    async def snapshot(self) -> PromoteSnapshot:
        """The present snapshot. Before the write pause it asks the source how far the mirror lags."""
        lags: Mapping[str, int] = {}
        if self._memory.paused_at is None and not self._memory.gave_up and not self.all_stopped():
            lags = await self._lags()
        gateways = frozenset(self._tools.pauses)
        pauses = tuple(self._tools.pauses.values()) if self._memory.paused_at is not None else ()
        facts = [self._facts(record, gateways, lags.get(record.mirror_topic), pauses) for record in self.records()]
        found = self._memory.snapshot(
            self._tools.clock(),
            gateways,
            facts,
            earliest_pause=self._tools.earliest_pause,
            origin="target" if self.is_failback else "source",
        )
        if self.groups is not None:
            moving = self.groups
            found = replace(found, groups=moving.facts(), groups_since=moving.since, group_error=moving.error)
        if self._memory.paused_at is None:
            found = replace(found, most_batches=self._tools.records.store.most_batches)
        if self._memory.paused_at is None and not self.is_failback:
            found = replace(found, schema_gate=self._schemas())
        return found if self._tools.coverage is None else self._covered(found, self._tools.coverage)

    def _schemas(self) -> str:
        """The schema ids to wait for before the write pause: otherwise the mirror would wait for them under it."""
        gate = self._tools.schema_gate
        missing = self._tools.missing_ids(self._link, self._topics)
        return missing or ("" if gate is None or self.forced else gate.waits(self._link, self._topics))

    def _covered(self, found: PromoteSnapshot, coverage: Coverage) -> PromoteSnapshot:
        """Add the gateways that cannot be asked, and those that left."""
        departed, began = 0, self._memory.paused_at
        if began is not None:
            acknowledged = [frozenset(topic.acks) for topic in found.topics]
            departed = coverage.departed(began, frozenset.intersection(*acknowledged))
        landed = coverage.last_departure() + self._tools.limits.unknown_grace_s
        earliest = max(found.earliest_pause, landed)
        return replace(found, departed=departed, earliest_pause=earliest, lost=coverage.lost())

    async def read(self, timeout_s: float) -> Mapping[str, EndReading]:
        """One reading of each topic, with the mirror's positions from before it; empty if the origin is unreachable."""
        records, asked = self.records(), self._tools.clock()
        mirrored = {record.mirror_topic: self._tools.engine.running_partitions(record).mirrored for record in records}
        origins = {r.mirror_topic: r.mirror_topic if self.is_failback else r.source_topic for r in records}
        wanted = {origins[record.mirror_topic]: len(record.starts) for record in records}
        ends = self._tools.target_ends if self.is_failback else self._tools.ends
        try:
            # Before the write pause only the mirror's lag matters: no record above the high watermark can be mirrored,
            # and transactions come and go.
            what = Asked.MARKS if self._memory.paused_at is None else Asked.TRANSACTIONS
            found = await ends.read(self._tools.records.link(self._link), wanted, timeout_s, what)
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
                found[origins[record.mirror_topic]].transactions,
            )
            for record in records
        }

    async def read_configs(self, timeout_s: float = _READ_S) -> None:
        """Read the configs that the copies take from their origins; a failure is noted.

        After the first reading, only changes on the origin are read.
        """
        link = self._tools.records.link(self._link)
        try:
            async with asyncio.timeout(timeout_s):
                self._configs = await self._tools.configs.read(link, self.records(), self._configs)
        except (ControlError, NetError, TimeoutError, OSError) as exc:
            self._memory.configs_failed(str(exc) or "no answer in time")
        else:
            self._memory.configs(self._configs.restore)

    async def sync_acls(self) -> None:
        """Bring the target's ACLs up to date; a failure is noted."""
        cut_over, error = self.all_stopped(), ""
        try:
            async with asyncio.timeout(_ACLS_S):
                await self._tools.acls.follow(self._link)
        except ProducerFenced:
            raise
        except (ControlError, NetError, StoreError, TimeoutError, OSError) as exc:
            error = str(exc) or "not done in time"
        self._memory.acls_synced(cut_over, error)

    async def read_copies(self, timeout_s: float) -> None:
        """Read where the copies end after the last append; a cluster that does not answer is noted.

        This is the last read before the cutover, so it also reads how many partitions the origins have.
        """
        records = self.records()
        origins = {r.mirror_topic: r.mirror_topic if self.is_failback else r.source_topic for r in records}
        copies = {r.mirror_topic: r.source_topic if self.is_failback else r.mirror_topic for r in records}
        wanted = {copies[record.mirror_topic]: len(record.starts) for record in records}
        tools, link = self._tools, self._tools.records.link(self._link)
        of_copies, of_origins = tools.target_ends, tools.ends
        if self.is_failback:
            of_copies, of_origins = of_origins, of_copies
        try:
            found, counts = await asyncio.gather(
                of_copies.read(link, wanted, timeout_s, Asked.LOG_ENDS),
                of_origins.read(
                    link, {origins[topic]: wanted[copy] for topic, copy in copies.items()}, timeout_s, Asked.COUNTS
                ),
            )
        except ControlError as exc:
            self._memory.source_failed(self._tools.clock(), str(exc))
            return
        for topic, origin in origins.items():
            self._memory.counted(topic, counts[origin].partitions)
        for topic, copy in copies.items():
            marks, log_end_offsets = found[copy].high_watermarks, found[copy].log_ends
            ends = marks if log_end_offsets is None else log_end_offsets
            kept = await self._kept(topic, ends)
            self._memory.copy_read(topic, CopyReading(marks, ends, found[copy].thin, kept))

    async def _kept(self, topic: str, ends: Sequence[int]) -> frozenset[int]:
        """The partitions of a copy on the source with only kept late writes beyond the mirror's position."""
        handed = self._memory.handed(topic)
        if self._keeps is None or handed is None or not self.is_failback:
            return frozenset()
        beyond = {index: (at, end) for index, (at, end) in enumerate(zip(handed.copied, ends, strict=True)) if end > at}
        if not beyond:
            return frozenset()
        records = self._tools.records
        try:
            async with asyncio.timeout(_KEPT_S):
                return await self._keeps(records.link(self._link), records.mirror(self._link, topic), beyond)
        except (ControlError, NetError, TimeoutError, OSError):
            return frozenset()  # unknown: the promote is given up, and says so

    async def mirrored(self, timeout_s: float) -> None:
        """Wait until the mirror has reached the ends last read under the write pause, at most `timeout_s`."""
        ends = {(topic, index): end for topic in self._topics for index, end in enumerate(self._memory.ends(topic))}
        reached, left = asyncio.Event(), len(ends) + 1

        def one() -> None:
            nonlocal left
            left -= 1
            if not left:
                reached.set()

        for (topic, index), end in ends.items():
            self._tools.progress.when(topic, index, end, one)
        one()  # there may be no ends
        if reached.is_set():  # the wait is for something else: for the producers to be known
            await self._tools.sleep(LOOK_AGAIN_S)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await reached.wait()

    async def _lags(self) -> Mapping[str, int]:
        """Per topic the lag of its slowest partition, in records. Also warms up what the write pause needs."""
        placements = [self._tools.engine.running_partitions(record) for record in self.records()]
        if any(running_partitions.absent or running_partitions.cold for running_partitions in placements):
            return {}  # a mirror that has just begun here: retries over the cutover need the producers' last batches
        readings = await self.read(_READ_S)
        for topic, reading in readings.items():
            self._memory.read(topic, reading)
        if any(-1 in reading.mirrored for reading in readings.values()):
            return {}
        return {
            topic: max((end - at for at, end in zip(reading.mirrored, reading.log_end_offsets, strict=True)), default=0)
            for topic, reading in readings.items()
        }

    def all_stopped(self) -> bool:
        """True when all topics have cut over."""
        if self.is_failback:
            return not any(record.is_reverse for record in self.records())
        return all(record.state is MirrorState.STOPPED for record in self.records())

    def _facts(
        self, record: MirrorRecord, gateways: frozenset[str], lag: int | None, pauses: Sequence[PausesWrites]
    ) -> TopicObservations:
        """The observations of one topic. `pauses`: of the gateways, under the write pause."""
        phases = self._memory.phases(record, gateways)
        seen, as_seen = as_promote(record, phases) if self.is_failback else (record, phases)
        blocked = (each.blocked_by(record.mirror_topic) for each in pauses)
        return TopicObservations(
            record=seen,
            phases=as_seen,
            running_partitions=self._tools.engine.running_partitions(record),
            lag=lag,
            blocked_by="; ".join(filter(None, blocked)),
        )
