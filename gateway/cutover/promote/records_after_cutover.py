"""Looks after promoted topics: records that arrive on the source too late, and configs still to be restored.

Wired by `runtime/term.py`, after `service.start`:

    late = RecordsAfterCutover(records=..., ...)
    late.start()                                  # its loop runs in `background`
    late.of(link, topic)                          # partition -> records that came after the cutover
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import structlog

from gateway.errors import ControlError
from gateway.kafka.connection.errors import NetError
from gateway.operations.deleted_mirrors import DeletedMirrors
from gateway.operations.origin_ends import SourceEnds
from gateway.operations.records import Records
from gateway.operations.sources import LinkHealth, Sources
from gateway.state.per_partition import WrongLength, of_each
from gateway.state.producer_ids import mirror_producer_id
from gateway.state.records import LinkRecord, MirrorRecord, MirrorState
from gateway.state.store import StoreError
from gateway.topics.lifted_configs import LiftedConfigs
from gateway.transport.background import Background

LOOK_S = 5.0
_READ_S = 4.0
_log = structlog.get_logger("lockgate.promote")


class RecordsAfterCutover:
    """Per STOPPED mirror topic, the records that a writer beside the gateway left on the source after the cutover.

    After a failover also those that were not mirrored before it.
    """

    def __init__(
        self,
        *,
        records: Records,
        sources: Sources,
        health: Mapping[str, LinkHealth],
        lifted: LiftedConfigs,
        ends: SourceEnds,
        background: Background,
        deleted: DeletedMirrors,
    ) -> None:
        """`health`: by link name, as it is now. `ends`: reads the source's log ends."""
        self._store = records.store
        self._sources = sources
        self._health = health
        self._lifted = lifted
        self._ends = ends
        self._background = background
        self._after_cutover: dict[tuple[str, str], Mapping[int, int]] = {}
        self.all: Mapping[tuple[str, str], Mapping[int, int]] = MappingProxyType(self._after_cutover)
        deleted.subscribe(lambda mirror: self._after_cutover.pop((mirror.link, mirror.mirror_topic), None))

    def start(self) -> None:
        """Look every 5 seconds from now on."""
        self._background.every(LOOK_S, self.look, "records after the cutover")

    def of(self, link: str, topic: str) -> Mapping[int, int]:
        """Partition -> records after the cutover; empty when there are none, as far as the source was last seen."""
        return self._after_cutover.get((link, topic), {})

    async def look(self) -> None:
        """Ask every source that is there, once."""
        stopped = [m for m in self._store.mirrors.values() if m.state is MirrorState.STOPPED]
        for key in self._after_cutover.keys() - {(mirror.link, mirror.mirror_topic) for mirror in stopped}:
            del self._after_cutover[key]  # a failback has dealt with them
        for mirror in stopped:
            try:
                await self._lifted.restore(mirror)
            except (NetError, StoreError, TimeoutError, OSError) as exc:
                _log.warning("topic configs not restored yet", topic=mirror.mirror_topic, error=str(exc))
        for link in list(self._store.links.values()):
            mirrors = [mirror for mirror in stopped if mirror.link == link.name]
            if mirrors:
                await self._look_at(link, mirrors)

    async def _look_at(self, link: LinkRecord, mirrors: Sequence[MirrorRecord]) -> None:
        health = self._health.get(link.name)
        if health is not None and not health.available:
            return
        for mirror in mirrors:
            try:
                at_cutover = of_each(mirror, mirror.cutover.stopped_at, "stopped_at")
                marks = await self._marks(link, mirror)
            except (ControlError, WrongLength) as exc:  # shut down by now, or the topic was deleted
                _log.debug("source of a promoted topic not read", topic=mirror.mirror_topic, error=str(exc))
                continue
            at_cutover += (0,) * (len(marks) - len(at_cutover))  # of a partition that was added, all came too late
            pairs = enumerate(zip(marks, at_cutover, strict=True))
            beyond = {index: end - stopped for index, (end, stopped) in pairs if end > stopped}
            self._note(mirror, await self._of_others(link, mirror, marks, beyond))

    async def _marks(self, link: LinkRecord, mirror: MirrorRecord) -> Sequence[int]:
        """The high watermarks of all partitions that the source topic has now."""
        found = (await self._ends.read(link, {mirror.source_topic: len(mirror.starts)}, _READ_S))[mirror.source_topic]
        if found.partitions > len(mirror.starts):
            wanted = {mirror.source_topic: found.partitions}
            found = (await self._ends.read(link, wanted, _READ_S))[mirror.source_topic]
        return found.high_watermarks

    async def _of_others(
        self, link: LinkRecord, mirror: MirrorRecord, marks: Sequence[int], beyond: Mapping[int, int]
    ) -> Mapping[int, int]:
        """Without what a mirror back appended, before it was ended: there the last batch is its own."""
        if not beyond:
            return beyond
        back = mirror_producer_id(link.link_id, mirror.mirror_id, mirror.failback.epoch, reverse=True)
        try:
            async with asyncio.timeout(_READ_S):
                access = await self._sources.reach(link)
                writers = {
                    index: await access.last_writer(mirror.source_topic, index, marks[index]) for index in beyond
                }
        except (ControlError, NetError, TimeoutError, OSError) as exc:
            _log.debug("source of a promoted topic not read", topic=mirror.mirror_topic, error=str(exc))
            return self._after_cutover.get((mirror.link, mirror.mirror_topic), {})
        return {index: count for index, count in beyond.items() if writers[index] != back}

    def _note(self, mirror: MirrorRecord, late: Mapping[int, int]) -> None:
        key = (mirror.link, mirror.mirror_topic)
        if late and key not in self._after_cutover and not any(mirror.cutover.not_mirrored):
            _log.error(
                "records were written to the source after the promote; they are not on the target",
                link=mirror.link,
                topic=mirror.mirror_topic,
                records=late,
            )
        if late:
            self._after_cutover[key] = late
        else:
            self._after_cutover.pop(key, None)
