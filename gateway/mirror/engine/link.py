"""One running link in one direction: the fetchers of the origin cluster, and the topics mirrored from it.

Forward, the origin is the link's source; in reverse it is the target. Then `source` and `target` below are swapped, and
this object neither starts nor closes the origin, nor watches whether it is reachable.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Final

from gateway.kafka.cluster import Cluster, ClusterUnavailable, ClusterView
from gateway.kafka.view import changed_topics
from gateway.mirror.engine.destination import Destination
from gateway.mirror.engine.fetcher import Fetcher
from gateway.mirror.engine.read_replicas import FetchNode, ReadReplicas
from gateway.mirror.engine.topic import TopicDependencies, TopicMirror
from gateway.mirror.interface import MirrorEvents
from gateway.mirror.offset_map.topic import LinkMaps
from gateway.mirror.partition.log_reader import LogReader
from gateway.mirror.partition.rules.throttle import Throttle
from gateway.mirror.partition.runner import PartitionRunner
from gateway.mirror.rules.progress import MirrorProgress
from gateway.state import link_config
from gateway.state.link_config import OnRecordsDeleted
from gateway.state.records import LinkRecord, MirrorRecord
from gateway.transport.background import kept_running
from gateway.transport.tasks import Tasks

_log = logging.getLogger(__name__)

_LOST_AFTER_S: Final = 5.0
"""A source is reported lost when it has been unreachable for this long."""


class LinkMirror:
    """Args.

    source: not started yet; owned by this object, unless `reverse`.
    destination: where the copies are appended.
    maps: the offset maps of both directions; None: offsets must be equal.
    ids: returns the link's current map of schema ids, source -> target.
    owned: (link, mirror topic) -> the partitions to run here; None: all.
    max_wait_ms: see `Fetcher`.
    carried: (link, mirror topic, partition before it begins): give the partition what another gateway handed over.
    """

    def __init__(
        self,
        record: LinkRecord,
        source: Cluster,
        destination: Destination,
        *,
        progress: MirrorProgress,
        events: MirrorEvents,
        clock: Callable[[], float],
        wall_ms: Callable[[], int],
        owned: Callable[[str, str], Collection[int] | None],
        carried: Callable[[str, str, PartitionRunner], None],
        max_wait_ms: Callable[[], int],
        ids: Callable[[], Mapping[int, int]] = dict,
        maps: LinkMaps | None = None,
        reverse: bool = False,
    ) -> None:
        self.record = record
        self.source = source
        self.topics: dict[str, TopicMirror] = {}
        self._leaving: dict[str, TopicMirror] = {}
        self._destination = destination
        self._owned = owned
        self._carried = carried
        self._max_wait_ms = max_wait_ms
        self._reverse = reverse
        self._tasks = Tasks()
        self._dependencies = TopicDependencies(
            link=record.name,
            link_id=record.link_id,
            source=source,
            target=destination.cluster,
            may_append=destination.may_append,
            source_logs=LogReader(source, self._tasks, tails=False, wall_ms=wall_ms),
            target_logs=LogReader(destination.cluster, self._tasks, tails=True),
            tasks=self._tasks,
            maps=maps,
            skip_deleted=link_config.parse(record.configs).on_records_deleted is OnRecordsDeleted.SKIP,
            retry_s=link_config.parse(record.configs).retry_timeout_ms / 1000,
            ids=ids,
            ids_patience_s=link_config.parse(record.configs).schema_wait_ms / 1000,
            progress=progress,
            events=events,
            clock=clock,
            wall_ms=wall_ms,
        )
        self._throttle = Throttle(link_config.parse(record.configs).throttle_bytes_per_second, clock())
        self._fetchers: dict[FetchNode, tuple[Fetcher, asyncio.Task[None] | None]] = {}
        self._fetched_from: dict[PartitionRunner, FetchNode] = {}
        rack = "" if reverse else link_config.parse(record.configs).client_rack
        self._replicas = ReadReplicas(rack, source, self._dependencies.source_logs, clock, self._assign_source)
        self._leaderless: dict[PartitionRunner, None] = {}
        self._paused = link_config.parse(record.configs).paused
        self._available = True
        self._lost_since: float | None = None
        self._told = ""
        self._told_refused = False
        self._view = source.view
        source.on_view.append(self._view_changed)

    @property
    def throttled_s(self) -> float:
        """How long the brokers of the origin have throttled this link's fetches, in total, in seconds."""
        return self._throttle.told_ms / 1000

    def update(self, record: LinkRecord) -> None:
        """Apply changed configs to running partitions and to those started later."""
        config = link_config.parse(record.configs)
        self.record = record
        skip_deleted = config.on_records_deleted is OnRecordsDeleted.SKIP
        retry_s = config.retry_timeout_ms / 1000
        self._dependencies = replace(
            self._dependencies,
            skip_deleted=skip_deleted,
            retry_s=retry_s,
            ids_patience_s=config.schema_wait_ms / 1000,
        )
        for topic in self.topics.values():
            topic.update(self._dependencies)
        self._throttle.change(config.throttle_bytes_per_second, self._dependencies.clock())
        self._go_by_rack("" if self._reverse else config.client_rack)
        self._pause_or_resume(config.paused)

    def _go_by_rack(self, rack: str) -> None:
        """Assign every partition to its leader again: a fetcher sends the rack with which it was made."""
        if rack == self._replicas.rack:
            return
        for runner, place in tuple(self._fetched_from.items()):
            self._leave(runner, place)
            self._replicas.forget(runner)
        self._replicas.rack = rack
        for runner in tuple(self.runners()):
            self._assign_source(runner)

    def _pause_or_resume(self, paused: bool) -> None:
        """Stop or resume fetching. Batches already fetched are still appended."""
        if paused is self._paused:
            return
        self._paused = paused
        for runner in tuple(self.runners()):
            if not paused:
                self._assign_source(runner)
            elif runner in self._fetched_from:
                self._leave(runner, self._fetched_from[runner])
            else:
                self._leaderless.pop(runner, None)

    def start(self) -> None:
        """Connect to the source, and keep the connections."""
        if self._reverse:
            return
        self._tasks.spawn(self._connect(), f"link {self.record.name}")

    async def _connect(self) -> None:
        try:
            await self.source.start()
        except ClusterUnavailable as exc:  # the cluster keeps trying
            _log.warning("link %s: source not reached yet: %s", self.record.name, exc)

    def add(self, record: MirrorRecord) -> None:
        """Mirror a topic. Does nothing if it is mirrored already."""
        if record.mirror_topic in self.topics:
            return
        topic = self.topics[record.mirror_topic] = TopicMirror(record, self._dependencies, self._ended)
        self.source.invalidate(topic.period.origin)
        self._destination.cluster.invalidate(topic.period.copy)
        self.fit(record.mirror_topic)

    def fit(self, name: str) -> None:
        """Run exactly the partitions of a topic that this gateway owns."""
        topic = self.topics[name]
        owned = self._owned(self.record.name, name)
        for index in tuple(topic.runners):
            if owned is not None and index not in owned:
                self._ended(topic.drop(index))
        new = [topic.add(index) for index in topic.partitions if self._starts(topic, index, owned)]
        for runner in new:
            self._carried(self.record.name, name, runner)
            self._destination.assign(runner)
            self._assign_source(runner)
        for runner in new:
            runner.begin()

    @staticmethod
    def _starts(topic: TopicMirror, index: int, owned: Collection[int] | None) -> bool:
        return index not in topic.runners and (owned is None or index in owned)

    async def remove(self, name: str) -> None:
        """Stop a topic's mirror."""
        topic = self.topics.pop(name, None)
        if topic is not None:
            self._leaving[name] = topic
            for runner in topic.runners.values():
                self._ended(runner)
            await topic.stop()
            if self._leaving.get(name) is topic:
                del self._leaving[name]

    async def quiet(self, name: str) -> bool:
        """Wait until no append of a topic's stopped partitions is in flight; False on timeout."""
        found = (self.topics.get(name), self._leaving.get(name))
        return all(await asyncio.gather(*(topic.quiet() for topic in found if topic is not None)))

    async def close(self) -> None:
        """Stop all mirrors and close the source."""
        self.source.on_view.remove(self._view_changed)
        await asyncio.gather(*(self.remove(name) for name in tuple(self.topics)))
        await self._tasks.close()
        if not self._reverse:
            await self.source.close()

    def runners(self) -> Iterator[PartitionRunner]:
        """Every partition that runs here."""
        for topic in self.topics.values():
            yield from topic.runners.values()

    def tick(self, now: float) -> None:
        """Once a second: check the source, tick the topics and replicas, and look for missing leaders."""
        if not self._reverse:
            self._check_available(now)
        for topic in tuple(self.topics.values()):
            topic.tick(now)
            if not self._paused:
                topic.look_at_ids(now)
        self._replicas.tick(now)
        for runner in self._leaderless:
            self.source.invalidate(runner.source_topic)

    @property
    def lost(self) -> tuple[str, bool] | None:
        """Why the source is unreachable, and whether it rejects the link's credentials; None while it is reachable."""
        return None if self._available else (self._told, self._told_refused)

    def _check_available(self, now: float) -> None:
        events, name = self._dependencies.events, self.record.name
        if self.source.available:
            self._lost_since = None
            if not self._available:
                self._available = True
                _log.info("link %s: source available again", name)
                events.source_available(name, True, "")
            return
        if self._lost_since is None:
            self._lost_since = now
        if now - self._lost_since < _LOST_AFTER_S:
            return
        reason = self.source.last_error or ("no connection to the source" if self._available else self._told)
        refused = self.source.refused
        if self._available:
            _log.warning("link %s: source unavailable: %s", name, reason)
        if self._available or reason != self._told:  # also report a new fault: it is the one to fix now
            events.source_available(name, False, reason, refused=refused)
        self._available, self._told, self._told_refused = False, reason, refused

    def _view_changed(self, view: ClusterView) -> None:
        now, before = self._dependencies.clock(), self._view
        self._view = view
        changed = frozenset(changed_topics(before, view, (topic.period.origin for topic in self.topics.values())))
        for topic in [topic for topic in self.topics.values() if topic.period.origin in changed]:
            topic.look(now)
            for runner in tuple(topic.runners.values()):
                self._assign_source(runner)

    def _assign_source(self, runner: PartitionRunner) -> None:
        """Fetch the partition from its leader, or from the replica that the leader has named."""
        if runner.mirror.ended or self._paused:
            return
        leader = self.source.leader(runner.source_topic, runner.partition)
        place = None if leader is None else self._replicas.place(runner, leader)
        before = self._fetched_from.get(runner)
        if place is not None and place == before:
            return
        if before is not None:
            self._leave(runner, before)
        if place is None:
            self._leaderless[runner] = None
            return
        self._leaderless.pop(runner, None)
        self._fetched_from[runner] = place
        self._fetcher(place).add(runner)

    def _fetcher(self, place: FetchNode) -> Fetcher:
        found = self._fetchers.get(place)
        if found is not None:
            return found[0]
        dependencies, pump = self._dependencies, self._destination.pump
        replicas = self._replicas if self._replicas.rack else None
        fetcher = Fetcher(
            self.source,
            place.node,
            self._throttle,
            pump,
            dependencies.clock,
            self._max_wait_ms,
            replicas,
            asks=place.asks,
        )
        name = f"link {self.record.name} fetch {place.node}{' near' if place.asks else ''}"
        self._fetchers[place] = fetcher, self._tasks.spawn(kept_running(fetcher.run, name), name)
        return fetcher

    def _leave(self, runner: PartitionRunner, place: FetchNode) -> None:
        del self._fetched_from[runner]
        fetcher, task = self._fetchers[place]
        fetcher.discard(runner)
        if fetcher.empty:
            del self._fetchers[place]
            if task is not None:
                task.cancel()

    def _ended(self, runner: PartitionRunner) -> None:
        self._leaderless.pop(runner, None)
        place = self._fetched_from.get(runner)
        if place is not None:
            self._leave(runner, place)
        self._replicas.forget(runner)
        self._destination.release(runner)
