"""Looks after promoted topics: records that arrive on the source after the cutover, and configs still to be restored.

Wired by `runtime/term.py`, after `service.start`:

    watch = RecordsAfterCutover(records=..., ...)
    watch.start()                                  # its loop runs in `background`
    watch.of(link, topic)                          # partition -> records that came after the cutover
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import structlog

from gateway.cutover.promote.rules.post_promote_watch import LOOK_S, PostPromoteWatch, TopicOfLink, is_over
from gateway.errors import ControlError, SourceUnreachable
from gateway.kafka.connection.errors import NetError
from gateway.kafka.rules.names import some_of
from gateway.operations.deleted_mirrors import DeletedMirrors
from gateway.operations.origin_ends import Asked, SourceEnds
from gateway.operations.records import Records
from gateway.operations.sources import LinkHealth, Sources
from gateway.state import link_config
from gateway.state.per_partition import WrongLength, of_each
from gateway.state.producer_ids import mirror_producer_id
from gateway.state.records import LinkRecord, MirrorRecord, MirrorState
from gateway.state.store import StoreError
from gateway.topics.lifted_configs import LiftedConfigs
from gateway.transport.background import Background

_AT_ONCE: Final = 500
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
        clock: Callable[[], float],
    ) -> None:
        """`health`: by link name, as it is now. `ends`: reads the source's log ends. `clock`: monotonic seconds."""
        self._store = records.store
        self._sources = sources
        self._health = health
        self._lifted = lifted
        self._ends = ends
        self._background = background
        self._clock = clock
        self._now_ms = records.now_ms
        self._watch = PostPromoteWatch()
        self._after_cutover: dict[tuple[str, str], Mapping[int, int]] = {}
        self.all: Mapping[tuple[str, str], Mapping[int, int]] = MappingProxyType(self._after_cutover)
        deleted.subscribe(lambda mirror: self._after_cutover.pop((mirror.link, mirror.mirror_topic), None))

    def start(self) -> None:
        """Look from now on; see `post_promote_watch.py` for how often."""
        self._background.every(LOOK_S, self.look, "records after the cutover")

    def of(self, link: str, topic: str) -> Mapping[int, int]:
        """Partition -> records after the cutover; empty when there are none, as far as the source was last seen."""
        return self._after_cutover.get((link, topic), {})

    async def look(self) -> None:
        """Ask every source that is there for the topics whose turn it is, once."""
        stopped = [m for m in self._store.mirrors.values() if m.state is MirrorState.STOPPED]
        for key in self._after_cutover.keys() - {_key(mirror) for mirror in stopped}:
            del self._after_cutover[key]  # a failback has dealt with them
        try:
            late = await self._lifted.restore_all([mirror for mirror in stopped if mirror.restore_configs])
        except StoreError as exc:
            _log.warning("topic configs not restored yet", error=str(exc))
        else:
            if late:
                _log.warning(
                    "topic configs not restored yet", topics=some_of(late), error=str(next(iter(late.values())))
                )
        watched = {_key(mirror): mirror for mirror in self._watched(stopped)}
        due: dict[str, list[MirrorRecord]] = {}
        for key in self._watch.due(watched, self._clock()):
            due.setdefault(key[0], []).append(watched[key])
        for link in list(self._store.links.values()):
            await self._look_at(link, due.get(link.name, []))

    def _watched(self, stopped: Sequence[MirrorRecord]) -> Iterator[MirrorRecord]:
        now_ms = self._now_ms()
        watch_ms = {
            name: link_config.parse(link.configs).post_promote_watch_ms for name, link in self._store.links.items()
        }
        for mirror in stopped:
            if not is_over(mirror.cutover.at_ms, watch_ms.get(mirror.link, 0), now_ms):
                yield mirror

    async def _look_at(self, link: LinkRecord, mirrors: Sequence[MirrorRecord]) -> None:
        health = self._health.get(link.name)
        if health is not None and not health.available:
            return
        try:
            for some in _in_batches(mirrors):
                for mirror, marks in await self._marks(link, some):
                    await self._compare(link, mirror, marks)
        except SourceUnreachable as exc:  # they stay due, all of them
            _log.debug("source of promoted topics not read", link=link.name, error=str(exc))

    async def _compare(self, link: LinkRecord, mirror: MirrorRecord, marks: Sequence[int]) -> None:
        try:
            at_cutover = of_each(mirror, mirror.cutover.stopped_at, "stopped_at")
        except WrongLength as exc:
            _log.debug("source of a promoted topic not compared", topic=mirror.mirror_topic, error=str(exc))
            return
        at_cutover += (0,) * (len(marks) - len(at_cutover))  # of a partition that was added, all came too late
        pairs = enumerate(zip(marks, at_cutover, strict=True))
        beyond = {index: end - stopped for index, (end, stopped) in pairs if end > stopped}
        self._note(mirror, await self._of_others(link, mirror, marks, beyond))

    async def _marks(
        self, link: LinkRecord, mirrors: Sequence[MirrorRecord]
    ) -> list[tuple[MirrorRecord, Sequence[int]]]:
        """The high watermarks of all partitions that the source topics have now; of those that can be read.

        Raises:
            SourceUnreachable: the source does not answer: to ask it for one after the other would only take long.
        """
        try:
            return await self._read(link, mirrors)
        except SourceUnreachable:
            raise
        except ControlError as exc:  # shut down by now, or one of the topics was deleted
            if len(mirrors) > 1:
                return [found for mirror in mirrors for found in await self._marks(link, [mirror])]
            _log.debug("source of a promoted topic not read", topic=mirrors[0].mirror_topic, error=str(exc))
            self._watch.looked(_key(mirrors[0]), self._clock(), is_news=False)
            return []

    async def _read(
        self, link: LinkRecord, mirrors: Sequence[MirrorRecord]
    ) -> list[tuple[MirrorRecord, Sequence[int]]]:
        wanted = {mirror.source_topic: len(mirror.starts) for mirror in mirrors}
        found = dict(await self._ends.read(link, wanted, _READ_S, Asked.MARKS))
        grown = {topic: found[topic].partitions for topic, count in wanted.items() if found[topic].partitions > count}
        if grown:
            found |= await self._ends.read(link, grown, _READ_S, Asked.MARKS)
        return [(mirror, found[mirror.source_topic].high_watermarks) for mirror in mirrors]

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
        key = _key(mirror)
        self._watch.looked(key, self._clock(), is_news=late != self._after_cutover.get(key, {}))
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


def _key(mirror: MirrorRecord) -> TopicOfLink:
    return mirror.link, mirror.mirror_topic


def _in_batches(mirrors: Sequence[MirrorRecord]) -> Iterator[Sequence[MirrorRecord]]:
    """Of some hundred partitions each, so that no answer is long in coming."""
    some: list[MirrorRecord] = []
    partitions = 0
    for mirror in mirrors:
        if some and partitions + len(mirror.starts) > _AT_ONCE:
            yield some
            some, partitions = [], 0
        some.append(mirror)
        partitions += len(mirror.starts)
    if some:
        yield some
