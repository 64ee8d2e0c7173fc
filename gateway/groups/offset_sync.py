"""Commits the offsets of gated groups on the target again and again (`consumer.offset.sync.enable`).

What to commit is decided in `groups/rules/offset_sync.py`. Groups of the source that read a mirrored topic and pass the
link's filters are found by themselves; they are gated from then on, so that nobody reads on the target what is
committed here. A group with members on the target is left alone, and the target would refuse anyway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace

import structlog

from gateway.errors import ControlError
from gateway.groups.gate.rules.gates import GroupGates
from gateway.groups.mirror_groups import reads_mirrored, record_group
from gateway.groups.promote import GroupPromotions
from gateway.groups.reports import GroupReports
from gateway.groups.rules.offset_sync import Wanted, plan_sync, refresh_after_s
from gateway.groups.rules.offset_sync_status import OffsetSyncStatus
from gateway.kafka.connection.errors import NetError
from gateway.kafka.topic_partition import TopicPartition
from gateway.mirror.offset_map.rules.offset_map import TranslationRule
from gateway.operations.cluster_errors import source_errors
from gateway.operations.link_tasks import LinkTask, LinkTasks, TaskErrorCode
from gateway.operations.offset_translation import OffsetMaps
from gateway.operations.records import Records
from gateway.operations.sources import Sources
from gateway.state.link_config import parse
from gateway.state.records import GroupRecord, GroupState, LinkRecord, SourceOffset
from gateway.state.store import StoreError
from gateway.transport.background import Background

_TICK_S = 0.5
_IDLE_S = 1.0  # without a link
_PARALLEL = 4
_NOT_OURS_S = 60.0  # how long a group that reads nothing mirrored is not asked about again
_RETENTION_S = 600.0  # how long the target's offsets.retention.minutes is believed
_log = structlog.get_logger("lockgate.control")


class OffsetSync:
    """One per process. `status`: by (link, group), of the groups that are synced."""

    def __init__(
        self,
        *,
        records: Records,
        sources: Sources,
        gates: GroupGates,
        maps: OffsetMaps,
        promoter: GroupPromotions,
        reports: GroupReports,
        background: Background,
        tasks: LinkTasks,
        clock: Callable[[], float],
    ) -> None:
        self._records = records
        self._tasks = tasks
        self._store = records.store
        self._sources = sources
        self._gates = gates
        self._maps = maps
        self._promoter = promoter
        self._offsets = promoter.offsets
        self._background = background
        self._clock = clock
        self._last: dict[str, float] = {}
        self._not_ours: dict[tuple[str, str], tuple[float, int]] = {}  # when, and up to which offset of the state
        self._refreshed: dict[tuple[str, str], float] = {}
        self._refresh_after: tuple[float, float] | None = None
        self._running: set[str] = set()
        self.status = reports.offset_sync

    def start(self) -> None:
        """Begin to sync the links that ask for it."""
        links = self._store.links
        self._background.every(lambda: _TICK_S if links else _IDLE_S, self.run_due, "offset sync")

    async def run_due(self) -> None:
        """Begin a round of each link whose interval is over and whose last round has ended."""
        for link in list(self._store.links.values()):
            config, now = parse(link.configs), self._clock()
            if not config.offset_sync:
                self._tasks.not_configured(link.name, LinkTask.CONSUMER_OFFSET_SYNC)
            if config.paused or not config.offset_sync:
                continue
            due = now - self._last.get(link.name, now - config.offset_sync_ms / 1000) >= config.offset_sync_ms / 1000
            if due and link.name not in self._running:
                self._last[link.name] = now
                self._running.add(link.name)
                self._background.spawn(self._round(link), f"offset sync {link.name}")

    async def _round(self, link: LinkRecord) -> None:
        try:
            await self.sync_link(link)
        except (ControlError, StoreError, NetError, TimeoutError, OSError) as exc:
            self._tasks.failed(link.name, LinkTask.CONSUMER_OFFSET_SYNC, exc)
            _log.warning("offsets not synced", link=link.name, error=str(exc) or type(exc).__name__)
        else:
            self._report(link.name)
        finally:
            self._running.discard(link.name)

    def _report(self, link: str) -> None:
        """How the round went: a group that could not be synced is told of, the first by its name."""
        troubled = sorted((group, status) for (of, group), status in self.status.items() if of == link and status.error)
        if not troubled:
            self._tasks.succeeded(link, LinkTask.CONSUMER_OFFSET_SYNC)
            return
        group, status = troubled[0]
        others = f" (and {len(troubled) - 1} more groups)" if len(troubled) > 1 else ""
        in_use = "has members on the target" in status.error
        code = TaskErrorCode.CONSUMER_GROUP_IN_USE_ERROR if in_use else TaskErrorCode.INTERNAL_ERROR
        self._tasks.failed(link, LinkTask.CONSUMER_OFFSET_SYNC, (code, f"group '{group}': {status.error}{others}"))

    async def sync_link(self, link: LinkRecord) -> None:
        """One round over all groups of a link.

        Raises:
            ControlError, StoreError: groups could not be listed or recorded. Trouble with one group is in its status.
        """
        await self._find_groups(link)
        filters = parse(link.configs).offset_sync_groups
        wanted = [
            record
            for key, record in self._store.groups.items()
            if key[0] == link.name and record.state is GroupState.ACTIVE and filters.passes(record.source_name)
        ]
        keys = {(record.link, record.group) for record in wanted}
        for key in [key for key in self.status if key[0] == link.name and key not in keys]:
            del self.status[key]
        parallel = asyncio.Semaphore(_PARALLEL)
        refresh_s = await self._refresh_s()
        await asyncio.gather(*(self._guarded(record, refresh_s, parallel) for record in wanted))

    # -- which groups --------------------------------------------------------------------------------------

    async def _find_groups(self, link: LinkRecord) -> None:
        """Groups that never came to the gateway are mirror groups too: a failover is for them as well."""
        config, now = parse(link.configs), self._clock()
        access = await self._sources.reach(link)
        with source_errors(link.name):
            names = await access.group_ids()
        store = self._store
        self._not_ours = {key: known for key, known in self._not_ours.items() if now - known[0] < _NOT_OURS_S}
        for name in names:
            group = config.target_group(name)
            if not config.offset_sync_groups.passes(name) or self._is_known(link, name, group):
                continue
            as_of = store.applied
            reading = await reads_mirrored(self._store, self._sources, link, name)
            if reading.kind is not None:
                await record_group(self._records, link, group, name, reading.kind)
            elif reading.settled:
                self._not_ours[link.name, name] = (now, as_of)

    def _is_known(self, link: LinkRecord, name: str, group: str) -> bool:
        """It has a record now, or was found to have nothing to do with any mirror that is stored now."""
        if any(recorded == group for _, recorded in self._store.groups):
            return True
        found = self._not_ours.get((link.name, name))
        up_to_date = found is not None and found[1] >= self._store.mirrors_grown_at
        return up_to_date or self._gates.let_in_at(group) is not None

    # -- one group -----------------------------------------------------------------------------------------

    async def _guarded(self, record: GroupRecord, refresh_s: float, parallel: asyncio.Semaphore) -> None:
        key = (record.link, record.group)
        async with parallel:
            try:
                await self._sync(key, refresh_s)
            except (ControlError, NetError, TimeoutError, OSError) as exc:
                self._failed(key, str(exc) or "no answer in time")

    async def _sync(self, key: tuple[str, str], refresh_s: float) -> None:
        progress = self._promoter.progress_of(*key)
        if progress.lock.locked():  # a promote, a demote or a failover commits for it now
            return
        async with progress.lock:
            record = self._store.groups.get(key)
            if record is None or record.state is not GroupState.ACTIVE:
                return
            asked_at = self._clock()
            offsets, _ = await self._offsets.on_source(record)
            progress.remember(offsets, asked_at)
            members = await self._offsets.target_members(record)
            if members:
                self._failed(key, f"the group has members on the target, which do not use the gateway: {members}")
                return
            held = {at: (one.offset, one.metadata) for at, one in (await self._offsets.on_target(record)).items()}
            wanted = await self._wanted(record, offsets)
            now = self._clock()
            refresh = now - self._refreshed.get(key, now - refresh_s) >= refresh_s
            plan = plan_sync(wanted, held, refresh=refresh)
            await self._offsets.commit_on_target(record, plan.commit)
            if refresh:
                self._refreshed[key] = now
        before = self.status.get(key, OffsetSyncStatus())
        self.status[key] = OffsetSyncStatus(
            synced_ms=self._records.now_ms(),
            behind=plan.behind,
            held_back=plan.held_back,
            committed=before.committed + len(plan.commit),
            errors=before.errors,
            round_s=self._clock() - asked_at,
        )

    async def _wanted(self, record: GroupRecord, offsets: tuple[SourceOffset, ...]) -> Mapping[TopicPartition, Wanted]:
        """What the mirror has of each offset; a partition whose position is not known yet is left for later."""
        between = self._maps.between(record.link)
        maps = await between.maps(offset.topic for offset in offsets)
        cut = []
        for offset in offsets:
            mirrored = between.mirrored(offset, maps)
            if mirrored is not None:
                cut.append((offset, replace(offset, offset=min(offset.offset, mirrored))))
        found = {}
        for (offset, at), carried in zip(cut, await between.to_target([at for _, at in cut]), strict=True):
            has = (
                carried.target_offset
                if carried.rule == TranslationRule.BEYOND_END and at.topic not in maps
                else at.offset
            )
            behind = max(0, offset.offset - has)
            found[offset.topic, offset.partition] = Wanted(carried.target_offset, behind, offset.metadata)
        return found

    def _failed(self, key: tuple[str, str], error: str) -> None:
        before = self.status.get(key, OffsetSyncStatus())
        if before.error != error:
            _log.warning("offsets of a group not synced", link=key[0], group=key[1], error=error)
        self.status[key] = replace(before, error=error, errors=before.errors + 1)

    async def _refresh_s(self) -> float:
        """How old a commit may become on the target; an hour where it does not tell its retention."""
        now = self._clock()
        if self._refresh_after is None or now - self._refresh_after[0] >= _RETENTION_S:
            self._refresh_after = (now, refresh_after_s(await self._offsets.target_retention_minutes()))
        return self._refresh_after[1]
