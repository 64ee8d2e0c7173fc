"""What a topic promote is decided on: readings of the source, acknowledgements of the gateways, records. Values only.

`domain/promote.py` decides, `domain/promote_memory.py` remembers what one run has learnt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from gateway.domain.copy_ends import CopyEnds
from gateway.domain.ports import FenceAck
from gateway.domain.records import MirrorState
from gateway.domain.routing import Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class PromoteLimits:
    """`lag_threshold`: records per partition at which the fence may come. Times in seconds.

    `fence_timeout_s` bounds the time that writes are held; `grace_s` is how long the source's ends must stand
    still, `unknown_grace_s` when forwarded writes ended without an answer; `source_timeout_s` is how long the
    source may be unreachable before the fence until the promote is given up.
    """

    lag_threshold: int = 1000
    fence_timeout_s: float = 5.0
    grace_s: float = 0.03
    unknown_grace_s: float = 2.0
    source_timeout_s: float = 30.0


@dataclass(frozen=True, slots=True)
class EndReading:
    """One reading of a source topic's ends, per partition, with the mirror's positions just before it was asked.

    `ends`: high watermarks. `log_ends`: the leaders' log ends, or None where the source does not tell them.
    `mirrored`: next source offset to mirror, -1 where unknown. `partitions`: how many the topic has there.
    `last_stable`: where the first open transaction begins, the high watermark without one; None when it was not asked
    for. Times are monotonic seconds.
    """

    asked: float
    answered: float
    ends: tuple[int, ...]
    log_ends: tuple[int, ...] | None
    mirrored: tuple[int, ...]
    partitions: int
    last_stable: tuple[int, ...] | None = None

    @property
    def tops(self) -> tuple[int, ...]:
        """The highest offsets that the reading shows."""
        return self.log_ends if self.log_ends is not None else self.ends

    @property
    def settled(self) -> bool:
        """True when nothing above the high watermark is left, no transaction open, and the mirror exactly there."""
        return self.tops == self.ends == self.mirrored and not self.unstable

    @property
    def unstable(self) -> tuple[int, ...]:
        """The partitions in which a transaction is open."""
        pairs = zip(self.last_stable or (), self.ends, strict=False)
        return tuple(partition for partition, (stable, end) in enumerate(pairs) if stable != end)


class CopyReading(NamedTuple):
    """The copy's ends per partition as its cluster tells them, once nothing is appended to it any more.

    `ends`: high watermarks; `tops`: the leaders' log ends, the high watermarks where these are not told.
    """

    ends: tuple[int, ...]
    tops: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Drain:
    """What the readings under one fence say so far. `since`: when the present ends were first seen."""

    first: EndReading
    last: EndReading
    since: float

    @property
    def stable_s(self) -> float:
        """For how long, at least, the ends have not moved."""
        return self.last.asked - self.since

    @property
    def moved(self) -> tuple[tuple[int, int, int], ...]:
        """(partition, from, to) for each partition whose end moved under the fence."""
        pairs = zip(self.first.tops, self.last.tops, strict=True)
        return tuple((partition, old, new) for partition, (old, new) in enumerate(pairs) if old != new)


def observe(drain: Drain | None, reading: EndReading, acked_at: float) -> Drain:
    """The drain with one more reading. One that began before the last acknowledgement is dropped."""
    if drain is None or drain.first.asked < acked_at or len(drain.last.ends) != len(reading.ends):
        return Drain(reading, reading, reading.answered)
    same = drain.last.ends == reading.ends and drain.last.tops == reading.tops
    return Drain(drain.first, reading, drain.since if same else reading.answered)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSnapshot:
    """One topic as it is now.

    `state` and `epoch` are the record's; `marked`: this run wrote that epoch; `phases`: the route in force at
    each live gateway; `lag`: records of the partition that is furthest behind, None when unknown; `acks` by
    gateway and `acked_at`, when the last of them came; `positions`: the mirror's, as it runs here, -1 where unknown;
    `absent`: partitions that are not mirrored here, while they should be, and `cold`: those that are not warm
    (`domain/copy_ends.py`); `partitions`: how many the origin has, None before it was asked; `stopped`: this run has
    stopped the mirror; `handed`: what the mirror answered right before; `copy`: where its copy ends since; `restored`:
    the topic's configs need no restoring; `held_up_by`: what gateways say that their fence waits for.
    """

    topic: str
    state: MirrorState
    epoch: int = 0
    marked: bool = False
    phases: Mapping[str, Phase] = field(default_factory=dict)
    lag: int | None = None
    acks: Mapping[str, FenceAck] = field(default_factory=dict)
    acked_at: float = 0.0
    drain: Drain | None = None
    positions: tuple[int, ...] = ()
    absent: tuple[int, ...] = ()
    cold: tuple[int, ...] = ()
    partitions: int | None = None
    stopped: bool = False
    handed: CopyEnds | None = None
    copy: CopyReading | None = None
    restored: bool = True
    held_up_by: str = ""

    def acknowledged(self, gateways: frozenset[str]) -> bool:
        """True when every gateway acknowledged the present epoch."""
        return self.missing(gateways) == frozenset()

    def missing(self, gateways: frozenset[str]) -> frozenset[str]:
        """The gateways that have not acknowledged the present epoch."""
        return frozenset(g for g in gateways if g not in self.acks or self.acks[g].epoch != self.epoch)

    @property
    def fenced(self) -> bool:
        """True when some gateway holds writes."""
        return Phase.FENCED in self.phases.values()


@dataclass(frozen=True, slots=True, kw_only=True)
class PromoteSnapshot:
    """A set of topics that are promoted together. Times are monotonic seconds.

    `gateways`: those that must acknowledge. `departed`: gateways that left since the fence without acknowledging it.
    `lost`: why some of them cannot be asked now, '' when all can.
    `earliest_fence`: not before; what a gateway that was killed had in flight must have landed by then.
    `fenced_at`: when the fence began, None without one. `committing`: PERSIST_STOPPED was tried.
    `unreachable_since` and `source_error`: the source does not answer. `gave_up`: why the promote was given up.
    `origin`: the cluster that is written until the flip: source, or target on the way home.
    """

    now: float
    gateways: frozenset[str]
    topics: tuple[TopicSnapshot, ...]
    departed: int = 0
    lost: str = ""
    earliest_fence: float = 0.0
    fenced_at: float | None = None
    committing: bool = False
    unreachable_since: float | None = None
    source_error: str = ""
    gave_up: str = ""
    origin: str = "source"

    @property
    def unknown_outcomes(self) -> int:
        """Forwarded writes of which nobody knows whether the source has taken them, or will."""
        return self.departed + sum(a.unknown_outcomes for t in self.topics for a in t.acks.values())


class StepKind(StrEnum):
    """What to do next. WAIT is the only one that does nothing."""

    MARK_PENDING = "mark_pending"
    WAIT = "wait"
    FENCE = "fence"
    READ_ENDS = "read_ends"
    AWAIT_MIRROR = "await_mirror"
    STOP_MIRROR = "stop_mirror"
    READ_COPY = "read_copy"
    PERSIST_STOPPED = "persist_stopped"
    PUBLISH_SWITCHED = "publish_switched"
    RESTORE_CONFIGS = "restore_configs"
    UNFENCE = "unfence"
    MARK_ACTIVE = "mark_active"
    DONE = "done"


class Step(NamedTuple):
    """The next step and why. `reason` is for people: what is waited for, or why the promote was given up.

    `delay_s`: how long to let the world go on before.
    """

    kind: StepKind
    reason: str = ""
    delay_s: float = 0.0
