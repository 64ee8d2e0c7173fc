"""Where the logs of a mirror's origin end, as a topic promote needs to know it: a link's source, or the target.

A log whose last stable offset is the end of its leader's log has its high watermark there, too, since that lies between
the two. So a set at rest is asked for two offsets of each partition, not three; what is not at rest is asked for again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Protocol

from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.errors import BrokerError, PartitionErrors
from gateway.kafka.offsets import latest_offsets
from gateway.kafka.transactions import unended_transactions
from gateway.kafka.view import TopicView
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.cluster_errors import source_errors, target_errors
from gateway.operations.sources import Sources
from gateway.state.records import LinkRecord
from protocol.errors import ErrorCode, error_name

_DOES_NOT_TELL: Final = frozenset({int(ErrorCode.INVALID_REQUEST), int(ErrorCode.UNSUPPORTED_VERSION)})
"""What a broker answers that knows no debugging replica id. Whatever else it says, it says of this question today: a
promote that took it for "never" would go on without the log ends, and need no proof that nothing is above them."""


class Asked(Enum):
    """What a reading is to tell."""

    MARKS = auto()
    """High watermarks, and how many partitions there are."""
    COUNTS = auto()
    """How many partitions there are; no offsets."""
    LOG_ENDS = auto()
    """High watermarks and the leaders' log ends, and which partitions are `thin`."""
    STABLE = auto()
    """High watermarks, log ends and last stable offsets, and how many partitions there are."""
    TRANSACTIONS = auto()
    """The same, with the transactions that are not complete: every broker is asked."""


@dataclass(frozen=True, slots=True)
class LogEnds:
    """Per partition: high watermarks, the leaders' log ends (None from a source that does not tell them), and the last
    stable offsets: below the high watermark while a transaction is open (None when they were not asked for).
    `partitions`: how many the topic has, whatever was asked for. `transactions`: the transactional ids of those that
    have the topic and are not complete, with records in it or without (None when they were not asked for, and from a
    cluster of which no broker can tell: before Kafka 3.0). `thin`: (partition, replicas in sync, replicas) where less
    than two are in sync of two or more: what all of them have is on one disk (asked for with the log ends alone)."""

    high_watermarks: tuple[int, ...]
    log_ends: tuple[int, ...] | None
    partitions: int
    last_stable: tuple[int, ...] | None = None
    transactions: tuple[str, ...] | None = None
    thin: tuple[tuple[int, int, int], ...] = ()


class SourceEnds(Protocol):
    """Reads log ends; tests have one in memory."""

    async def read(
        self,
        link: LinkRecord,
        topics: Mapping[str, int],
        timeout_s: float,
        asked: Asked = Asked.STABLE,
    ) -> Mapping[str, LogEnds]:
        """The ends of source topics (name -> how many partitions to ask for), all read after the call began.

        Raises:
            SourceUnreachable: no whole answer within the time.
            Conflict: the source refuses.
        """


class NetSourceEnds:
    """`SourceEnds` over the gateway's own Kafka client."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    async def read(
        self,
        link: LinkRecord,
        topics: Mapping[str, int],
        timeout_s: float,
        asked: Asked = Asked.STABLE,
    ) -> Mapping[str, LogEnds]:
        """See `SourceEnds.read`."""
        with source_errors(link.name):
            async with asyncio.timeout(timeout_s):
                access = await self._sources.reach(link)
                return await _ends(access.cluster, topics, timeout_s, asked)


class NetTargetEnds:
    """`SourceEnds` of the target: the origin of what is mirrored back, whatever the link."""

    def __init__(self, target: ClusterAccess) -> None:
        self._target = target

    async def read(
        self,
        link: LinkRecord,
        topics: Mapping[str, int],
        timeout_s: float,
        asked: Asked = Asked.STABLE,
    ) -> Mapping[str, LogEnds]:
        """See `SourceEnds.read`; raises TargetUnreachable instead of SourceUnreachable."""
        with target_errors():
            async with asyncio.timeout(timeout_s):
                return await _ends(self._target.cluster, topics, timeout_s, asked)


async def _ends(cluster: Cluster, topics: Mapping[str, int], timeout_s: float, asked: Asked) -> Mapping[str, LogEnds]:
    if asked is Asked.COUNTS:
        return {topic: LogEnds((), None, count) for topic, count in (await _counts(cluster, topics, timeout_s)).items()}
    if asked is Asked.MARKS:
        marks, counts = await asyncio.gather(
            latest_offsets(cluster, topics, timeout_s=timeout_s), _counts(cluster, topics, timeout_s)
        )
        return {topic: LogEnds(marks[topic], None, counts[topic]) for topic in topics}
    if asked is Asked.LOG_ENDS:
        marks, ends, seen = await asyncio.gather(
            latest_offsets(cluster, topics, timeout_s=timeout_s),
            _log_ends(cluster, topics, timeout_s),
            _seen_anew(cluster, topics, timeout_s),
        )
        return {
            topic: LogEnds(
                marks[topic], None if ends is None else ends[topic], partitions, thin=_thin(seen[topic], partitions)
            )
            for topic, partitions in topics.items()
        }
    found, counts, unended = await asyncio.gather(
        _stable(cluster, topics, timeout_s),
        _counts(cluster, topics, timeout_s),
        _transactions(cluster, topics, timeout_s, asked=asked is Asked.TRANSACTIONS),
    )
    return {
        topic: LogEnds(marks, log_ends, counts[topic], last_stable, None if unended is None else unended[topic])
        for topic, (marks, log_ends, last_stable) in found.items()
    }


_Offsets = tuple[int, ...]


async def _stable(
    cluster: Cluster, topics: Mapping[str, int], timeout_s: float
) -> dict[str, tuple[_Offsets, _Offsets | None, _Offsets]]:
    """High watermarks, log ends, last stable offsets by topic. See the theory above."""
    ends, stable = await asyncio.gather(
        _log_ends(cluster, topics, timeout_s),
        latest_offsets(cluster, topics, read_committed=True, timeout_s=timeout_s),
    )
    found: dict[str, tuple[_Offsets, _Offsets | None, _Offsets]] = {}
    if ends is not None:
        found = {topic: (stable[topic], ends[topic], stable[topic]) for topic in topics if ends[topic] == stable[topic]}
    moving = {topic: partitions for topic, partitions in topics.items() if topic not in found}
    if moving:  # the last stable offsets behind the high watermarks: where they are lower, a transaction is open
        marks, log_ends, last_stable = await asyncio.gather(
            latest_offsets(cluster, moving, timeout_s=timeout_s),
            _log_ends(cluster, moving, timeout_s, tells=ends is not None),
            latest_offsets(cluster, moving, read_committed=True, timeout_s=timeout_s),
        )
        for topic in moving:
            found[topic] = marks[topic], None if log_ends is None else log_ends[topic], last_stable[topic]
    return {topic: found[topic] for topic in topics}


async def _transactions(
    cluster: Cluster, topics: Mapping[str, int], timeout_s: float, *, asked: bool
) -> Mapping[str, tuple[str, ...]] | None:
    return await unended_transactions(cluster, topics, timeout_s) if asked else None


async def _counts(cluster: Cluster, topics: Mapping[str, int], timeout_s: float) -> dict[str, int]:
    """How many partitions the topics have, asked now."""
    return {name: len(topic.partitions) for name, topic in (await _seen_anew(cluster, topics, timeout_s)).items()}


def _thin(topic: TopicView, partitions: int) -> tuple[tuple[int, int, int], ...]:
    """See `LogEnds.thin`."""
    found = ((index, topic.partitions[index]) for index in range(partitions) if index in topic.partitions)
    return tuple(
        (index, one.in_sync, len(one.replicas)) for index, one in found if 0 <= one.in_sync < 2 <= len(one.replicas)
    )


async def _seen_anew(cluster: Cluster, topics: Mapping[str, int], timeout_s: float) -> dict[str, TopicView]:
    """The topics as they are now, and who leads them, asked of another broker at each reading.

    One that is cut off from its cluster shows the ends that it has as the leader that it takes itself for: no end is
    read for long of what a single broker says.
    """
    cluster.invalidate()
    view = await cluster.refresh(tuple(topics), timeout_s)
    found = {name: view.topics.get(name) for name in topics}
    for name, topic in found.items():
        if topic is None or not topic.partitions:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else topic.error
            raise BrokerError(code, f"topic {name}: {error_name(code)}")
    return {name: topic for name, topic in found.items() if topic is not None}


async def _log_ends(
    cluster: Cluster, topics: Mapping[str, int], timeout_s: float, *, tells: bool = True
) -> dict[str, _Offsets] | None:
    """None from a cluster that does not tell them; `tells`: False when that is known."""
    if not tells:
        return None
    try:
        return await latest_offsets(cluster, topics, log_end=True, timeout_s=timeout_s)
    except PartitionErrors as exc:
        if set(exc.errors.values()) <= _DOES_NOT_TELL and not exc.partial:
            return None  # not Apache Kafka's own brokers: only they know the debugging replica id
        raise
