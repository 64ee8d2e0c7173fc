"""The mirror of one gateway process: every link's topics, copied to the target. See `domain.ports.MirrorEngine`."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

from gateway.domain.ports import MirrorEvents, PartitionStatus
from gateway.domain.progress import MirrorProgress
from gateway.domain.records import LinkRecord, MirrorRecord, ProducerEntry
from gateway.mirror.link import LinkMirror
from gateway.net.cluster import Cluster, ClusterView
from gateway.net.config import ClusterConfig
from gateway.replication.appender import Appender
from gateway.replication.runner import PartitionRunner
from gateway.replication.tasks import Tasks

_log = logging.getLogger(__name__)

_TICK_S: Final = 1.0


def _connect(link: LinkRecord) -> Cluster:
    return Cluster(ClusterConfig.from_client_properties(link.client))


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


class Engine:
    """Implements `gateway.domain.ports.MirrorEngine`.

    Args:
        target: started by its owner, and not closed here.
        progress: told after every append.
        events: told of failures, settled topics and lost sources.
        connect: makes a link's source cluster, which the engine starts and closes.
    """

    def __init__(
        self,
        target: Cluster,
        progress: MirrorProgress,
        events: MirrorEvents,
        *,
        connect: Callable[[LinkRecord], Cluster] = _connect,
        clock: Callable[[], float] = time.monotonic,
        wall_ms: Callable[[], int] = _wall_ms,
    ) -> None:
        self._target = target
        self._progress = progress
        self._events = events
        self._connect = connect
        self._clock = clock
        self._wall_ms = wall_ms
        self._tasks = Tasks()
        self._links: dict[str, LinkMirror] = {}
        self._runners: dict[tuple[str, int], PartitionRunner] = {}
        self._appenders: dict[int, Appender] = {}
        self._ticking = False
        target.on_view.append(self._target_changed)

    async def start_link(self, link: LinkRecord) -> None:
        """Begin to keep connections to the link's source. A link that runs is left as it is."""
        if link.name in self._links:
            return
        made = LinkMirror(
            link,
            self._connect(link),
            self._target,
            progress=self._progress,
            events=self._events,
            assign_target=self._assign_target,
            release=self._release,
            pump=self._pump,
            clock=self._clock,
            wall_ms=self._wall_ms,
        )
        self._links[link.name] = made
        made.start()
        if not self._ticking:
            self._ticking = True
            self._tasks.spawn(self._tick(), "mirror tick")

    async def stop_link(self, link: str) -> None:
        """Stop all of the link's mirrors and close its connections."""
        found = self._links.pop(link, None)
        if found is not None:
            for runner in found.runners():
                self._runners.pop(runner.key, None)
            await found.close()

    def start_mirror(self, mirror: MirrorRecord) -> None:
        """Mirror all partitions from where the target's logs end.

        Raises:
            KeyError: the link is not started.
        """
        link = self._links[mirror.link]
        if mirror.mirror_topic in link.topics:
            return
        self._target.invalidate(mirror.mirror_topic)
        link.add(mirror)
        for runner in link.topics[mirror.mirror_topic].runners:
            self._runners[runner.key] = runner

    async def stop_mirror(self, link: str, topic: str) -> None:
        """Stop fetching and wait for the appends in flight."""
        found = self._links.get(link)
        if found is not None and topic in found.topics:
            for runner in found.topics[topic].runners:
                self._runners.pop(runner.key, None)
            await found.remove(topic)

    async def close(self) -> None:
        """Stop every link."""
        self._target.on_view.remove(self._target_changed)
        await asyncio.gather(*(self.stop_link(name) for name in tuple(self._links)))
        await self._tasks.close()

    def source(self, link: str) -> Cluster | None:
        """The link's source cluster, for others that talk to it; None when the link is not started."""
        found = self._links.get(link)
        return None if found is None else found.source

    def status(self, link: str, topic: str) -> Sequence[PartitionStatus]:
        """The partitions of a mirror, in order; empty if it is not run."""
        found = self._links.get(link)
        mirror = None if found is None else found.topics.get(topic)
        return () if mirror is None else mirror.status()

    def producer_table(self, link: str, topic: str) -> tuple[tuple[ProducerEntry, ...], ...]:
        """Per partition the last five batches of each gateway-issued producer id, oldest first."""
        found = self._links.get(link)
        mirror = None if found is None else found.topics.get(topic)
        return () if mirror is None else mirror.producer_table()

    def forwarded(self, topic: str, partition: int, base_offset: int, records: int) -> None:
        """A Produce of a client was written to the source: `records` from `base_offset` on. For `bypassed`."""
        runner = self._runners.get((topic, partition))
        if runner is not None:
            runner.forwarded(base_offset, records)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            now = self._clock()
            for link in tuple(self._links.values()):
                try:
                    link.tick(now)
                except Exception:  # noqa: BLE001 - one link's fault stays this link's
                    _log.exception("link %s: the once-a-second look failed", link.record.name)
            for runner in self._runners.values():
                if runner.appender is None and not runner.mirror.ended:
                    self._target.invalidate(runner.key[0])  # no leader known

    def _target_changed(self, _: ClusterView) -> None:
        for runner in self._runners.values():
            self._assign_target(runner)
        self._pump()

    def _assign_target(self, runner: PartitionRunner) -> None:
        if runner.mirror.ended:
            return
        leader = self._target.leader(*runner.key)
        if leader is None:
            runner.assign(None)
            return
        appender = self._appenders.get(leader)
        if appender is None:
            appender = self._appenders[leader] = Appender(self._target, leader, self._tasks)
        runner.assign(appender)

    def _release(self, runner: PartitionRunner) -> None:
        runner.assign(None)

    def _pump(self) -> None:
        for appender in self._appenders.values():
            appender.pump()
