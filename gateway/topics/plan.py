"""How a topic is to be mirrored: what both clusters say of it, and what follows, before anything is changed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from gateway.errors import BadRequest, Conflict, NotFound
from gateway.kafka.connection.errors import BrokerError
from gateway.kafka.rules.topic_configs import CONCERNED, SyncedConfigs, mirror_configs, unmirrorable, why_no_override
from gateway.operations.cluster_access import ClusterAccess, TopicInfo
from gateway.operations.cluster_errors import source_errors, target_errors
from gateway.operations.sources import Sources
from gateway.operations.upstream import is_copied, upstream_of_new
from gateway.state import link_config
from gateway.state.link_config import LinkConfig, Offsets
from gateway.state.records import NOT_PADDED, LinkRecord, MirrorRecord, PartitionStart, Upstream
from gateway.state.topic import TOPIC
from gateway.topics.rules import start_point
from gateway.topics.rules.start_point import StartPoint
from protocol.errors import ErrorCode

NAMES_S: Final = 10.0
"""For how long the target's answer counts which topic configs it knows."""

_ASK_AGAIN_S: Final = (0.1, 0.3, 0.6)
_BAD_VALUES: Final = (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST, ErrorCode.POLICY_VIOLATION)

PlanStart = Callable[[LinkRecord, str, int, int], Awaitable[tuple[PartitionStart, ...]]]
"""(link, source topic, partitions, start timestamp of `state/link_config.py`) -> where each partition begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What an operator says of one mirror topic, beside what its link says.

    `configs`: of its own. `replication_factor`: 0 is the link's. `start`: in the words of `rules/start_point.py`.
    """

    configs: Mapping[str, str] = field(default_factory=dict)
    replication_factor: int = 0
    start: str = ""

    @classmethod
    def of(cls, record: MirrorRecord) -> Wanted:
        """What was said when it was created."""
        return cls(configs=record.configs, replication_factor=record.replication_factor, start=record.start)


AS_THE_LINK_SAYS: Final = Wanted()


@dataclass(frozen=True, slots=True)
class MirrorPlan:
    """All that was found out and decided before the first change."""

    link: LinkRecord
    config: LinkConfig
    source: TopicInfo
    target: TopicInfo | None  # an empty topic that is taken over
    configs: SyncedConfigs
    starts: tuple[PartitionStart, ...]
    replication_factor: int
    translated: str  # why offsets cannot be equal; "" when they can, as far as is known
    upstream: tuple[Upstream, ...] = ()  # from where the source itself has it
    wanted: Wanted = AS_THE_LINK_SAYS

    @property
    def mirror_topic(self) -> str:
        """The topic's name on the target."""
        return self.config.mirror_topic(self.source.name)

    @property
    def translates_ids(self) -> tuple[str, ...]:
        """Where in its records ids of schemas are written anew; nowhere unless the link says so of this topic."""
        return self.config.schema_places if self.config.schema_translated.passes(self.source.name) else ()


class MirrorPlanner:
    """Args.

    plan_start: where each partition begins. clock: monotonic seconds. state_topic: a topic of ours, whose configs tell
        which ones the target knows.
    """

    def __init__(
        self,
        *,
        sources: Sources,
        target: ClusterAccess,
        plan_start: PlanStart,
        clock: Callable[[], float],
        state_topic: str = TOPIC,
    ) -> None:
        self._sources = sources
        self._target = target
        self._plan_start = plan_start
        self._clock = clock
        self._state_topic = state_topic
        self._names: tuple[float, frozenset[str]] | None = None  # since when they are known

    async def plan(
        self,
        link: LinkRecord,
        topic: str,
        own: Mapping[str, str] | None = None,
        wanted: Wanted = AS_THE_LINK_SAYS,
        instead_of: str = "",
    ) -> MirrorPlan:
        """Ask both clusters about a source topic, and decide how it is mirrored. Nothing is changed.

        Args:
            own: what the topic's lifted configs were before, if a create that crashed knew.
            instead_of: id of the target's topic that is deleted before.

        Raises:
            BadRequest: a topic that cannot be mirrored, or not as the link or the operator says, or would go in a loop.
            NotFound: no such topic on the source.
            Conflict: the target has a topic of this name with other data.
            SourceUnreachable, TargetUnreachable: a cluster does not answer, or refuses.
        """
        config, start = link_config.parse(link.configs), _start_of(wanted)
        source = await self._sources.reach(link)
        with source_errors(link.name):
            found = await _find(source, topic)
            if found is None:
                raise NotFound(f"topic '{topic}' does not exist on the source of link '{link.name}'")
            source_configs = await _configs_of(source, topic)
        if found.internal:
            raise BadRequest(f"topic '{topic}' cannot be mirrored: it is an internal topic")
        upstream = await upstream_of_new(source, link, topic, self._target.cluster_id())
        translated = unmirrorable(source_configs)
        if translated and config.offsets is Offsets.PRESERVE:
            raise BadRequest(f"topic '{topic}' cannot be mirrored while mirror.offsets is preserve: {translated}")
        with target_errors():
            target = await _adoptable(self._target, config.mirror_topic(topic), found.partitions, instead_of)
            known = await self._known_names()
        if target is not None and own is None:
            await self._require_not_the_origin(source, link, found, upstream)
        with target_errors():
            if own is None:
                own = await self._target.topic_overrides(target.name) if target else {}
        if refused := why_no_override(wanted.configs, known):
            raise BadRequest(f"configs: {refused}")
        configs = mirror_configs(source_configs, known, config.sync_include, own, wanted.configs)
        with source_errors(link.name):
            starts = await self._starts(link, source, found, config, start)
        replicas = self._replicas(link, config, found, wanted)
        if wanted.configs and target is None and not instead_of:
            await self._require_accepted(config.mirror_topic(topic), found.partitions, replicas, wanted.configs)
        if translated:
            starts = tuple(replace(start, pad_to=NOT_PADDED) for start in starts)
        return MirrorPlan(link, config, found, target, configs, starts, replicas, translated, upstream, wanted)

    async def _require_not_the_origin(
        self, source: ClusterAccess, link: LinkRecord, found: TopicInfo, upstream: tuple[Upstream, ...]
    ) -> None:
        """A topic that is there already is not taken over for what the source has mirrored itself: where the way of
        the records is not known to its end, this topic may be where it begins, and it would be a loop."""
        topic = found.name
        if not upstream and not await is_copied(source, link, topic, found.partitions):
            return
        if not upstream or not upstream[0].ends:
            raise Conflict(
                f"topic '{topic}' exists on the target, and on the source of link '{link.name}' it is a mirror topic "
                "itself: that may be a loop; delete the empty topic on the target first, if it is none"
            )

    async def _starts(
        self, link: LinkRecord, source: ClusterAccess, found: TopicInfo, config: LinkConfig, start: StartPoint
    ) -> tuple[PartitionStart, ...]:
        """Where each partition begins. Raises BadRequest for an offset that the source does not have."""
        topic, timestamp = found.name, config.start_timestamp if start.timestamp is None else start.timestamp
        if start.offsets:
            ranges = await source.log_ranges(topic, found.partitions)
            if refused := start_point.why_out_of_range(topic, start.offsets, ranges):
                raise BadRequest(refused)
        starts = await self._plan_start(link, topic, found.partitions, timestamp)
        given = await source.starts_at(topic, start.offsets) if start.offsets else {}
        return tuple(given.get(index, start) for index, start in enumerate(starts))

    async def _require_accepted(self, topic: str, partitions: int, replicas: int, configs: Mapping[str, str]) -> None:
        """Asked of the target before anything is stored: a value that counts from the promote on is looked at now."""
        try:
            with target_errors():
                await self._target.check_topic(topic, partitions, replicas, configs)
        except Conflict as exc:
            code = exc.__cause__.code if isinstance(exc.__cause__, BrokerError) else 0
            if code in _BAD_VALUES:
                raise BadRequest(f"configs: the target refuses them: {exc.__cause__}") from exc
            if code != ErrorCode.TOPIC_ALREADY_EXISTS:  # it has just come to be there: found at its creation
                raise

    def _replicas(self, link: LinkRecord, config: LinkConfig, source: TopicInfo, asked: Wanted) -> int:
        """As many as the operator or the link says, or the source has, if the target has brokers for them."""
        wanted = asked.replication_factor or config.replication_factor or source.replication_factor
        brokers = max(1, self._target.broker_count())
        if asked.replication_factor > brokers:
            raise BadRequest(f"replication_factor is {wanted}, but the target has {brokers} broker(s)")
        if not asked.replication_factor and config.replication_factor and config.replication_factor > brokers:
            raise BadRequest(
                f"link '{link.name}': replication.factor is {wanted}, but the target has {brokers} broker(s)"
            )
        return min(wanted, brokers)

    async def _known_names(self) -> frozenset[str]:
        """The names of the topic configs that the target knows: of all that are created in a while, one answer.

        They are the same for every topic, and change with the version of its brokers only.
        """
        name, now = self._state_topic, self._clock()
        if self._names is None or now - self._names[0] >= NAMES_S:
            self._names = now, frozenset((await self._target.topic_configs([name]))[name])
        return self._names[1]


async def _find(source: ClusterAccess, topic: str) -> TopicInfo | None:
    """The topic. One that was created a moment ago may not be known yet to the broker that is asked: ask again."""
    found = (await source.topics([topic])).get(topic)
    for pause_s in _ASK_AGAIN_S:
        if found is not None:
            break
        await asyncio.sleep(pause_s)
        found = (await source.topics([topic])).get(topic)
    return found


async def _configs_of(source: ClusterAccess, topic: str) -> Mapping[str, str]:
    """The configs of a topic that a broker has named: as above, another broker may not know it yet."""
    for pause_s in _ASK_AGAIN_S:
        try:
            return (await source.topic_configs([topic], CONCERNED))[topic]
        except BrokerError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
        await asyncio.sleep(pause_s)
    return (await source.topic_configs([topic], CONCERNED))[topic]


def _start_of(wanted: Wanted) -> StartPoint:
    try:
        return start_point.parse(wanted.start)
    except ValueError as exc:
        raise BadRequest(f"start: {exc}") from exc


async def _adoptable(target: ClusterAccess, topic: str, partitions: int, instead_of: str) -> TopicInfo | None:
    """The target's topic if it never held a record; None if there is none, or only the one that is to go."""
    found = (await target.topics([topic])).get(topic)
    if found is None or (instead_of and found.topic_id == instead_of):
        return None
    if found.partitions != partitions:
        raise Conflict(
            f"topic '{topic}' exists on the target with {found.partitions} partitions, "
            f"on the source it has {partitions}"
        )
    if any(end > 0 for _, end in await target.log_ranges(topic, partitions)):
        raise Conflict(f"topic '{topic}' exists on the target with other data; delete it there first")
    return found
