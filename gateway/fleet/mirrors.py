"""Which partitions this gateway mirrors, from moment to moment: the shell of `fleet/rules/ownership.py`.

Every gateway of a fleet has one, sidecars too: it sends heartbeats (`heartbeats.py`), and knows from the others'
heartbeats how far their mirrors are. How a partition goes from one gateway to the next is in
`fleet/rules/ownership_transfer.py` and `releases.py`.

`decide` goes by what has changed since the last time: a record costs its own partitions, however many others there are,
and another assignment, or an absence, what goes to others by it. All are looked at with the first assignment, and while
this gateway leaves.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from gateway.fleet.heartbeats import FleetHeartbeats
from gateway.fleet.mirror_map import Division, Key, MirrorMap, OwnershipOverrides
from gateway.fleet.peer_progress import PeerProgress
from gateway.fleet.peers.channel import Peers
from gateway.fleet.releases import Releases
from gateway.fleet.rules.assignment import FleetAssignment
from gateway.fleet.rules.ownership_transfer import OwnershipTransfer
from gateway.kafka.connection.errors import NetError
from gateway.kafka.topic_partition import TopicPartition
from gateway.mirror.interface import OwnedMirrors, PartitionStatus
from gateway.mirror.rules.period import MirrorPartition
from gateway.mirror.rules.progress import MirrorProgress
from gateway.state.mirror_states import tag_of
from gateway.state.records import MirrorRecord, MirrorState
from gateway.state.views import StateViews

LEAVE_S = 2.0


class StillAppending(NetError):
    """Appends to a topic were not answered in the longest time that they can take."""


class FleetMirrors:
    """See the module.

    Args:
        name: this gateway's.
        peers: its `handlers` get what other gateways ask of mirrors; `Peers.on_heartbeat` must be `heard`.
        engine: links and mirrors are started and stopped in it by others, as the records say; this decides which of
            their partitions run here. Nothing does before the first assignment.
        progress: advanced for the partitions that others mirror, too.
        records: as read from the state topic.

    Attributes:
        on_silent: told who is suspected, when that changes; the leader has the group drop them.
        paused: mirror topics whose writes are paused here (`PauseAnswers.in_force`).
        held: mirror topic -> what its pause waits for here, of those.
        aside: at the leader: (link, topic) of mirrors that somebody else copies now (`PausedForJob`).
        promoted: at the leader: (link, topic) that it promotes. While their records say so they are not given away.
        claimed: at the leader, (link, topic): a context in which this gateway mirrors the topic itself.
    """

    def __init__(
        self,
        *,
        name: str,
        peers: Peers,
        engine: OwnedMirrors,
        progress: MirrorProgress,
        records: StateViews,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._engine = engine
        self._records = records
        self._changes = records.mirror_changes()
        self._clock = clock
        self._transfer = OwnershipTransfer()
        self._releases = Releases(peers, engine, self._transfer, self._follow, clock, self._kept)
        self._places: set[TopicPartition] = set()  # what runs here
        self._partitions: dict[Key, int] = {}  # of the records that were decided on
        self._reassigned: frozenset[MirrorPartition] = frozenset()  # to be decided on, whatever has changed
        self._kept_keys: frozenset[Key] = frozenset()  # likewise
        self._banned_keys: frozenset[Key] = frozenset()
        self._mirrors: dict[str, tuple[str, str]] = {}  # topic -> (link, tag)
        self._tags: dict[str, str] = {}
        self._progress = PeerProgress(peers, progress, self._tags, lambda place: place in self._places, clock)
        self._heartbeats = FleetHeartbeats(name, peers, self._progress, self, clock)
        self._map = MirrorMap(name)
        self.overridden = OwnershipOverrides(self._map, engine, self.here, self.status, self.decide).take
        self._changed = asyncio.Event()
        self._leaving = False
        self.on_silent: Callable[[frozenset[str]], None] = lambda silent: None
        self.paused: Callable[[], Collection[str]] = tuple
        self.held: Callable[[], Mapping[str, str]] = dict
        self.paused_for_job: Callable[[], Collection[tuple[str, str]]] = tuple
        self.promoted: Callable[[], Collection[tuple[str, str]]] = tuple
        engine.own(frozenset())

    # -- for whoever runs the fleet ------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to heartbeat and to listen."""
        self._heartbeats.start()

    def assigned(self, assignment: FleetAssignment | None) -> None:
        """The group's assignment; None: the group has forgotten this gateway, which mirrors nothing then."""
        self._take(assignment)
        self._heartbeats.expect(() if assignment is None else assignment.peers)
        self.decide()

    def records_changed(self) -> None:
        """The state topic was read on; or `paused` or `paused_for_job` changed."""
        self.decide()

    def heard(self, gateway: str, said: Mapping[str, Any]) -> None:
        """A heartbeat came. For `Peers`."""
        self._heartbeats.heard(gateway, said)

    async def quiet(self, topics: Collection[str]) -> None:
        """Of topics that are `paused`: mirror nothing of them here, and wait until no append is in flight.

        The leader mirrors them, and stops that itself.

        Raises:
            StillAppending: some were not answered.
        """
        if self.leader == self._name:
            return
        self.decide()
        keys = [(self._mirrors[topic][0], topic) for topic in topics if topic in self._mirrors]
        if not await self._engine.quiet(keys):
            more = f" or to {len(topics) - 1} other topics" if len(topics) > 1 else ""
            raise StillAppending(f"appends to '{next(iter(topics))}'{more} are still unanswered")

    async def leave(self) -> None:
        """Hand everything over to the others; at most LEAVE_S, then it is stopped."""
        self._leaving = True
        self.decide()
        self._heartbeats.heartbeat()
        if self._others():
            with suppress(TimeoutError):
                async with asyncio.timeout(LEAVE_S):
                    while self._places:
                        self._changed.clear()
                        await self._changed.wait()
        self._transfer.want(frozenset(), {}, self._clock(), at_once=self._transfer.here)
        self._follow()

    async def close(self) -> None:
        """Stop beating."""
        await self._heartbeats.close()
        await self._releases.close()

    # -- what is known -------------------------------------------------------------------------------------

    def silent(self) -> frozenset[str]:
        """Who is suspected now; not those who have said that they stop."""
        return self._heartbeats.silent - self._heartbeats.leaving

    def here(self) -> frozenset[MirrorPartition]:
        """What this gateway mirrors now: what it says that it owns when it joins the group."""
        return self._transfer.here

    def mirrored_by(self, partition: MirrorPartition) -> str:
        """The gateway that mirrors a partition; '' while nobody does."""
        return self._map.holder(partition)

    def mirrored(self) -> Mapping[str, frozenset[MirrorPartition]]:
        """What each gateway mirrors, as far as is known here: started or not."""
        return self._map.by_name()

    def status(self, mirror: MirrorRecord) -> Sequence[PartitionStatus]:
        """All known partitions of a mirror in its present period, in order, whoever mirrors them; others' as they
        told."""
        return self._progress.merged(mirror, self._engine.status(mirror))

    def blocked(self, gateway: str, topic: str) -> str:
        """What a pause of the topic waits for at another gateway, as it said last. For `RemotePauses`."""
        return self._heartbeats.blocked(gateway, topic)

    def forwarded(self, topic: str, partition: int, base_offset: int, records: int) -> None:
        """A client's Produce was written to the source through this gateway: told to whoever mirrors it."""
        if (topic, partition) in self._places:
            self._engine.forwarded(topic, partition, base_offset, records)
        else:
            self._heartbeats.forwarded(topic, partition, base_offset, records)

    # -- for the heartbeats -------------------------------------------------------------------------------------

    @property
    def leaving(self) -> bool:
        """`leave` was called."""
        return self._leaving

    @property
    def leader(self) -> str:
        """Of the present assignment; '' without one."""
        return self._map.leader

    def due(self, now: float) -> bool:
        """A time has passed that `decide` looks at."""
        return self._transfer.due(now)

    def moving(self) -> Collection[MirrorPartition]:
        """What is measured here now."""
        return self._engine.moving()

    def own_statuses(
        self, partitions: Iterable[MirrorPartition]
    ) -> Mapping[tuple[str, str], tuple[str, Sequence[PartitionStatus]]]:
        """Of those of these that are mirrored here, with the tag of the mirror that runs."""
        indexes: dict[tuple[str, str], list[int]] = {}
        for link, topic, index in sorted(partitions):
            indexes.setdefault((link, topic), []).append(index)
        running = ((key, self._engine.started_as(*key), of) for key, of in indexes.items())
        return {
            key: (tag_of(mirror), self._engine.status(mirror, of)) for key, mirror, of in running if mirror is not None
        }

    def written_elsewhere(self, place: TopicPartition, base_offset: int, records: int) -> None:
        """Another gateway wrote to a source partition, perhaps one that is mirrored here."""
        if place in self._places:
            self._engine.forwarded(*place, base_offset, records)

    def decide(self) -> None:
        """Work out what is to run here, and have it so."""
        changed = self._read_records()
        absent = self._heartbeats.silent | self._heartbeats.leaving
        found = self._map.find(self._records.mirrors, changed, absent)
        concerned = self._concerned(found, changed)
        holders = dict[MirrorPartition, str]()
        if not self._leaving:
            new = [each for each in concerned if not self._transfer.runs(each)]
            holders = dict(self._map.whom_to_ask(new, self._others()))
        self._map.keep(found)
        ask = self._transfer.want_some(
            concerned,
            {each for each in concerned if self._is_wanted(each)},
            holders,
            self._clock(),
            at_once=[each for each in concerned if (each.link, each.topic) in self._banned_keys],
            silent=absent,
        )
        self._follow()
        for holder, partitions in ask.items():
            self._releases.ask(holder, partitions)

    def _take(self, assignment: FleetAssignment | None) -> None:
        self._map.assignment = assignment
        self._reassigned |= self._transfer.unsettled  # what was given away is decided on anew
        self._transfer.reassigned()

    def _concerned(self, found: Division, changed: Mapping[Key, int]) -> set[MirrorPartition]:
        """The partitions of which something else may be to be said than the last time. Notes what is kept and banned.

        Args:
            changed: as `_read_records` tells.
        """
        kept, banned = self._keys_kept(), self._keys_banned()
        keys = {*changed, *(kept ^ self._kept_keys), *(banned ^ self._banned_keys)}
        self._kept_keys, self._banned_keys = kept, banned
        out = {*self._transfer.unsettled, *self._reassigned, *self._map.moved(found)}
        self._reassigned = frozenset()
        if self._leaving or not found.partial:
            out |= self._transfer.known
        for link, topic in keys:
            count = max(self._partitions.get((link, topic), 0), changed.get((link, topic), 0))
            out.update(MirrorPartition(link, topic, index) for index in range(count))
        return out

    def _is_wanted(self, partition: MirrorPartition) -> bool:
        """It is to run here. What runs already is kept by whoever leaves, until it is asked for."""
        if not self._leaving and self._map.is_mine(partition):
            return True
        return self._transfer.runs(partition) and (self._leaving or self._is_kept(partition))

    def _is_kept(self, partition: MirrorPartition) -> bool:
        """Of a mirror that is kept, which may have fewer partitions now: its topic was created anew."""
        key = partition.link, partition.topic
        return key in self._kept_keys and partition.partition < self._partitions.get(key, 0)

    def _keys_kept(self) -> frozenset[Key]:
        """What runs here of these stays: a promote or a failover of this gateway stands on it."""
        mirrors = self._records.mirrors
        under_way = (mirrors[key] for key in self.promoted() if key in mirrors)
        return frozenset(self._map.overridden).union(
            (one.link, one.mirror_topic) for one in under_way if one.state is MirrorState.PENDING_STOPPED
        )

    def _kept(self) -> frozenset[MirrorPartition]:
        """What runs here and stays, whoever asks for it."""
        keys = self._keys_kept()
        return frozenset(each for each in self.here() if (each.link, each.topic) in keys) if keys else frozenset()

    def _others(self) -> frozenset[str]:
        """The other nodes that can be asked: also those that are leaving."""
        return self._map.nodes(self._heartbeats.silent - self._heartbeats.leaving)

    def _keys_banned(self) -> frozenset[Key]:
        """What must not run here: paused by another gateway, or copied by a job. The leader knows what it does."""
        if self.leader == self._name:
            return frozenset()
        paused = ((self._mirrors[topic][0], topic) for topic in self.paused() if topic in self._mirrors)
        return frozenset(paused).union(key for key in self._heartbeats.paused_for_job if key in self._partitions)

    def _read_records(self) -> Mapping[Key, int]:
        """Which mirrors have other records than before, or none any more, and how many partitions they had."""
        changed: dict[Key, int] = {}
        topics, _ = self._changes.take()
        for topic in sorted(topics):
            record, before = self._records.mirror_of(topic), self._mirrors.get(topic)
            if before is not None and (record is None or record.link != before[0]):  # it may be another link's now
                self._read((before[0], topic), None, changed)
            if record is not None:
                self._read((record.link, topic), record, changed)
        return changed

    def _read(self, key: Key, record: MirrorRecord | None, changed: dict[Key, int]) -> None:
        changed[key] = self._partitions.pop(key, 0)
        if record is not None:
            self._partitions[key] = len(record.starts)
        self._note(key, record)

    def _note(self, key: Key, record: MirrorRecord | None) -> None:
        """A topic whose mirror is another one now, or gone: what was known of it counts no more."""
        link, topic = key
        before, now = self._mirrors.get(topic), None if record is None else (link, tag_of(record))
        if before == now or (now is None and before is not None and before[0] != link):
            return
        if before is not None:
            self._progress.forget(before[0], topic)
        self._mirrors.pop(topic, None)
        self._tags.pop(topic, None)
        if now is not None:
            self._mirrors[topic] = now
            self._tags[topic] = now[1]

    def _follow(self) -> None:
        """Have the engine run what is to run here."""
        moved = self._transfer.moved()
        ended = [each for each in moved if not self._transfer.runs(each)]
        begun = [each for each in moved if self._transfer.runs(each)]
        self._places.difference_update([(each.topic, each.partition) for each in ended])
        self._places.update([(each.topic, each.partition) for each in begun])
        self._engine.own_changed(begun, ended)
        self._changed.set()
