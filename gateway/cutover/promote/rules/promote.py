"""Topic promote: from a snapshot to the next step. Pure; `cutover/promote/run.py` gathers and acts.

Theory of operation
-------------------
A promote moves a topic's writes from the source to the target, between two records::

    ACTIVE --MARK_PENDING--> PENDING_STOPPED                            persisted, pause epoch e
        lag small --READ_CONFIGS-->                                     what the copy's configs are to be
        --SYNC_ACLS--> gateways' clients may write the copy             before the first write goes there
        --PAUSE_WRITES--> every live gateway acknowledged e   writes wait, none is in flight
        --READ_ENDS--> source ends stable and all of it mirrored        nothing can arrive any more
        --STOP_MIRROR--> nothing appends to the target any more
        --READ_COPY--> the target's log ends where the mirror stood
        --PERSIST_STOPPED--> STOPPED                                    persisted: the point of no return
        --PUBLISH_SWITCHED--> writes that waited, and new ones, go to the target
        --SYNC_ACLS--> every principal has its source rights on the target
        --RESTORE_CONFIGS--> DONE

    before PERSIST_STOPPED, on any trouble: --RESUME_WRITES--> --MARK_ACTIVE--> DONE (writes go on to the source)

Safety. A write goes to the target only when STOPPED is durable, and STOPPED is persisted only when every record
that was ever acknowledged through a gateway is on the target:

* every live gateway answered that it has paused new writes under epoch e and has none in flight;
* the source's log ends were read after the last of these answers and did not move for a grace;
* when the last reading was requested, the mirror had already reached exactly the ends that it returned. Ends are
  high watermarks, and the leaders' log ends were the same: a record acknowledged with acks=1 that its followers
  have not fetched yet is above the high watermark, and would otherwise be cut off;
* no end was lower than what a gateway had acknowledged with acks=all: such a reading comes from a former leader that
  does not know it yet. The source is read again, from the leaders that another broker names;
* no transaction was open in the last reading: last stable offset, high watermark and log end were the same. A
  transaction is never cut; one that outlasts the write pause ends the promote;
* before the last reading the origin's coordinators were asked, and none of them had an incomplete transaction with the
  topic: one without records, perhaps of a client that is gone, does not show in the logs, and its marker would come
  after the cutover;
* since then the mirror was stopped, and has not gone beyond these ends;
* right before that every partition ran in this process, and answered where it stood on both logs and which producer
  batches it knows. The record is made of this answer, which is kept with the run; a partition given away meanwhile, or
  with incomplete producers, ends the promote;
* the copy was read after the stop, and ends where that answer says: records once appended may have been lost;
* the origin had no more partitions than the mirror when its ends were last read.

Once PERSIST_STOPPED was tried nothing is taken back: its outcome may be unknown, so it is tried again until it is
known, and writes stay paused meanwhile. STOPPED is final.

Calling off. An operator may call a promote off until PERSIST_STOPPED is written. The record says so first
(`state/promote_sets.py`), so the next leader does not continue it, and a later promote does not see it. A cutover whose
outcome is unknown is tried again on the record that calls it off, and refused.

Interruption. Only the record outlives the process. A PENDING_STOPPED record that this run did not write is marked again
with the next epoch, so no acknowledgement of an older write pause can pass for one of this run's.

Timestamps. If a topic is to stamp its records itself, its writes wait after the cutover, at every gateway, until the
leaders of its partitions do so: the record says so (`MirrorCutover.unstamped`), and `topics/lifted_configs.py` when
that ends, in a bounded time.

Configs. Config changes on the origin's topic since the last sync are applied at the cutover, with the lifted ones. They
are read right before the write pause. Under the pause no step waits for configs; in parallel the origin's configs, and
nothing else, are read once more, since every request takes broker time that the pause needs. Configs that cannot be
read delay a promote only for a while; the record says what may be missing.

ACLs. Rights to write the copy outside the gateways go to the target only after STOPPED (`access/rules/transform.py`).
Missing ones delay a promote only for a while: the link's sync continues, before and after.

Several topics in one snapshot are one set: paused together, cut over together, or not at all. A set may include groups:
`cutover/promote/rules/groups.py` has what they add.

Rehearsal. Everything up to PERSIST_STOPPED, and then the steps of a promote that is given up. Its records name
`REHEARSAL` as one of their set. No topic has that name, so the set is never complete: the next leader, of any version,
gives it up.
"""

from __future__ import annotations

from typing import Final

from gateway.cutover.promote.rules import groups as of_groups
from gateway.cutover.promote.rules.call_off import WAS_CALLED_OFF
from gateway.cutover.promote.rules.checks import check_invariants, check_step
from gateway.cutover.promote.rules.snapshot import (
    Drain,
    EndReading,
    PromoteLimits,
    PromoteSnapshot,
    PromoteStep,
    StepKind,
    TopicSnapshot,
)
from gateway.cutover.write_pause.rules.routing import WritePhase
from gateway.state.producer_tables import MOST_BATCHES
from gateway.state.records import MirrorState

REHEARSAL: Final = "(rehearsal)"
REHEARSED: Final = "rehearsed: it came to where a promote cuts over"
"""The reason with which a rehearsal without trouble goes back."""
LATE_WRITES: Final = (
    "somebody has written to the source beside the gateway; `lockgate mirror undo` with --dry-run says how many "
    "records, where, and what can be done"
)
WAIT_S = 0.1
_ROUNDING_S = 1e-8  # rounding error of a sum of times; without it the next reading would come too early again and again
LOOK_AGAIN_S = 0.003  # under the write pause, where milliseconds count

_READINGS = (StepKind.READ_ENDS, StepKind.READ_COPY)
_PROMOTABLE = (MirrorState.ACTIVE, MirrorState.SOURCE_UNAVAILABLE)


def next_step(snapshot: PromoteSnapshot, limits: PromoteLimits) -> PromoteStep:
    """The next step.

    Raises:
        InvariantViolated: no run of these steps leads to this snapshot.
    """
    check_invariants(snapshot)
    step = _decide(snapshot, limits)
    check_step(snapshot, step, limits)
    return step


def _decide(snapshot: PromoteSnapshot, limits: PromoteLimits) -> PromoteStep:
    topics = snapshot.topics
    if all(t.state is MirrorState.STOPPED for t in topics):
        return _after_cutover(snapshot)
    if snapshot.committing:
        return PromoteStep(StepKind.PERSIST_STOPPED, "whether STOPPED was persisted is not known")
    if trouble := _trouble(snapshot, limits):
        return _give_up(snapshot, trouble)
    if any(not t.marked or t.state is not MirrorState.PENDING_STOPPED for t in topics):
        return PromoteStep(StepKind.MARK_PENDING)
    if snapshot.paused_at is None:
        return _before_pause(snapshot, limits)
    step = _under_pause(snapshot, limits)
    if snapshot.unreachable_since is not None and step.kind in _READINGS:  # an error may return immediately
        return step._replace(delay_s=max(step.delay_s, LOOK_AGAIN_S))
    return step


def _after_cutover(snapshot: PromoteSnapshot) -> PromoteStep:
    behind = any(phase is not WritePhase.SWITCHED for t in snapshot.topics for phase in t.phases.values())
    if behind or snapshot.paused_at is not None:
        return PromoteStep(StepKind.PUBLISH_SWITCHED)
    if not snapshot.acls_synced:
        return PromoteStep(StepKind.SYNC_ACLS)
    if not all(t.restored for t in snapshot.topics):
        return PromoteStep(StepKind.RESTORE_CONFIGS)
    return PromoteStep(StepKind.DONE)


def _give_up(snapshot: PromoteSnapshot, trouble: str) -> PromoteStep:
    if snapshot.paused_at is not None or any(t.paused for t in snapshot.topics):
        return PromoteStep(StepKind.RESUME_WRITES, trouble)
    if any(t.state is MirrorState.PENDING_STOPPED for t in snapshot.topics):
        return PromoteStep(StepKind.MARK_ACTIVE, trouble)
    return PromoteStep(StepKind.DONE, trouble)


def _trouble(snapshot: PromoteSnapshot, limits: PromoteLimits) -> str:
    """Why the promote must be given up, or ''."""
    if snapshot.gave_up:
        return snapshot.gave_up
    if any(topic.called_off for topic in snapshot.topics):
        return WAS_CALLED_OFF
    for topic in snapshot.topics:
        if topic.state not in (*_PROMOTABLE, MirrorState.PENDING_STOPPED):
            return f"{topic.topic} became {topic.state}"
        if topic.partitions is not None and topic.partitions != len(topic.positions):
            return (
                f"{topic.topic} has {topic.partitions} partitions on the {snapshot.origin}, its mirror "
                f"{len(topic.positions)}; wait until the new ones are mirrored"
            )
    if for_groups := of_groups.trouble(snapshot):
        return for_groups
    if snapshot.paused_at is None:
        return _too_many_batches(snapshot) or _unreachable(snapshot, limits)
    if broken := _bypass(snapshot) or _unlike(snapshot):
        return broken
    if snapshot.now - snapshot.paused_at >= limits.pause_timeout_s:
        return f"not done {limits.pause_timeout_s:g} s after the write pause: {_waiting_for(snapshot, limits)}"
    return ""


def _unreachable(snapshot: PromoteSnapshot, limits: PromoteLimits) -> str:
    down = snapshot.unreachable_since
    if down is not None and snapshot.now - down >= limits.source_timeout_s:
        return f"the {snapshot.origin} was not reachable for {limits.source_timeout_s:g} s: {snapshot.source_error}"
    return ""


def _too_many_batches(snapshot: PromoteSnapshot) -> str:
    """Why the producers' last batches are too many to be stored under the write pause; '' when they are not."""
    batches = sum(topic.batches for topic in snapshot.topics)
    if batches <= snapshot.most_batches:
        return ""
    largest = max(snapshot.topics, key=lambda topic: topic.batches)
    few = "" if snapshot.most_batches >= MOST_BATCHES else " while a gateway of an older version is in the fleet"
    return (
        f"the last batches of producers that go along with the cutover are up to {batches:,}, and at most "
        f"{snapshot.most_batches:,} do{few} (five for each producer and partition; {largest.topic} has "
        f"{largest.batches:,}): promote fewer topics together, or have fewer producers write each partition; one that "
        "is silent for 15 minutes does not count any more"
    )


def _bypass(snapshot: PromoteSnapshot) -> str:
    """Direct writes: the source's end moved although no write of a gateway can have moved it.

    While outcomes are unknown, a transaction was open, or the source does not report its leaders' log ends, a first
    move may still be our own; then only the timeout ends a write pause under which the ends never come to rest.
    """
    unknown = snapshot.unknown_outcomes
    for topic in snapshot.topics:
        drain = topic.drain
        if drain is None or not topic.acknowledged(snapshot.gateways) or drain.first.asked < topic.acked_at:
            continue
        open_at_first = drain.first.open_transactions or drain.first.transactions
        ours_possible = unknown or drain.last.log_ends is None or open_at_first
        if drain.moved and not ours_possible:
            return _moves(topic.topic, drain, snapshot.origin)
        if topic.stopped and topic.positions != drain.last.ends:
            return (
                f"a producer that does not use the gateway wrote to {topic.topic} on the {snapshot.origin} under the "
                f"write pause: mirrored to {list(topic.positions)}, after the ends were read as {list(drain.last.ends)}"
            )
    return ""


def _moves(topic: str, drain: Drain, origin: str) -> str:
    moves = ", ".join(f"partition {p} from offset {old} to {new}" for p, old, new in drain.moved)
    return f"a producer that does not use the gateway wrote to {topic} on the {origin} under the write pause: {moves}"


def _unlike(snapshot: PromoteSnapshot) -> str:
    """A mirror that no longer runs here, or a copy that does not end where its mirror stood."""
    for topic in snapshot.topics:
        if topic.absent:
            return f"{_named(topic.topic, topic.absent)} not mirrored by this gateway any more"
        if topic.copy is None or topic.handed is None:
            continue
        for partition, (top, at) in enumerate(zip(topic.copy.log_end_offsets, topic.handed.copied, strict=True)):
            if top < at:
                what = f"ends at {top}, although its mirror had come to {at}: it lost records"
            elif top > at and partition in topic.copy.kept:
                continue
            elif top > at and snapshot.origin == "target":
                where = f"{topic.topic}, partition {partition}, on the source after the cutover"
                return f"{top - at} record(s) were written to {where}: {LATE_WRITES}"
            elif top > at:
                what = f"ends at {top}, its mirror stood at {at}: something else appended to it"
            else:
                continue
            return f"the copy of {topic.topic}, partition {partition}, {what}"
    return ""


def _named(topic: str, partitions: tuple[int, ...]) -> str:
    if len(partitions) == 1:
        return f"partition {partitions[0]} of {topic} is"
    return f"partitions {', '.join(map(str, partitions))} of {topic} are"


def _before_pause(snapshot: PromoteSnapshot, limits: PromoteLimits) -> PromoteStep:
    if snapshot.unreachable_since is not None:
        return PromoteStep(StepKind.WAIT, f"the {snapshot.origin} is not reachable: {snapshot.source_error}", WAIT_S)
    for topic in snapshot.topics:
        if topic.absent:
            return PromoteStep(
                StepKind.WAIT, f"{_named(topic.topic, topic.absent)} not mirrored by this gateway yet", WAIT_S
            )
        if topic.cold:
            return PromoteStep(StepKind.WAIT, _warming(topic), WAIT_S)
        if topic.lag is None:
            return PromoteStep(StepKind.WAIT, f"the lag of {topic.topic} is not known yet", WAIT_S)
        if topic.lag > limits.lag_threshold:
            return PromoteStep(StepKind.WAIT, f"a partition of {topic.topic} is {topic.lag} records behind", WAIT_S)
    if snapshot.schema_gate:
        return PromoteStep(StepKind.WAIT, snapshot.schema_gate, WAIT_S)
    if snapshot.lost:  # writes do not pause for the length of a lease
        return PromoteStep(StepKind.WAIT, snapshot.lost, WAIT_S)
    if snapshot.now < snapshot.earliest_pause:
        return PromoteStep(StepKind.WAIT, "writes of a gateway that has just stopped may still land", WAIT_S)
    return _last_before_pause(snapshot) or of_groups.before_pause(snapshot) or PromoteStep(StepKind.PAUSE_WRITES)


def _last_before_pause(snapshot: PromoteSnapshot) -> PromoteStep | None:
    """Reads that should be as recent as possible at the cutover, but take too long for the write pause."""
    if not snapshot.configs_read:
        error = snapshot.config_error
        what = f"the topic configs of the {snapshot.origin}{error and ': '}{error}"
        return PromoteStep(StepKind.READ_CONFIGS, what, WAIT_S if error else 0.0)
    if not snapshot.acls_synced:
        error = snapshot.acl_error
        what = f"the ACLs of the target{error and ': '}{error}"
        return PromoteStep(StepKind.SYNC_ACLS, what, WAIT_S if error else 0.0)
    return None


def _under_pause(snapshot: PromoteSnapshot, limits: PromoteLimits) -> PromoteStep:
    if not all(t.acknowledged(snapshot.gateways) for t in snapshot.topics):
        return PromoteStep(StepKind.PAUSE_WRITES, _waiting_for(snapshot, limits))
    if any(t.drain is None or t.drain.first.asked < t.acked_at for t in snapshot.topics):
        short = any(t.short is not None for t in snapshot.topics)
        return PromoteStep(
            StepKind.READ_ENDS,
            _waiting_for(snapshot, limits) if short else "the source's ends",
            WAIT_S if short else 0.0,
        )
    if any(_behind(t) or t.cold for t in snapshot.topics):
        return PromoteStep(StepKind.AWAIT_MIRROR, _waiting_for(snapshot, limits))
    grace_s = _grace_s(snapshot, limits)
    if not all(_quiet(t, grace_s) for t in snapshot.topics):
        return PromoteStep(StepKind.READ_ENDS, _waiting_for(snapshot, limits), _until_grace(snapshot, limits))
    if not all(t.stopped for t in snapshot.topics):
        return PromoteStep(StepKind.STOP_MIRROR)
    if not all(_is_read(t) for t in snapshot.topics):
        again = any(t.copy is not None for t in snapshot.topics)
        return PromoteStep(StepKind.READ_COPY, _waiting_for(snapshot, limits), LOOK_AGAIN_S if again else 0.0)
    if step := of_groups.under_pause(snapshot):
        return step
    return (
        PromoteStep(StepKind.RESUME_WRITES, REHEARSED) if snapshot.rehearses else PromoteStep(StepKind.PERSIST_STOPPED)
    )


def _is_read(topic: TopicSnapshot) -> bool:
    """The copy was read after its mirror was stopped, and is complete on all its in-sync replicas, at least two if it
    has two. From the cutover on it is the only copy."""
    return topic.copy is not None and topic.copy.ends == topic.copy.log_end_offsets and not topic.copy.thin


def _transaction(topic: str, reading: EndReading) -> str:
    """A wait for an incomplete transaction with the topic; '' for none."""
    if reading.open_transactions:
        return f"the end of a transaction that is open in {topic}, partition {reading.open_transactions[0]}"
    if not reading.transactions:
        return ""
    more = f" and {len(reading.transactions) - 1} more" if len(reading.transactions) > 1 else ""
    return f"the end of transaction {reading.transactions[0]!r}{more}, which has {topic}"


def _short(topic: str, partition: int, end: int, acked: int, origin: str) -> str:
    return (
        f"the leader of {topic}, partition {partition}, on the {origin}: a broker says that it ends at offset {end}, "
        f"but records up to {acked - 1} were acknowledged to clients, so another one leads it by now"
    )


def _mirror_waits(topic: TopicSnapshot) -> str:
    if topic.stopped and topic.copy is not None and topic.copy.thin:
        partition, in_sync, replicas = topic.copy.thin[0]
        return (
            f"the copy of {topic.topic}, partition {partition}: {in_sync} of its {replicas} replicas is in sync, and "
            "two are to have what nobody else will write again; look after its cluster's brokers, or reassign it"
        )
    if topic.stopped and not _is_read(topic):
        return f"the log ends of the copy of {topic.topic}"
    return _warming(topic) if topic.cold else ""


def _warming(topic: TopicSnapshot) -> str:
    return f"the last batches of the producers of {topic.topic}, partition {topic.cold[0]}, to be read"


def _behind(topic: TopicSnapshot) -> bool:
    drain = topic.drain
    if drain is None or len(topic.positions) != len(drain.last.ends):
        return True
    return any(at < end for at, end in zip(topic.positions, drain.last.ends, strict=True))


def _grace_s(snapshot: PromoteSnapshot, limits: PromoteLimits) -> float:
    return limits.unknown_grace_s if snapshot.unknown_outcomes else limits.grace_s


def _quiet(topic: TopicSnapshot, grace_s: float) -> bool:
    """True when the last reading shows a source at rest for that long, and a mirror at its end."""
    drain = topic.drain
    if drain is None or not drain.complete:
        return False
    return drain.last.stable and drain.stable_s >= grace_s


def _until_grace(snapshot: PromoteSnapshot, limits: PromoteLimits) -> float:
    """Seconds until the next reading can help: until the grace is over, if only that is missing."""
    drains = [topic.drain for topic in snapshot.topics if topic.drain is not None]
    if not all(drain.last.stable for drain in drains):
        return LOOK_AGAIN_S
    over = max(drain.since for drain in drains) + _grace_s(snapshot, limits)
    timeout = (snapshot.paused_at or snapshot.now) + limits.pause_timeout_s
    return max(0.0, min(over, timeout) + _ROUNDING_S - snapshot.now)


def _waiting_for(snapshot: PromoteSnapshot, limits: PromoteLimits) -> str:
    """What the last answers say. A missing answer has its own reason: the end of the pause may have cut it off."""
    told = _told(snapshot, limits)
    if not snapshot.source_error:
        return told or "the last steps"
    unanswered = f"no answer from a cluster: {snapshot.source_error}"
    return f"{unanswered}; before that, {told}" if told else unanswered


def _told(snapshot: PromoteSnapshot, limits: PromoteLimits) -> str:
    grace_s = _grace_s(snapshot, limits)
    for topic in snapshot.topics:
        if missing := topic.missing(snapshot.gateways):
            if topic.blocked_by:
                return f"{topic.topic}: {topic.blocked_by}"
            return f"writes to {topic.topic} still in flight at {', '.join(sorted(missing))}"
        if topic.short is not None:
            return _short(topic.topic, *topic.short, snapshot.origin)
        drain = topic.drain
        if waits := _mirror_waits(topic):
            return waits
        if drain is None or _quiet(topic, grace_s):
            continue
        if drain.moved:
            return (
                _moves(topic.topic, drain, snapshot.origin)
                if not snapshot.unknown_outcomes
                else f"{topic.topic} does not rest"
            )
        if waits := _transaction(topic.topic, drain.last):
            return waits
        pairs = list(zip(topic.positions, drain.last.log_end_offsets, strict=False))
        late = [f"partition {p} at {at} of {end}" for p, (at, end) in enumerate(pairs) if at != end]
        if late:
            return f"the mirror of {topic.topic}: {', '.join(late)}"
        return f"the ends of {topic.topic} to stand still"
    step = of_groups.under_pause(snapshot)
    return "" if step is None else step.reason
