"""The source as discovery has seen it: plain values, what was not told among them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSeen:
    """A member of a group, as its coordinator names it. `instance_id`: '' of one that is not static."""

    client_id: str
    host: str
    instance_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtopologySeen:
    """A part of a Streams application that runs by itself. Of a classic group only `reads` is told, by its members'
    assignments."""

    name: str
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    changelogs: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSeen:
    """A group. `type`: classic, consumer, streams, share; '' where brokers do not tell. `protocol_type`: `consumer`,
    `connect` and the like. `protocol`: the assignor of a classic group. `read`: topics that members are subscribed to
    or assigned; `committed`: that it has offsets of. `connectors`: of a Connect cluster. `by_pattern`: a member
    subscribes by a pattern. `subtopologies`: of a Streams application. `unknown`: why it could not be described; ''.
    """

    name: str
    type: str = ""
    protocol_type: str = "consumer"
    protocol: str = ""
    members: tuple[MemberSeen, ...] = ()
    read: frozenset[str] = frozenset()
    committed: frozenset[str] = frozenset()
    connectors: frozenset[str] = frozenset()
    by_pattern: bool = False
    subtopologies: tuple[SubtopologySeen, ...] = ()
    unknown: str = ""

    @property
    def topics(self) -> frozenset[str]:
        """All that it is known to read."""
        return self.read | self.committed


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionalIdSeen:
    """A transactional id.

    `producer_ids`: its present one and those that `__transaction_state` still names. `open`: topics of the transaction
    that is open now; `logged`: of former ones, by `__transaction_state`. `groups`: whose offsets it commits, by
    `__consumer_offsets`. `offset_partitions`: partitions of `__consumer_offsets` that its transactions had.
    `started_ms`: of the open transaction, wall clock; -1 while none is.
    """

    name: str
    state: str = ""
    producer_ids: frozenset[int] = frozenset()
    open: frozenset[str] = frozenset()
    logged: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    offset_partitions: frozenset[int] = frozenset()
    started_ms: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSeen:
    """A topic. `producer_ids`: that its partitions' leaders know; None: not told. `internal`: of the cluster itself.
    `mirrored`: the link has a mirror of it."""

    name: str
    producer_ids: frozenset[int] | None = frozenset()
    internal: bool = False
    mirrored: bool = False


@dataclass(frozen=True, slots=True)
class NotKnown:
    """What discovery could not see, or no broker tells: what, and how to tell it."""

    what: str
    how_to_tell: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSnapshot:
    """All of it. `offset_partition_count`: of `__consumer_offsets`, 0 when unknown. `not_known`: what was not seen.
    `at_ms`: wall clock at its beginning."""

    cluster_id: str = ""
    at_ms: int = 0
    topics: tuple[TopicSeen, ...] = ()
    groups: tuple[GroupSeen, ...] = ()
    transactional_ids: tuple[TransactionalIdSeen, ...] = ()
    offset_partition_count: int = 0
    not_known: tuple[NotKnown, ...] = ()
