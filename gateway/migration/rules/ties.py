"""What ties topics, groups and transactional ids to one another, each tie with its evidence. Pure.

A tie **binds** when both ends must change sides in one moment: a transaction has one side, so all topics that one
transactional id writes, and the groups whose offsets it commits, go together; so do a Streams application's own topics
with its group, and a Connect cluster's. A tie that only **reads** does not bind: a group may read a topic on the target
while it is written on the source. It says in which order things go: a group moves before the topics that it reads.

Where brokers told only in which partition of `__consumer_offsets` a transaction commits, the group is one of those
that this partition has. If that is one group, the tie is `likely`; if it is several, nobody can say from here.

Some ties are told by names alone: of Kafka Streams and of Kafka Connect. Streams names all that it makes after its
`application.id`, which is its group too: changelogs and repartition topics `APP-...-changelog` and
`APP-...-repartition` (documented under *internal topics*), the transactional ids of exactly_once_v2
`APP-PROCESS_ID-THREAD` with a UUID in the middle, and those of the older exactly_once `APP-0_1`.

Connect lets its operator name everything. Its worker group is known by its protocol type, the group of a sink
connector is `connect-NAME` unless a connector says otherwise, and the three topics of a cluster have the names of the
examples, or the group's name in front, or they are not known.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Final

from gateway.kafka.rules.names import is_internal, java_hash
from gateway.migration.rules.snapshot import GroupSeen, NotKnown, SourceSnapshot, TransactionalIdSeen

_SUFFIXES: Final = ("-changelog", "-repartition")
_THREAD_ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}-\d+")
_TASK_ID: Final = re.compile(r"\d+_\d+")
_CONNECT_ROLES: Final = ("configs", "config", "offsets", "offset", "status")
SINK_PREFIX: Final = "connect-"
"""Of the group of a sink connector (`connect-NAME`)."""


def is_streams_internal(topic: str) -> bool:
    """Whether it is named as Streams names its own topics."""
    return topic.endswith(_SUFFIXES)


def streams_application(topic: str, applications: Set[str]) -> str:
    """The application whose internal topic it is, '' for none of these. Of names that begin alike, the longest."""
    if not is_streams_internal(topic):
        return ""
    return next((app for app, _ in _split(topic) if app in applications), "")


def streams_transactional_id(name: str, applications: Set[str]) -> str:
    """The application whose transactional id it is, '' for none of these."""
    own = ((app, rest) for app, rest in _split(name) if app in applications)
    return next((app for app, rest in own if _THREAD_ID.fullmatch(rest) or _TASK_ID.fullmatch(rest)), "")


def _split(name: str) -> Iterator[tuple[str, str]]:
    """What stands before and behind each of its hyphens, from the last one on: an application is looked up, since a
    source has thousands of both."""
    at = name.rfind("-")
    while at >= 0:
        yield name[:at], name[at + 1 :]
        at = name.rfind("-", 0, at)


def connect_topics(group: str, topics: Set[str], *, alone: bool) -> list[str]:
    """Topics that are named as a Connect cluster's own. `alone`: the source has no other cluster."""
    named = {f"{group}{sign}{role}" for sign in "-._" for role in _CONNECT_ROLES}
    if alone:
        named |= {f"connect{sign}{role}" for sign in "-._" for role in _CONNECT_ROLES}
    return sorted(name for name in named if name in topics)


CONNECT = "connect"
STREAM = "stream"


class TieKind(StrEnum):
    """Of a node."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional_id"


@dataclass(frozen=True, slots=True, order=True)
class Node:
    """Something that moves."""

    kind: TieKind
    name: str


class Why(StrEnum):
    """What a tie comes of."""

    READS = "READS"
    WRITES_IN_TRANSACTIONS = "WRITES_IN_TRANSACTIONS"
    COMMITS_IN_TRANSACTIONS = "COMMITS_IN_TRANSACTIONS"
    STREAMS_INTERNAL = "STREAMS_INTERNAL"
    STREAMS_PRODUCER = "STREAMS_PRODUCER"
    CONNECT_INTERNAL = "CONNECT_INTERNAL"
    CONNECT_SINK = "CONNECT_SINK"


@dataclass(frozen=True, slots=True, order=True)
class Tie:
    """From `one` to `other`. `binds`: they change sides together. `likely`: by what names and hashes say, not by what
    a broker said. `reason`: the evidence, one line."""

    one: Node
    other: Node
    why: Why
    reason: str
    binds: bool = True
    likely: bool = False


def topic(name: str) -> Node:
    """The node of a topic."""
    return Node(TieKind.TOPIC, name)


def group(name: str) -> Node:
    """The node of a group."""
    return Node(TieKind.GROUP, name)


def transactional_id(name: str) -> Node:
    """The node of a transactional id."""
    return Node(TieKind.TRANSACTIONAL_ID, name)


def streams_applications(snapshot: SourceSnapshot) -> frozenset[str]:
    """Groups that are Streams applications: by their protocol, or since there are topics that are named so."""
    internal = [one.name for one in snapshot.topics if is_streams_internal(one.name)]
    names = {one.name for one in snapshot.groups if one.protocol_type in ("", "consumer", "streams")}
    told = {one.name for one in snapshot.groups if one.protocol == STREAM or one.type == "streams"}
    by_topic = {streams_application(name, names) for name in internal} - {""}
    return frozenset(told | by_topic)


def ties(snapshot: SourceSnapshot) -> tuple[list[Tie], list[NotKnown]]:
    """All ties, in order, and what was left open."""
    known = {one.name for one in snapshot.topics if not is_internal(one.name)}
    writers, commits, open_ends = _transactions(snapshot, known)
    found = [*_reads(snapshot, known), *writers, *commits, *_streams(snapshot, known), *_connect(snapshot, known)]
    return sorted(set(found)), open_ends


def _reads(snapshot: SourceSnapshot, known: Set[str]) -> Iterator[Tie]:
    for one in snapshot.groups:
        for name in sorted(one.topics & known):
            yield Tie(group(one.name), topic(name), Why.READS, _how_it_reads(one, name), binds=False)


def _how_it_reads(one: GroupSeen, name: str) -> str:
    if name not in one.read:
        return "has committed offsets of it, and no member now"
    clients = sorted({member.client_id for member in one.members})
    more = f" and {len(clients) - 3} more" if len(clients) > 3 else ""
    return f"reads it: {', '.join(clients[:3])}{more}" if clients else "reads it"


def _transactions(snapshot: SourceSnapshot, known: Set[str]) -> tuple[list[Tie], list[Tie], list[NotKnown]]:
    writers: list[Tie] = []
    commits: list[Tie] = []
    left_open: list[NotKnown] = []
    by_producer = _topics_by_producer(snapshot)
    by_partition = _groups_by_partition(snapshot)
    applications = streams_applications(snapshot)
    for one in snapshot.transactional_ids:
        writers += _written(one, by_producer, known)
        own = transactional_id(one.name)
        commits += [Tie(own, group(name), Why.COMMITS_IN_TRANSACTIONS, _COMMITS) for name in one.groups]
        if streams_transactional_id(one.name, applications):
            continue  # it commits for its application
        for partition in sorted(one.offset_partitions):
            candidates = by_partition.get(partition, {})
            if one.groups & candidates.keys():
                continue
            if len(candidates) == 1:
                commits.append(_by_hash(one, next(iter(candidates)), partition))
            else:
                left_open.append(_which_group(one, candidates, partition))
    return writers, commits, left_open


_COMMITS = "commits its offsets in its transactions (producer id in __consumer_offsets)"


def _written(one: TransactionalIdSeen, by_producer: Mapping[int, Collection[str]], known: Set[str]) -> Iterator[Tie]:
    active = {name for producer in one.producer_ids for name in by_producer.get(producer, ())}
    for name in sorted((one.open | one.logged | active) & known):
        if name in one.open:
            reason = f"its transaction has it now ({one.state})"
        elif name in active:
            reason = "the topic's leader knows its producer id (DescribeProducers)"
        else:
            reason = "a former transaction had it (__transaction_state)"
        yield Tie(transactional_id(one.name), topic(name), Why.WRITES_IN_TRANSACTIONS, reason)


def _by_hash(one: TransactionalIdSeen, name: str, partition: int) -> Tie:
    reason = f"its transactions commit offsets in __consumer_offsets-{partition}, where this is the only group"
    return Tie(transactional_id(one.name), group(name), Why.COMMITS_IN_TRANSACTIONS, reason, likely=True)


def _which_group(one: TransactionalIdSeen, candidates: Collection[str], partition: int) -> NotKnown:
    groups = ", ".join(islice(candidates, 5)) or "none that is known"
    return NotKnown(
        f"transactional id '{one.name}' commits offsets of a group in __consumer_offsets-{partition}; which one is not "
        f"told (there: {groups})",
        "let the link's principal READ __consumer_offsets and discover again while it commits, or look for "
        "sendOffsetsToTransaction in the application",
    )


def _topics_by_producer(snapshot: SourceSnapshot) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for one in snapshot.topics:
        for producer in one.producer_ids or ():
            found.setdefault(producer, set()).add(one.name)
    return found


def _groups_by_partition(snapshot: SourceSnapshot) -> dict[int, dict[str, None]]:
    """Partition of `__consumer_offsets` -> its groups in order (`Utils.abs(hashCode) % partitions`)."""
    count = snapshot.offset_partition_count
    found: dict[int, dict[str, None]] = {}
    for one in sorted(snapshot.groups, key=lambda one: one.name) if count else ():
        if one.committed or one.read or one.unknown:  # of one that was not described nobody can say that it has none
            found.setdefault(offsets_partition(one.name, count), {})[one.name] = None
    return found


def offsets_partition(name: str, count: int) -> int:
    """The partition of `__consumer_offsets`, which has so many, that has a group."""
    value = java_hash(name)
    return (0 if value == -(2**31) else abs(value)) % count


def _streams(snapshot: SourceSnapshot, known: Set[str]) -> Iterator[Tie]:
    applications = streams_applications(snapshot)
    for name in sorted(known):
        app = streams_application(name, applications)
        if app:
            reason = f"internal topic of the Streams application '{app}', by its name"
            yield Tie(group(app), topic(name), Why.STREAMS_INTERNAL, reason)
    for one in snapshot.transactional_ids:
        app = streams_transactional_id(one.name, applications)
        if app:
            reason = f"exactly-once producer of the Streams application '{app}', by its name"
            yield Tie(transactional_id(one.name), group(app), Why.STREAMS_PRODUCER, reason)


def _connect(snapshot: SourceSnapshot, known: Set[str]) -> Iterator[Tie]:
    clusters = [one for one in snapshot.groups if one.protocol_type == CONNECT]
    names = {one.name for one in snapshot.groups}
    for cluster in clusters:
        for name in connect_topics(cluster.name, known, alone=len(clusters) == 1):
            reason = f"named as a topic of the Connect cluster '{cluster.name}'"
            yield Tie(group(cluster.name), topic(name), Why.CONNECT_INTERNAL, reason, likely=True)
        for connector in sorted(cluster.connectors):
            if f"{SINK_PREFIX}{connector}" in names:
                reason = f"sink connector '{connector}' runs in the Connect cluster '{cluster.name}'"
                yield Tie(
                    group(cluster.name), group(f"{SINK_PREFIX}{connector}"), Why.CONNECT_SINK, reason, binds=False
                )


def nodes_of(found: Iterable[Tie]) -> frozenset[Node]:
    """All ends."""
    return frozenset(node for tie in found for node in (tie.one, tie.other))
