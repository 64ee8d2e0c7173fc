"""What the engine tells, turned into records.

The events only note what is so; `reconcile` then compares it with the records and changes those that differ.
So an event that comes while the state cannot be written is not lost, and a short loss of a source is no change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import structlog

from gateway.cutover.write_pause.publisher import RoutingPublisher
from gateway.errors import ControlError
from gateway.operations.deleted_mirrors import DeletedMirrors
from gateway.operations.link_tasks import LinkTask, LinkTasks
from gateway.operations.offset_translation import OffsetMaps
from gateway.operations.records import Records
from gateway.operations.sources import LinkHealth
from gateway.state.codec import key_of
from gateway.state.link_config import parse
from gateway.state.mirror_states import MirrorOperation, WrongState, allows, tag_of
from gateway.state.records import LostRecords, MirrorError, MirrorMode, MirrorRecord
from gateway.state.store import StoreConflict, StoreError
from gateway.topics.status import Measure
from gateway.transport.background import Background, together

_TICK_S = 1.0
_TOGETHER = 64  # mirrors in one write
_BACK = "in the failback, where the target is the source and the source the target"
_log = structlog.get_logger("lockgate.control")


class EngineEvents:
    """Implements `MirrorEvents`."""

    def __init__(
        self,
        *,
        records: Records,
        measure: Measure,
        maps: OffsetMaps,
        publisher: RoutingPublisher,
        health: dict[str, LinkHealth],
        background: Background,
        deleted: DeletedMirrors,
        tasks: LinkTasks,
        clock: Callable[[], float],
    ) -> None:
        """`health`: by link name; written here. `clock`: monotonic seconds."""
        self._records = records
        self._store = records.store
        self._publisher = publisher
        self._health = health
        self._background = background
        self._measure = measure
        self._tasks = tasks
        self._clock = clock
        self._refused_since: dict[str, float] = {}
        self._of: dict[tuple[str, str], tuple[int, str]] = {}  # what was told is of which mirror: its id, its tag
        self._failed: dict[tuple[str, str], tuple[MirrorError, str]] = {}
        self._readable: set[tuple[str, str]] = set()  # to be stored
        self._maps = maps
        self._translated = maps.turned_translated
        maps.found_translated = self.topic_translated
        self._lost: dict[tuple[str, str], list[tuple[int, int, int]]] = {}
        self._news = asyncio.Event()
        self._changes = records.store.mirror_changes()
        self._seen: dict[str, LinkHealth] = {}  # the health by which all mirrors were looked at
        self._left: set[tuple[str, str]] = set()  # mirrors that are to be looked at, or once more
        self._settled_at = -1  # offset of the state up to which nothing was left to do
        deleted.subscribe(self._forget)

    def partition_failed(self, link: str, topic: str, partition: int, error: MirrorError, message: str) -> None:
        """The first failure of a mirror is its reason."""
        self._failed.setdefault(self._told_of(link, topic), (error, f"partition {partition}: {message}"))
        self._news.set()

    def source_available(self, link: str, available: bool, message: str, *, refused: bool = False) -> None:
        """Lost is SOURCE_UNAVAILABLE, found again is ACTIVE. The engine tells of a loss only once it lasts.

        What is lost stays so since then, whatever keeps it so now. A source that answers and refuses the link for
        `cluster.link.retry.timeout.ms` has its mirrors LINK_FAILED.
        """
        known = self._health.get(link)
        since_ms = known.since_ms if known and known.available == available else self._records.now_ms()
        health = LinkHealth(available, since_ms, "" if available else message, refused=refused)
        silent_since = None if known is None else known.silent_since
        if available or refused:
            silent_since = None
        elif silent_since is None:
            silent_since = self._clock()
        failed = refused and known is not None and known.failed
        self._health[link] = replace(health, failed=failed, silent_since=silent_since)
        if refused:
            self._refused_since.setdefault(link, self._clock())
        else:
            self._refused_since.pop(link, None)
        if available:
            self._tasks.succeeded(link, LinkTask.CHECK_AVAILABILITY)
        else:
            self._tasks.failed(link, LinkTask.CHECK_AVAILABILITY, (health.code, message))
        self._news.set()

    def _look_at_refused(self) -> None:
        """Links that are refused for longer than they are to try again."""
        for name, since in list(self._refused_since.items()):
            link, health = self._store.links.get(name), self._health.get(name)
            if link is None or health is None or not health.refused:
                del self._refused_since[name]
            elif not health.failed and self._clock() - since >= parse(link.configs).retry_timeout_ms / 1000:
                _log.error("the source has refused this link for too long", link=name, reason=health.message)
                self._health[name] = replace(health, failed=True, since_ms=self._records.now_ms())
                self._news.set()

    def topic_translated(self, link: str, topic: str, reason: str) -> None:
        """The topic's mode is translate from now on; the first reason is its reason."""
        self._translated.setdefault(self._told_of(link, topic), reason)
        self._news.set()

    def records_lost(self, link: str, topic: str, partition: int, first: int, following: int) -> None:
        """Deleted on the source before they were mirrored."""
        self._lost.setdefault(self._told_of(link, topic), []).append((partition, first, following))
        self._news.set()

    def topic_readable(self, link: str, topic: str) -> None:
        """All partitions are padded."""
        if (link, topic) not in self._store.mirrors:
            return
        self._readable.add(self._told_of(link, topic))
        self._publisher.make_readable(topic)
        self._news.set()

    def _told_of(self, link: str, topic: str) -> tuple[str, str]:
        """The key of the mirror that is told of now."""
        mirror = self._store.mirrors.get((link, topic))
        if mirror is not None:
            self._keep_to(mirror)
        return link, topic

    def _keep_to(self, mirror: MirrorRecord) -> None:
        """Forget what was told of a mirror that this one has taken the place of.

        One that is repaired has not failed as it had before; and nothing is known yet of a copy that is made anew.
        """
        key, now = (mirror.link, mirror.mirror_topic), (mirror.mirror_id, tag_of(mirror))
        before = self._of.get(key, now)
        if before[0] != now[0]:
            self._forget(mirror)
        elif before != now:
            self._failed.pop(key, None)
        self._of[key] = now

    async def run(self) -> None:
        """Reconcile at each event, and once a second when the records have changed or something was left undone."""
        while True:
            with suppress(TimeoutError):
                # Not wait_for: in 3.11 it loses a cancellation that comes together with the event.
                async with asyncio.timeout(together(_TICK_S, asyncio.get_running_loop().time())):
                    await self._news.wait()
            self._look_at_refused()
            if self._news.is_set() or self._settled_at != self._store.applied:
                self._news.clear()
                await self.reconcile()
            self._publisher.look()

    async def reconcile(self) -> None:
        """Bring every mirror's record in line with what the engine has told: those that may not be so are looked at."""
        applied, is_settled = self._store.applied, True
        self._note_changes()
        await self._store_readable()
        for key in list(self._left):
            mirror = self._store.mirrors.get(key)
            try:
                if mirror is not None:
                    await self._reconcile(mirror)
            except (WrongState, ControlError):
                is_settled = False  # an operator was faster; what is left to do shows at the next tick
                continue
            except StoreError as exc:
                _log.warning("state not written, will be tried again", topic=key[1], error=str(exc))
                self._settled_at = -1  # nobody tells the news a second time
                return
            self._left.discard(key)
        self._settled_at = applied if is_settled else -1

    def _note_changes(self) -> None:
        """All mirrors are to be looked at when a link has changed, or how its source is; else those whose record has,
        and those of which something was told."""
        topics, links = self._changes.take()
        if links or self._health != self._seen:
            self._seen = dict(self._health)
            self._left.update(self._store.mirrors)
            return
        found = map(self._store.mirror_of, topics)
        self._left.update((mirror.link, mirror.mirror_topic) for mirror in found if mirror is not None)
        self._left.update(self._failed, self._readable, self._translated)
        self._left.update(key for key, reports in self._lost.items() if reports)

    async def _store_readable(self) -> None:
        """Of mirrors that come to be readable at about the same time some in each write; what fails goes one by one.

        What is stored is forgotten, so the next look is at what is news by then.
        """
        told = list(self._readable)
        for first in range(0, len(told), _TOGETHER):
            olds = [*filter(None, map(self._came_readable, told[first : first + _TOGETHER]))]
            if len(olds) < 2:
                continue
            news = [replace(mirror, readable=True) for mirror in olds]
            try:
                await self._store.write([(key_of(new), new) for new in news], self._store.unchanged(olds))
            except StoreConflict:
                continue  # that one of these was changed must not keep the others apart
            except StoreError:
                return

    def _came_readable(self, key: tuple[str, str]) -> MirrorRecord | None:
        """Its record when nothing is to be done about it but to store that it is readable."""
        mirror = self._store.mirrors.get(key)
        if mirror is not None:
            self._keep_to(mirror)
        if mirror is None or mirror.readable:
            self._readable.discard(key)
            return None
        return mirror if key in self._readable and self._is_all(mirror) else None

    def _is_all(self, mirror: MirrorRecord) -> bool:
        """Nothing else is to be done about it."""
        key = (mirror.link, mirror.mirror_topic)
        return key not in self._failed and not self._lost.get(key) and self._due(mirror) is None

    async def _reconcile(self, mirror: MirrorRecord) -> None:
        key = (mirror.link, mirror.mirror_topic)
        self._keep_to(mirror)
        failure = self._failed.get(key)
        if failure is not None and allows(MirrorOperation.FAIL, mirror.state):
            message = f"{_BACK}: {failure[1]}{_ways_out(mirror, failure[0])}" if mirror.is_reverse else failure[1]
            await self._records.change(*key, MirrorOperation.FAIL, error=failure[0], error_message=message)
            # Not awaited: the other mirrors' news must not wait until its last appends are answered.
            self._background.spawn(self._measure.stop(mirror), f"stop failed mirror {mirror.mirror_topic}")
            return
        self._failed.pop(key, None)
        operation = self._due(mirror)
        if operation is not None:
            reason = self._health[mirror.link].message
            await self._records.change(*key, operation, error_message=reason)
        elif self._lost.get(key):
            reports = tuple(self._lost[key])
            await self._store.replace(mirror, with_lost(mirror, reports))
            self._lost[key] = self._lost[key][len(reports) :]
        elif key in self._readable and not mirror.readable:
            await self._store.replace(mirror, replace(mirror, readable=True))
        elif key in self._translated and mirror.mode is MirrorMode.PRESERVE:
            reason = f"offsets are translated: {self._translated[key]}"
            await self._store.replace(mirror, replace(mirror, mode=MirrorMode.TRANSLATE, mode_reason=reason))
            _log.warning("mirror mode", link=mirror.link, topic=mirror.mirror_topic, mode="translate", reason=reason)

    def _due(self, mirror: MirrorRecord) -> MirrorOperation | None:
        health, link = self._health.get(mirror.link), self._store.links.get(mirror.link)
        if health is None or link is None or parse(link.configs).paused:
            return None
        operation = MirrorOperation.LOSE_LINK if health.failed else MirrorOperation.LOSE_SOURCE
        if health.available:
            operation = MirrorOperation.FIND_SOURCE
        return operation if allows(operation, mirror.state) else None

    def _forget(self, mirror: MirrorRecord) -> None:
        key = (mirror.link, mirror.mirror_topic)
        self._of.pop(key, None)
        self._failed.pop(key, None)
        self._readable.discard(key)
        self._lost.pop(key, None)
        self._translated.pop(key, None)
        self._maps.forget(key)


def with_lost(mirror: MirrorRecord, reports: Sequence[tuple[int, int, int]]) -> MirrorRecord:
    """With stretches of offsets that were lost: (partition, first, following). Those of no partition are no news."""
    lost = [*mirror.lost, *(LostRecords(0, 0) for _ in range(len(mirror.starts) - len(mirror.lost)))]
    for partition, first, following in reports:
        if partition >= len(lost):
            continue
        lost[partition] = lost[partition].and_also(first, following)
    return replace(mirror, lost=tuple(lost))


def _ways_out(mirror: MirrorRecord, error: MirrorError) -> str:
    """Of a mirror back that cannot go on: as a rule somebody has written to the source beside the gateway."""
    if error is not MirrorError.TARGET_DIVERGED:
        return ""
    return (
        f"; somebody has written to topic {mirror.source_topic} on the source beside the gateway, as it seems: "
        f"`lockgate mirror undo {mirror.mirror_topic} --link {mirror.link} --dry-run` says how many records, where, "
        "and what can be done. Clients write to the target, and go on"
    )
