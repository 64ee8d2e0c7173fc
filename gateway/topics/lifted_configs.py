"""Topic configs that are lifted on a copy while it is mirrored, and set back when it is written to by clients.

One owner sets them back: a promote and the look after it may both ask for the same topics, and who comes second finds
nothing left to do. Topics go together, `TOPICS_IN_A_REQUEST` in one request and one write of their records, since a
controller works requests off one by one.

**A topic that stamps its records** (LogAppendTime) has its writes held behind a cutover until it does so again: no
record behind the cutover has its producer's timestamp. The controller answers AlterConfigs before the brokers have
heard of it, so each partition's leader is asked. A KRaft broker answers DescribeConfigs from its metadata image, which
it has a moment before its logs have their new configs (BrokerMetadataPublisher: the image is set, then the logs'
configs are). It takes in one image after the other. So there are two changes: the timestamp type; and, once every
leader tells of it, all else. A leader that tells of the second one has done with the first.

What of this is not exact: a broker of a cluster with ZooKeeper answers from there and not by its logs; a broker that
becomes a leader meanwhile may have both changes in one image. And the writes are held for `STAMPED_WITHIN_S` at most,
from when the leading gateway first saw the cutover. Then they go on, and the record says that the first of them may
have their producers' timestamps: clients that time out are the greater harm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from gateway.errors import Conflict, ControlError
from gateway.kafka.acts import ActRefused
from gateway.kafka.admin import TOPICS_IN_A_REQUEST, TopicConfigChange
from gateway.kafka.connection.errors import BrokerError, ClusterUnavailable, NetError
from gateway.kafka.rules.topic_configs import LIFTED, TIMESTAMP_TYPE, set_back, stamp_changes, stamps_itself
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.door import Door
from gateway.operations.records import Records
from gateway.operations.sources import Sources
from gateway.state.records import MirrorRecord, MirrorState
from gateway.state.store import ProducerFenced, StoreConflict, StoreError

STAMPED_WITHIN_S: Final = 5.0
"""So long behind a cutover, at most, writes wait for the leaders to stamp records themselves."""
WAITS_FOR_STAMPS: Final = "the leaders of the topic to stamp records themselves (message.timestamp.type)"
_ASKED_AGAIN_S: Final = 0.01
_TRIED_AGAIN_S: Final = 0.1

IN_DOUBT_S: Final = 60.0
"""So long after a change without an answer the brokers may carry it out: several request timeouts."""


class ConfigsInDoubt(ClusterUnavailable):
    """A cluster did not answer a change of configs, which it may carry out yet: to be waited for, nobody refuses."""


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
        self._held: dict[tuple[str, str, int], float] = {}  # (link, mirror topic, cutover) -> since when writes wait

    async def alter(self, access: ClusterAccess, changes: Mapping[str, TopicConfigChange]) -> Mapping[str, BrokerError]:
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

    async def lift(
        self,
        access: ClusterAccess,
        topic: str,
        partitions: int,
        changes: Mapping[str, str],
        restore: Mapping[str, str],
    ) -> None:
        """Give a topic the configs of a copy right before a mirror appends to it.

        Where it has stamped records itself, or `restore` says that it is to, its leaders do not any more when this is
        done: they are asked as behind a cutover (see the module), and in the same two changes.

        Raises:
            BrokerError: the cluster refuses.
            NetError: as `alter`; or not every leader has heard of it in time: to be tried again.
        """
        stamped = stamps_itself(restore) or TIMESTAMP_TYPE in changes
        first, later = _apart(changes) if stamped else (dict(changes), {})
        for some in filter(None, (first, later)):
            for refused in (await self.alter(access, {topic: TopicConfigChange(some)})).values():
                raise refused
            if some is first and later:
                await _heard(access, topic, partitions, first)
        if stamped:
            last = {TIMESTAMP_TYPE: LIFTED[TIMESTAMP_TYPE], **dict([*later.items()][:1])}
            await _heard(access, topic, partitions, last)

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
            held = [mirror for mirror in due if mirror.cutover.unstamped]
            for some in _by_cluster(held):
                for first in range(0, len(some), TOPICS_IN_A_REQUEST):
                    late |= await self._let_go(some[first : first + TOPICS_IN_A_REQUEST])
            for some in _by_cluster([mirror for mirror in due if not mirror.cutover.unstamped]):
                for first in range(0, len(some), TOPICS_IN_A_REQUEST):
                    late |= await self._together(some[first : first + TOPICS_IN_A_REQUEST])
        return late

    def _is_due(self, mirror: MirrorRecord, late: dict[str, Exception]) -> bool:
        """False when there is nothing (left) to set back; noted in `late` when the mirror has changed in other ways."""
        stored = self._records.store.mirrors.get((mirror.link, mirror.mirror_topic))
        if not mirror.restore_configs or (stored is not None and stored == _restored(mirror)):
            return False
        if stored != mirror:
            late[mirror.mirror_topic] = StoreConflict(
                f"mirror topic '{mirror.mirror_topic}' was changed by another operation meanwhile; try again"
            )
            return False
        return True

    async def _let_go(self, mirrors: Sequence[MirrorRecord]) -> Mapping[str, Exception]:
        """Topics of one cluster whose writes are held: until their leaders stamp records, or the time is over."""
        self._held = {key: at for key, at in self._held.items() if self._clock() - at < IN_DOUBT_S}
        began = [self._held.setdefault(_cutover(mirror), self._clock()) for mirror in mirrors]
        left_s = STAMPED_WITHIN_S - (self._clock() - min(began))
        waiting, late = list(mirrors), dict[str, Exception]()
        try:
            async with asyncio.timeout(max(0.0, left_s)):
                while waiting:
                    late = dict(await self._together(waiting))
                    waiting = [mirror for mirror in waiting if mirror.mirror_topic in late and self._is_stored(mirror)]
                    if waiting:
                        await asyncio.sleep(_TRIED_AGAIN_S)
        except TimeoutError:
            late |= {mirror.mirror_topic: Conflict(_not_stamped(mirror, late)) for mirror in waiting}
        store = self._records.store
        if waiting := [mirror for mirror in waiting if self._is_stored(mirror)]:
            released = [_released(one, str(late[one.mirror_topic])) for one in waiting]
            await store.put(*released, guard=store.unchanged(waiting))
        return late

    def _is_stored(self, mirror: MirrorRecord) -> bool:
        return self._records.store.mirrors.get((mirror.link, mirror.mirror_topic)) == mirror

    async def _stamp(self, access: ClusterAccess, mirrors: Sequence[MirrorRecord]) -> Mapping[str, BrokerError]:
        """The first of the two changes, of those whose writes are held; the ones that were refused. Then every leader
        tells of it."""
        held = {_copy(mirror): mirror for mirror in mirrors if mirror.cutover.unstamped}
        if not held:
            return {}
        first = {topic: stamp_changes(mirror.restore_configs)[0] for topic, mirror in held.items()}
        refused = await access.alter_topic_configs(
            {topic: TopicConfigChange(values, ()) for topic, values in first.items()}
        )
        await asyncio.gather(
            *(
                _told(access, topic, len(held[topic].starts), values)
                for topic, values in first.items()
                if topic not in refused
            )
        )
        return refused

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
        changes = {_copy(mirror): TopicConfigChange(*set_back(mirror.restore_configs)) for mirror in mirrors}
        async with self._door.through(*mirrors):
            refused = dict(await self._stamp(access, mirrors))
            if accepted := {topic: change for topic, change in changes.items() if topic not in refused}:
                refused |= await access.alter_topic_configs(accepted)
            held = [one for one in mirrors if one.cutover.unstamped and _copy(one) not in refused]
            await asyncio.gather(
                *(_told(access, _copy(one), len(one.starts), stamp_changes(one.restore_configs)[1]) for one in held)
            )
            late: dict[str, Exception] = {
                **refused,
                **self._doubts(access, [topic for topic in changes if topic not in refused]),
            }
            done = [mirror for mirror in mirrors if _copy(mirror) not in late]
            if done:
                store = self._records.store
                await store.put(*map(_restored, done), guard=store.unchanged(done))
        return {mirror.mirror_topic: late[_copy(mirror)] for mirror in mirrors if _copy(mirror) in late}

    def _doubts(self, access: ClusterAccess, topics: Iterable[str]) -> Mapping[str, Exception]:
        """By topic that has its own configs now, and may have others again: they are set once more later."""
        found: dict[str, Exception] = {}
        for topic in topics:
            left_s = IN_DOUBT_S - (self._clock() - self._in_doubt.get((access.cluster_id(), topic), -IN_DOUBT_S))
            if left_s > 0:
                found[topic] = ConfigsInDoubt(
                    f"a change of the configs of topic '{topic}' was not answered, and may be carried out yet: "
                    f"they are set back once more in {left_s:.0f} s"
                )
        return found


def _apart(changes: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The timestamp type, and all else."""
    first = {name: value for name, value in changes.items() if name == TIMESTAMP_TYPE}
    return first, {name: value for name, value in changes.items() if name not in first}


async def _heard(access: ClusterAccess, topic: str, partitions: int, values: Mapping[str, str]) -> None:
    """As `_told`; NetError when it takes longer than `STAMPED_WITHIN_S`."""
    try:
        async with asyncio.timeout(STAMPED_WITHIN_S):
            await _told(access, topic, partitions, values)
    except TimeoutError:
        raise ClusterUnavailable(
            f"not every leader of topic '{topic}' has heard of its configs as a copy within {STAMPED_WITHIN_S:g} s"
        ) from None


async def _told(access: ClusterAccess, topic: str, partitions: int, values: Mapping[str, str]) -> None:
    """Until every leader of the copy tells these configs itself; no limit of its own."""
    while values:
        told = await access.configs_at_leaders(topic, partitions, tuple(values))
        if all(found.get(name) == value for found in told.values() for name, value in values.items()):
            return
        await asyncio.sleep(_ASKED_AGAIN_S)


def _cutover(mirror: MirrorRecord) -> tuple[str, str, int]:
    return mirror.link, mirror.mirror_topic, mirror.cutover.pause_epoch


def _restored(mirror: MirrorRecord) -> MirrorRecord:
    """The record when its configs are set back."""
    return replace(mirror, restore_configs={}, cutover=replace(mirror.cutover, unstamped=False))


def _released(mirror: MirrorRecord, reason: str) -> MirrorRecord:
    """The record when its writes are held no longer, whatever the leaders do."""
    cutover = replace(mirror.cutover, unstamped=False)
    return replace(mirror, cutover=cutover, error_message="; ".join(filter(None, (mirror.error_message, reason))))


def _not_stamped(mirror: MirrorRecord, late: Mapping[str, Exception]) -> str:
    why = late.get(mirror.mirror_topic)
    return (
        f"not every leader of topic '{_copy(mirror)}' was seen to stamp records itself (LogAppendTime) within "
        f"{STAMPED_WITHIN_S:g} s behind the cutover{f' ({why})' if why is not None else ''}: its first records "
        "from then on may have their producers' timestamps"
    )


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
