"""Looks, every few seconds, whether the topics that hold the copies are still there and still the mirrors' own.

One request names many topics. What it takes for a copy to count as gone is in `rules/copy_watch.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import structlog

from gateway.errors import ControlError
from gateway.kafka.connection.errors import NetError
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.records import Records
from gateway.operations.sources import Sources
from gateway.state.mirror_states import MirrorOperation, WrongState
from gateway.state.records import MirrorRecord
from gateway.state.store import StoreError
from gateway.topics.copy_differences import CopyDifferences
from gateway.topics.rules.copy_watch import CopyTopicWatch, Look, failure, is_watched
from gateway.topics.status import Measure
from gateway.transport.background import Background

LOOK_EVERY_S: Final = 5.0
REST_S: Final = 30.0
"""Copies that are all as they were are looked at less and less often, down to this."""

_AT_ONCE: Final = 1000
_log = structlog.get_logger("lockgate.control")

_Key = tuple[str, str, int, str]


class CopyWatch:
    """Of all mirrors. `clock`: monotonic seconds."""

    def __init__(
        self,
        *,
        records: Records,
        sources: Sources,
        target: ClusterAccess,
        measure: Measure,
        background: Background,
        differences: CopyDifferences,
        clock: Callable[[], float],
    ) -> None:
        self._records = records
        self._store = records.store
        self._sources = sources
        self._target = target
        self._measure = measure
        self._background = background
        self._differences = differences
        self._clock = clock
        self._watches: dict[_Key, CopyTopicWatch] = {}
        self._seen = -1  # offset of the state at the last look
        self._pause_s = 0.0
        self._due = float("-inf")

    async def look(self) -> None:
        """At all copies that are to be looked at, when it is time. A cluster that does not answer has said nothing."""
        now, is_news = self._clock(), self._store.applied != self._seen
        if now < self._due and not is_news:
            return
        self._seen = self._store.applied
        await self._look()
        is_calm = not is_news and all(not watch.doubted for watch in self._watches.values())
        self._pause_s = min(REST_S, max(LOOK_EVERY_S, 2 * self._pause_s)) if is_calm else LOOK_EVERY_S
        self._due = now + self._pause_s

    async def _look(self) -> None:
        watched = [record for record in self._store.mirrors.values() if is_watched(record)]
        keys = set(map(_key, watched))
        self._watches = {key: watch for key, watch in self._watches.items() if key in keys}
        forward = [record for record in watched if not record.is_reverse]
        await self._look_at(forward, self._target)
        for name in sorted({record.link for record in watched if record.is_reverse}):
            link = self._store.links.get(name)
            if link is None:
                continue
            with suppress(ControlError):
                source = await self._sources.reach(link)
                await self._look_at([one for one in watched if one.is_reverse and one.link == name], source)

    async def _look_at(self, records: Sequence[MirrorRecord], cluster: ClusterAccess) -> None:
        for at in range(0, len(records), _AT_ONCE):
            some = records[at : at + _AT_ONCE]
            try:
                found = await cluster.topics([_copy(record)[0] for record in some])
            except (NetError, TimeoutError, OSError):
                continue
            now = self._clock()
            for record in some:
                name, topic_id = _copy(record)
                watch = self._watches.setdefault(_key(record), CopyTopicWatch(topic_id))
                topic = found.get(name)
                if topic is not None:
                    self._differences.copy_seen(record, topic)
                look = watch.look(None if topic is None else topic.topic_id, now)
                if look in (Look.ASK, Look.ANOTHER):
                    await self._judge(record, watch, look, cluster)

    async def _judge(self, record: MirrorRecord, watch: CopyTopicWatch, look: Look, cluster: ClusterAccess) -> None:
        if look is Look.ASK:
            try:
                is_absent = await cluster.is_absent(_copy(record)[0])
            except (NetError, TimeoutError, OSError):
                return
            if not is_absent:
                watch.there()
                return
        error, message = failure(record, look, watch.seen_id)

        def still(current: MirrorRecord) -> MirrorRecord:
            if _key(current) != _key(record):
                raise WrongState(f"mirror topic '{record.mirror_topic}' was changed meanwhile")
            return current

        try:
            await self._records.change(
                record.link, record.mirror_topic, MirrorOperation.FAIL, still, error=error, error_message=message
            )
        except (ControlError, WrongState, StoreError) as exc:
            _log.info("a copy that is gone is looked at again", topic=record.mirror_topic, reason=str(exc))
            return
        _log.error("the copy is gone", link=record.link, topic=record.mirror_topic, error=error.value, reason=message)
        self._background.spawn(self._measure.stop(record), f"stop failed mirror {record.mirror_topic}")


def _copy(record: MirrorRecord) -> tuple[str, str]:
    """The name and the id of the topic that holds it."""
    if record.is_reverse:
        return record.source_topic, record.source_topic_id
    return record.mirror_topic, record.mirror_topic_id


def _key(record: MirrorRecord) -> _Key:
    """Another topic is another watch."""
    return record.link, record.mirror_topic, record.repairs, _copy(record)[1]
