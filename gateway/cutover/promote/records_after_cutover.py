"""Watches promoted topics: for records that arrive on the source after the cutover, and configs still to be restored.

Wired by `runtime/term.py`, after `service.start`:

    watch = RecordsAfterCutover(records=..., ...)
    watch.start()                                  # its loop runs in `background`
    watch.of(link, topic)                          # partition -> records that came after the cutover; None: unknown
    await watch.require_none(link, topics)         # before a failback: reads the logs
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeVar

import structlog

from gateway.cutover.promote.rules.late_writes import (
    LateOfTopic,
    LateWrites,
    all_others,
    count_late,
    is_looked_at,
    is_mirrored_back,
    why_not_home,
    why_not_kept,
)
from gateway.cutover.promote.rules.post_promote_watch import LOOK_S, PostPromoteWatch, TopicOfLink, is_over
from gateway.cutover.write_pause.rules.routing_build import written_on_target
from gateway.errors import Conflict, ControlError, SourceUnreachable
from gateway.kafka.connection.errors import NetError
from gateway.kafka.rules.names import some_of
from gateway.mirror.partition.rules.log_tail import LogTail
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.cluster_errors import source_errors
from gateway.operations.deleted_mirrors import DeletedMirrors
from gateway.operations.origin_ends import Asked, SourceEnds
from gateway.operations.records import Records
from gateway.operations.sources import LinkHealth, Sources
from gateway.state import link_config
from gateway.state.per_partition import WrongLength, of_each, of_each_or_none
from gateway.state.producer_ids import mirror_producer_id
from gateway.state.records import LinkRecord, MirrorRecord, MirrorState
from gateway.state.store import StoreError
from gateway.topics.lifted_configs import LiftedConfigs
from gateway.transport.background import Background

_AT_ONCE: Final = 500
_READ_S = 4.0
_LATE_S = 10.0
_SIDE_BY_SIDE = 16
_T = TypeVar("_T")
_log = structlog.get_logger("lockgate.promote")


class RecordsAfterCutover:
    """For each topic that is written on the target, the records that clients wrote directly to the source.

    Also while it is mirrored back: the mirror back's own records do not count. After a failover, records that were not
    mirrored before it count, too.
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
        """`health`: by link name, live. `ends`: reads the source's log ends. `clock`: monotonic seconds."""
        self._records = records
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
        self._measured: set[TopicOfLink] = set()
        self.all: Mapping[tuple[str, str], Mapping[int, int]] = MappingProxyType(self._after_cutover)
        deleted.subscribe(lambda mirror: self._after_cutover.pop((mirror.link, mirror.mirror_topic), None))

    def start(self) -> None:
        """Begin to look; see `post_promote_watch.py` for how often."""
        self._background.every(LOOK_S, self.look, "records after the cutover")

    def of(self, link: str, topic: str) -> Mapping[int, int] | None:
        """Partition -> records after the cutover, when the source was last read; empty when there are none.

        None for a topic that is written on the target and was not compared since this process leads.
        """
        mirror, key = self._store.mirrors.get((link, topic)), (link, topic)
        if mirror is not None and written_on_target(mirror) and key not in self._measured:
            return None
        return self._after_cutover.get(key, {})

    def is_known(self, link: str, topic: str) -> bool:
        """Whether the answer of `of` is valid: the source was compared since this process leads, or need not be."""
        mirror = self._store.mirrors.get((link, topic))
        watched = mirror is not None and is_looked_at(mirror) and any(self._watched([mirror]))
        return not watched or (link, topic) in self._measured

    async def look(self) -> None:
        """Ask every reachable source once, for the topics that are due."""
        stopped = [m for m in self._store.mirrors.values() if m.state is MirrorState.STOPPED]
        written = [m for m in self._store.mirrors.values() if is_looked_at(m)]
        kept = {_key(m) for m in (*stopped, *written)}
        kept |= {
            _key(m) for m in self._store.mirrors.values() if m.is_reverse and m.state is MirrorState.PENDING_STOPPED
        }
        for key in self._after_cutover.keys() - kept:
            del self._after_cutover[key]  # a failback has dealt with them
        self._measured &= kept
        try:
            late = await self._lifted.restore_all([mirror for mirror in stopped if mirror.restore_configs])
        except StoreError as exc:
            _log.warning("topic configs not restored yet", error=str(exc))
        else:
            if late:
                _log.warning(
                    "topic configs not restored yet", topics=some_of(late), error=str(next(iter(late.values())))
                )
        watched = {_key(mirror): mirror for mirror in self._watched(written)}
        due: dict[str, list[MirrorRecord]] = {}
        for key in self._watch.due(watched, self._clock()):
            due.setdefault(key[0], []).append(watched[key])
        links = list(self._store.links.values())
        await asyncio.gather(*(self._look_at(link, due.get(link.name, [])) for link in links))  # none waits for others

    async def measure(self, link: str, topics: Sequence[str]) -> Mapping[str, LateOfTopic]:
        """The topics that are mirrored back and have such records, by the source's logs as read now.

        Raises:
            NotFound: no such link or topic.
            SourceUnreachable, Conflict: that is unknown.
        """
        of_link = self._records.link(link)
        mirrors = [one for name in topics if is_mirrored_back(one := self._records.mirror(link, name))]
        found: dict[str, LateOfTopic] = {}
        for some in _in_batches(mirrors):
            for mirror, marks in await self._read(of_link, some):
                with source_errors(link):
                    late = await self._late(of_link, mirror, marks, _floors(mirror, len(marks)))
                self._note(mirror, late.counts)
                self._measured.add(_key(mirror))
                if late.partitions:
                    found[mirror.mirror_topic] = late
        return found

    async def require_none(self, link: str, topics: Sequence[str], *, keep: bool = False) -> None:
        """Refuse to fail back a topic with such records: its mirror back could only FAIL, or leave them behind.

        `keep`: allow records that can be kept in place.

        Raises:
            Conflict: how many there are, where, and what can be done. Otherwise as `measure`.
        """
        for topic, late in (await self.measure(link, topics)).items():
            record = self._records.mirror(link, topic)
            if reason := why_not_kept(record, late) if keep else why_not_home(record, late):
                raise Conflict(reason)

    async def others_only(
        self, link: LinkRecord, mirror: MirrorRecord, places: Mapping[int, tuple[int, int]]
    ) -> frozenset[int]:
        """The partitions of a mirror back in whose range [from, to) on the source no batch is the mirror's.

        Raises:
            NetError, ControlError, TimeoutError, OSError: that is unknown.
        """
        back = _mirror_back(link, mirror)
        access = await self._sources.reach(link)

        async def only(index: int, first: int, end: int) -> bool:
            return await _ask(access, mirror.source_topic, index, all_others(first, end, back))

        found = await asyncio.gather(*(only(index, *place) for index, place in places.items()))
        return frozenset(index for index, others in zip(places, found, strict=True) if others)

    def _watched(self, written: Sequence[MirrorRecord]) -> Iterator[MirrorRecord]:
        now_ms = self._now_ms()
        watch_ms = {
            name: link_config.parse(link.configs).post_promote_watch_ms for name, link in self._store.links.items()
        }
        for mirror in written:
            cutover = mirror.cutover
            since_ms = max(cutover.at_ms, cutover.undo_until_ms) if cutover.undo_until_ms else cutover.at_ms
            if mirror.is_reverse or not is_over(since_ms, watch_ms.get(mirror.link, 0), now_ms):
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
        """Count a topic's late writes again; if they cannot be read now, the last count stays."""
        counts, measured = self._after_cutover.get(_key(mirror), {}), False
        try:
            floors = _floors(mirror, len(marks))
            counts, measured = (await self._late(link, mirror, marks, floors)).counts, True
        except (ControlError, NetError, TimeoutError, OSError, WrongLength) as exc:
            _log.debug("source of a promoted topic not compared", topic=mirror.mirror_topic, error=str(exc))
        if self._store.mirrors.get(_key(mirror)) is mirror:  # otherwise a mirror back began or ended meanwhile
            self._note(mirror, counts)
            if measured:
                self._measured.add(_key(mirror))

    async def _marks(
        self, link: LinkRecord, mirrors: Sequence[MirrorRecord]
    ) -> list[tuple[MirrorRecord, Sequence[int]]]:
        """The high watermarks of all partitions of the source topics that can be read.

        Raises:
            SourceUnreachable: the source does not answer: asking for one topic after the other would only take long.
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

    async def _late(
        self, link: LinkRecord, mirror: MirrorRecord, marks: Sequence[int], floors: Sequence[int]
    ) -> LateOfTopic:
        """The late writes of a topic, without the mirror back's records: see `rules/late_writes.py`."""
        back = _mirror_back(link, mirror)
        beyond = [index for index, (end, floor) in enumerate(zip(marks, floors, strict=True)) if end > floor]
        if not beyond:
            return LateOfTopic()
        slots = asyncio.Semaphore(_SIDE_BY_SIDE)
        access = await self._sources.reach(link)

        async def late_in(index: int) -> LateWrites:
            reads = count_late(floors[index], marks[index], back)
            async with slots:
                return await _ask(access, mirror.source_topic, index, reads)

        async with asyncio.timeout(_LATE_S):
            found = await asyncio.gather(*(late_in(index) for index in beyond))
        return LateOfTopic({index: late for index, late in zip(beyond, found, strict=True) if late.count})

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


async def _ask(access: ClusterAccess, topic: str, index: int, reads: Generator[int, LogTail | None, _T]) -> _T:
    """Read the batches that a decision yields offsets for, until it returns."""
    try:
        at = next(reads)
        while True:
            at = reads.send(await access.writer_at(topic, index, at))
    except StopIteration as over:
        found: _T = over.value
        return found


def _mirror_back(link: LinkRecord, mirror: MirrorRecord) -> int:
    """The producer id of a mirror's appends to the source."""
    return mirror_producer_id(link.link_id, mirror.mirror_id, mirror.failback.epoch, reverse=True)


def _floors(mirror: MirrorRecord, partitions: int) -> Sequence[int]:
    """By partition, the source offset from which other writers' records are late; 0 for an added partition.

    Raises:
        WrongLength: the record does not have an entry for every partition.
    """
    if mirror.is_reverse:
        known = of_each_or_none(mirror, mirror.failback.handed_over_at, "handed_over_at")
    else:
        known = of_each(mirror, mirror.cutover.stopped_at, "stopped_at")
    return known + (0,) * (partitions - len(known))


def _key(mirror: MirrorRecord) -> TopicOfLink:
    return mirror.link, mirror.mirror_topic


def _in_batches(mirrors: Sequence[MirrorRecord]) -> Iterator[Sequence[MirrorRecord]]:
    """Batches of some hundred partitions, so that no request takes long."""
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
