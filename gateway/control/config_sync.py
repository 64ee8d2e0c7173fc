"""Keeps a mirror topic's configs and partition count what its source topic's are.

Runs per link every `topic.config.sync.ms` for its ACTIVE mirrors. What to set is decided in
`domain/topic_configs.py`. A source topic that is gone or another one is left to the engine, which fails its mirror.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import structlog

from gateway.control.access import ClusterAccess, TopicInfo
from gateway.control.context import ControlContext
from gateway.control.errors import ControlError
from gateway.control.store import StoreError
from gateway.domain import link_config
from gateway.domain.records import LinkRecord, MirrorRecord, MirrorState, PartitionStart
from gateway.domain.topic_configs import config_changes, synced_configs
from gateway.net.errors import NetError

_log = structlog.get_logger("lockgate.control")


class ConfigSync:
    """The sync of all links."""

    def __init__(self, context: ControlContext, clock: Callable[[], float] = time.monotonic) -> None:
        self._context = context
        self._clock = clock
        self._last: dict[str, float] = {}

    async def run_due(self) -> None:
        """Sync the links whose interval is over. A link that fails is tried again at its next interval."""
        await asyncio.gather(*(self._sync(link) for link in self._context.store.links.values() if self._is_due(link)))

    def _is_due(self, link: LinkRecord) -> bool:
        now, interval_s = self._clock(), link_config.parse(link.configs).sync_ms / 1000
        return now - self._last.get(link.name, now - interval_s) >= interval_s

    async def _sync(self, link: LinkRecord) -> None:
        self._last[link.name] = self._clock()
        try:
            await self.sync_link(link)
        except (NetError, ControlError, StoreError, TimeoutError, OSError) as exc:
            _log.warning("topic configs not synced", link=link.name, error=str(exc))

    async def sync_link(self, link: LinkRecord) -> None:
        """Compare and mend all ACTIVE mirrors of a link.

        Raises:
            NetError, ControlError, StoreError: a cluster did not answer or refused; the rest is left undone.
        """
        mirrors = [
            mirror
            for key, mirror in self._context.store.mirrors.items()
            if key[0] == link.name and mirror.state is MirrorState.ACTIVE
        ]
        if not mirrors:
            return
        source = await self._context.sources.reach(link)
        found = await source.topics([mirror.source_topic for mirror in mirrors])
        present = [mirror for mirror in mirrors if _is_itself(mirror, found.get(mirror.source_topic))]
        if not present:
            return
        target = self._context.target
        source_configs = await source.topic_configs([mirror.source_topic for mirror in present])
        target_configs = await target.topic_configs([mirror.mirror_topic for mirror in present])
        include = link_config.parse(link.configs).sync_include
        for mirror in present:
            now = target_configs[mirror.mirror_topic]
            await self._sync_configs(mirror, source_configs[mirror.source_topic], now, include)
            await self._sync_partitions(mirror, found[mirror.source_topic].partitions, target)

    async def _sync_configs(
        self, mirror: MirrorRecord, source: Mapping[str, str], target: Mapping[str, str], include: tuple[str, ...]
    ) -> None:
        wanted = synced_configs(source, target, include, mirror.restore_configs)
        changes = config_changes(wanted.apply, target)
        if changes:
            _log.info("topic configs synced", link=mirror.link, topic=mirror.mirror_topic, changes=changes)
            await self._context.target.alter_topic_configs(mirror.mirror_topic, changes)
        if dict(wanted.restore) != dict(mirror.restore_configs):
            await self._context.store.replace(mirror, replace(mirror, restore_configs=dict(wanted.restore)))

    async def _sync_partitions(self, mirror: MirrorRecord, partitions: int, target: ClusterAccess) -> None:
        """Follow the source's growth: new partitions begin at 0, whatever the link's start offset is."""
        if partitions <= len(mirror.starts):
            return
        context, topic = self._context, mirror.mirror_topic
        found = (await target.topics([topic])).get(topic)
        if found is not None and found.partitions < partitions:
            await target.add_partitions(topic, partitions)
        old = context.mirror(mirror.link, topic)
        grown = old.starts + (PartitionStart(0, 0),) * (partitions - len(old.starts))
        new = replace(old, starts=grown)
        await context.store.replace(old, new)
        _log.info("partitions added", link=mirror.link, topic=topic, old=len(old.starts), new=partitions)
        async with context.locks.hold(f"mirror/{topic}"):
            if context.mirror(mirror.link, topic).state is MirrorState.ACTIVE:
                await context.engine.stop_mirror(mirror.link, topic)
                context.engine.start_mirror(context.mirror(mirror.link, topic))


def _is_itself(mirror: MirrorRecord, found: TopicInfo | None) -> bool:
    if found is None or found.partitions < len(mirror.starts):
        return False
    return not mirror.source_topic_id or found.topic_id in ("", mirror.source_topic_id)
