"""Topic configs that are lifted on a copy while it is mirrored, and set back when it is written to by clients.

One owner sets them back: a promote and the look after it may both ask for the same topics, and who comes second finds
nothing left to do. Topics go together, `TOPICS_IN_A_REQUEST` in one request and one write of their records, since a
controller works requests off one by one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from gateway.errors import Conflict, ControlError
from gateway.kafka.acts import ActRefused
from gateway.kafka.admin import TOPICS_IN_A_REQUEST, ConfigChange
from gateway.kafka.connection.errors import BrokerError, ClusterUnavailable, NetError
from gateway.kafka.rules.topic_configs import set_back
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.door import Door
from gateway.operations.records import Records
from gateway.operations.sources import Sources
from gateway.state.records import MirrorRecord, MirrorState
from gateway.state.store import ProducerFenced, StoreConflict, StoreError

IN_DOUBT_S: Final = 60.0
"""So long after a change without an answer the brokers may carry it out: several request timeouts."""


class LiftedConfigs:
    """What a record says was lifted (`restore_configs`), and on which cluster."""

    def __init__(
        self, records: Records, sources: Sources, target: ClusterAccess, door: Door, clock: Callable[[], float]
    ) -> None:
        """`clock`: monotonic seconds."""
        self._clock = clock
        self._in_doubt: dict[tuple[str, str], float] = {}  # (cluster id, topic) -> when its change was not answered
        self._records = records
        self._sources = sources
        self._target = target
        self._door = door
        self._alone = asyncio.Lock()

    async def alter(self, access: ClusterAccess, changes: Mapping[str, ConfigChange]) -> Mapping[str, BrokerError]:
        """Give copies the configs of copies; those that were refused. What was not answered is remembered: it may be
        carried out yet, as by a broker that was paused, behind what `restore` sets.

        Raises:
            NetError: as `ClusterAccess.alter_topic_configs`.
        """
        try:
            return await access.alter_topic_configs(changes)
        except ClusterUnavailable:
            now = self._clock()
            self._in_doubt = {key: at for key, at in self._in_doubt.items() if now - at < IN_DOUBT_S}
            self._in_doubt |= dict.fromkeys(((access.cluster_id(), topic) for topic in changes), now)
            raise

    async def restore(self, mirror: MirrorRecord) -> None:
        """Set the configs that were lifted on the copy while the topic was mirrored, once.

        Raises:
            ControlError, NetError, StoreError: not all is done; to be tried again.
        """
        for reason in (await self.restore_all([mirror])).values():
            raise reason

    async def restore_all(self, mirrors: Sequence[MirrorRecord]) -> Mapping[str, Exception]:
        """As `restore`, of many mirror topics.

        Returns:
            By mirror topic, why its configs are not set back: to be tried again.

        Raises:
            ProducerFenced: another gateway leads.
        """
        late: dict[str, Exception] = {}
        async with self._alone:
            due = [mirror for mirror in mirrors if self._is_due(mirror, late)]
            for some in _by_cluster(due):
                for first in range(0, len(some), TOPICS_IN_A_REQUEST):
                    late |= await self._together(some[first : first + TOPICS_IN_A_REQUEST])
        return late

    def _is_due(self, mirror: MirrorRecord, late: dict[str, Exception]) -> bool:
        """False when there is nothing (left) to set back; noted in `late` when the mirror has changed in other ways."""
        stored = self._records.store.mirrors.get((mirror.link, mirror.mirror_topic))
        if not mirror.restore_configs or (stored is not None and stored == replace(mirror, restore_configs={})):
            return False
        if stored != mirror:
            late[mirror.mirror_topic] = StoreConflict(
                f"mirror topic '{mirror.mirror_topic}' was changed by another operation meanwhile; try again"
            )
            return False
        return True

    async def _together(self, mirrors: Sequence[MirrorRecord]) -> Mapping[str, Exception]:
        """Topics of one cluster; one whose record was changed meanwhile keeps none of the others waiting."""
        try:
            return await self._set_back(mirrors)
        except ProducerFenced:
            raise
        except (ControlError, NetError, StoreError, TimeoutError, OSError) as exc:
            if len(mirrors) == 1 or not isinstance(exc, ActRefused | StoreConflict):
                return {mirror.mirror_topic: exc for mirror in mirrors}
        late: dict[str, Exception] = {}
        for mirror in mirrors:
            late |= await self._together([mirror])
        return late

    async def _set_back(self, mirrors: Sequence[MirrorRecord]) -> Mapping[str, Exception]:
        """Records of topics in doubt stay as they are, so that whoever looks next sets their configs again."""
        access = self._target
        if _is_on_source(mirrors[0]):
            access = await self._sources.reach(self._records.link(mirrors[0].link))
        changes = {_copy(mirror): ConfigChange(*set_back(mirror.restore_configs)) for mirror in mirrors}
        async with self._door.through(*mirrors):
            refused = await access.alter_topic_configs(changes)
            late = {**refused, **self._doubts(access, [topic for topic in changes if topic not in refused])}
            done = [mirror for mirror in mirrors if _copy(mirror) not in late]
            if done:
                store = self._records.store
                await store.put(*(replace(one, restore_configs={}) for one in done), guard=store.unchanged(done))
        return {mirror.mirror_topic: late[_copy(mirror)] for mirror in mirrors if _copy(mirror) in late}

    def _doubts(self, access: ClusterAccess, topics: Iterable[str]) -> Mapping[str, Exception]:
        """By topic that has its own configs now, and may have others again: they are set once more later."""
        found: dict[str, Exception] = {}
        for topic in topics:
            left_s = IN_DOUBT_S - (self._clock() - self._in_doubt.get((access.cluster_id(), topic), -IN_DOUBT_S))
            if left_s > 0:
                found[topic] = Conflict(
                    f"a change of the configs of topic '{topic}' was not answered, and may be carried out yet: "
                    f"they are set back once more in {left_s:.0f} s"
                )
        return found


def _is_on_source(mirror: MirrorRecord) -> bool:
    """Where the copy is, or was: fail back, it was the source's."""
    return mirror.is_reverse or mirror.state is MirrorState.PENDING_MIRROR


def _copy(mirror: MirrorRecord) -> str:
    return mirror.source_topic if _is_on_source(mirror) else mirror.mirror_topic


def _by_cluster(mirrors: Sequence[MirrorRecord]) -> Sequence[Sequence[MirrorRecord]]:
    """Those whose copies are on one cluster together."""
    found: dict[str, list[MirrorRecord]] = {}
    for mirror in mirrors:
        found.setdefault(mirror.link if _is_on_source(mirror) else "", []).append(mirror)
    return list(found.values())
