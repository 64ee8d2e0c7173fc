"""Takes the inventory: questions to the source, and to the target where one is named. Nothing is changed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, TypeVar

from gateway.domain.names import is_internal
from gateway.jobs.plan.access import acl_lines, transactional_ids
from gateway.jobs.plan.facts import GroupFacts, Inventory, Sample, TargetFacts, TopicFacts
from gateway.jobs.plan.sampling import sample_topics
from gateway.jobs.topic_ranges import LogRanges, log_ranges
from gateway.net.admin import ConfigEntry, describe_topic_configs
from gateway.net.cluster import Cluster
from gateway.net.commits import committed_offsets
from gateway.net.errors import NetError
from gateway.net.groups import describe_group, list_groups
from gateway.net.log_dirs import log_sizes
from gateway.net.offsets import list_offsets

T = TypeVar("T")

RATE_S: Final = 3600
_AT_ONCE: Final = 16
_CONFIGS_AT_ONCE: Final = 200
_SET_ON_TOPIC: Final = 1


class Gatherer:
    """One inventory. Questions that a cluster may refuse to answer are noted in `untold`."""

    def __init__(self, source: Cluster, now: Callable[[], float] = time.time) -> None:
        self._source = source
        self._now = now
        self.untold: list[str] = []

    async def inventory(self, wanted: Collection[str], target: Cluster | None) -> tuple[Inventory, LogRanges]:
        """What is there, and the logs' ranges.

        Args:
            wanted: topics; all that are not internal when empty.

        Raises:
            ValueError: a topic that the source does not have.
            NetError: the source does not answer.
        """
        view = await self._source.refresh(None)
        names = sorted(
            wanted or (name for name, topic in view.topics.items() if not self._internal(name, topic.internal))
        )
        ranges = await log_ranges(self._source, names)
        sizes = await self._or("sizes of logs", log_sizes(self._source, names), {})
        rates = await self._or("rates", self._rates(ranges), {})
        samples = await sample_topics(self._source, ranges)
        configs = await self._or("topic configs", self._configs(self._source, names), {})
        topics = tuple(self._topic(name, ranges, sizes, rates, samples, configs.get(name, {})) for name in names)
        found = Inventory(
            cluster_id=view.cluster_id,
            brokers=len(view.brokers),
            topics=topics,
            groups=await self._or("groups", self._groups(), ()),
            acls=await self._or("ACLs", acl_lines(self._source), ()),
            transactional_ids=await self._or("transactional ids", transactional_ids(self._source), ()),
            target=None if target is None else await self._target(target, names),
            untold=tuple(self.untold),
        )
        return found, ranges

    @staticmethod
    def _internal(name: str, internal: bool) -> bool:
        return internal or is_internal(name)

    async def _or(self, what: str, question: Awaitable[T], otherwise: T) -> T:
        try:
            return await question
        except NetError as exc:
            self.untold.append(f"{what}: {exc}")
            return otherwise

    def _topic(
        self,
        name: str,
        ranges: LogRanges,
        sizes: Mapping[tuple[str, int], int],
        rates: Mapping[str, float],
        samples: Mapping[str, Sample],
        configs: Mapping[str, ConfigEntry],
    ) -> TopicFacts:
        partitions = self._source.view.topics[name].partitions
        return TopicFacts(
            name=name,
            partitions=len(partitions),
            replication_factor=max(len(part.replicas) for part in partitions.values()),
            bytes=sum(sizes.get((name, index), 0) for index in partitions) if sizes else -1,
            offsets=sum(end - start for (topic, _), (start, end) in ranges.items() if topic == name),
            offsets_per_s=rates.get(name, 0.0),
            largest_bytes=max((sizes.get((name, index), 0) for index in partitions), default=0) if sizes else -1,
            configs={key: entry.value for key, entry in configs.items() if entry.value is not None},
            own=frozenset(key for key, entry in configs.items() if entry.source == _SET_ON_TOPIC),
            sample=samples.get(name, Sample()),
        )

    async def _rates(self, ranges: LogRanges) -> dict[str, float]:
        """Offsets a second of each topic over the last hour, by the log's own timestamps."""
        since = int((self._now() - RATE_S) * 1000)
        wanted: dict[str, dict[int, int]] = {}
        for topic, index in ranges:
            wanted.setdefault(topic, {})[index] = since
        found = await list_offsets(self._source, wanted)
        rates: dict[str, float] = {}
        for key, answer in found.items():
            written = ranges[key][1] - answer.offset if answer.offset >= 0 else 0
            rates[key[0]] = rates.get(key[0], 0.0) + max(0, written) / RATE_S
        return rates

    async def _configs(self, cluster: Cluster, names: Sequence[str]) -> dict[str, dict[str, ConfigEntry]]:
        found: dict[str, dict[str, ConfigEntry]] = {}
        for at in range(0, len(names), _CONFIGS_AT_ONCE):
            found |= await describe_topic_configs(cluster, names[at : at + _CONFIGS_AT_ONCE])
        return found

    async def _groups(self) -> tuple[GroupFacts, ...]:
        listed = await list_groups(self._source)
        slots = asyncio.Semaphore(_AT_ONCE)

        async def ask(name: str, protocol_type: str, kind: str) -> GroupFacts:
            async with slots:
                view = await describe_group(self._source, name)
                committed = await committed_offsets(self._source, name) if protocol_type in ("consumer", "") else {}
            return GroupFacts(
                name=name,
                type=view.type or kind,
                protocol_type=protocol_type,
                state=view.state,
                clients=tuple(sorted({f"{member.client_id} ({member.host})" for member in view.members})),
                topics=tuple(sorted(view.topics | {topic for topic, _ in committed})),
            )

        return tuple(await asyncio.gather(*(ask(one.group, one.protocol_type, one.type) for one in listed)))

    async def _target(self, target: Cluster, names: Sequence[str]) -> TargetFacts:
        view = await target.refresh(None)
        there = [name for name in names if name in view.topics]
        ranges = await log_ranges(target, there) if there else {}
        held = {
            name: sum(end - start for (topic, _), (start, end) in ranges.items() if topic == name) for name in there
        }
        any_topic = there[:1] or [name for name, topic in view.topics.items() if not topic.error][:1]
        configs = await self._or("configs of the target", self._configs(target, any_topic), {})
        known = frozenset(key for entries in configs.values() for key in entries)
        return TargetFacts(cluster_id=view.cluster_id, brokers=len(view.brokers), topics=held, config_names=known)
