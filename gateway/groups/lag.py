"""Consumer lag of mirror groups on both clusters, for the metrics: committed offsets beside log ends, now and then.

A round costs two requests per group (its offsets on each side), and per topic that such a group reads one on each side,
but only of topics that the mirror does not run: of the others it knows both ends anyway. At most `at_most` groups are
looked at in a round; with more of them each has its turn. Without a commit, or while a cluster does not tell, there is
no number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from gateway.errors import ControlError
from gateway.groups.reports import GroupReports, Lags
from gateway.groups.rules.lag import lag_by_topic
from gateway.kafka.connection.errors import NetError
from gateway.kafka.topic_partition import TopicPartition
from gateway.mirror.interface import PartitionStatus
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.cluster_errors import source_errors, target_errors
from gateway.operations.records import Records
from gateway.operations.sources import VIEW_S, SourcesForViews
from gateway.state.records import GroupRecord, MirrorRecord
from gateway.transport.background import Background

_PARALLEL: Final = 4
_TROUBLE: Final = (ControlError, NetError, TimeoutError, OSError)

_Ends = Sequence[int | None]


class GroupLags:
    """Writes `reports.lags`.

    Args:
        running: the partitions of a mirror that runs now, in order; empty when it does not.
        interval_s: between two rounds; 0: never.
        at_most: groups of one round.
    """

    def __init__(
        self,
        *,
        records: Records,
        views: SourcesForViews,
        target: ClusterAccess,
        running: Callable[[MirrorRecord], Sequence[PartitionStatus]],
        reports: GroupReports,
        interval_s: float,
        at_most: int,
    ) -> None:
        self._records = records
        self._views = views
        self._target = target
        self._running = running
        self._reports = reports
        self._interval_s = interval_s
        self._at_most = at_most
        self._after: tuple[str, str] = ("", "")  # whose turn was last

    def start(self, background: Background) -> None:
        """Begin to look, unless nobody is to."""
        if self._interval_s > 0:
            background.every(self._interval_s, self.look, "lags of groups")

    async def look(self) -> None:
        """One round."""
        groups = self._records.store.groups
        for key in [key for key in self._reports.lags if key not in groups]:
            del self._reports.lags[key]
        ends, parallel = _LogEnds(self._target, self._running), asyncio.Semaphore(_PARALLEL)

        async def one(record: GroupRecord) -> None:
            async with parallel:
                self._reports.lags[record.link, record.group] = await self._lags(record, ends)

        await asyncio.gather(*(one(groups[key]) for key in self._turn()))

    def _turn(self) -> Sequence[tuple[str, str]]:
        """The next ones in the order of their names, from the first again behind the last."""
        keys = sorted(self._records.store.groups)
        later = [key for key in keys if key > self._after]
        turn = [*later, *keys[: len(keys) - len(later)]][: self._at_most]
        self._after = turn[-1] if turn else ("", "")
        return turn

    async def _lags(self, record: GroupRecord, ends: _LogEnds) -> Lags:
        mirrors = [mirror for key, mirror in self._records.store.mirrors.items() if key[0] == record.link]
        by_source = {mirror.source_topic: mirror for mirror in mirrors}
        by_target = {mirror.mirror_topic: mirror for mirror in mirrors}
        source: Mapping[str, int] = {}
        target: Mapping[str, int] = {}
        try:
            access = await self._views.reach(self._records.link(record.link))
            with source_errors(record.link):
                async with asyncio.timeout(VIEW_S):
                    committed = _offsets(await access.committed_offsets(record.source_name), by_source)
            found = {name: await ends.on_source(by_source[name], access) for name, _ in committed}
            lags = lag_by_topic(committed, found)
            source = {by_source[name].mirror_topic: lag for name, lag in lags.items()}
        except _TROUBLE:
            pass  # not known
        try:
            with target_errors():
                async with asyncio.timeout(VIEW_S):
                    committed = _offsets(await self._target.committed_offsets(record.group), by_target)
            found = {name: await ends.on_target(by_target[name]) for name, _ in committed}
            target = lag_by_topic(committed, found)
        except _TROUBLE:
            pass
        return Lags(source, target)


def _offsets(
    committed: Mapping[TopicPartition, object], topics: Mapping[str, MirrorRecord]
) -> dict[TopicPartition, int]:
    return {key: int(getattr(one, "offset", -1)) for key, one in committed.items() if key[0] in topics}


class _LogEnds:
    """Of one round: each topic is asked about once on each side, if at all."""

    def __init__(self, target: ClusterAccess, running: Callable[[MirrorRecord], Sequence[PartitionStatus]]) -> None:
        self._target = target
        self._running = running
        self._asked: dict[tuple[str, str, bool], asyncio.Task[_Ends]] = {}

    async def on_source(self, mirror: MirrorRecord, access: ClusterAccess) -> _Ends:
        """Log ends on the source."""
        if running := self._running(mirror):
            return [one.target_end if mirror.is_reverse else one.source_end for one in running]
        return await self._once(mirror, access, mirror.source_topic, on_target=False)

    async def on_target(self, mirror: MirrorRecord) -> _Ends:
        """Log ends on the target."""
        if running := self._running(mirror):
            return [one.source_end if mirror.is_reverse else one.target_end for one in running]
        return await self._once(mirror, self._target, mirror.mirror_topic, on_target=True)

    async def _once(self, mirror: MirrorRecord, access: ClusterAccess, topic: str, *, on_target: bool) -> _Ends:
        key = (mirror.link, topic, on_target)
        if key not in self._asked:
            self._asked[key] = asyncio.create_task(
                _log_ends(access, topic, len(mirror.starts)), name=f"ends of {topic}"
            )
        return await self._asked[key]


async def _log_ends(access: ClusterAccess, topic: str, partitions: int) -> _Ends:
    """None of each when the cluster does not tell."""
    try:
        async with asyncio.timeout(VIEW_S):
            return [end for _, end in await access.log_ranges(topic, partitions)]
    except _TROUBLE:
        return [None] * partitions
