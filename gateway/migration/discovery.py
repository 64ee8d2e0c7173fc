"""Discovery as an operation: reads the source of a link, and finds out what must move together. Nothing is changed.

Every question has a bound: of time, of groups and transactional ids, of records that are read of Kafka's own topics.
What a bound cut off, and what a broker refuses, is in the snapshot as something that is not known, with the right that
would help; the rest is used all the same.

The leaders of the source's partitions tell which producers they know. Each leader is asked for itself, so that one that
does not answer costs what it leads and no more. What was not told is a note: whoever takes the producers of some
partitions for those of the topic overlooks the transaction that is in another one, and says that nothing binds what it
binds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, TypeVar

from gateway.kafka import groups as kafka_groups
from gateway.kafka.cluster import Cluster
from gateway.kafka.commits import committed_offsets
from gateway.kafka.connection.errors import NetError, PartitionErrors, UnsupportedVersion
from gateway.kafka.rules.names import is_internal, some_of
from gateway.kafka.topic_partition import TopicPartition
from gateway.kafka.transactions import TransactionDescription, active_producers, all_transactions
from gateway.kafka.view import ClusterView
from gateway.migration.log_tail import RECORDS, Tail, offset_owners, transactions_logged
from gateway.migration.rules.internal_records import CONSUMER_OFFSETS, TRANSACTION_STATE, connect_assignment
from gateway.migration.rules.sets import Discovered, discover
from gateway.migration.rules.snapshot import (
    GroupSeen,
    MemberSeen,
    NotKnown,
    SourceSnapshot,
    SubtopologySeen,
    TopicSeen,
    TransactionalIdSeen,
)
from gateway.migration.rules.ties import CONNECT, STREAM
from gateway.operations.cluster_errors import source_errors
from gateway.operations.records import Records
from gateway.operations.sources import SourcesForViews
from gateway.transport.locks import KeyedLocks
from protocol.consumer_protocol import decode_assignment
from protocol.errors import ErrorCode, MalformedFrame, ProtocolError, error_name
from protocol.streams_protocol import read_by

GROUPS: Final = 5_000
IDS: Final = 20_000
_PARALLEL: Final = 8
_GROUP_S: Final = 5.0
_STEP_S: Final = 20.0
_LOG_S: Final = 20.0
_TROUBLE: Final = (NetError, ProtocolError, TimeoutError, OSError)

T = TypeVar("T")


@dataclass(slots=True)
class _SourceAnswers:
    """What is not known so far."""

    not_known: list[NotKnown] = field(default_factory=list)

    async def unless_refused(self, work: Awaitable[T], otherwise: T, what: str, how_to_tell: str) -> T:
        """The answer; when there is none, that and the reason are noted."""
        try:
            return await work
        except UnsupportedVersion:
            self.not_known.append(NotKnown(f"{what}: the source is too old to tell", how_to_tell))
        except _TROUBLE as exc:
            self.not_known.append(NotKnown(f"{what}: {str(exc) or 'no answer in time'}", how_to_tell))
        return otherwise


async def read_source(cluster: Cluster, mirrored: Collection[str], now_ms: Callable[[], int]) -> SourceSnapshot:
    """The snapshot of a source.

    Args:
        mirrored: source topics that the link mirrors already.

    Raises:
        ClusterUnavailable: the source does not even name its topics and groups.
        BrokerError: it refuses to.
    """
    at_ms, asked = now_ms(), _SourceAnswers()
    view = await cluster.refresh(timeout_s=_STEP_S)
    partitions = {name: len(topic.partitions) for name, topic in view.topics.items()}
    listed = await kafka_groups.list_groups(cluster, timeout_s=_STEP_S)
    transactions = await asked.unless_refused(
        all_transactions(cluster, _STEP_S), (), "which transactional ids there are", _DESCRIBE_IDS
    )
    if len(transactions) > IDS or len(listed) > GROUPS:
        asked.not_known.append(NotKnown(f"what is beyond {GROUPS} groups and {IDS} transactional ids", "ask in parts"))
    transactions, listed = transactions[:IDS], listed[:GROUPS]
    asked.not_known += _without_coordinator(view)
    producers = await read_producers(cluster, partitions, _STEP_S)
    asked.not_known += producers.not_known()
    ids = await _transactional_ids(cluster, transactions, producers.found, partitions, asked)
    return SourceSnapshot(
        cluster_id=view.cluster_id,
        at_ms=at_ms,
        topics=tuple(
            TopicSeen(
                name=name,
                producer_ids=producers.of_topic(name, partitions[name]),
                internal=topic.internal,
                mirrored=name in mirrored,
            )
            for name, topic in sorted(view.topics.items())
        ),
        groups=await _groups(cluster, listed),
        transactional_ids=ids,
        offset_partition_count=partitions.get(CONSUMER_OFFSETS, 0),
        not_known=tuple(asked.not_known),
    )


_DESCRIBE_IDS: Final = "let the link's principal DESCRIBE transactional ids (Kafka 3.0 and later)"
_ONCE_LED: Final = "discover again when each of its partitions has a leader"


def _without_coordinator(view: ClusterView) -> Iterator[NotKnown]:
    """A group or a transactional id is listed by its coordinator alone: the leader of a partition of these."""
    for name, what in ((CONSUMER_OFFSETS, "groups"), (TRANSACTION_STATE, "transactional ids")):
        known = view.topics.get(name)
        partitions = {} if known is None else known.partitions
        without = [index for index, one in sorted(partitions.items()) if one.leader < 0]
        if without:
            numbers = some_of(map(str, without))
            yield NotKnown(f"{what} whose coordinator is gone: {name} has no leader of partition {numbers}", _ONCE_LED)


async def _transactional_ids(
    cluster: Cluster,
    transactions: Sequence[TransactionDescription],
    producers: Mapping[TopicPartition, frozenset[int]],
    partitions: Mapping[str, int],
    asked: _SourceAnswers,
) -> tuple[TransactionalIdSeen, ...]:
    """With all that the brokers' own topics tell of them, where they may be read."""
    logged, tail = await asked.unless_refused(
        transactions_logged(cluster, partitions.get(TRANSACTION_STATE, 0), _LOG_S),
        ({}, Tail()),
        f"what former transactions wrote ({TRANSACTION_STATE})",
        f"let the link's principal READ {TRANSACTION_STATE}",
    )
    asked.not_known += _not_read("what former transactions wrote", TRANSACTION_STATE, tail)
    found = {one.transactional_id: _seen(one) for one in transactions}
    for name, wrote in logged.items():
        one = found.setdefault(name, TransactionalIdSeen(name=name))
        found[name] = replace(
            one,
            producer_ids=one.producer_ids | {producer for producer in wrote.producer_ids if producer >= 0},
            logged=frozenset(topic for topic in wrote.partitions if not is_internal(topic)),
            offset_partitions=one.offset_partitions | wrote.partitions.get(CONSUMER_OFFSETS, set()),
        )
    by_producer = {producer: name for name, one in found.items() for producer in one.producer_ids}
    for (topic, index), ids in producers.items():
        for name in {by_producer[each] for each in ids if each in by_producer} if topic == CONSUMER_OFFSETS else ():
            found[name] = replace(found[name], offset_partitions=found[name].offset_partitions | {index})
    wanted = sorted({index for one in found.values() for index in one.offset_partitions})
    owners, tail = await asked.unless_refused(
        offset_owners(cluster, wanted, by_producer.keys(), _LOG_S),
        ({}, Tail()),
        f"whose offsets transactions commit ({CONSUMER_OFFSETS})",
        f"let the link's principal READ {CONSUMER_OFFSETS}",
    )
    asked.not_known += _not_read("whose offsets transactions commit", CONSUMER_OFFSETS, tail)
    for producer, keys in owners.items():
        one = found[by_producer[producer]]
        found[one.name] = replace(one, groups=one.groups | {key.group for key in keys})
    return tuple(found[name] for name in sorted(found))


def _not_read(what: str, topic: str, tail: Tail) -> Iterator[NotKnown]:
    """Partitions of a log that were not read, or whose front was left out."""
    if tail.unread:
        some = some_of(map(str, tail.unread))
        why = tail.why or f"{_LOG_S:.0f} s were over"
        yield NotKnown(f"{what}: partition {some} of {topic} was not read to its end ({why})", "discover again")
    if tail.older:
        some = some_of(map(str, tail.older))
        yield NotKnown(
            f"{what} before the last {RECORDS:,} offsets of partition {some} of {topic}",
            "discover again while the applications run, and at other hours",
        )


def _seen(one: TransactionDescription) -> TransactionalIdSeen:
    topics = one.partitions if one.is_unended else {}
    return TransactionalIdSeen(
        name=one.transactional_id,
        state=one.state,
        producer_ids=frozenset({one.producer_id} if one.producer_id >= 0 else ()),
        open=frozenset(topic for topic in topics if not is_internal(topic)),
        offset_partitions=frozenset(topics.get(CONSUMER_OFFSETS, ())),
        started_ms=one.started_ms if one.is_unended else -1,
    )


async def _groups(cluster: Cluster, listed: Sequence[kafka_groups.GroupListing]) -> tuple[GroupSeen, ...]:
    slots = asyncio.Semaphore(_PARALLEL)

    async def one(listing: kafka_groups.GroupListing) -> GroupSeen:
        async with slots:
            return await _group(cluster, listing)

    return tuple(await asyncio.gather(*(one(each) for each in listed)))


async def _group(cluster: Cluster, listing: kafka_groups.GroupListing) -> GroupSeen:
    seen = GroupSeen(name=listing.group, type=listing.type, protocol_type=listing.protocol_type)
    if listing.type == "share":
        return seen
    trouble = ""
    try:
        view = await kafka_groups.describe_group(cluster, listing.group, timeout_s=_GROUP_S)
        seen = _described(seen, view)
    except _TROUBLE as exc:
        trouble = str(exc) or "no answer in time"
    try:
        committed = await committed_offsets(cluster, listing.group, timeout_s=_GROUP_S)
    except PartitionErrors as exc:
        return replace(seen, committed=frozenset(topic for topic, _ in exc.partial), unknown=trouble or str(exc))
    except _TROUBLE as exc:
        return replace(seen, unknown=trouble or str(exc) or "no answer in time")
    return replace(seen, committed=frozenset(topic for topic, _ in committed), unknown=trouble)


def _described(seen: GroupSeen, view: kafka_groups.GroupView) -> GroupSeen:
    connect = view.protocol_type == CONNECT
    return replace(
        seen,
        type=seen.type or view.type,
        protocol_type=seen.protocol_type or view.protocol_type,
        protocol=view.protocol,
        members=tuple(
            MemberSeen(client_id=member.client_id, host=member.host, instance_id=member.instance_id or "")
            for member in view.members
        ),
        read=view.topics,
        by_pattern=any(member.subscribed_regex for member in view.members),
        connectors=frozenset(_connectors(view)) if connect else frozenset(),
        subtopologies=_subtopologies(view),
    )


def _subtopologies(view: kafka_groups.GroupView) -> tuple[SubtopologySeen, ...]:
    if view.protocol != STREAM:
        return tuple(
            SubtopologySeen(name=one.name, reads=one.reads, writes=one.writes, changelogs=one.changelogs)
            for one in view.subtopologies
        )
    reads: dict[int, frozenset[str]] = {}
    for member in view.members:
        try:
            told = read_by(decode_assignment(member.assignment))
        except MalformedFrame:
            continue  # of a version that is not known; what the others tell is used
        for number, topics in told.items():
            reads[number] = reads.get(number, frozenset()) | topics
    return tuple(SubtopologySeen(name=str(number), reads=reads[number]) for number in sorted(reads))


def _connectors(view: kafka_groups.GroupView) -> Sequence[str]:
    found: set[str] = set()
    for member in view.members:
        try:
            found.update(connect_assignment(member.assignment).connectors)
        except MalformedFrame:
            continue  # of a worker whose protocol is another one
    return sorted(found)


PARTITIONS_AT_ONCE: Final = 2_000
_AGAIN: Final = "discover again when each partition has a leader that answers"
_SAID: Final = {error_name(ErrorCode.TOPIC_AUTHORIZATION_FAILED), error_name(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}
"""A topic may not be read, which `left_open` says; or was deleted meanwhile."""
_PRODUCER_TROUBLE: Final = (NetError, ProtocolError, TimeoutError, OSError)


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
            except _PRODUCER_TROUBLE as exc:
                untold.update(dict.fromkeys(led[at:], str(exc) or "no answer in time"))
                return

    await asyncio.gather(*(of_leader(led) for led in by_leader.values()))
    return ProducersSeen(found, untold)


ReadsSource = Callable[[Any, Collection[str], Callable[[], int]], Awaitable[SourceSnapshot]]
"""As `read_source`."""


class Discovery:
    """Of the sources of links. One look at a source at a time: describing all of its groups is a lot to ask."""

    def __init__(self, *, records: Records, views: SourcesForViews, read: ReadsSource = read_source) -> None:
        self._records = records
        self._views = views
        self._read = read
        self._looks = KeyedLocks()

    async def discover(self, name: str) -> Discovered:
        """What must move together on the source of a link.

        Raises:
            NotFound: no such link.
            SourceUnreachable, Conflict: the source does not answer, or refuses to name its groups.
        """
        link = self._records.link(name)
        mirrored = {one.source_topic for (owner, _), one in self._records.store.mirrors.items() if owner == name}
        async with self._looks.hold(name):
            access = await self._views.reach(link)
            with source_errors(name):
                snapshot = await self._read(access.cluster, mirrored, self._records.now_ms)
        return await asyncio.to_thread(discover, snapshot)  # a second and more, of tens of thousands of topics
