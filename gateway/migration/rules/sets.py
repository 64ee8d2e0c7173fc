"""What must move together: sets of topics, groups and transactional ids, and the order in which they go. Pure.

First, what is tied by ties that bind is one set. Then what nothing binds is put where it belongs for people:

* a topic that only groups of one set read joins that set, and so does a group that only reads topics of one set;
* topics and groups without a transaction that read one another become an *ordinary* set. It could be split;
* a group that reads topics of several sets, or more than `WIDE` topics, is a set of its own.

A set whose topics a group of another set reads goes after that one, since a topic is not promoted before its groups.
Sets that would wait for each other in a circle are one set: none of them can go first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from graphlib import TopologicalSorter
from itertools import takewhile
from typing import Final

from gateway.kafka.rules.names import is_internal
from gateway.migration.rules.left_open import left_open
from gateway.migration.rules.snapshot import GroupSeen, NotKnown, SourceSnapshot
from gateway.migration.rules.ties import CONNECT, Node, Tie, TieKind, Why, nodes_of, streams_applications, ties

WIDE: Final = 16
"""A group that reads more topics does not make one set of them."""

_MOVED: Final = ("", "consumer", CONNECT)


class SetKind(StrEnum):
    """What a set is. PLAIN: nothing in it binds."""

    STREAMS = "STREAMS"
    TRANSACTIONAL = "TRANSACTIONAL"
    CONNECT = "CONNECT"
    PLAIN = "PLAIN"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveSet:
    """One set. `after`: names of the sets that go before it. `ties`: within it. `binds`: it must move as one."""

    name: str
    kind: SetKind
    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    transactional_ids: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    ties: tuple[Tie, ...] = ()

    @property
    def binds(self) -> bool:
        """Whether something in it must move in one moment."""
        return self.kind is not SetKind.PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovered:
    """All sets, in an order in which they can go. `across`: ties between sets, none of which binds. `groups`: that are
    in sets, with their members."""

    cluster_id: str = ""
    at_ms: int = 0
    sets: tuple[MoveSet, ...] = ()
    across: tuple[Tie, ...] = ()
    not_known: tuple[NotKnown, ...] = ()
    groups: tuple[GroupSeen, ...] = ()


@dataclass(slots=True)
class _Union:
    """Which nodes are one."""

    parent: dict[Node, Node] = field(default_factory=dict)

    def find(self, node: Node) -> Node:
        self.parent.setdefault(node, node)
        while self.parent[node] != node:
            self.parent[node] = self.parent[self.parent[node]]
            node = self.parent[node]
        return node

    def join(self, one: Node, other: Node) -> None:
        first, second = sorted((self.find(one), self.find(other)))
        self.parent[second] = first


def discover(snapshot: SourceSnapshot) -> Discovered:
    """The sets of a source."""
    found, open_ends = ties(snapshot)
    nodes = _nodes(snapshot)
    found = [tie for tie in found if tie.one in nodes and tie.other in nodes]
    union = _Union()
    for tie in found:
        if tie.binds:
            union.join(tie.one, tie.other)
    bound = {union.find(node) for tie in found if tie.binds for node in (tie.one, tie.other)}
    reads = _reads(found)
    _attach_topics(union, nodes, bound, reads)
    _attach_groups(union, nodes, bound, reads)
    order = _without_circles(union, nodes, reads)
    sets = _named(snapshot, union, nodes, found, order)
    inside = {tie for one in sets for tie in one.ties}
    return Discovered(
        cluster_id=snapshot.cluster_id,
        at_ms=snapshot.at_ms,
        sets=tuple(sets),
        across=tuple(tie for tie in found if tie not in inside),
        not_known=(*snapshot.not_known, *open_ends, *left_open(snapshot, found)),
        groups=tuple(one for one in snapshot.groups if Node(TieKind.GROUP, one.name) in nodes),
    )


def _nodes(snapshot: SourceSnapshot) -> frozenset[Node]:
    """What moves: nothing that is a cluster's own, or that no gateway lets through (share groups)."""
    topics = [
        Node(TieKind.TOPIC, one.name) for one in snapshot.topics if not one.internal and not is_internal(one.name)
    ]
    groups = [
        Node(TieKind.GROUP, one.name)
        for one in snapshot.groups
        if (one.protocol_type in _MOVED or one.type == "streams") and one.type != "share" and not is_internal(one.name)
    ]
    ids = [Node(TieKind.TRANSACTIONAL_ID, one.name) for one in snapshot.transactional_ids if not is_internal(one.name)]
    return frozenset((*topics, *groups, *ids))


def _reads(found: Iterable[Tie]) -> Mapping[Node, frozenset[Node]]:
    """Group -> the topics that it reads."""
    reads: dict[Node, set[Node]] = {}
    for tie in found:
        if tie.why is Why.READS:
            reads.setdefault(tie.one, set()).add(tie.other)
    return {one: frozenset(topics) for one, topics in reads.items()}


def _attach_topics(
    union: _Union, nodes: Collection[Node], bound: Set[Node], reads: Mapping[Node, frozenset[Node]]
) -> None:
    """Topics that only groups of one set read go to it."""
    readers: dict[Node, set[Node]] = {}
    for one, topics in reads.items():
        for topic in topics:
            readers.setdefault(topic, set()).add(one)
    joins = []
    for topic in sorted(nodes):
        sets = {union.find(one) for one in readers.get(topic, ())}
        if topic.kind is TieKind.TOPIC and union.find(topic) not in bound and len(sets) == 1 and sets <= bound:
            joins.append((topic, sets.pop()))
    for topic, owner in joins:
        union.join(topic, owner)


def _attach_groups(
    union: _Union, nodes: Collection[Node], bound: Collection[Node], reads: Mapping[Node, frozenset[Node]]
) -> None:
    """Groups that read topics of one set go to it; those that read what nothing binds make a set of it."""
    bound = {union.find(node) for node in bound}  # topics that have joined may have given it another name
    for one in sorted(node for node in nodes if node.kind is TieKind.GROUP and union.find(node) not in bound):
        topics = reads.get(one, frozenset())
        sets = {union.find(topic) for topic in topics}
        ordinary = not sets & bound and len(topics) <= WIDE
        if len(sets) == 1 or ordinary:
            binds = bool(sets & bound)
            for topic in topics:
                union.join(one, topic)
            if binds:  # the set may have another name now
                bound.add(union.find(one))


def _without_circles(
    union: _Union, nodes: Collection[Node], reads: Mapping[Node, frozenset[Node]]
) -> Sequence[tuple[Node, frozenset[Node]]]:
    """(set, the sets before it) in an order in which they can go; sets in a circle are joined."""
    for circle in _circles(_before(union, nodes, reads)):
        for node in circle[1:]:
            union.join(circle[0], node)
    before = _before(union, nodes, reads)
    order = TopologicalSorter({key: sorted(value) for key, value in before.items()}).static_order()
    return [(one, frozenset(before[one])) for one in order]


def _before(
    union: _Union, nodes: Collection[Node], reads: Mapping[Node, frozenset[Node]]
) -> Mapping[Node, Collection[Node]]:
    """Set -> the sets that go before it."""
    before: dict[Node, set[Node]] = {union.find(node): set() for node in sorted(nodes)}
    for one, topics in reads.items():
        for topic in topics:
            if union.find(one) != union.find(topic):
                before[union.find(topic)].add(union.find(one))
    return before


def _circles(before: Mapping[Node, Collection[Node]]) -> Iterator[list[Node]]:
    """Sets that wait for one another, all of a knot together: its strongly connected components (Kosaraju's way, in
    time that grows as the graph does)."""
    behind: dict[Node, list[Node]] = {one: [] for one in before}
    for one, others in before.items():
        for other in others:
            behind[other].append(one)
    finished: list[Node] = []
    seen: set[Node] = set()
    for one in before:
        finished += _walk(one, before, seen)
    seen.clear()
    for one in reversed(finished):
        knot = _walk(one, behind, seen)
        if len(knot) > 1:
            yield knot


def _walk(first: Node, ways: Mapping[Node, Collection[Node]], seen: set[Node]) -> list[Node]:
    """What can be reached and was not seen yet, in the order in which it is done with: depth first."""
    if first in seen:
        return []
    seen.add(first)
    finished, path = [], [(first, iter(ways[first]))]
    while path:
        node, left = path[-1]
        for other in left:
            if other not in seen:
                seen.add(other)
                path.append((other, iter(ways[other])))
                break
        else:
            finished.append(node)
            path.pop()
    return finished


def _named(
    snapshot: SourceSnapshot,
    union: _Union,
    nodes: Collection[Node],
    found: Sequence[Tie],
    order: Sequence[tuple[Node, frozenset[Node]]],
) -> list[MoveSet]:
    members: dict[Node, list[Node]] = {}
    for node in sorted(nodes):
        members.setdefault(union.find(node), []).append(node)
    within: dict[Node, list[Tie]] = {}
    for tie in found:
        if union.find(tie.one) == union.find(tie.other):
            within.setdefault(union.find(tie.one), []).append(tie)
    streams = streams_applications(snapshot)
    names: dict[Node, str] = {}
    taken: dict[str, int] = {}
    sets = []
    for root, before in order:
        inside = within.get(root, [])
        kind = _kind(inside)
        names[root] = _free(_name(_telling(members[root], inside), streams), taken)
        sets.append(
            MoveSet(
                name=names[root],
                kind=kind,
                topics=_of(TieKind.TOPIC, members[root]),
                groups=_of(TieKind.GROUP, members[root]),
                transactional_ids=_of(TieKind.TRANSACTIONAL_ID, members[root]),
                after=tuple(sorted(names[one] for one in before)),
                ties=tuple(inside),
            )
        )
    return sets


def _kind(inside: Iterable[Tie]) -> SetKind:
    whys = {tie.why for tie in inside if tie.binds}
    if whys & {Why.STREAMS_INTERNAL, Why.STREAMS_PRODUCER}:
        return SetKind.STREAMS
    if whys & {Why.WRITES_IN_TRANSACTIONS, Why.COMMITS_IN_TRANSACTIONS}:
        return SetKind.TRANSACTIONAL
    return SetKind.CONNECT if Why.CONNECT_INTERNAL in whys else SetKind.PLAIN


def _of(kind: TieKind, members: Iterable[Node]) -> tuple[str, ...]:
    return tuple(node.name for node in members if node.kind is kind)


def _telling(members: Sequence[Node], inside: Iterable[Tie]) -> Sequence[Node]:
    """Those for whose sake it is a set: what binds, where something does."""
    bound = nodes_of(tie for tie in inside if tie.binds)
    return [node for node in members if not bound or node in bound]


def _name(members: Sequence[Node], streams: Collection[str]) -> str:
    """What people would call it: its Streams application, its only group, what its names have in common."""
    groups, ids = _of(TieKind.GROUP, members), _of(TieKind.TRANSACTIONAL_ID, members)
    own = [name for name in groups if name in streams]
    for names in (own, groups if ids or len(groups) == 1 else (), ids, _of(TieKind.TOPIC, members), groups):
        if names:
            common = _beginning(names).rstrip("-_.0123456789") if len(names) > 1 else names[0]
            return common if len(common) > 2 else names[0]
    return "set"


def _beginning(names: Sequence[str]) -> str:
    """What all of them begin with."""
    return "".join(signs[0] for signs in takewhile(lambda signs: len(set(signs)) == 1, zip(*names, strict=False)))


def _free(name: str, taken: dict[str, int]) -> str:
    """A name that no other set has. `taken`: names, with the last number that was put behind each; noted here."""
    legal = "".join(sign if sign.isascii() and (sign.isalnum() or sign in "._-") else "-" for sign in name)[:200]
    found = legal
    while found in taken:
        taken[legal] += 1
        found = f"{legal}-{taken[legal]}"
    taken[found] = 1
    return found
