"""An immutable snapshot of a cluster, and how a Metadata response turns it into the next one. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from gateway.kafka.rules.names import topic_id_text
from protocol.errors import ErrorCode


class BrokerView(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int
    rack: str | None


class PartitionView(NamedTuple):
    """One partition. `leader` is -1 while there is none; `error` is the partition's code in Metadata. `in_sync`: how
    many replicas are in sync, by the answering broker; -1 if unknown."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    error: int
    in_sync: int = -1


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic. `topic_id` is 16 bytes, all zero on brokers without topic ids (before 2.8).

    `error` is the topic's own code in Metadata, for example TOPIC_AUTHORIZATION_FAILED (29): then we may not know
    whether it exists.
    """

    topic_id: bytes
    partitions: Mapping[int, PartitionView]
    error: int = 0
    internal: bool = False

    @property
    def id_text(self) -> str:
        """The topic id as Kafka's tools print it; '' when the cluster has none."""
        return topic_id_text(self.topic_id)


class ListedTopic(NamedTuple):
    """A topic. `topic_id` in printed form, '' from a cluster without ids. `readable`: None if unknown."""

    name: str
    topic_id: str
    internal: bool
    readable: bool | None


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A cluster as last seen.

    `topics` holds every visible topic when `complete`, otherwise the requested ones.
    `controller_id` is None while unknown; on a KRaft cluster it is any broker.
    """

    cluster_id: str = ""
    controller_id: int | None = None
    brokers: Mapping[int, BrokerView] = field(default_factory=dict)
    topics: Mapping[str, TopicView] = field(default_factory=dict)
    complete: bool = False

    @property
    def partition_count(self) -> int:
        """Partitions of all topics in the view."""
        return sum(len(topic.partitions) for topic in self.topics.values())


def next_view(view: ClusterView, response: Any, asked: Collection[str] | None) -> ClusterView:
    """The view after a MetadataResponse to a request for the topics `asked` (None: all).

    Requested topics that do not exist leave the view. A partition whose leader epoch went backwards (the answering
    broker lags) is not changed, nor is one missing from the answer, since a topic that keeps its id loses no partition.
    An unchanged topic stays the same object.
    """
    topics = {} if asked is None else dict(view.topics)
    for name in asked or ():
        topics.pop(name, None)
    for topic in response.topics:
        if topic.error_code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
            continue
        topics[topic.name] = _topic(topic, view.topics.get(topic.name))
    return replace(
        view,
        cluster_id=response.cluster_id or view.cluster_id,
        controller_id=response.controller_id if response.controller_id >= 0 else None,
        brokers={b.node_id: BrokerView(b.host, b.port, b.rack) for b in response.brokers},
        topics=topics,
        complete=asked is None or view.complete,
    )


def changed_topics(before: ClusterView, now: ClusterView, topics: Iterable[str]) -> list[str]:
    """The topics that differ between the two views."""
    return [name for name in topics if before.topics.get(name) is not now.topics.get(name)]


def _topic(topic: Any, known: TopicView | None) -> TopicView:
    topic_id = topic.topic_id.bytes if topic.topic_id is not None else bytes(16)
    same = known.partitions if known is not None and known.topic_id == topic_id else {}
    partitions = {}
    for partition in topic.partitions:
        index = partition.partition_index
        fresh = PartitionView(
            partition.leader_id,
            partition.leader_epoch,
            tuple(partition.replica_nodes),
            partition.error_code,
            len(partition.isr_nodes),
        )
        old = same.get(index)
        partitions[index] = old if old is not None and old.leader_epoch > fresh.leader_epoch >= 0 else fresh
    if any(topic_id) and partitions:
        partitions |= {index: old for index, old in same.items() if index not in partitions}
    fresh_topic = TopicView(topic_id, partitions, topic.error_code, topic.is_internal)
    return known if known == fresh_topic else fresh_topic
