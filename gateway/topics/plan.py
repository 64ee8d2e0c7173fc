"""How a topic is to be mirrored: what both clusters say of it, and what follows, before anything is changed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from gateway.errors import BadRequest, Conflict, NotFound
from gateway.kafka.rules.topic_configs import SyncedConfigs, synced_configs, unmirrorable
from gateway.operations.cluster_access import ClusterAccess, TopicInfo
from gateway.operations.cluster_errors import source_errors, target_errors
from gateway.operations.sources import Sources
from gateway.operations.upstream import is_copied, upstream_of_new
from gateway.state import link_config
from gateway.state.link_config import LinkConfig, Offsets
from gateway.state.records import NOT_PADDED, LinkRecord, PartitionStart, Upstream
from gateway.state.topic import TOPIC

_ASK_AGAIN_S: Final = (0.1, 0.3, 0.6)

PlanStart = Callable[[LinkRecord, str, int, int], Awaitable[tuple[PartitionStart, ...]]]
"""(link, source topic, partitions, start timestamp of `state/link_config.py`) -> where each partition begins."""


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

    @property
    def mirror_topic(self) -> str:
        """The topic's name on the target."""
        return self.config.mirror_topic(self.source.name)


class MirrorPlanner:
    """Args.

    plan_start: where each partition begins. state_topic: a topic of ours, whose configs tell which ones the target
        knows.
    """

    def __init__(
        self, *, sources: Sources, target: ClusterAccess, plan_start: PlanStart, state_topic: str = TOPIC
    ) -> None:
        self._sources = sources
        self._target = target
        self._plan_start = plan_start
        self._state_topic = state_topic

    async def plan(self, link: LinkRecord, topic: str, own: Mapping[str, str] | None = None) -> MirrorPlan:
        """Ask both clusters about a source topic, and decide how it is mirrored. Nothing is changed.

        Args:
            own: what the topic's lifted configs were before, if a create that crashed knew.

        Raises:
            BadRequest: a topic that cannot be mirrored, or not as the link says, or would go in a loop.
            NotFound: no such topic on the source.
            Conflict: the target has a topic of this name with other data.
            SourceUnreachable, TargetUnreachable: a cluster does not answer, or refuses.
        """
        config = link_config.parse(link.configs)
        source = await self._sources.reach(link)
        with source_errors(link.name):
            found = await _find(source, topic)
            if found is None:
                raise NotFound(f"topic '{topic}' does not exist on the source of link '{link.name}'")
            source_configs = (await source.topic_configs([topic]))[topic]
        if found.internal:
            raise BadRequest(f"topic '{topic}' cannot be mirrored: it is an internal topic")
        upstream = await upstream_of_new(source, link, topic, self._target.cluster_id())
        translated = unmirrorable(source_configs)
        if translated and config.offsets is Offsets.PRESERVE:
            raise BadRequest(f"topic '{topic}' cannot be mirrored while mirror.offsets is preserve: {translated}")
        with target_errors():
            target = await _adoptable(self._target, config.mirror_topic(topic), found.partitions)
            present = await self._present_configs(target)
        if target is not None and own is None:
            await self._require_not_the_origin(source, link, found, upstream)
        with target_errors():
            if own is None:
                own = await self._target.topic_overrides(target.name) if target else {}
        configs = synced_configs(source_configs, present, config.sync_include, own)
        with source_errors(link.name):
            starts = await self._plan_start(link, topic, found.partitions, config.start_timestamp)
        replicas = self._replicas(link, config, found)
        if translated:
            starts = tuple(replace(start, pad_to=NOT_PADDED) for start in starts)
        return MirrorPlan(link, config, found, target, configs, starts, replicas, translated, upstream)

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

    def _replicas(self, link: LinkRecord, config: LinkConfig, source: TopicInfo) -> int:
        """As many as the link says, or the source has, if the target has brokers for them."""
        wanted = config.replication_factor or source.replication_factor
        brokers = max(1, self._target.broker_count())
        if config.replication_factor and config.replication_factor > brokers:
            raise BadRequest(
                f"link '{link.name}': replication.factor is {wanted}, but the target has {brokers} broker(s)"
            )
        return min(wanted, brokers)

    async def _present_configs(self, topic: TopicInfo | None) -> Mapping[str, str]:
        """The configs of the topic; before it exists those of another one, for the names that the target knows."""
        target = self._target
        name = topic.name if topic else self._state_topic
        return (await target.topic_configs([name]))[name]


async def _find(source: ClusterAccess, topic: str) -> TopicInfo | None:
    """The topic. One that was created a moment ago may not be known yet to the broker that is asked: ask again."""
    found = (await source.topics([topic])).get(topic)
    for pause_s in _ASK_AGAIN_S:
        if found is not None:
            break
        await asyncio.sleep(pause_s)
        found = (await source.topics([topic])).get(topic)
    return found


async def _adoptable(target: ClusterAccess, topic: str, partitions: int) -> TopicInfo | None:
    """The target's topic if it never held a record; None if there is none."""
    found = (await target.topics([topic])).get(topic)
    if found is None:
        return None
    if found.partitions != partitions:
        raise Conflict(
            f"topic '{topic}' exists on the target with {found.partitions} partitions, "
            f"on the source it has {partitions}"
        )
    if any(end > 0 for _, end in await target.log_ranges(topic, partitions)):
        raise Conflict(f"topic '{topic}' exists on the target with other data; delete it there first")
    return found
