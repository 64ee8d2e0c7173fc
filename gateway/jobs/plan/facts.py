"""What an inventory finds on the source. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.doctor.rules.rights import NOT_TOLD


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSample:
    """What some record batches of a topic were like. `old_format`: places with records of format v0 or v1. `unread`:
    why the topic could not be read."""

    batches: int = 0
    records: int = 0
    bytes: int = 0
    transactional: int = 0
    control: int = 0
    with_gaps: int = 0
    idempotent: int = 0
    codecs: frozenset[str] = frozenset()
    old_format: int = 0
    unread: str = ""

    def __add__(self, other: BatchSample) -> BatchSample:
        return BatchSample(
            batches=self.batches + other.batches,
            records=self.records + other.records,
            bytes=self.bytes + other.bytes,
            transactional=self.transactional + other.transactional,
            control=self.control + other.control,
            with_gaps=self.with_gaps + other.with_gaps,
            idempotent=self.idempotent + other.idempotent,
            codecs=self.codecs | other.codecs,
            old_format=self.old_format + other.old_format,
            unread=self.unread or other.unread,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFacts:
    """A topic. `bytes`: of one replica on disk, -1 when the cluster does not tell. `offsets`: sum over partitions of
    log end - log start. `largest_bytes`: of its largest partition, -1 when that is not
    told. `offsets_per_s`: over the last hour. `configs`: all in force; `own`: names set on the topic."""

    name: str
    partitions: int
    replication_factor: int
    bytes: int
    offsets: int
    offsets_per_s: float
    configs: Mapping[str, str]
    own: frozenset[str] = frozenset()
    sample: BatchSample = field(default_factory=BatchSample)
    largest_bytes: int = -1

    @property
    def bytes_per_s(self) -> float:
        """What is written to the topic, by its average size per offset; 0 when that is not known."""
        return self.offsets_per_s * self.bytes / self.offsets if self.bytes > 0 and self.offsets else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRates:
    """Bytes a second of a catch-up; 0 for not known.

    Attributes:
        total: of all partitions together.
        one: of one partition.
        asked_for: somebody said so; else `total` was worked out from what one reader got from the source.
        read, written: what was measured, of all partitions together; 0 for what was not. `total` is the lower one.
    """

    total: float
    one: float = 0.0
    asked_for: bool = False
    read: float = 0.0
    written: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """A group. `clients`: client id and host of its members. `topics`: with a committed offset, or subscribed."""

    name: str
    type: str
    protocol_type: str
    state: str
    clients: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFacts:
    """What matters of the target. `topics`: source topic -> records that the topic of its mirror holds already.
    `config_names`: topic configs it knows. `prefix`: of mirror topics. `refused`: source topic -> why the target would
    not create its mirror. `operations`: source topic -> what this user may do with the topic of its mirror, as bits
    (`rights`); topics of which the target does not tell are not in it. `on_cluster`: the same of the cluster."""

    cluster_id: str
    brokers: int
    topics: Mapping[str, int]
    config_names: frozenset[str]
    prefix: str = ""
    refused: Mapping[str, str] = field(default_factory=dict)
    operations: Mapping[str, int] = field(default_factory=dict)
    on_cluster: int = NOT_TOLD


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """All that was found. `untold`: what a cluster did not tell, why, and what follows. `acls`: one line each."""

    cluster_id: str
    brokers: int
    topics: tuple[PlanFacts, ...]
    groups: tuple[GroupFacts, ...] = ()
    acls: tuple[str, ...] = ()
    transactional_ids: tuple[str, ...] = ()
    target: TargetFacts | None = None
    untold: tuple[str, ...] = ()
