"""Group demote: from what is known now to the next step. Pure; `groups/demote.py` gathers and acts.

Theory of operation
-------------------
A demoted group goes on on the source from exactly where it was on the target::

    PROMOTED
        --CHECK_TARGET--> nobody reads on the target: a refusal must not disturb members
        --CLOSE_GATE--> no gateway lets a member in, or a commit through
        --AWAIT_COMMITS--> what had passed the gate before is answered
        --CHECK_MEMBERS--> still nobody, on either side
        --READ_OFFSETS--> what the group has committed on the target
        [of topics that are written on the target: the mirror back has come to these offsets]
        --COMMIT--> on the source, and read back
        --MARK_ACTIVE--> ACTIVE                                     persisted: from here on the group is the source's
        --OPEN_GATE--> the gate is as the record says: shut         DONE

    before MARK_ACTIVE, on any trouble: --OPEN_GATE--> DONE         PROMOTED as before, and the gate open

Safety. ACTIVE is stored only while the gate is shut at every gateway, after every commit that had passed it was
answered, and after the source gave back exactly what the target has. So a group is never read on both sides, and its
place on the source is never an older one:

* an offset that the target does not hold is none: a partition that was carried over at the promote, and of which the
  target holds nothing now, ends the demote. The source would have the group read again what it has read;
* how far a mirror back has come is known, or waited for. A topic that is written on the target and has no mirror back
  that runs lacks records on the source; one that is promoted and not mirrored back ends the demote.

Once MARK_ACTIVE was tried, and whether it is stored is not known, the gate can neither be opened nor left shut for
good: it stays shut until that is known (SETTLE). That has no bound of its own; it ends when the target answers, or
another gateway leads, which knows.

Interruption. Nothing but the record outlives the process: the next leader's gates are by the record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from gateway.cutover.write_pause.rules.routing_build import written_on_target
from gateway.kafka.topic_partition import TopicPartition
from gateway.state.mirror_states import UNDER_WAY
from gateway.state.records import GroupState, MirrorRecord, MirrorState
from gateway.state.step import Step

Value = tuple[int, str]
"""A committed offset, and its metadata."""

_LOOK_S = 0.1
_STORE_AGAIN_S = 0.25


class DemoteLimits(NamedTuple):
    """How long a demote waits, in seconds.

    `commits_s`: for commits that had passed the gate. `mirror_s`: for the mirror back. `store_s`: for the state to be
    written, as long as it is known not to be.
    """

    commits_s: float = 10.0
    mirror_s: float = 30.0
    store_s: float = 30.0


class DemoteStepKind(StrEnum):
    """What to do next."""

    CHECK_TARGET = "check_target"
    CLOSE_GATE = "close_gate"
    AWAIT_COMMITS = "await_commits"
    CHECK_MEMBERS = "check_members"
    READ_OFFSETS = "read_offsets"
    AWAIT_MIRROR = "await_mirror"
    COMMIT = "commit"
    MARK_ACTIVE = "mark_active"
    SETTLE = "settle"
    OPEN_GATE = "open_gate"
    DONE = "done"


DemoteStep: TypeAlias = Step[DemoteStepKind]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoteSnapshot:
    """One group as it is now. Times are monotonic seconds. What was not asked yet, or not answered, is None.

    `gate_open`: the gate here. `carried`: partitions whose offsets the group's promote had carried over. `mirrors`: of
    the link, by mirror topic. `looked`: there was nobody on the target at first. `shut`: this run keeps the gate shut
    here, `closed`: and everywhere. `answered`: commits that had passed it are. `on_target`, `on_source`: the members
    there with the gate closed, '' for nobody. `offsets`: what the target holds for partitions of mirror topics.
    `mirrored_back`: how far the mirror back has come, in offsets of the target; waited for since `waiting_since`.
    `meant`: the same offsets as the source counts them, and `held`: what it gave back. `marked`: this run has stored
    ACTIVE; `committing`: it was tried, and whether it is stored is not known; tried first at `storing_since`. `opened`:
    the gate is by the record again. `gave_up`: why.
    """

    now: float
    group: str
    state: GroupState
    gate_open: bool = False
    carried: frozenset[TopicPartition] = frozenset()
    mirrors: Mapping[str, MirrorRecord] = field(default_factory=dict)
    looked: bool = False
    shut: bool = False
    closed: bool = False
    answered: bool = False
    on_target: str | None = None
    on_source: str | None = None
    offsets: Mapping[TopicPartition, Value] | None = None
    mirrored_back: Mapping[TopicPartition, int | None] = field(default_factory=dict)
    waiting_since: float | None = None
    meant: Mapping[TopicPartition, Value] | None = None
    held: Mapping[TopicPartition, Value] | None = None
    marked: bool = False
    committing: bool = False
    storing_since: float | None = None
    opened: bool = False
    gave_up: str = ""


def next_step(snapshot: DemoteSnapshot, limits: DemoteLimits) -> DemoteStep:
    """The one thing to do now.

    Raises:
        DemoteViolated: the snapshot is one that no run of these steps leads to, or the step is not safe.
    """
    step = _decide(snapshot, limits)
    check(snapshot, step)
    return step


def _decide(snapshot: DemoteSnapshot, limits: DemoteLimits) -> DemoteStep:
    if snapshot.committing:
        what = "whether the demote is stored is not known: the target does not answer; the gate stays shut until it is"
        return DemoteStep(DemoteStepKind.SETTLE, what, _STORE_AGAIN_S)
    trouble = "" if snapshot.marked and snapshot.state is GroupState.ACTIVE else _trouble(snapshot, limits)
    if trouble or snapshot.marked:
        kind = DemoteStepKind.OPEN_GATE if snapshot.shut and not snapshot.opened else DemoteStepKind.DONE
        return DemoteStep(kind, trouble)
    if not snapshot.looked:
        return DemoteStep(DemoteStepKind.CHECK_TARGET, "the members of the group on the target")
    if not snapshot.closed:
        return DemoteStep(DemoteStepKind.CLOSE_GATE, "every gateway to close the gate")
    if not snapshot.answered:
        what = "the target to answer a commit of the group"
        return DemoteStep(DemoteStepKind.AWAIT_COMMITS, what, limit_s=limits.commits_s)
    if snapshot.on_target is None or snapshot.on_source is None:
        return DemoteStep(DemoteStepKind.CHECK_MEMBERS, "the members of the group on both clusters")
    if snapshot.offsets is None:
        return DemoteStep(DemoteStepKind.READ_OFFSETS, "the offsets of the group on the target")
    if snapshot.waiting_since is None or (behind := _behind(snapshot)):
        delay_s = 0.0 if snapshot.waiting_since is None else _LOOK_S
        waits = "" if snapshot.waiting_since is None else behind
        return DemoteStep(DemoteStepKind.AWAIT_MIRROR, waits, delay_s)
    if snapshot.held is None:
        return DemoteStep(DemoteStepKind.COMMIT, "the source to take the offsets of the group")
    again = snapshot.storing_since is not None
    return DemoteStep(DemoteStepKind.MARK_ACTIVE, "the demote to be stored", _STORE_AGAIN_S if again else 0.0)


def _trouble(snapshot: DemoteSnapshot, limits: DemoteLimits) -> str:
    """Why the group cannot be demoted, or ''."""
    if snapshot.gave_up:
        return snapshot.gave_up
    if snapshot.state is not GroupState.PROMOTED:
        return f"group '{snapshot.group}' is {snapshot.state}, not PROMOTED"
    for where, members in (("target", snapshot.on_target), ("source", snapshot.on_source)):
        if members:
            return members_left(where, snapshot.group, members)
    if snapshot.offsets is not None and (why := _not_to_be_carried(snapshot)):
        return why
    since = snapshot.waiting_since
    if since is not None and snapshot.now - since >= limits.mirror_s and (behind := _behind(snapshot)):
        return f"group '{snapshot.group}' cannot go back yet: {behind}"
    for key, value in (snapshot.meant or {}).items():
        if snapshot.held is not None and snapshot.held.get(key) != value:
            where = f"{key[0]}-{key[1]}"
            return f"the source does not hold the offset committed for group '{snapshot.group}' on {where}"
    tried = snapshot.storing_since
    if tried is not None and snapshot.now - tried >= limits.store_s:
        return f"the demote of group '{snapshot.group}' could not be stored for {limits.store_s:g} s; try again"
    return ""


def foreseen(snapshot: DemoteSnapshot, limits: DemoteLimits) -> tuple[str, str]:
    """Why a demote could not go on from here, and what it would wait for; '' for nothing. What was not read is no
    reason: it is asked again when it was."""
    blocker = _trouble(snapshot, limits)
    return blocker, "" if blocker else _behind(snapshot)


def members_left(where: str, group: str, members: str) -> str:
    """What is said of a group that still has members."""
    return f"group '{group}' has members on the {where}: stop them first: {members}"


def _not_to_be_carried(snapshot: DemoteSnapshot) -> str:
    offsets, mirrors = snapshot.offsets or {}, snapshot.mirrors
    if gone := sorted({topic for topic, _ in offsets} - mirrors.keys()):
        return f"group '{snapshot.group}' cannot go back: mirror topic '{gone[0]}' was deleted meanwhile"
    stopped = sorted({topic for topic, _ in offsets if mirrors[topic].state is MirrorState.STOPPED})
    if stopped:
        return (
            f"group '{snapshot.group}' cannot go back: the source does not have what was written to "
            f"{', '.join(stopped)} since it was promoted; mirror it back first (reverse-and-start-mirror)"
        )
    missing = sorted(key for key in snapshot.carried - offsets.keys() if key[0] in mirrors)
    if missing:
        topic, partition = missing[0]
        return (
            f"group '{snapshot.group}' cannot go back: the target holds no offset for {topic}-{partition}, where one "
            "was carried over when it was promoted; it expired or was deleted, and where the group has come to is not "
            "known. Set it on the target (kafka-consumer-groups --reset-offsets), and demote again"
        )
    return ""


def _behind(snapshot: DemoteSnapshot) -> str:
    """The first offset that the source does not have everything below of; '' when there is none."""
    for (topic, partition), (offset, _) in (snapshot.offsets or {}).items():
        mirror = snapshot.mirrors[topic]
        if not written_on_target(mirror):
            continue
        position = None if mirror.state in UNDER_WAY else snapshot.mirrored_back.get((topic, partition))
        if position is None or position < offset:
            at = "is not known yet" if position is None else f"has come to {position}"
            return f"the mirror back of {topic}-{partition} {at}, the group is at {offset} ({mirror.state})"
    return ""


class DemoteViolated(Exception):
    """A step that could let a group read on both sides, or from an older place. Never expected."""


def check(snapshot: DemoteSnapshot, step: DemoteStep) -> None:
    """What must hold, whoever decided: a second opinion.

    Raises:
        DemoteViolated: naming the group.
    """
    kind, group = step.kind, snapshot.group
    if snapshot.gate_open and snapshot.shut and not snapshot.opened:
        raise DemoteViolated(f"the gate of group '{group}' is open while it is being demoted")
    if kind is DemoteStepKind.OPEN_GATE and snapshot.committing:
        raise DemoteViolated(f"the gate of group '{group}' would be opened, but it may be ACTIVE")
    if kind not in (DemoteStepKind.COMMIT, DemoteStepKind.MARK_ACTIVE):
        return
    if not (snapshot.shut and snapshot.closed and snapshot.answered) or snapshot.opened:
        raise DemoteViolated(f"{kind} of group '{group}' while a commit could still reach the target")
    if snapshot.on_target != "" or snapshot.on_source != "":
        raise DemoteViolated(f"{kind} of group '{group}', which may have members")
    if snapshot.offsets is None or _not_to_be_carried(snapshot) or _behind(snapshot):
        raise DemoteViolated(f"{kind} of group '{group}' before the source has all below its offsets")
    if kind is DemoteStepKind.MARK_ACTIVE:
        _check_mark(snapshot)


def _check_mark(snapshot: DemoteSnapshot) -> None:
    meant, held = snapshot.meant, snapshot.held
    if meant is None or held is None or meant.keys() != (snapshot.offsets or {}).keys():
        raise DemoteViolated(f"group '{snapshot.group}' would be ACTIVE without its offsets on the source")
    if any(held.get(key) != value for key, value in meant.items()):
        raise DemoteViolated(f"group '{snapshot.group}' would be ACTIVE with other offsets on the source")


class DemoteMemory:
    """What one run has learnt and done so far; it dies with the process. Attributes are as in DemoteSnapshot."""

    def __init__(self) -> None:
        self.looked = self.shut = self.closed = self.answered = False
        self.on_target: str | None = None
        self.on_source: str | None = None
        self.offsets: Mapping[TopicPartition, Value] | None = None
        self.mirrored_back: Mapping[TopicPartition, int | None] = {}
        self.waiting_since: float | None = None
        self.meant: Mapping[TopicPartition, Value] | None = None
        self.held: Mapping[TopicPartition, Value] | None = None
        self.marked = self.committing = self.opened = False
        self.storing_since: float | None = None
        self.gave_up = ""

    def give_up(self, reason: str) -> None:
        """Remember the first reason."""
        self.gave_up = self.gave_up or reason

    def mirror_looked_at(self, found: Mapping[TopicPartition, int | None], now: float) -> None:
        """How far the mirror back has come."""
        self.mirrored_back = found
        if self.waiting_since is None:
            self.waiting_since = now

    def storing(self, now: float) -> None:
        """ACTIVE is being stored; until it is known whether it is, nothing stands on either."""
        self.committing = True
        if self.storing_since is None:
            self.storing_since = now

    def known(self, state: GroupState | None) -> None:
        """The state as it is seen now is what is stored; None: the group's record was deleted."""
        self.committing = False
        self.marked = self.marked or (state is GroupState.ACTIVE and self.storing_since is not None)

    def snapshot(
        self,
        now: float,
        group: str,
        state: GroupState,
        mirrors: Mapping[str, MirrorRecord],
        carried: frozenset[TopicPartition],
        *,
        gate_open: bool,
    ) -> DemoteSnapshot:
        """All that is known now."""
        return DemoteSnapshot(
            now=now,
            group=group,
            state=state,
            gate_open=gate_open,
            carried=carried,
            mirrors=mirrors,
            looked=self.looked,
            shut=self.shut,
            closed=self.closed,
            answered=self.answered,
            on_target=self.on_target,
            on_source=self.on_source,
            offsets=self.offsets,
            mirrored_back=self.mirrored_back,
            waiting_since=self.waiting_since,
            meant=self.meant,
            held=self.held,
            marked=self.marked,
            committing=self.committing,
            storing_since=self.storing_since,
            opened=self.opened,
            gave_up=self.gave_up,
        )
