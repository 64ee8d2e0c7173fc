"""Keeps a mirror topic's configs and partition count what its origin's are: the source topic's, unless mirrored back.

Runs per link every `topic.config.sync.ms` for its ACTIVE mirrors. What to set is decided in
`kafka/rules/topic_configs.py`. A source topic that is gone or another one is left to the engine, which fails its
mirror.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from gateway.errors import ControlError
from gateway.kafka.connection.errors import NetError
from gateway.kafka.rules.topic_configs import CONCERNED, config_changes, synced_configs
from gateway.mirror.interface import MirrorEngine, PartitionStatus
from gateway.operations.cluster_access import ClusterAccess, TopicInfo
from gateway.operations.link_tasks import LinkTask, LinkTasks
from gateway.operations.offset_translation import OffsetMaps
from gateway.operations.records import Records
from gateway.operations.running_mirrors import run_as
from gateway.operations.sources import Sources
from gateway.state import link_config
from gateway.state.per_partition import grown
from gateway.state.records import LinkRecord, MirrorRecord, MirrorState
from gateway.state.store import StoreError
from gateway.topics.log_start_sync import Copy, LogStartSync
from gateway.transport.locks import KeyedLocks

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
        tasks: LinkTasks,
        clock: Callable[[], float],
    ) -> None:
        """`clock`: monotonic seconds."""
        self._tasks = tasks
        self._records = records
        self._store = records.store
        self._sources = sources
        self._target = target
        self._engine = engine
        self._maps = maps
        self._locks = locks
        self._clock = clock
        self._last: dict[str, float] = {}
        self._log_starts: dict[tuple[str, bool], LogStartSync] = {}  # by link, and whether it is mirrored back

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
        """Compare and mend all ACTIVE mirrors of a link.

        Raises:
            NetError, ControlError, StoreError: a cluster did not answer or refused; the rest is left undone.
        """
        mirrors = [
            mirror
            for key, mirror in self._store.mirrors.items()
            if key[0] == link.name and mirror.state is MirrorState.ACTIVE
        ]
        if not mirrors:
            return
        include = link_config.parse(link.configs).sync_include
        source, target = await self._sources.reach(link), self._target
        for reverse in (False, True):
            origin, copy = (target, source) if reverse else (source, target)
            pairs = [_Pair.of(mirror, copy, include) for mirror in mirrors if mirror.is_reverse is reverse]
            await self._sync_all(pairs, origin, copy)

    async def _sync_all(self, pairs: Sequence[_Pair], origin: ClusterAccess, copy: ClusterAccess) -> None:
        if not pairs:
            return
        found = await origin.topics([pair.origin_topic for pair in pairs])
        present = [pair for pair in pairs if _is_itself(pair, found.get(pair.origin_topic))]
        if not present:
            return
        origin_configs = await origin.topic_configs([pair.origin_topic for pair in present], CONCERNED)
        copy_configs = await copy.topic_configs([pair.copy_topic for pair in present], CONCERNED)
        for pair in present:
            await self._sync_configs(pair, origin_configs[pair.origin_topic], copy_configs[pair.copy_topic])
            await self._sync_partitions(pair, found[pair.origin_topic].partitions)
        copies = [Copy(pair.mirror, pair.origin_topic, pair.copy_topic) for pair in present]
        link, is_reverse = present[0].mirror.link, present[0].mirror.is_reverse
        log_starts = self._log_starts.setdefault((link, is_reverse), LogStartSync(self._status))
        await log_starts.follow(self._maps.between(link), copies, copy)

    def _status(self, mirror: MirrorRecord) -> Sequence[PartitionStatus]:
        return self._engine.status(mirror.link, mirror.mirror_topic)

    async def _sync_configs(self, pair: _Pair, origin: Mapping[str, str], copy: Mapping[str, str]) -> None:
        mirror = pair.mirror
        wanted = synced_configs(origin, copy, pair.include, mirror.restore_configs)
        changes = config_changes(wanted.apply, copy)
        if changes:
            _log.info("topic configs synced", link=mirror.link, topic=mirror.mirror_topic, changes=changes)
            await pair.copy.alter_topic_configs(pair.copy_topic, changes)
        if dict(wanted.restore) != dict(mirror.restore_configs):
            await self._store.replace(mirror, replace(mirror, restore_configs=dict(wanted.restore)))

    async def _sync_partitions(self, pair: _Pair, partitions: int) -> None:
        """Follow the origin's growth: new partitions begin at 0, whatever the link's start offset is.

        Record and mirror in one: a promote that begins in between would wait for partitions that nobody mirrors. And a
        record of which it was not known whether it was stored is made up for here.
        """
        mirror, topic = pair.mirror, pair.mirror.mirror_topic
        if partitions > len(mirror.starts):
            found = (await pair.copy.topics([pair.copy_topic])).get(pair.copy_topic)
            if found is not None and found.partitions < partitions:
                await pair.copy.add_partitions(pair.copy_topic, partitions)
        async with self._locks.hold(f"mirror/{topic}"):
            await self._store.outcome_known()
            old = self._records.mirror(mirror.link, topic)
            if old.state is not MirrorState.ACTIVE:
                return
            if partitions > len(old.starts):
                await self._store.replace(old, grown(old, partitions))
                _log.info("partitions added", link=mirror.link, topic=topic, old=len(old.starts), new=partitions)
            await run_as(self._engine, self._records.mirror(mirror.link, topic))


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
        """Of a mirror whose copy is on `copy`."""
        source, target = mirror.source_topic, mirror.mirror_topic
        if mirror.is_reverse:
            return cls(mirror, target, mirror.mirror_topic_id, copy, source, include)
        return cls(mirror, source, mirror.source_topic_id, copy, target, include)


def _is_itself(pair: _Pair, found: TopicInfo | None) -> bool:
    if found is None or found.partitions < len(pair.mirror.starts):
        return False
    return not pair.origin_id or found.topic_id in ("", pair.origin_id)
