"""What both clusters say of the topics when an audit begins: log starts and ends, configs, topic ids, sizes.

A partition that gives no answer is one that cannot be compared; it does not end the audit of the others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from gateway.jobs.audit.asked import Policy
from gateway.kafka.admin import describe_topic_configs, log_sizes
from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.errors import NetError, PartitionErrors
from gateway.kafka.offsets import EARLIEST, LATEST, list_offsets
from gateway.kafka.topic_partition import TopicPartition

Offsets = dict[TopicPartition, int]

_LEAST_S: Final = 15.0


@dataclass(slots=True)
class AuditCluster:
    """One cluster. Everything is under the names of the source's topics; `names`: those on this cluster, if otherwise.

    ids: topic -> topic id, as Kafka's tools print it, "" where the cluster has none. partitions: of each topic.
    silent: why a partition gave no answer. tiered: topics with `remote.storage.enable`, as `policies` found.
    """

    cluster: Cluster
    topics: Collection[str]
    names: Mapping[str, str] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    partitions: dict[str, tuple[int, ...]] = field(default_factory=dict)
    silent: dict[TopicPartition, str] = field(default_factory=dict)
    tiered: list[str] = field(default_factory=list)

    def name(self, topic: str) -> str:
        """The topic's name on this cluster."""
        return self.names.get(topic, topic)

    async def look(self) -> None:
        """Find the topics.

        Raises:
            ValueError: the cluster does not have one of them.
            NetError: the cluster does not answer.
        """
        await self.find()
        for topic in self.topics:
            if topic not in self.ids:
                cluster = self.cluster.view.cluster_id
                raise ValueError(f"the cluster {cluster} has no topic {self.name(topic)}, or none that may be read")

    async def find(self) -> None:
        """Find those of the topics that are there, and may be read. Raises NetError as `look` does."""
        view = await self.cluster.refresh([self.name(topic) for topic in self.topics])
        for topic in self.topics:
            known = view.topics.get(self.name(topic))
            if known is not None and known.partitions:
                self.ids[topic] = known.id_text
                self.partitions[topic] = tuple(sorted(known.partitions))

    async def ends(self, some: Collection[TopicPartition] | None = None) -> Offsets:
        """The last stable offsets, of all partitions or of some. Raises NetError when nobody answers."""
        return await self._offsets(LATEST, some)

    async def starts(self) -> Offsets:
        """The log starts. Raises as `ends`."""
        return await self._offsets(EARLIEST, None)

    async def _offsets(self, at: int, some: Collection[TopicPartition] | None) -> Offsets:
        keys = [(topic, index) for topic, indexes in self.partitions.items() for index in indexes]
        wanted: dict[str, dict[int, int]] = {}
        here = {(self.name(topic), index): (topic, index) for topic, index in keys}
        for (name, index), key in here.items():
            if some is None or key in some:
                wanted.setdefault(name, {})[index] = at
        try:
            found = await list_offsets(
                self.cluster, wanted, read_committed=True, timeout_s=max(_LEAST_S, len(keys) / 1000)
            )
        except PartitionErrors as exc:
            self.silent |= {here[key]: f"ListOffsets: error {code}" for key, code in exc.errors.items()}
            found = exc.partial
        return {here[key]: answer.offset for key, answer in found.items()}

    async def policies(self, lifted: Mapping[str, Mapping[str, str]]) -> dict[TopicPartition, Policy]:
        """What deletes records, of each partition of the topics whose configs may be read.

        Args:
            lifted: configs that a topic does not have while it is a copy.
        """
        found: dict[TopicPartition, Policy] = {}
        sizes = await self.sizes()
        for topic, indexes in self.partitions.items():
            try:
                configs = (await describe_topic_configs(self.cluster, [self.name(topic)]))[self.name(topic)]
            except NetError:  # then nothing is explained by them
                continue
            values = {name: entry.value for name, entry in configs.items()}
            if values.get("remote.storage.enable") == "true":
                self.tiered.append(topic)
            policy = Policy.of(values, lifted.get(topic, {}))
            found |= {(topic, index): replace(policy, log_bytes=sizes.get((topic, index), 0)) for index in indexes}
        return found

    async def sizes(self) -> dict[TopicPartition, int]:
        """Bytes of the logs; nothing where that may not be asked."""
        here = {self.name(topic): topic for topic in self.topics}
        try:
            found = await log_sizes(self.cluster, list(here))
        except NetError:
            return {}
        return {(here[name], index): size for (name, index), size in found.items()}
