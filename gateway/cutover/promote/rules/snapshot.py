"""What a topic promote is decided on: readings of the source, acknowledgements of the gateways, records. Values only.

`cutover/promote/rules/promote.py` decides, `cutover/promote/rules/memory.py` remembers what one run has learnt.
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
    """`lag_threshold`: records per partition at which the write pause may come. Times in seconds.

    `pause_timeout_s` bounds the time that writes pause; `grace_s` is how long the source's ends must stand
    still, `unknown_grace_s` when forwarded writes ended without an answer; `source_timeout_s` is how long the
    source may be unreachable before the write pause until the promote is given up. Defaults of what is an option are
    in `gateway/config/`.
    """

    lag_threshold: int
    pause_timeout_s: float
    grace_s: float
    unknown_grace_s: float
    source_timeout_s: float = 30.0


@dataclass(frozen=True, slots=True)
class EndReading:
    """One reading of a source topic's ends, per partition, with the mirror's positions just before it was asked.

    `ends`: high watermarks. `log_ends`: the leaders' log ends, or None where the source does not tell them.
    `mirrored`: next source offset to mirror, -1 where unknown. `partitions`: how many the topic has there.
    `last_stable`: where the first open transaction begins, the high watermark without one; None when it was not asked
    for. `transactions`: those that have the topic and are not complete, with records in it or without; None when they
    were not asked for, or the cluster cannot tell. Times are monotonic seconds.
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
        """True when nothing above the high watermark is left, no transaction open, and the mirror exactly there."""
        at_rest = self.log_end_offsets == self.ends == self.mirrored and self.last_stable in (None, self.ends)
        return at_rest and not self.transactions

    @property
    def open_transactions(self) -> tuple[int, ...]:
        """The partitions in which a transaction is open.

        `last_stable` is asked for behind `ends`: where it is higher, somebody has written in between.
        """
        pairs = zip(self.last_stable or (), self.ends, strict=False)
        return tuple(partition for partition, (stable, end) in enumerate(pairs) if stable < end)


class CopyReading(NamedTuple):
    """The copy's ends per partition as its cluster tells them, once nothing is appended to it any more.

    `ends`: high watermarks; `log_end_offsets`: the leaders' log ends, the high watermarks where these are not told.
    `thin`: (partition, replicas in sync, replicas) where the high watermark says that one replica has it. `kept`:
    partitions of a copy on the source in which all that lies beyond where its mirror stood is somebody else's, and goes
    home in its place (`late_writes.py`).
    """

    ends: tuple[int, ...]
    log_end_offsets: tuple[int, ...]
    thin: tuple[tuple[int, int, int], ...] = ()
    kept: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Drain:
    """What the readings under one write pause say so far. `since`: when the present ends were first seen.

    `complete`: neither the last reading nor the one before it told of a transaction that has the topic and is not
    complete. One is not enough: what it tells of transactions and of log ends is of different moments, and a marker may
    come in between.
    """

    first: EndReading
    last: EndReading
    since: float
    complete: bool = False

    @property
    def stable_s(self) -> float:
        """For how long, at least, the ends have not moved."""
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

    `state` and `epoch` are the record's; `marked`: this run wrote that epoch; `phases`: where writes go at each
    gateway that has answered the present pause, as it answered; `lag`: records of the partition that is furthest
    behind, None when unknown; `acks` by gateway and `acked_at`, when the last of them came; `positions`: the mirror's,
    as it runs here, -1 where unknown; `absent`: partitions that are not mirrored here, while they should be, and
    `cold`: those that are not warm (`mirror/rules/copy_ends.py`); `partitions`: how many the origin has, None before it
    was asked; `stopped`: this run has stopped the mirror; `handed`: what the mirror answered right before; `copy`:
    where its copy ends since; `short`: (partition, end, acknowledged): the last reading is none, as it ends below what
    a gateway has acknowledged to a client, so another broker leads that partition by now; `restored`: the topic's
    configs need no restoring; `blocked_by`: what gateways say that their pause waits for; `called_off`: the record says
    that its promote is.
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

    `gateways`: those that must acknowledge. `departed`: gateways that left since the write pause without
    acknowledging it. `lost`: why some of them cannot be asked now, '' when all can.
    `earliest_pause`: not before; what a gateway that was killed had in flight must have landed by then.
    `paused_at`: when the pause began, None without one. `committing`: PERSIST_STOPPED was tried.
    `unreachable_since` and `source_error`: the source does not answer. `gave_up`: why the promote was given up.
    `origin`: the cluster that is written until the cutover: source, or target at the failback. `configs_read`: the
    origin's topic configs were read, or are not waited for any longer; `config_error`: why they were not read.
    `acls_synced`: the target's ACLs are what they are to be before the write pause, behind the cutover as well, or are
    not waited for any longer; `acl_error`: why they are not. `schema_gate`: what the schema gate waits for, '' when it
    is open. `rehearses`: it goes back where it would cut over. `groups`: those that change sides with the topics;
    `groups_since`: since when they are looked at; `group_error`: why the last step for them came to nothing.
    `most_batches`: of producers, that the cutover may hand over.
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
        """Forwarded writes of which nobody knows whether the source has taken them, or will."""
        return self.departed + sum(a.unknown_outcomes for t in self.topics for a in t.acks.values())


class StepKind(StrEnum):
    """What to do next. WAIT is the only one that does nothing."""

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
