"""What a topic is to have beside its records: looked at behind each operation, and when everything is at rest.

Behind an operation only what nobody is about to mend any more is judged, and nothing is asked of anybody: a run goes
on as it would. At rest what is wrong has time to come right; then it counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from gateway.state.records import Deletion, MirrorRecord
from tests.simulation.judge.claims import left_on_source, wrong_claims
from tests.simulation.judge.configs import STAMPS, Owned, wrong_configs
from tests.simulation.judge.late_writers import untold, wrong_answer
from tests.simulation.judge.log_starts import wrong_log_starts
from tests.simulation.judge.stamps import wrong_stamps
from tests.simulation.judge.state import side_of
from tests.simulation.kafka.cluster import ClusterModel
from tests.simulation.kafka.logs.partition import Partition
from tests.simulation.recorder import SOURCE, TARGET

if TYPE_CHECKING:
    from tests.simulation.operations.branches import Branch
    from tests.simulation.world import World

_REST_S: Final = 420.0
"""A promoted topic's source is looked at every five minutes at last; a change in doubt is settled within one."""
_LOOK_S: Final = 1.0
_ROUND_S: Final = 8.0
"""Longer than from one round of a sync to the next: what one had begun while an operation went on is done by then."""
_UNSTAMPED: Final = "was seen to stamp records itself"
"""What a record says that held writes for the leaders of its topic, and not for longer than it may."""
Wrong = tuple[str, str, str]
"""Class of finding, mirror topic, what is wrong."""


class AtRest:
    """Of one link: the run's own, or a branch's.

    Args:
        elsewhere: its topics that are not judged here.
        excused: whether something that is wrong is so by its owner's will.
    """

    def __init__(
        self,
        world: World | Branch,
        elsewhere: frozenset[str] = frozenset(),
        excused: Callable[[Wrong], bool] = lambda _wrong: False,
    ) -> None:
        self._world = world
        self._elsewhere, self._excused = elsewhere, excused
        self._owned: dict[str, Owned] = {}  # by mirror topic
        self._ended_at = 0.0  # the last operation, in seconds
        self._unstamped = set[str]()  # mirror topics of which a record has said that some may not be stamped
        self._copies: dict[str, object] = {}  # the id of the topic on the target for which that was seen
        for cluster, side in ((world.source, SOURCE), (world.target, TARGET)):
            cluster.on_delete_records.append(partial(self._deleted, side))

    def look(self) -> None:
        """Called again and again: a mirror that is new tells whose configs its topics have."""
        source, target = self._world.source.topics, self._world.target.topics
        mirrors = self._world.judge.state.mirrors
        for gone in self._owned.keys() - {mirror.mirror_topic for mirror in mirrors}:
            del self._owned[gone]
            self._copies.pop(gone, None)
        for mirror in mirrors:
            key = mirror.mirror_topic
            if _UNSTAMPED in mirror.error_message:
                self._unstamped.add(key)
            if key not in self._owned and self._is_ours(mirror) and mirror.source_topic in source:
                values = source[mirror.source_topic].settings.values
                self._owned[key] = Owned.seen(values, {SOURCE: values})
            copy = target.get(mirror.mirror_topic)
            if key in self._owned and mirror.created and copy is not None and self._copies.get(key) != copy.id:
                self._copies[key] = copy.id
                self._owned[key] = self._owned[key].with_own(TARGET, copy.settings.values)

    def configured(self, topic: str, changes: Mapping[str, str]) -> None:
        """Its owner has changed synced configs of a topic, where it is written."""
        self.look()
        for mirror in self._mirrors():
            if mirror.mirror_topic == topic:
                self._owned[mirror.mirror_topic] = self._owned[mirror.mirror_topic].changed(changes)

    def kept(self, topic: str, side: str, changes: Mapping[str, str]) -> None:
        """Its owner has changed configs of a topic there that are not synced."""
        self.look()
        if topic in self._owned:
            owned = self._owned[topic]
            self._owned[topic] = Owned(owned.synced, {**owned.own, side: {**owned.own.get(side, {}), **changes}})

    def operation_ended(self) -> None:
        """Judge what is final by now."""
        self._world.judge.look()
        self.look()
        self._ended_at = self._world.loop.time()
        self._add([*self._wrong(at_rest=False), *self._wrong_stamps()])

    async def judged(self) -> None:
        """Judge all, when everything is at rest."""
        world = self._world
        await asyncio.sleep(max(0.0, self._ended_at + _ROUND_S - world.loop.time()))
        until = world.loop.time() + _REST_S
        while True:
            world.judge.look()
            self.look()
            found = [*self._wrong(at_rest=True), *(await self._wrong_claims())]
            wrong = [each for each in found if not self._excused(each)]
            if not wrong or world.loop.time() > until:
                break
            await asyncio.sleep(_LOOK_S)
        self._add([*wrong, *self._wrong_stamps()])

    # -- what is wrong -----------------------------------------------------------------------------------------------

    def _wrong(self, *, at_rest: bool) -> Iterator[Wrong]:
        source, target = self._world.source, self._world.target
        for mirror in self._mirrors():
            now = {
                side: cluster.topics[name].settings.values
                for side, cluster, name in (
                    (SOURCE, source, mirror.source_topic),
                    (TARGET, target, mirror.mirror_topic),
                )
                if name in cluster.topics
            }
            for what in wrong_configs(mirror, self._owned[mirror.mirror_topic], now, at_rest=at_rest):
                yield "configs_wrong", mirror.mirror_topic, what
            if at_rest and len(now) > 1:
                for what in wrong_log_starts(mirror, source, target, self._both(mirror)):
                    yield "log_starts_wrong", mirror.mirror_topic, what

    def _wrong_stamps(self) -> Iterator[Wrong]:
        for mirror in self._mirrors():
            if mirror.cutover.unstamped or mirror.mirror_topic in self._unstamped:
                continue
            stamps = self._owned[mirror.mirror_topic].synced[STAMPS]
            for what in wrong_stamps(mirror, stamps, self._world.source, self._world.target):
                yield "stamps_wrong", mirror.mirror_topic, what

    async def _wrong_claims(self) -> list[Wrong]:
        """Nothing where no gateway tells."""
        found: list[Wrong] = []
        scraped = await self._world.asked.scraped()
        for mirror in self._mirrors():
            path = f"/v3/links/{mirror.link}/mirrors/{mirror.mirror_topic}"
            code, shown = await self._world.operator.ask("GET", path)
            if code == 200:
                state = self._world.judge.state
                count = self._partitions(self._world.source, mirror.source_topic)
                left = left_on_source(mirror, state.link_id(mirror.link), self._world.source, count)
                pairs = self._world.judge.pairs(mirror)
                whats = [*wrong_claims(mirror, shown, pairs, left, self._readers(mirror)), *untold(mirror, shown, left)]
                whats += self._world.asked.wrong(scraped, mirror, shown)
                whats += wrong_answer(mirror, left, *(await self._asked_to_undo(mirror)))
                found += [("claims_wrong", mirror.mirror_topic, what) for what in whats]
        return found

    async def _asked_to_undo(self, mirror: MirrorRecord) -> tuple[int, Any]:
        """What an undo would do, of a mirror back; (0, None) when nobody tells, or it is none."""
        if not mirror.is_reverse:
            return 0, None
        path = f"/v3/links/{mirror.link}/mirrors:undo?validate_only=true"
        return await self._world.operator.ask("POST", path, {"mirror_topic_names": [mirror.mirror_topic]})

    def _deleted(self, side: str, partition: Partition, began: int, who: str) -> None:
        """Somebody has asked for it by the protocol, as nobody does here but the fleet."""
        self._world.judge.look()
        for mirror in self._mirrors():
            name = mirror.source_topic if side == SOURCE else mirror.mirror_topic
            if name == partition.topic.name and side_of(mirror) == side:
                now = partition.best.log.start
                what = f"{who} deletes {began}..{now} of partition {partition.index} on the {side}, which clients write"
                self._add([("log_starts_wrong", mirror.mirror_topic, what)])

    # -- what there is -----------------------------------------------------------------------------------------------

    def _mirrors(self) -> list[MirrorRecord]:
        """Those that are known to have topics, and are not about to go."""
        return [
            mirror
            for mirror in self._world.judge.state.mirrors
            if mirror.mirror_topic in self._owned and mirror.created and mirror.deletion is Deletion.NONE
        ]

    def _is_ours(self, mirror: MirrorRecord) -> bool:
        return mirror.link == self._world.operator.link and mirror.mirror_topic not in self._elsewhere

    def _both(self, mirror: MirrorRecord) -> int:
        source, target = self._world.source, self._world.target
        return min(self._partitions(source, mirror.source_topic), self._partitions(target, mirror.mirror_topic))

    @staticmethod
    def _partitions(cluster: ClusterModel, topic: str) -> int:
        return len(cluster.topics[topic].partitions) if topic in cluster.topics else 0

    def _readers(self, mirror: MirrorRecord) -> set[str]:
        """Groups that read the topic on the source."""
        return {
            member.group
            for member in self._world.reading()
            if member.running and member.side == SOURCE and mirror.source_topic in member.topics
        }

    def _add(self, wrong: list[Wrong]) -> None:
        for name, topic, what in wrong:
            if self._excused((name, topic, what)):
                continue
            if self._world.judge.findings.add(name, topic, what, self._world.loop.time()):
                self._world.story.tell("judge", f"{name}: {topic}: {what}")
