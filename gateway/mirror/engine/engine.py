"""The mirror of one gateway process: every link's topics, copied to the target. See `MirrorEngine`."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.topic_partition import TopicPartition
from gateway.mirror.engine.destination import Destination
from gateway.mirror.engine.link import LinkMirror
from gateway.mirror.engine.owned import PartlyOwned
from gateway.mirror.engine.topic import TopicMirror
from gateway.mirror.interface import MirrorEvents, PartitionStatus
from gateway.mirror.offset_map.reader import read_offset_maps
from gateway.mirror.offset_map.rules.offset_map import OffsetMap
from gateway.mirror.offset_map.topic import LinkMaps
from gateway.mirror.partition.appender import LANE
from gateway.mirror.partition.runner import PartitionRunner
from gateway.mirror.rules.copy_ends import CopyEnds, PartitionEnd, RunningPartitions, whole
from gateway.mirror.rules.period import map_key, period_of
from gateway.mirror.rules.progress import MirrorProgress
from gateway.state import link_config
from gateway.state.link_config import Offsets
from gateway.state.mirror_states import tag_of
from gateway.state.per_partition import WrongLength
from gateway.state.records import LinkRecord, MirrorError, MirrorRecord, MirrorState
from gateway.transport.background import kept_running
from gateway.transport.host import wall_clock_ms
from gateway.transport.tasks import Tasks

_log = logging.getLogger(__name__)

_TICK_S: Final = 1.0


def _config_of(link: LinkRecord) -> ClusterConfig:
    return ClusterConfig.from_client_properties(link.client)


def _connect(link: LinkRecord) -> Cluster:
    return Cluster(_config_of(link))


class Engine(PartlyOwned):
    """Implements `gateway.mirror.interface.MirrorEngine`, and `OwnedMirrors` by its base.

    Args:
        target: its owner starts and closes it.
        progress: advanced after every append.
        events: receives failures, readable topics and lost sources.
        connect: makes a link's source cluster, which the engine starts and closes.
        config_of: how to reach a link's source, asked when the configs of a running link change.
        lease_valid: while False, nothing is appended (`fleet/rules/leases.py`).
        ids: (link, link id) -> the link's current map of schema ids, source -> target.
    """

    def __init__(
        self,
        target: Cluster,
        progress: MirrorProgress,
        events: MirrorEvents,
        *,
        connect: Callable[[LinkRecord], Cluster] = _connect,
        config_of: Callable[[LinkRecord], ClusterConfig] = _config_of,
        clock: Callable[[], float] = time.monotonic,
        wall_ms: Callable[[], int] = wall_clock_ms,
        lease_valid: Callable[[], bool] = lambda: True,
        ids: Callable[[str, int], Mapping[int, int]] = lambda link, link_id: {},
    ) -> None:
        super().__init__()
        self._progress = progress
        self._events = events
        self._connect = connect
        self._config_of = config_of
        self._clock = clock
        self._wall_ms = wall_ms
        self._ids = ids
        self._tasks = Tasks()
        self._lease_valid = lease_valid
        self._target = Destination(target, self._tasks, lease_valid, clock)
        self._links: dict[str, LinkMirror] = {}
        self._maps: dict[str, LinkMaps] = {}
        self._back: dict[str, tuple[LinkMirror, Destination]] = {}  # links with topics mirrored back to the source
        self._runners: dict[TopicPartition, PartitionRunner] = {}  # of topics mirrored forward
        self._ticking = False

    async def start_link(self, link: LinkRecord) -> None:
        """Connect to the link's source, and keep the connections. Does nothing if the link already runs."""
        if link.name in self._links:
            return
        made = self._links[link.name] = self._mirror_of(link, self._connect(link), self._target)
        made.start()
        if not self._ticking:
            self._ticking = True
            self._tasks.spawn(kept_running(self._tick, "mirror tick"), "mirror tick")

    def update_link(self, link: LinkRecord) -> None:
        """Apply changed configs to a running link."""
        made = self._links.get(link.name)
        if made is None:
            return
        if made.record.client != link.client:
            made.source.reconfigure(self._config_of(link))
        for link_mirror in self._link_mirrors_of(link.name):
            link_mirror.update(link)

    def _mirror_of(
        self, link: LinkRecord, source: Cluster, destination: Destination, *, reverse: bool = False
    ) -> LinkMirror:
        return LinkMirror(
            link,
            source,
            destination,
            progress=self._progress,
            events=self._events,
            clock=self._clock,
            wall_ms=self._wall_ms,
            owned=self.owned,
            carried=self.transfer_to,
            max_wait_ms=self.max_wait_ms,
            ids=partial(self._ids, link.name, link.link_id),
            maps=self._maps_of(link),
            reverse=reverse,
        )

    def _maps_of(self, link: LinkRecord) -> LinkMaps | None:
        """The maps of both directions, kept on the target. None when the link demands equal offsets."""
        if link_config.parse(link.configs).offsets is Offsets.PRESERVE:
            return None
        if link.name not in self._maps:
            self._maps[link.name] = LinkMaps(self._target.cluster, link.name, self._tasks)
        return self._maps[link.name]

    def started_links(self) -> Mapping[str, LinkRecord]:
        """The running links, by name."""
        return {name: made.record for name, made in self._links.items()}

    def throttled_s(self) -> Mapping[str, float]:
        """Link -> seconds for which brokers have throttled its fetches, in both directions."""
        return {name: sum(made.throttled_s for made in self._link_mirrors_of(name)) for name in self._links}

    def append_throttled_s(self) -> Mapping[str, float]:
        """Seconds for which brokers have throttled appends: to the target, and to sources by mirrors back."""
        home = sum(source.throttled_s for _, source in self._back.values())
        return {"target": self._target.throttled_s, "source": home}

    def tell_lost(self, events: MirrorEvents) -> None:
        """Report the sources that are lost now to a listener that came later."""
        for name, made in self._links.items():
            if made.lost is not None:
                message, refused = made.lost
                events.source_available(name, False, message, refused=refused)

    async def stop_link(self, link: str) -> None:
        """Stop all of the link's mirrors and close its connections."""
        self._maps.pop(link, None)  # mirrors closed below keep theirs; another link of this name may start meanwhile
        back = self._back.pop(link, None)
        if back is not None:  # first: the mirror back appends to the cluster that the forward one closes
            await back[0].close()
            back[1].close()
        found = self._links.pop(link, None)
        if found is not None:
            for topic in found.topics.values():
                self._forget(topic)
            await found.close()

    def start_mirror(self, mirror: MirrorRecord) -> None:
        """Mirror all partitions, each from the end of its copy. A mirror whose record is incomplete FAILs.

        Raises:
            KeyError: the link is not started.
        """
        link = self._links[mirror.link]
        if self._link_mirror_with(mirror.link, mirror.mirror_topic) is not None:
            return
        try:
            (self._failback(link) if mirror.is_reverse else link).add(mirror)
        except WrongLength as exc:
            _log.error("link %s: %s is not mirrored: %s", mirror.link, mirror.mirror_topic, exc)
            self._events.partition_failed(mirror.link, mirror.mirror_topic, 0, MirrorError.INTERNAL_ERROR, str(exc))
            return
        if not mirror.is_reverse:
            self._runners.update(_by_place(link, mirror.mirror_topic))

    def runners_changed(self, topics: Iterable[str] | None = None) -> None:
        """Rebuild the lookup of `forwarded`, which is called for each Produce."""
        if topics is None:
            self._runners.clear()
        for link in self._links.values():
            for topic in link.topics if topics is None else topics:
                if topic in link.topics:
                    self._forget(link.topics[topic])
                    self._runners.update(_by_place(link, topic))

    # -- the end of mirrors ------------------------------------------------------------------------------------

    async def stop_mirror(self, link: str, topic: str) -> None:
        """Stop fetching and wait for the appends in flight."""
        found = self._link_mirror_with(link, topic)
        if found is not None:
            self._forget(found.topics[topic])
            await found.remove(topic)

    def _failback(self, link: LinkMirror) -> LinkMirror:
        name = link.record.name
        if name not in self._back:
            source = Destination(link.source, self._tasks, self._lease_valid, self._clock)
            self._back[name] = self._mirror_of(link.record, self._target.cluster, source, reverse=True), source
        return self._back[name][0]

    def _link_mirrors_of(self, link: str) -> tuple[LinkMirror, ...]:
        link_mirrors = [self._links[link]] if link in self._links else []
        if link in self._back:
            link_mirrors.append(self._back[link][0])
        return tuple(link_mirrors)

    def link_mirrors(self) -> tuple[LinkMirror, ...]:
        """Every running link, in both directions."""
        return (*self._links.values(), *(link_mirror for link_mirror, _ in self._back.values()))

    def _link_mirror_with(self, link: str, topic: str) -> LinkMirror | None:
        """The link and direction in which a topic is mirrored now; None when it is not."""
        return next((link_mirror for link_mirror in self._link_mirrors_of(link) if topic in link_mirror.topics), None)

    def _forget(self, topic: TopicMirror) -> None:
        for index in topic.partitions:
            self._runners.pop((topic.record.mirror_topic, index), None)

    async def close(self) -> None:
        """Stop every link."""
        self._target.close()
        await asyncio.gather(*(self.stop_link(name) for name in tuple(self._links)))
        await self._tasks.close()

    def drop_appends(self, reason: str) -> None:
        """Close the connections that carry appends, so that an append not yet sent never is."""
        for destination in (self._target, *(source for _, source in self._back.values())):
            destination.cluster.drop((LANE,), reason)

    def source(self, link: str) -> Cluster | None:
        """The link's source cluster, for other users of it; None when the link does not run."""
        found = self._links.get(link)
        return None if found is None else found.source

    def is_started(self, link: str, topic: str) -> bool:
        """True for a mirror that was started and not stopped, even if none of its partitions run here."""
        return self._link_mirror_with(link, topic) is not None

    def started(self) -> Mapping[tuple[str, str], MirrorRecord]:
        """The record of every running mirror, by (link, mirror topic)."""
        return {
            (link_mirror.record.name, name): topic.record
            for link_mirror in self.link_mirrors()
            for name, topic in link_mirror.topics.items()
        }

    def started_as(self, link: str, topic: str) -> MirrorRecord | None:
        """The record with which this mirror was started; None when it does not run."""
        found = self._link_mirror_with(link, topic)
        return None if found is None else found.topics[topic].record

    def status(self, mirror: MirrorRecord, partitions: Sequence[int] | None = None) -> Sequence[PartitionStatus]:
        """The status of the partitions that run here, in order; empty when this very mirror does not run."""
        topic = mirror.mirror_topic
        found = self._link_mirror_with(mirror.link, topic)
        if found is None or tag_of(found.topics[topic].record) != tag_of(mirror):
            return ()
        return found.topics[topic].status(partitions)

    def running_partitions(self, mirror: MirrorRecord) -> RunningPartitions:
        """How far the partitions of this mirror are that run here, and which ones do not run here."""
        found, partitions = self._mirror_as(mirror), range(len(mirror.starts))
        return (
            RunningPartitions((-1,) * len(partitions), tuple(partitions))
            if found is None
            else found.running_partitions()
        )

    def ends(self, mirror: MirrorRecord) -> CopyEnds | None:
        """Where the copy of every partition ends; None unless that is known for all partitions."""
        return whole(self.partition_ends(mirror))

    def partition_ends(self, mirror: MirrorRecord) -> Sequence[PartitionEnd | None]:
        """Where the copy ends, per partition; None for one that does not run here."""
        found = self._mirror_as(mirror)
        return (None,) * len(mirror.starts) if found is None else found.ends()

    def _mirror_as(self, mirror: MirrorRecord) -> TopicMirror | None:
        """The topic's mirror, if it runs in the record's period and direction, with as many partitions."""
        link_mirror = self._link_mirror_with(mirror.link, mirror.mirror_topic)
        found = None if link_mirror is None else link_mirror.topics[mirror.mirror_topic]
        is_same = (
            found is not None and _same_period(found.record, mirror) and len(found.partitions) == len(mirror.starts)
        )
        return found if is_same else None

    async def offset_maps(self, mirror: MirrorRecord) -> Sequence[OffsetMap]:
        """See `OffsetMapSource`. The maps of a running mirror are live: they grow with it.

        For the maps of an earlier mirror period, pass the record that `before` in `offset_map/rules/periods.py` makes.
        """
        link_mirror, name = self._link_mirror_with(mirror.link, mirror.mirror_topic), mirror.mirror_topic
        kept: dict[int, OffsetMap] = {}
        if link_mirror is not None and _same_period(link_mirror.topics[name].record, mirror):
            found = (
                (index, link_mirror.topics[name].offset_map(index)) for index in link_mirror.topics[name].partitions
            )
            kept = {index: one for index, one in found if one is not None}
            if len(kept) == len(link_mirror.topics[name].partitions):
                return [kept[index] for index in sorted(kept)]
        if mirror.is_reverse and mirror.state is not MirrorState.STOPPED:
            raise ValueError("the mirror back is not running")
        maps, link = self._maps.get(mirror.link), self._links.get(mirror.link)
        if maps is None or link is None:
            raise ValueError(f"link '{mirror.link}' keeps no offset maps")
        copies = link.source if mirror.is_reverse else self._target.cluster
        return await read_offset_maps(maps, copies, mirror, period_of(mirror, link.record.link_id), kept)

    async def has_offset_map(self, mirror: MirrorRecord) -> bool:
        """See `OffsetMapSource`. Reads the link's map topic once, however many partitions there are."""
        link, maps = self._links.get(mirror.link), self._maps.get(mirror.link)
        if link is None:
            raise ValueError(f"link '{mirror.link}' does not run")
        if maps is None:  # the link demands equal offsets
            return False
        await maps.catch_up()
        return any(maps.is_used(map_key(mirror, index)) for index in range(len(mirror.starts)))

    def forwarded(self, topic: str, partition: int, base_offset: int, records: int) -> None:
        """A gateway wrote a client's Produce to the source: `records` from `base_offset` on. For the bypass meter."""
        runner = self._runners.get((topic, partition))
        if runner is not None:
            runner.report.bypass.forwarded(base_offset, records)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            now = self._clock()
            for link_mirror in self.link_mirrors():
                try:
                    link_mirror.tick(now)
                except Exception:  # noqa: BLE001 - one link's fault stays this link's
                    _log.exception("link %s: the once-a-second look failed", link_mirror.record.name)
            for destination in (self._target, *(source for _, source in self._back.values())):
                destination.tick()


def _same_period(one: MirrorRecord, other: MirrorRecord) -> bool:
    return (one.mirror_id, one.failback.direction, one.failback.epoch) == (
        other.mirror_id,
        other.failback.direction,
        other.failback.epoch,
    )


def _by_place(link: LinkMirror, topic: str) -> dict[TopicPartition, PartitionRunner]:
    return {(topic, index): runner for index, runner in link.topics[topic].runners.items()}
