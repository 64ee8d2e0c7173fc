"""Asks the leaders of a source's partitions which producers they know, for discovery.

Each leader is asked for itself, so that one that does not answer costs what it leads and no more. What was not told is
a note: whoever takes the producers of some partitions for those of the topic overlooks the transaction that is in
another one, and says that nothing binds what it binds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.errors import NetError, PartitionErrors
from gateway.kafka.rules.names import is_internal, some_of
from gateway.kafka.topic_partition import TopicPartition
from gateway.kafka.transactions import active_producers
from gateway.migration.rules.internal_records import CONSUMER_OFFSETS
from gateway.migration.rules.snapshot import NotKnown
from protocol.errors import ErrorCode, ProtocolError, error_name

PARTITIONS_AT_ONCE: Final = 2_000
_AGAIN: Final = "discover again when each partition has a leader that answers"
_SAID: Final = {error_name(ErrorCode.TOPIC_AUTHORIZATION_FAILED), error_name(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}
"""A topic may not be read, which `left_open` says; or was deleted meanwhile."""
_TROUBLE: Final = (NetError, ProtocolError, TimeoutError, OSError)


class ProducersSeen(NamedTuple):
    """Who is known to the leader of each partition; `untold`: why one did not say it."""

    found: Mapping[TopicPartition, frozenset[int]]
    untold: Mapping[TopicPartition, str]

    def of_topic(self, name: str, count: int) -> frozenset[int] | None:
        """Of the partitions that were told; None: none was."""
        told = [self.found[name, index] for index in range(count) if (name, index) in self.found]
        return frozenset[int]().union(*told) if told else None

    def not_known(self) -> Iterator[NotKnown]:
        """What was not told. A topic that may not be read is named elsewhere (`left_open`)."""
        told = {name for name, _ in self.found}
        offsets = sorted({why for (name, _), why in self.untold.items() if name == CONSUMER_OFFSETS})
        if offsets:
            yield NotKnown(
                f"which transactions commit offsets: {offsets[0]}",
                f"let the link's principal READ {CONSUMER_OFFSETS}; {_AGAIN}",
            )
        topics = {one: why for one, why in sorted(self.untold.items()) if one[0] != CONSUMER_OFFSETS}
        in_part = [one for one in topics if one[0] in told]
        if in_part:
            named = some_of(f"{name}-{index}" for name, index in in_part)
            yield NotKnown(f"which producers write {named}: {topics[in_part[0]]}", _AGAIN)
        for why in sorted({why for (name, _), why in topics.items() if name not in told} - _SAID):
            yield NotKnown(f"which producers write: {why}", f"{_AGAIN}; Kafka before 2.8 does not tell")


async def read_producers(cluster: Cluster, partitions: Mapping[str, int], timeout_s: float) -> ProducersSeen:
    """Of all partitions of these topics, and of the offsets' own. Raises nothing that a broker does.

    Args:
        partitions: topic -> how many it has.
        timeout_s: of each request.
    """
    by_leader: dict[int | None, list[TopicPartition]] = {}
    for name, count in partitions.items():
        for index in range(count) if not is_internal(name) or name == CONSUMER_OFFSETS else ():
            by_leader.setdefault(cluster.leader(name, index), []).append((name, index))
    found: dict[TopicPartition, frozenset[int]] = {}
    untold: dict[TopicPartition, str] = {}

    async def of_leader(led: Sequence[TopicPartition]) -> None:
        for at in range(0, len(led), PARTITIONS_AT_ONCE):
            some = led[at : at + PARTITIONS_AT_ONCE]
            try:
                found.update(await active_producers(cluster, some, timeout_s=timeout_s))
            except PartitionErrors as exc:
                found.update(exc.partial)
                untold.update((one, error_name(code)) for one, code in exc.errors.items())
            except _TROUBLE as exc:
                untold.update(dict.fromkeys(led[at:], str(exc) or "no answer in time"))
                return

    await asyncio.gather(*(of_leader(led) for led in by_leader.values()))
    return ProducersSeen(found, untold)
