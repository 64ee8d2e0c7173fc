"""Mirrors that a job copies up to the tail: what the job is told, what it reports, and that nobody else copies them.

While a job reports, the engine leaves its mirrors alone. Appends of both would mostly be safe, by the sequence rule,
but every byte would travel twice; and while records older than the target's producer.id.expiration.ms are copied, the
rule is off now and then (see `domain.append_window`), so then there must be one appender only. The same holds for two
jobs.

It is a lease: a job that says nothing for `LEASE_S` has ended, however it ended, and the engine goes on from the
target's log ends. Nothing of this is stored: after a restart the engine copies until the job reports again.

A job that meets offset gaps writes the link's offset map, as the engine does, and may be gone before it can say so. So
the map itself is asked: while a job copies by whoever translates offsets (`operations/offset_translation.py`), and at
its end of a mirror that the engine does not go on with.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

import structlog

from gateway.errors import Conflict, ControlError
from gateway.fleet.rules.leases import CATCH_UP_LEASE_S
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.deleted_mirrors import DeletedMirrors
from gateway.operations.offset_translation import OffsetMaps
from gateway.operations.records import Records
from gateway.state.mirror_states import is_mirroring
from gateway.state.provenance import sources_by_tag
from gateway.state.records import GroupRecord, LinkRecord, MirrorRecord, MirrorState
from gateway.state.schemas.id_map import id_map, same_on_target
from gateway.state.store import StoreConflict
from gateway.topics.events import with_lost
from gateway.topics.paused_for_job import Key, PausedForJob
from gateway.topics.status import Measure
from gateway.transport.locks import KeyedLocks

LEASE_S: Final = CATCH_UP_LEASE_S

_STATES: Final = (MirrorState.ACTIVE, MirrorState.PAUSED, MirrorState.SOURCE_UNAVAILABLE)
_log = structlog.get_logger("lockgate.control")


class JobState(StrEnum):
    """What a job says of itself."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUp:
    """How far a job is with one mirror.

    `by`: what kind of job, such as spark. Records and bytes are counted from where the job began, bytes being about
    right. `eta_s` is -1 while it is not known.
    """

    job: str
    by: str
    records_done: int
    records_total: int
    bytes_done: int
    bytes_total: int
    bytes_per_s: float
    eta_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """What a job needs to append, read or translate as the mirror does: ids, starts, modes, and how to reach both
    clusters, secrets included. `sources`: see `state/provenance.py` `sources_by_tag`. `ids`, `same_ids`: see
    `state/schemas/id_map.py`; empty unless a mirror writes schema ids anew."""

    link: LinkRecord
    target_cluster_id: str
    target_client: Mapping[str, str]
    mirrors: Sequence[MirrorRecord]
    groups: Sequence[GroupRecord] = ()
    sources: Mapping[int, str] = field(default_factory=dict)
    ids: Mapping[int, int] = field(default_factory=dict)
    same_ids: Mapping[int, int] = field(default_factory=dict)


Lost = Sequence[tuple[int, int, int]]
"""Source offsets that a job went on without: partition, the first one, the one after the last."""


class CatchUps:
    """The jobs that are heard of. `clock`: monotonic seconds."""

    def __init__(
        self,
        *,
        records: Records,
        target: ClusterAccess,
        engine: PausedForJob,
        measure: Measure,
        maps: OffsetMaps,
        locks: KeyedLocks,
        deleted: DeletedMirrors,
        clock: Callable[[], float],
    ) -> None:
        """`engine`: the one that everybody uses."""
        self._records = records
        self._store = records.store
        self._target = target
        self._engine = engine
        self._measure = measure
        self._locks = locks
        self._clock = clock
        self._running: dict[Key, tuple[CatchUp, float]] = {}  # and until when it is believed
        self._maps = maps
        measure.catching_up = lambda mirror: (mirror.link, mirror.mirror_topic) in self._running
        maps.copied_by_job = self._running.__contains__
        deleted.subscribe(lambda mirror: self._running.pop((mirror.link, mirror.mirror_topic), None))

    def paused_for_job(self) -> frozenset[Key]:
        """The mirrors that no gateway is to copy now."""
        return self._engine.left

    def of(self, link: str, topic: str) -> CatchUp | None:
        """The job that copies a mirror now."""
        found = self._running.get((link, topic))
        return None if found is None else found[0]

    def plan(self, link: str, topics: Sequence[str]) -> JobPlan:
        """What a catch-up job is told. No topic means all mirrors of the link that can be caught up.

        Raises:
            NotFound, Conflict: for any of the topics.
        """
        found = self.reading_plan(link, topics)
        if topics:
            for mirror in found.mirrors:
                _check(mirror)
            return found
        return replace(found, mirrors=[mirror for mirror in found.mirrors if not _why_not(mirror)])

    def reading_plan(self, link: str, topics: Sequence[str]) -> JobPlan:
        """What a job is told that only reads the topics, whatever state they are in. No topic means all mirrors.

        Raises:
            NotFound: no such link, or mirror.
        """
        record = self._records.link(link)
        if topics:
            mirrors = [self._records.mirror(link, topic) for topic in dict.fromkeys(topics)]
        else:
            mirrors = [mirror for key, mirror in sorted(self._store.mirrors.items()) if key[0] == link]
        schemas = self._store.schemas.get(link, {}).values() if any(one.translates_ids for one in mirrors) else ()
        of_link = [one for one in schemas if one.link_id == record.link_id]
        return JobPlan(
            link=record,
            target_cluster_id=self._target.cluster_id(),
            target_client=self._target.cluster.config.properties,
            mirrors=mirrors,
            groups=[group for key, group in sorted(self._store.groups.items()) if key[0] == link],
            sources=sources_by_tag(self._store.origins, self._store.links),
            ids=id_map(of_link),
            same_ids=same_on_target(of_link),
        )

    async def report(
        self, link: str, job: str, state: JobState, topics: Mapping[str, CatchUp], lost: Mapping[str, Lost] = {}
    ) -> None:
        """A job begins, goes on, or ends. It may append once its first report has returned.

        Args:
            lost: by mirror topic: what it goes on without, or went when it ends. It is stored once this has returned.

        Raises:
            NotFound: no such link or mirror.
            Conflict: another job copies one of the mirrors, or it is in a state that has no backlog to copy. Those of
                this job that run stay as they are.
        """
        if state is not JobState.RUNNING:
            ended = [key for key, (known, _) in self._running.items() if key[0] == link and known.job == job]
            for key in ended:
                if key[1] in lost:
                    await self._note_lost(key, lost[key[1]])
                await self._end(key, state.value)
            await self._look_at_maps(ended)
            return
        for topic in {**topics, **lost}:
            self._check_free(link, topic, job)
        until = self._clock() + LEASE_S
        news = [topic for topic in topics if (link, topic) not in self._running]
        for topic, progress in topics.items():
            self._running[link, topic] = progress, until
        await asyncio.gather(*(self._begin(link, topic) for topic in news))
        await asyncio.gather(*(self._note_lost((link, topic), found) for topic, found in lost.items()))

    async def expire(self) -> None:
        """Take back the mirrors of jobs that were not heard of in time."""
        now = self._clock()
        expired = [key for key, (_, until) in self._running.items() if until < now]
        for key in expired:
            await self._end(key, "not heard of any more")
        await self._look_at_maps(expired)

    def require_none(self, link: str, topics: Sequence[str]) -> None:
        """Raises Conflict when a job copies one of the topics."""
        for topic in topics:
            progress = self.of(link, topic)
            if progress is not None:
                raise Conflict(
                    f"mirror topic '{topic}' is being caught up by {progress.by} job {progress.job}; wait for its end, "
                    "or stop the job"
                )

    def _check_free(self, link: str, topic: str, job: str) -> None:
        mirror = self._records.mirror(link, topic)
        running = self.of(link, topic)
        if running is not None and running.job != job:
            raise Conflict(
                f"mirror topic '{topic}' is being caught up by {running.by} job {running.job}; wait for its end, or "
                f"{LEASE_S:g} s if it was killed"
            )
        _check(mirror)

    async def _begin(self, link: str, topic: str) -> None:
        """Raises Conflict when the mirror came to be in another state meanwhile: it may have been failed over."""
        self._engine.leave((link, topic))
        async with self._locks.hold(f"mirror/{topic}"):
            mirror = self._records.mirror(link, topic)
            if _why_not(mirror):
                self._running.pop((link, topic), None)
                self._engine.take_back((link, topic))
                _check(mirror)
            if self.of(link, topic) is not None and mirror.state is not MirrorState.PAUSED:
                await self._measure.stop(mirror)
        progress = self.of(link, topic)
        _log.info("catch-up begun", link=link, topic=topic, job="" if progress is None else progress.job)

    async def _note_lost(self, key: Key, lost: Lost) -> None:
        """What is stored already costs no write: a heartbeat that was not answered in time tells it again."""
        async with self._locks.hold(f"mirror/{key[1]}"):
            while (mirror := self._store.mirrors.get(key)) and (noted := with_lost(mirror, lost)) != mirror:
                with suppress(StoreConflict):  # somebody was faster: it is added to what they have stored
                    # With those of other topics: a job can find thousands at its begin, and waits for them.
                    await self._store.put(noted, guard=self._store.unchanged([mirror]), with_others=True)

    async def _look_at_maps(self, keys: Sequence[Key]) -> None:
        """Have the records say of which mirrors a job has begun to translate the offsets."""
        mirrors = [self._store.mirrors[key] for key in keys if key in self._store.mirrors]
        with suppress(ControlError):  # asked again by whoever needs to know
            await asyncio.gather(*map(self._maps.is_translated, mirrors))

    async def _end(self, key: Key, why: str) -> None:
        known = self._running.pop(key, None)
        self._maps.job_ended(key)
        self._engine.take_back(key)
        async with self._locks.hold(f"mirror/{key[1]}"):
            mirror = self._store.mirrors.get(key)
            if known is not None and mirror is not None and key not in self._running and is_mirroring(mirror.state):
                self._engine.start_mirror(mirror)
        _log.info("catch-up ended", link=key[0], topic=key[1], job="" if known is None else known[0].job, reason=why)


def _check(mirror: MirrorRecord) -> None:
    why = _why_not(mirror)
    if why:
        raise Conflict(f"mirror topic '{mirror.mirror_topic}' {why}")


def _why_not(mirror: MirrorRecord) -> str:
    """Why a job cannot copy the backlog of a mirror; '' when it can."""
    if mirror.state not in _STATES:
        return f"is {mirror.state}: there is nothing to catch up"
    if mirror.is_reverse:
        return "is mirrored back to the source; jobs copy towards the target only"
    if mirror.failback.handed_over_at:
        return "was written on the target before and has failed back; the gateway copies it by itself"
    if mirror.translates_ids:
        return "has its schema ids written anew, which jobs do not do; the gateway copies it by itself"
    return ""
