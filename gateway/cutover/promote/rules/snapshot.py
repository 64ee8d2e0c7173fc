"""The input of a topic promote's decisions: readings of the source, acknowledgements, records. Values only.

`cutover/promote/rules/promote.py` decides, `cutover/promote/rules/memory.py` keeps what one run has learnt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from gateway.cutover.write_pause.interface import PauseAck
from gateway.cutover.write_pause.rules.routing import WritePhase
from gateway.groups.rules.moves import GroupMove
from gateway.mirror.rules.copy_ends import CopyEnds
from gateway.state.producer_tables import MOST_BATCHES
from gateway.state.records import MirrorState
from gateway.state.step import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class PromoteLimits:
    """`lag_threshold`: the lag per partition, in records, at which the write pause may begin. Times in seconds.

    `pause_timeout_s` bounds the write pause; `grace_s` is how long the source's ends must stand still,
    `unknown_grace_s` the same after forwarded writes without an answer; a promote is given up when the source is
    unreachable for `source_timeout_s` before the write pause. Defaults of options are in `gateway/config/`.
    """

    lag_threshold: int
    pause_timeout_s: float
    grace_s: float
    unknown_grace_s: float
    source_timeout_s: float = 30.0


@dataclass(frozen=True, slots=True)
class EndReading:
    """One reading of a source topic's ends, per partition, with the mirror's positions from just before the request.

    `ends`: high watermarks. `log_ends`: the leaders' log ends, or None where the source does not report them.
    `mirrored`: next source offset to mirror, -1 where unknown. `partitions`: how many the topic has there.
    `last_stable`: where the first open transaction begins, the high watermark without one; None when not requested.
    `transactions`: incomplete ones with the topic, with or without records in it; None when not requested, or the
    cluster cannot tell. Times are monotonic seconds.
    """

    asked: float
    answered: float
    ends: tuple[int, ...]
    log_ends: tuple[int, ...] | None
    mirrored: tuple[int, ...]
    partitions: int
    last_stable: tuple[int, ...] | None = None
    transactions: tuple[str, ...] | None = None

    @property
    def log_end_offsets(self) -> tuple[int, ...]:
        """The highest offsets that the reading shows."""
        return self.log_ends if self.log_ends is not None else self.ends

    @property
    def stable(self) -> bool:
        """True when nothing is above the high watermark, no transaction is open, and the mirror is exactly there."""
        at_rest = self.log_end_offsets == self.ends == self.mirrored and self.last_stable in (None, self.ends)
        return at_rest and not self.transactions

    @property
    def open_transactions(self) -> tuple[int, ...]:
        """The partitions in which a transaction is open.

        `last_stable` is requested after `ends`: where it is higher, a client has written in between.
        """
        pairs = zip(self.last_stable or (), self.ends, strict=False)
        return tuple(partition for partition, (stable, end) in enumerate(pairs) if stable < end)


class CopyReading(NamedTuple):
    """The copy's ends per partition, read from its cluster after the last append.

    `ends`: high watermarks; `log_end_offsets`: the leaders' log ends, or the high watermarks where those are not
    reported. `thin`: (partition, in-sync replicas, replicas) where the high watermark proves only one replica. `kept`:
    partitions of a copy on the source whose records beyond the mirror's position are all late writes, and stay in place
    at the failback (`late_writes.py`).
    """

    ends: tuple[int, ...]
    log_end_offsets: tuple[int, ...]
    thin: tuple[tuple[int, int, int], ...] = ()
    kept: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Drain:
    """The readings under one write pause so far. `since`: when the present ends were first seen.

    `complete`: neither the last reading nor the one before it shows an incomplete transaction with the topic. One
    reading is not enough: it reads transactions and log ends at different moments, and a marker may come in between.
    """

    first: EndReading
    last: EndReading
    since: float
    complete: bool = False

    @property
    def stable_s(self) -> float:
        """How long, at least, the ends have not moved."""
        return self.last.asked - self.since

    @property
    def moved(self) -> tuple[tuple[int, int, int], ...]:
        """(partition, from, to) for each partition whose end moved under the write pause."""
        pairs = zip(self.first.log_end_offsets, self.last.log_end_offsets, strict=True)
        return tuple((partition, old, new) for partition, (old, new) in enumerate(pairs) if old != new)


def observe(drain: Drain | None, reading: EndReading, acked_at: float) -> Drain:
    """The drain with one more reading. One that began before the last acknowledgement is dropped."""
    if drain is None or drain.first.asked < acked_at or len(drain.last.ends) != len(reading.ends):
        return Drain(reading, reading, reading.answered)
    same = drain.last.ends == reading.ends and drain.last.log_end_offsets == reading.log_end_offsets
    complete = not drain.last.transactions and not reading.transactions
    return Drain(drain.first, reading, drain.since if same else reading.answered, complete)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSnapshot:
    """One topic as it is now.

    `state` and `epoch` are the record's; `marked`: this run wrote that epoch; `phases`: where writes go, by each
    gateway's answer to the present pause; `lag`: of the partition that is furthest behind, in records, None when
    unknown; `acks` by gateway, `acked_at`: when the last of them came; `positions`: of the mirror that runs here, -1
    where unknown; `absent`: partitions that should be mirrored here and are not; `cold`: those that are not warm
    (`mirror/rules/copy_ends.py`); `partitions`: how many the origin has, None before it was asked; `batches`: how many
    producer batches a cutover would hand over; `stopped`: this run has stopped the mirror; `handed`: the mirror's
    answer right before; `copy`: where its copy ends since; `short`: (partition, end, acknowledged): the last reading is
    void, since it ends below what a gateway has acknowledged to a client, so another broker leads that partition by
    now; `restored`: the topic's configs need no restoring; `blocked_by`: what gateways report that their pause waits
    for; `called_off`: the record says that the promote is called off.
    """

    topic: str
    state: MirrorState
    epoch: int = 0
    marked: bool = False
    phases: Mapping[str, WritePhase] = field(default_factory=dict)
    lag: int | None = None
    acks: Mapping[str, PauseAck] = field(default_factory=dict)
    acked_at: float = 0.0
    drain: Drain | None = None
    positions: tuple[int, ...] = ()
    absent: tuple[int, ...] = ()
    cold: tuple[int, ...] = ()
    partitions: int | None = None
    batches: int = 0
    stopped: bool = False
    handed: CopyEnds | None = None
    copy: CopyReading | None = None
    short: tuple[int, int, int] | None = None
    restored: bool = True
    blocked_by: str = ""
    called_off: bool = False

    def acknowledged(self, gateways: frozenset[str]) -> bool:
        """True when every gateway acknowledged the present epoch."""
        return self.missing(gateways) == frozenset()

    def missing(self, gateways: frozenset[str]) -> frozenset[str]:
        """The gateways that have not acknowledged the present epoch."""
        return frozenset(g for g in gateways if g not in self.acks or self.acks[g].epoch != self.epoch)

    @property
    def paused(self) -> bool:
        """True when some gateway is known to have paused writes."""
        return WritePhase.PAUSED in self.phases.values()


@dataclass(frozen=True, slots=True, kw_only=True)
class PromoteSnapshot:
    """A set of topics that are promoted together. Times are monotonic seconds.

    `gateways`: those that must acknowledge. `departed`: how many gateways left since the write pause began, without
    acknowledging it. `lost`: why some gateways cannot be asked now, '' when all can.
    `earliest_pause`: by then, writes that a killed gateway had in flight have landed.
    `paused_at`: when the pause began, None without one. `committing`: PERSIST_STOPPED was tried.
    `unreachable_since` and `source_error`: the source does not answer. `gave_up`: why the promote was given up.
    `origin`: the cluster that is written until the cutover: source, or target for a failback. `configs_read`: the
    origin's topic configs were read, or are no longer waited for; `config_error`: why they were not read.
    `acls_synced`: the target's ACLs are up to date, as needed before the write pause and again after the cutover, or
    are no longer waited for; `acl_error`: why they are not. `schema_gate`: what the schema gate waits for, '' when it
    is open. `rehearses`: the run goes back where it would cut over. `groups`: those that change sides with the topics;
    `groups_since`: since when they are observed; `group_error`: why the last step for them failed.
    `most_batches`: how many producer batches the cutover may hand over.
    """

    now: float
    gateways: frozenset[str]
    topics: tuple[TopicSnapshot, ...]
    departed: int = 0
    lost: str = ""
    earliest_pause: float = 0.0
    paused_at: float | None = None
    committing: bool = False
    unreachable_since: float | None = None
    source_error: str = ""
    gave_up: str = ""
    origin: str = "source"
    configs_read: bool = True
    config_error: str = ""
    acls_synced: bool = True
    acl_error: str = ""
    schema_gate: str = ""
    rehearses: bool = False
    groups: tuple[GroupMove, ...] = ()
    groups_since: float | None = None
    group_error: str = ""
    most_batches: int = MOST_BATCHES

    @property
    def unknown_outcomes(self) -> int:
        """How many forwarded writes the source may have accepted, or may still accept."""
        return self.departed + sum(a.unknown_outcomes for t in self.topics for a in t.acks.values())


class StepKind(StrEnum):
    """The next step. WAIT is the only one that does nothing."""

    MARK_PENDING = "mark_pending"
    WAIT = "wait"
    READ_CONFIGS = "read_configs"
    SYNC_ACLS = "sync_acls"
    PAUSE_WRITES = "pause_writes"
    READ_ENDS = "read_ends"
    AWAIT_MIRROR = "await_mirror"
    STOP_MIRROR = "stop_mirror"
    READ_COPY = "read_copy"
    LOOK_AT_GROUPS = "look_at_groups"
    HOLD_GROUPS = "hold_groups"
    SHUT_GATES = "shut_gates"
    READ_GROUPS = "read_groups"
    COMMIT_GROUPS = "commit_groups"
    CHECK_GROUPS = "check_groups"
    PERSIST_STOPPED = "persist_stopped"
    PUBLISH_SWITCHED = "publish_switched"
    RESTORE_CONFIGS = "restore_configs"
    RESUME_WRITES = "resume_writes"
    MARK_ACTIVE = "mark_active"
    DONE = "done"


PromoteStep: TypeAlias = Step[StepKind]
