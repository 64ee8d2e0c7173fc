"""Keeps a mirror topic's configs and partition count what its origin's are: the source topic's, unless mirrored back.

Runs per link every `topic.config.sync.ms` for its ACTIVE mirrors. What to set is decided in
`kafka/rules/topic_configs.py`. A source topic that is gone or another one is left to the engine, which fails its
mirror.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import structlog

from gateway.errors import Conflict, ControlError
from gateway.kafka.acts import ActRefused
from gateway.kafka.admin import TOPICS_IN_A_REQUEST, TopicConfigChange
from gateway.kafka.connection.errors import BrokerError, NetError
from gateway.kafka.rules.topic_configs import (
    CONCERNED,
    config_changes,
    configs_at_cutover,
    follows_log_starts,
    given_back,
    set_back,
    synced_configs,
)
from gateway.mirror.interface import MirrorEngine
from gateway.operations.cluster_access import ClusterAccess, TopicInfo
from gateway.operations.door import Door
from gateway.operations.link_tasks import LinkTask, LinkTasks
from gateway.operations.offset_translation import OffsetMaps
from gateway.operations.records import Records
from gateway.operations.running_mirrors import run_as
from gateway.operations.sources import Sources
from gateway.state import link_config
from gateway.state.mirror_states import tag_of
from gateway.state.per_partition import grown
from gateway.state.records import Deletion, LinkRecord, MirrorRecord, MirrorState
from gateway.state.store import StoreConflict, StoreError
from gateway.topics.config_drift import ConfigDrift
from gateway.topics.copy_differences import CopyDifferences
from gateway.topics.lifted_configs import LiftedConfigs
from gateway.topics.log_start_sync import Copy, LogStartSync
from gateway.transport.locks import KeyedLocks

_PAUSED_S = 60.0
"""How often the log starts of PAUSED mirrors are asked for: nobody hears of them otherwise."""

_log = structlog.get_logger("lockgate.control")


class ConfigSync:
    """The sync of all links."""

    def __init__(
        self,
        *,
        records: Records,
        sources: Sources,
        target: ClusterAccess,
        engine: MirrorEngine,
        maps: OffsetMaps,
        locks: KeyedLocks,
        door: Door,
        lifted: LiftedConfigs,
        tasks: LinkTasks,
        clock: Callable[[], float],
        drift: ConfigDrift,
        differences: CopyDifferences,
    ) -> None:
        """`clock`: monotonic seconds. `drift`: told of what is set back, `differences` of what is not."""
        self._tasks = tasks
        self._records = records
        self._store = records.store
        self._sources = sources
        self._target = target
        self._engine = engine
        self._maps = maps
        self._locks = locks
        self._door = door
        self._lifted = lifted
        self._clock = clock
        self._drift = drift
        self._differences = differences
        self._last: dict[str, float] = {}
        self._settled: dict[tuple[str, bool], Mapping[str, _Seen]] = {}  # by link and way, then by mirror topic
        # By link, whether it is mirrored back, and whether it is paused.
        self._log_starts: dict[tuple[str, bool, bool], LogStartSync] = {}
        self._paused_looked: dict[str, float] = {}

    async def run_due(self) -> None:
        """Sync the links whose interval is over. A link that fails is tried again at its next interval."""
        await asyncio.gather(*(self._sync(link) for link in self._store.links.values() if self._is_due(link)))

    def _is_due(self, link: LinkRecord) -> bool:
        now, config = self._clock(), link_config.parse(link.configs)
        interval_s = config.sync_ms / 1000
        return not config.paused and now - self._last.get(link.name, now - interval_s) >= interval_s

    async def _sync(self, link: LinkRecord) -> None:
        self._last[link.name] = self._clock()
        try:
            await self.sync_link(link)
        except (NetError, ControlError, StoreError, TimeoutError, OSError) as exc:
            self._tasks.failed(link.name, LinkTask.TOPIC_CONFIGS_SYNC, exc)
            _log.warning("topic configs not synced", link=link.name, error=str(exc))
        else:
            self._tasks.succeeded(link.name, LinkTask.TOPIC_CONFIGS_SYNC)

    async def sync_link(self, link: LinkRecord) -> None:
        """Compare and mend all ACTIVE mirrors of a link. Of those that are PAUSED only the log starts are followed.

        Raises:
            NetError, ControlError, StoreError: a cluster did not answer or refused. What is mirrored the other way, or
                is PAUSED, does not wait for that.
        """
        mirrors = self._mirrors(link, MirrorState.ACTIVE)
        paused = self._mirrors(link, MirrorState.PAUSED) if self._looks_at_paused(link) else []
        if not mirrors and not paused:
            return
        include = link_config.parse(link.configs).sync_include
        source, target = await self._sources.reach(link), self._target
        troubles: list[Exception] = []
        for some, sync in ((mirrors, self._sync_all), (paused, self._follow_paused)):
            for reverse in (False, True):
                origin, copy = (target, source) if reverse else (source, target)
                pairs = [_Pair.of(mirror, copy, include) for mirror in some if mirror.is_reverse is reverse]
                try:
                    await sync(pairs, origin, copy)
                except (NetError, ControlError, TimeoutError, OSError) as exc:
                    troubles.append(exc)
        if troubles:
            raise troubles[0]

    def _mirrors(self, link: LinkRecord, state: MirrorState) -> list[MirrorRecord]:
        mirrors = self._store.mirrors.items()
        return [
            mirror
            for key, mirror in mirrors
            if key[0] == link.name and mirror.state is state and mirror.deletion is Deletion.NONE
        ]

    def _looks_at_paused(self, link: LinkRecord) -> bool:
        """Whether it is time again to ask for what no mirror hears; noted."""
        now = self._clock()
        if now - self._paused_looked.get(link.name, now - _PAUSED_S) < _PAUSED_S:
            return False
        self._paused_looked[link.name] = now
        return True

    async def _follow_paused(self, pairs: Sequence[_Pair], origin: ClusterAccess, copy: ClusterAccess) -> None:
        pairs = [pair for pair in pairs if follows_log_starts(pair.include)]
        if not pairs:
            return
        found = await origin.topics([pair.origin_topic for pair in pairs])
        copies = [pair.as_copy() for pair in pairs if _is_itself(pair, found.get(pair.origin_topic))]
        link, is_reverse = pairs[0].mirror.link, pairs[0].mirror.is_reverse
        log_starts = self._log_starts.setdefault(
            (link, is_reverse, True), LogStartSync(self._engine.status, self._door)
        )
        await log_starts.follow_paused(self._maps.between(link), copies, origin, copy)

    def _log_start_sync(self, key: tuple[str, bool, bool]) -> LogStartSync:
        return self._log_starts.setdefault(key, LogStartSync(self._engine.status, self._door))

    async def _sync_all(self, pairs: Sequence[_Pair], origin: ClusterAccess, copy: ClusterAccess) -> None:
        if not pairs:
            return
        found = await origin.topics([pair.origin_topic for pair in pairs])
        present = [pair for pair in pairs if _is_itself(pair, found.get(pair.origin_topic))]
        if not present:
            return
        origin_configs = await origin.topic_configs([pair.origin_topic for pair in present], CONCERNED)
        copy_configs = await copy.topic_configs([pair.copy_topic for pair in present], CONCERNED)
        link, is_reverse = present[0].mirror.link, present[0].mirror.is_reverse
        before, settled = self._settled.get((link, is_reverse), {}), dict[str, _Seen]()
        due: list[_Sync] = []
        for pair in present:
            seen = _Seen(pair.mirror, pair.include, origin_configs[pair.origin_topic], copy_configs[pair.copy_topic])
            self._differences.configs(pair.mirror, seen.origin, seen.copy)
            sync = None if seen.is_as(before.get(pair.mirror.mirror_topic)) else _Sync.of(pair, seen.origin, seen.copy)
            if sync is not None:
                self._drift.synced(pair.mirror, sync.applied, sync.change.values, seen.copy)
            if sync is None or sync.is_nothing:
                settled[pair.mirror.mirror_topic] = seen
            else:
                due.append(sync)
        self._settled[link, is_reverse] = settled
        refused = await self._alter(copy, [sync for sync in due if sync.changes_copy])
        noted = [await self._noted(sync) for sync in due if sync.pair.copy_topic not in refused]
        present = _with_records(present, noted)
        troubles: list[BrokerError | ActRefused] = [*refused.values()]
        for pair in present:
            try:
                await self._sync_partitions(pair, found[pair.origin_topic].partitions)
            except (BrokerError, ActRefused) as exc:  # of this topic alone: no other one waits for it
                troubles.append(exc)
        copies = [pair.as_copy() for pair in present if follows_log_starts(pair.include)]
        log_starts = self._log_starts.setdefault(
            (link, is_reverse, False), LogStartSync(self._engine.status, self._door)
        )
        await log_starts.follow(self._maps.between(link), copies, copy)
        if troubles:
            raise troubles[0]

    async def _alter(self, copy: ClusterAccess, syncs: Sequence[_Sync]) -> Mapping[str, BrokerError]:
        """By topic of the copies' cluster, what it refused. What changed sides meanwhile is left alone, and decided
        again in the next round."""
        refused: dict[str, BrokerError] = {}
        for first in range(0, len(syncs), TOPICS_IN_A_REQUEST):
            refused |= await self._alter_together(copy, syncs[first : first + TOPICS_IN_A_REQUEST])
        return refused

    async def _alter_together(self, copy: ClusterAccess, syncs: Sequence[_Sync]) -> Mapping[str, BrokerError]:
        """Of topics in one request; one whose record was changed meanwhile keeps none of the others waiting."""
        try:
            async with self._door.through(*(sync.pair.mirror for sync in syncs)):
                refused = await self._lifted.alter(copy, {sync.pair.copy_topic: sync.change for sync in syncs})
        except ActRefused as exc:
            if len(syncs) == 1:
                topic = syncs[0].pair.mirror.mirror_topic
                _log.info("topic configs left for the next round", topic=topic, reason=str(exc))
                return {}
            return {topic: why for sync in syncs for topic, why in (await self._alter_together(copy, [sync])).items()}
        for sync in syncs:
            if sync.pair.copy_topic not in refused:
                mirror = sync.pair.mirror
                names = {"link": mirror.link, "topic": mirror.mirror_topic}
                _log.info("topic configs synced", **names, changes=sync.change.values, reset=sync.change.reset)
        return refused

    async def _noted(self, sync: _Sync) -> MirrorRecord:
        """The record with what is to be set back at the cutover, stored only in place of the one that this was decided
        from."""
        mirror = sync.pair.mirror
        if dict(sync.restore) == dict(mirror.restore_configs):
            return mirror
        new = replace(mirror, restore_configs=dict(sync.restore))
        try:
            await self._store.replace(mirror, new)
        except StoreConflict as exc:
            _log.info("topic configs left for the next round", topic=mirror.mirror_topic, reason=str(exc))
            return mirror
        return new

    async def _sync_partitions(self, pair: _Pair, partitions: int) -> None:
        """Follow the origin's growth: new partitions begin at 0, whatever the link's start offset is.

        Topic, record and mirror in one: a promote that begins in between would wait for partitions that nobody
        mirrors. And a record of which it was not known whether it was stored is made up for here.
        """
        mirror, topic = pair.mirror, pair.mirror.mirror_topic
        has = len(mirror.starts)
        if partitions > has:
            found = (await pair.copy.topics([pair.copy_topic])).get(pair.copy_topic)
            has = partitions if found is None else found.partitions
        async with self._locks.hold(f"mirror/{topic}"):
            await self._store.outcome_known()
            old = self._store.mirrors.get((mirror.link, topic))
            if old is None or old.state is not MirrorState.ACTIVE or tag_of(old) != tag_of(mirror):
                return
            if partitions > len(old.starts):
                if has < partitions:
                    with self._door.permit(old):
                        await pair.copy.add_partitions(pair.copy_topic, partitions)
                await self._store.replace(old, grown(old, partitions))
                _log.info("partitions added", link=mirror.link, topic=topic, old=len(old.starts), new=partitions)
            await run_as(self._engine, self._records.mirror(mirror.link, topic))


@dataclass(frozen=True, slots=True)
class LastReading:
    """What was read of topics that are about to be promoted. `restore`: by mirror topic, all that is to be set at the
    cutover: what was lifted, and what has changed since the last sync. `copies`: what their copies have, by name there.
    """

    restore: Mapping[str, Mapping[str, str]]
    copies: Mapping[str, Mapping[str, str]]


class LastConfigs:
    """What the copies of topics that are about to be promoted are to have of their origins' configs."""

    def __init__(self, sources: Sources, target: ClusterAccess) -> None:
        self._sources = sources
        self._target = target

    async def read(
        self, link: LinkRecord, mirrors: Sequence[MirrorRecord], before: LastReading | None = None
    ) -> LastReading:
        """Nothing is changed. All mirrors go one way.

        Args:
            before: what was read of the same mirrors right before the write pause. Under it the origins alone are
                asked, and for nothing but configs: brokers take long for such answers, and whoever waits for the
                pause's end waits for the same brokers.

        Raises:
            NetError, ControlError: a cluster did not answer or refused, or a topic is not the one that is mirrored.
        """
        source, is_reverse = await self._sources.reach(link), mirrors[0].is_reverse
        origin, copy = (self._target, source) if is_reverse else (source, self._target)
        include = link_config.parse(link.configs).sync_include
        pairs = [_Pair.of(mirror, copy, include) for mirror in mirrors]
        reading = origin.topic_configs([pair.origin_topic for pair in pairs], CONCERNED)
        if before is None:
            found, origins, copies = await asyncio.gather(
                origin.topics([pair.origin_topic for pair in pairs]),
                reading,
                copy.topic_configs([pair.copy_topic for pair in pairs], CONCERNED),
            )
            for pair in pairs:
                if not _is_itself(pair, found.get(pair.origin_topic)):
                    raise Conflict(f"topic '{pair.origin_topic}' is not the one that is mirrored")
        else:
            origins, copies = await reading, before.copies
        restore = {
            pair.mirror.mirror_topic: configs_at_cutover(
                origins[pair.origin_topic], copies[pair.copy_topic], pair.include, pair.mirror.restore_configs
            )
            for pair in pairs
        }
        return LastReading(restore, copies)


@dataclass(frozen=True, slots=True)
class _Pair:
    """A mirror as origin and copy, whichever cluster is which."""

    mirror: MirrorRecord
    origin_topic: str
    origin_id: str
    copy: ClusterAccess
    copy_topic: str
    include: tuple[str, ...]

    @classmethod
    def of(cls, mirror: MirrorRecord, copy: ClusterAccess, include: tuple[str, ...]) -> _Pair:
        """Of a mirror whose copy is on `copy`. What the target's topic was given at create is its own."""
        if not mirror.is_reverse:
            include = tuple(name for name in include if name not in mirror.configs)
        source, target = mirror.source_topic, mirror.mirror_topic
        if mirror.is_reverse:
            return cls(mirror, target, mirror.mirror_topic_id, copy, source, include)
        return cls(mirror, source, mirror.source_topic_id, copy, target, include)

    def as_copy(self) -> Copy:
        """For the log starts."""
        return Copy(self.mirror, self.origin_topic, self.copy_topic)


def _with_records(pairs: Iterable[_Pair], mirrors: Iterable[MirrorRecord]) -> list[_Pair]:
    """The pairs, with these records in place of those before."""
    records = {mirror.mirror_topic: mirror for mirror in mirrors}
    return [replace(pair, mirror=records.get(pair.mirror.mirror_topic, pair.mirror)) for pair in pairs]


@dataclass(frozen=True, slots=True)
class _Sync:
    """What is to be done about the configs of a copy. `applied`: what it is to have; `restore`: what its record is to
    say that it has lifted."""

    pair: _Pair
    applied: Mapping[str, str]
    change: TopicConfigChange
    restore: Mapping[str, str]

    @classmethod
    def of(cls, pair: _Pair, origin: Mapping[str, str], copy: Mapping[str, str]) -> _Sync:
        """By what both topics have now."""
        lifted = pair.mirror.restore_configs
        wanted = synced_configs(origin, copy, pair.include, lifted)
        own, reset = set_back(given_back(lifted, wanted))
        return cls(
            pair, wanted.apply, TopicConfigChange(config_changes({**wanted.apply, **own}, copy), reset), wanted.restore
        )

    @property
    def changes_copy(self) -> bool:
        """Something of the topic is to be altered."""
        return bool(self.change.values or self.change.reset)

    @property
    def is_nothing(self) -> bool:
        """All is as it must be."""
        return not self.changes_copy and dict(self.restore) == dict(self.pair.mirror.restore_configs)


class _Seen(NamedTuple):
    """What a mirror's configs are decided on. Clusters that say what they said before may give the same objects."""

    mirror: MirrorRecord
    include: tuple[str, ...]
    origin: Mapping[str, str]
    copy: Mapping[str, str]

    def is_as(self, other: _Seen | None) -> bool:
        """The same was decided on, so the same would be: without a look at what it says."""
        return (
            other is not None
            and self.mirror is other.mirror
            and self.include == other.include
            and self.origin is other.origin
            and self.copy is other.copy
        )


def _is_itself(pair: _Pair, found: TopicInfo | None) -> bool:
    if found is None or found.partitions < len(pair.mirror.starts):
        return False
    return not pair.origin_id or found.topic_id in ("", pair.origin_id)
