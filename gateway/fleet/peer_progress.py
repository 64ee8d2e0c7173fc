"""How far the mirrors of the other gateways are, from their heartbeats; and to tell them at once what they wait for.

`ack: both` waits for a partition that another gateway mirrors: heartbeats would tell every 100 ms. So whoever waits
says so to all (`watch`), and the one that mirrors the partition tells it within some 2 ms of each append, for a few
seconds.

The leader's operations see both together, its own mirrors and how far those of the others are (`LedEngine`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from gateway.fleet.peers.channel import Peers
from gateway.fleet.rules.heartbeats import PeerHeartbeat, encode_heartbeat
from gateway.kafka.topic_partition import TopicPartition
from gateway.mirror.interface import MirrorEngine, PartitionStatus
from gateway.mirror.rules.copy_ends import CopyEnds, PartitionEnd, RunningPartitions
from gateway.mirror.rules.progress import MirrorProgress
from gateway.state.mirror_states import tag_of
from gateway.state.records import LinkRecord, MirrorRecord

WATCH_S = 3.0
_ASK_AGAIN_S = 1.0
_GATHER_S = 0.002


class PeerProgress:
    """See the module.

    Args:
        tags: of the mirrors as this gateway's records say, by topic; a position of another mirror does not count.
        here: whether a partition is mirrored in this process.
    """

    def __init__(
        self,
        peers: Peers,
        progress: MirrorProgress,
        tags: Mapping[str, str],
        here: Callable[[TopicPartition], bool],
        clock: Callable[[], float],
    ) -> None:
        self._peers = peers
        self._progress = progress
        self._tags = tags
        self._here = here
        self._clock = clock
        self._asked: dict[TopicPartition, float] = {}  # until when it need not be asked for again
        self._watchers: dict[TopicPartition, dict[str, float]] = {}  # who wants it, until when
        self._followed: set[TopicPartition] = set()
        self._news: set[TopicPartition] = set()
        self._telling = False
        self._statuses: dict[tuple[str, str], tuple[str, dict[int, PartitionStatus]]] = {}  # with their mirror's tag
        progress.moved = set()
        progress.on_wait = self._waits

    # -- what is told --------------------------------------------------------------------------------------

    def moved(self) -> set[TopicPartition]:
        """What has moved here since the last time, for a heartbeat."""
        places, self._progress.moved = self._progress.moved or set(), set()
        return places

    def at(self, places: Collection[TopicPartition]) -> Mapping[str, tuple[str, Mapping[int, int]]]:
        """Where these stand, of those that are mirrored here."""
        found: dict[str, tuple[str, dict[int, int]]] = {}
        for topic, index in places:
            position, tag = self._progress.position(topic, index), self._tags.get(topic)
            if position is not None and tag is not None and self._here((topic, index)):
                found.setdefault(topic, (tag, {}))[1][index] = position
        return found

    def watched(self, gateway: str, places: Collection[TopicPartition]) -> None:
        """Another gateway waits for these."""
        until = self._clock() + WATCH_S
        for place in places:
            if not self._here(place):
                continue
            self._watchers.setdefault(place, {})[gateway] = until
            self._news.add(place)
        self._tell_soon()

    def _follow(self, place: TopicPartition) -> None:
        """Hear of its next step, once."""
        if place in self._followed:
            return
        self._followed.add(place)
        self._progress.when(*place, (self._progress.position(*place) or 0) + 1, partial(self._stepped, place))

    def _stepped(self, place: TopicPartition) -> None:
        self._followed.discard(place)
        now = self._clock()
        watchers = {name: until for name, until in self._watchers.get(place, {}).items() if until > now}
        if not watchers:
            self._watchers.pop(place, None)
            return
        self._watchers[place] = watchers
        self._news.add(place)
        self._tell_soon()

    def _tell_soon(self) -> None:
        if self._news and not self._telling:
            self._telling = True
            asyncio.get_running_loop().call_later(_GATHER_S, self._tell)

    def _tell(self) -> None:
        self._telling = False
        news, self._news = self._news, set()
        wanted: dict[str, list[TopicPartition]] = {}
        for place in news:
            for gateway in self._watchers.get(place, ()):
                wanted.setdefault(gateway, []).append(place)
        for gateway, places in wanted.items():
            self._peers.tell(gateway, encode_heartbeat(PeerHeartbeat(at=self.at(places))))
        for place in news:
            if place in self._watchers:
                self._follow(place)

    # -- what is heard -------------------------------------------------------------------------------------

    def heard(self, heartbeat: PeerHeartbeat) -> None:
        """Another gateway's heartbeat."""
        for topic, (tag, ends) in heartbeat.at.items():
            if self._tags.get(topic) != tag:
                continue
            for index, position in ends.items():
                if not self._here((topic, index)):
                    self._progress.heard(topic, index, position)
        for key, (tag, statuses) in heartbeat.statuses.items():
            if self._tags.get(key[1]) != tag:
                continue
            known = self._statuses.get(key)
            if known is None or known[0] != tag:
                known = self._statuses[key] = tag, {}
            known[1].update({one.partition: one for one in statuses})

    def _waits(self, place: TopicPartition) -> None:
        now = self._clock()
        if self._asked.get(place, 0.0) > now or self._here(place):
            return
        self._asked[place] = now + _ASK_AGAIN_S
        self._peers.heartbeat(encode_heartbeat(PeerHeartbeat(watch=[place])))

    def statuses(self, mirror: MirrorRecord) -> Mapping[int, PartitionStatus]:
        """The last measurements of this very mirror that others have told, by partition."""
        tag, found = self._statuses.get((mirror.link, mirror.mirror_topic), ("", {}))
        return found if tag == tag_of(mirror) else {}

    def forget(self, link: str, topic: str) -> None:
        """The topic's mirror is another one now, or none."""
        self._progress.forget(topic)
        self._statuses.pop((link, topic), None)

    def merged(self, mirror: MirrorRecord, own: Sequence[PartitionStatus]) -> Sequence[PartitionStatus]:
        """All that is known of a mirror's partitions, in order; what is measured here counts."""
        found = {**self.statuses(mirror), **{one.partition: one for one in own}}
        return tuple(found[index] for index in sorted(found))


class LedEngine:
    """A `MirrorEngine`.

    Args:
        is_started: (link, topic): the engine has the mirror, even if none of its partitions runs here.
        status_of: of all partitions of a mirror, whoever mirrors them.
    """

    def __init__(
        self,
        engine: MirrorEngine,
        is_started: Callable[[str, str], bool],
        status_of: Callable[[MirrorRecord], Sequence[PartitionStatus]],
    ) -> None:
        self._engine = engine
        self._is_started = is_started
        self._status_of = status_of

    async def start_link(self, link: LinkRecord) -> None:
        """As the engine."""
        await self._engine.start_link(link)

    def update_link(self, link: LinkRecord) -> None:
        """As the engine."""
        self._engine.update_link(link)

    def started_links(self) -> Mapping[str, LinkRecord]:
        """As the engine."""
        return self._engine.started_links()

    async def stop_link(self, link: str) -> None:
        """As the engine; the others stop by the records."""
        await self._engine.stop_link(link)

    def start_mirror(self, mirror: MirrorRecord) -> None:
        """As the engine; the others start by the records."""
        self._engine.start_mirror(mirror)

    def started(self) -> Mapping[tuple[str, str], MirrorRecord]:
        """As the engine."""
        return self._engine.started()

    def started_as(self, link: str, topic: str) -> MirrorRecord | None:
        """As the engine."""
        return self._engine.started_as(link, topic)

    async def stop_mirror(self, link: str, topic: str) -> None:
        """As the engine; the others stop by the records, and under a write pause before they acknowledge it."""
        await self._engine.stop_mirror(link, topic)

    def status(self, mirror: MirrorRecord) -> Sequence[PartitionStatus]:
        """The partitions of a mirror that runs, wherever they do."""
        return self._status_of(mirror) if self._is_started(mirror.link, mirror.mirror_topic) else ()

    def running_partitions(self, mirror: MirrorRecord) -> RunningPartitions:
        """As the engine: a topic that is promoted is mirrored here."""
        return self._engine.running_partitions(mirror)

    def ends(self, mirror: MirrorRecord) -> CopyEnds | None:
        """As the engine, and of this process only: what others tell may be too low."""
        return self._engine.ends(mirror)

    def partition_ends(self, mirror: MirrorRecord) -> Sequence[PartitionEnd | None]:
        """As the engine."""
        return self._engine.partition_ends(mirror)
