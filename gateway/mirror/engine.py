"""The mirror of one gateway process: every link's topics, copied to the target. See `domain.ports.MirrorEngine`."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

from gateway.domain import link_config
from gateway.domain.copy_ends import CopyEnds, PartitionEnd, Standing, whole
from gateway.domain.link_config import Offsets
from gateway.domain.mirror_way import way_of
from gateway.domain.offset_map import OffsetMap
from gateway.domain.per_partition import WrongLength
from gateway.domain.ports import MirrorEvents, PartitionStatus
from gateway.domain.progress import MirrorProgress
from gateway.domain.records import LinkRecord, MirrorError, MirrorRecord, MirrorState
from gateway.mirror.destination import Destination
from gateway.mirror.link import LinkMirror
from gateway.mirror.owned import PartlyOwned
from gateway.mirror.topic import TopicMirror
from gateway.net.cluster import Cluster
from gateway.net.config import ClusterConfig
from gateway.net.host import wall_clock_ms
from gateway.replication.appender import LANE
from gateway.replication.map_topic import LinkMaps
from gateway.replication.offset_maps import read_offset_maps
from gateway.replication.runner import PartitionRunner
from gateway.replication.tasks import Tasks

_log = logging.getLogger(__name__)

_TICK_S: Final = 1.0


def _connect(link: LinkRecord) -> Cluster:
    return Cluster(ClusterConfig.from_client_properties(link.client))


class Engine(PartlyOwned):
    """Implements `gateway.domain.ports.MirrorEngine`, and `OwnedMirrors` by its base.

    Args:
        target: started by its owner, and not closed here.
        progress: told after every append.
        events: told of failures, settled topics and lost sources.
        connect: makes a link's source cluster, which the engine starts and closes.
        lease_valid: while it is not, nothing is appended (`domain/leases.py`).
    """

    def __init__(
        self,
        target: Cluster,
        progress: MirrorProgress,
        events: MirrorEvents,
        *,
        connect: Callable[[LinkRecord], Cluster] = _connect,
        clock: Callable[[], float] = time.monotonic,
        wall_ms: Callable[[], int] = wall_clock_ms,
        lease_valid: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__()
        self._progress = progress
        self._events = events
        self._connect = connect
        self._clock = clock
        self._wall_ms = wall_ms
        self._tasks = Tasks()
        self._lease_valid = lease_valid
        self._target = Destination(target, self._tasks, lease_valid)
        self._links: dict[str, LinkMirror] = {}
        self._maps: dict[str, LinkMaps] = {}
        self._back: dict[str, tuple[LinkMirror, Destination]] = {}  # of links with topics that are mirrored back
        self._runners: dict[tuple[str, int], PartitionRunner] = {}  # of topics that are mirrored forward
        self._ticking = False

    async def start_link(self, link: LinkRecord) -> None:
        """Begin to keep connections to the link's source. A link that runs is left as it is."""
        if link.name in self._links:
            return
        made = self._links[link.name] = self._mirror_of(link, self._connect(link), self._target)
        made.start()
        if not self._ticking:
            self._ticking = True
            self._tasks.spawn(self._tick(), "mirror tick")

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
            carried=self.hand_over_to,
            max_wait_ms=self.max_wait_ms,
            maps=self._maps_of(link),
            reverse=reverse,
        )

    def _maps_of(self, link: LinkRecord) -> LinkMaps | None:
        """The same for both ways; always on the target. None when the link demands equal offsets."""
        if link_config.parse(link.configs).offsets is Offsets.PRESERVE:
            return None
        if link.name not in self._maps:
            self._maps[link.name] = LinkMaps(self._target.cluster, link.name, self._tasks)
        return self._maps[link.name]

    async def stop_link(self, link: str) -> None:
        """Stop all of the link's mirrors and close its connections."""
        back = self._back.pop(link, None)
        if back is not None:  # first: it appends to the cluster that the other one closes
            await back[0].close()
            back[1].close()
        found = self._links.pop(link, None)
        if found is not None:
            for topic in found.topics:
                self._forget(topic)
            await found.close()
        self._maps.pop(link, None)

    def start_mirror(self, mirror: MirrorRecord) -> None:
        """Mirror all partitions from where the copy's logs end. One whose record does not say how FAILs.

        Raises:
            KeyError: the link is not started.
        """
        link = self._links[mirror.link]
        if self._way_with(mirror.link, mirror.mirror_topic) is not None:
            return
        try:
            (self._way_back(link) if mirror.is_reverse else link).add(mirror)
        except WrongLength as exc:
            _log.error("link %s: %s is not mirrored: %s", mirror.link, mirror.mirror_topic, exc)
            self._events.partition_failed(mirror.link, mirror.mirror_topic, 0, MirrorError.INTERNAL_ERROR, str(exc))
            return
        if not mirror.is_reverse:
            self._runners.update(_by_place(link, mirror.mirror_topic))

    def runners_changed(self) -> None:
        """For `forwarded`, which is asked for each Produce."""
        self._runners.clear()
        for link in self._links.values():
            for topic in link.topics:
                self._runners.update(_by_place(link, topic))

    # -- the end of mirrors ------------------------------------------------------------------------------------

    async def stop_mirror(self, link: str, topic: str) -> None:
        """Stop fetching and wait for the appends in flight."""
        found = self._way_with(link, topic)
        if found is not None:
            self._forget(topic)
            await found.remove(topic)

    def _way_back(self, link: LinkMirror) -> LinkMirror:
        name = link.record.name
        if name not in self._back:
            source = Destination(link.source, self._tasks, self._lease_valid)
            self._back[name] = self._mirror_of(link.record, self._target.cluster, source, reverse=True), source
        return self._back[name][0]

    def _ways(self, link: str) -> tuple[LinkMirror, ...]:
        ways = [self._links[link]] if link in self._links else []
        if link in self._back:
            ways.append(self._back[link][0])
        return tuple(ways)

    def ways(self) -> tuple[LinkMirror, ...]:
        """Every link at work, each way."""
        return (*self._links.values(), *(way for way, _ in self._back.values()))

    def _way_with(self, link: str, topic: str) -> LinkMirror | None:
        """The way that a topic is mirrored now; None when it is not."""
        return next((way for way in self._ways(link) if topic in way.topics), None)

    def _forget(self, topic: str) -> None:
        for key in [key for key in self._runners if key[0] == topic]:
            del self._runners[key]

    async def close(self) -> None:
        """Stop every link."""
        self._target.close()
        await asyncio.gather(*(self.stop_link(name) for name in tuple(self._links)))
        await self._tasks.close()

    def drop_appends(self, reason: str) -> None:
        """Close the connections that appends go by: what was not sent yet never is."""
        for destination in (self._target, *(source for _, source in self._back.values())):
            destination.cluster.drop((LANE,), reason)

    def source(self, link: str) -> Cluster | None:
        """The link's source cluster, for others that talk to it; None when the link is not started."""
        found = self._links.get(link)
        return None if found is None else found.source

    def is_started(self, link: str, topic: str) -> bool:
        """True for a mirror that was started and not stopped, whichever of its partitions run here."""
        return self._way_with(link, topic) is not None

    def status(self, link: str, topic: str) -> Sequence[PartitionStatus]:
        """The partitions of a mirror, in order; empty if it is not run."""
        found = self._way_with(link, topic)
        return () if found is None else found.topics[topic].status()

    def standing(self, mirror: MirrorRecord) -> Standing:
        """See `domain.ports.MirrorEngine`."""
        found, partitions = self._mirror_as(mirror), range(len(mirror.starts))
        return Standing((-1,) * len(partitions), tuple(partitions)) if found is None else found.standing()

    def ends(self, mirror: MirrorRecord) -> CopyEnds | None:
        """See `domain.ports.MirrorEngine`."""
        return whole(self.partition_ends(mirror))

    def partition_ends(self, mirror: MirrorRecord) -> Sequence[PartitionEnd | None]:
        """See `domain.ports.MirrorEngine`."""
        found = self._mirror_as(mirror)
        return (None,) * len(mirror.starts) if found is None else found.ends()

    def _mirror_as(self, mirror: MirrorRecord) -> TopicMirror | None:
        """The topic's mirror, if it runs the way that the record says, with as many partitions."""
        way = self._way_with(mirror.link, mirror.mirror_topic)
        found = None if way is None else way.topics[mirror.mirror_topic]
        is_same = found is not None and _same_way(found.record, mirror) and len(found.partitions) == len(mirror.starts)
        return found if is_same else None

    async def offset_maps(self, mirror: MirrorRecord) -> Sequence[OffsetMap]:
        """See `domain.ports.OffsetMaps`. Those of a running mirror go on with it.

        Those of the ways before are to be had too, by the records that `domain.ways.before` makes.
        """
        way, name = self._way_with(mirror.link, mirror.mirror_topic), mirror.mirror_topic
        kept: dict[int, OffsetMap] = {}
        if way is not None and _same_way(way.topics[name].record, mirror):
            found = ((index, way.topics[name].offset_map(index)) for index in way.topics[name].partitions)
            kept = {index: one for index, one in found if one is not None}
            if len(kept) == len(way.topics[name].partitions):
                return [kept[index] for index in sorted(kept)]
        if mirror.is_reverse and mirror.state is not MirrorState.STOPPED:
            raise ValueError("the mirror back is not running")
        maps, link = self._maps.get(mirror.link), self._links.get(mirror.link)
        if maps is None or link is None:
            raise ValueError(f"link '{mirror.link}' keeps no offset maps")
        copies = link.source if mirror.is_reverse else self._target.cluster
        return await read_offset_maps(maps, copies, mirror, way_of(mirror, link.record.link_id), kept)

    def forwarded(self, topic: str, partition: int, base_offset: int, records: int) -> None:
        """A Produce of a client was written to the source: `records` from `base_offset` on. For `bypassed`."""
        runner = self._runners.get((topic, partition))
        if runner is not None:
            runner.report.forwarded(base_offset, records)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            now = self._clock()
            for way in self.ways():
                try:
                    way.tick(now)
                except Exception:  # noqa: BLE001 - one link's fault stays this link's
                    _log.exception("link %s: the once-a-second look failed", way.record.name)
            for destination in (self._target, *(source for _, source in self._back.values())):
                destination.tick()


def _same_way(one: MirrorRecord, other: MirrorRecord) -> bool:
    return (one.mirror_id, one.direction, one.generation) == (other.mirror_id, other.direction, other.generation)


def _by_place(link: LinkMirror, topic: str) -> dict[tuple[str, int], PartitionRunner]:
    return {(topic, index): runner for index, runner in link.topics[topic].runners.items()}
