"""Failover: from what is known now to the next step. Pure; `cutover/failover/run.py` carries the steps out.

Theory of operation
-------------------
A failover moves the place where a topic is written to the target without waiting for the source, and says in numbers
what stays behind there. Nothing is stored before the cutover::

    any mirror to the target
        --READ_SOURCE--> where the source's logs end, as far as it says or anybody has seen
        [it answers: the producers' last batches are read, for a moment]
        --PAUSE_WRITES--> every live gateway said that its writes pause
        --DRAIN--> what is in flight to the source was answered, or had its time: then no answer is passed on any more
        --READ_LAST--> the source's ends once more, if it answers: what was written until the pause
        --STOP_MIRROR--> nothing appends to the copy any more
        --READ_COPY--> where the copy itself says that it ends
        --PERSIST--> STOPPED                                            persisted: the point of no return
        --RELEASE--> writes that waited, and new ones, go to the target
        --RESTORE_CONFIGS, TELL_GROUPS--> DONE          writes of a LogAppendTime topic wait for the first of these

    before PERSIST, on any trouble: --TAKE_BACK--> DONE                 mirror and writes are as before

    a failback: --STOP_MIRROR, PERSIST--> STOPPED, RELEASE, DONE        the target is written already, and has all

Safety. A write goes to the target only when STOPPED is durable, and what STOPPED says is so:

* every live gateway said that its writes pause, so that none goes to the source for a record behind the cutover, and
  before READ_LAST that nothing is in flight, or that it is not acknowledged any more
  (`proxy/produce/cutover_connections.py`): a gateway that has not heard of the cutover yet acknowledges nothing either;
* the mirror was stopped, and the copy read after that: its own log ends, and offset map, and no position of before.
  It is not stopped before what a gateway that has gone had in flight to the copy has landed (the grace that a promote
  waits for): it would be taken at any log end, since its sequence is the next one of the mirror's producer id;
* of every partition there is such an answer. A copy that does not say of one where it ends is asked again for a while,
  and ends the failover then: no number is made up for it;
* a retry is answered only for a batch that is on the copy by that answer: what the mirror had fetched and not appended
  stays behind, and its producer's retry is the only copy of it that goes on. So the copy is asked for a while until its
  high watermarks are its leaders' log ends, as at a promote: a batch above would be appended once more. A target that
  has lost replicas may never come to that; then the failover goes on, knows no batch of that partition, and says that
  retries may come twice there (`MirrorCutover.retries_unknown`); so it does where more batches are known than a
  cutover takes along (`too_many`);
* what of the source is not known is stored as not known (-1), and never as 0. Of a source that did not answer under
  the pause the numbers are those of what was seen of it, and it is stored that there may be more
  (`MirrorCutover.source_answered`). While the source answers, the number has every record that was acknowledged, but
  for those of a transaction that was open when the time of DRAIN was over, and ends on the source before its gateway
  sees the cutover.

Once PERSIST was tried, and whether it is stored is not known, writes stay paused and no promote begins until it is
(SETTLE). That has no bound of its own: it ends when the target answers, or another gateway leads, which knows.

Interruption. Nothing but the record outlives the process, and it is the record of before, or STOPPED. Pauses at other
gateways end with the next leader's assignment, and what follows the cutover is done by those that look after STOPPED
topics: `cutover/promote/records_after_cutover.py` for configs, the group monitor for groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, islice
from typing import Final

from gateway.cutover.failback.rules.failback_promote import Producers, handed_over, mode_at
from gateway.cutover.failover.rules.checks import check_invariants, check_step
from gateway.cutover.failover.rules.snapshot import (
    CopyEnd,
    FailoverLimits,
    FailoverSnapshot,
    FailoverStep,
    FailoverStepKind,
    KnownBatch,
    KnownBatches,
    KnownProducers,
    SourceReading,
)
from gateway.cutover.write_pause.rules.routing_build import written_on_target
from gateway.kafka.rules.topic_configs import stamps_itself
from gateway.mirror.offset_map.rules.periods import at_its_end
from gateway.state.mirror_states import MirrorOperation, apply
from gateway.state.producer_entries import PackedProducers
from gateway.state.producer_tables import MOST_BATCHES, ProducerTables
from gateway.state.records import MirrorCutover, MirrorError, MirrorRecord, MirrorState, Undo

UNKNOWN = -1
"""In a record: how many records stayed behind is not known."""
LOOK_AGAIN_S = 0.01
_TIME_OVER = "the time for an undo was over: the mirror back has ended, nothing is lost"
_SETTLE_AGAIN_S = 0.2
_READ_AGAIN_S = 0.1
_AT_ONCE: Final = 5_000  # batches of producers
_K = FailoverStepKind


def next_step(snapshot: FailoverSnapshot, limits: FailoverLimits) -> FailoverStep:
    """The one thing to do now.

    Raises:
        FailoverViolated: the snapshot is one that no run of these steps leads to.
    """
    check_invariants(snapshot)
    step = _decide(snapshot, limits)
    check_step(snapshot, step)
    return step


def why_not(record: MirrorRecord) -> str:
    """Why the topic cannot be failed over although its state allows it; '' when it can."""
    if written_on_target(record) or (record.readable and record.created):
        return ""
    return f"mirror topic '{record.mirror_topic}' does not hold a record yet: there is nothing to fail over to"


def _decide(snapshot: FailoverSnapshot, limits: FailoverLimits) -> FailoverStep:
    if snapshot.committing:
        what = "whether the failover is stored is not known: the target does not answer; writes are paused until it is"
        return FailoverStep(_K.SETTLE, what, _SETTLE_AGAIN_S)
    if snapshot.record.state is MirrorState.STOPPED:
        return _after_cutover(snapshot)
    if trouble := _trouble(snapshot, limits):
        begun = snapshot.paused_since is not None or snapshot.stopped
        return FailoverStep(_K.TAKE_BACK if begun and not snapshot.taken_back else _K.DONE, trouble)
    if not snapshot.on_target and (step := _before_pause(snapshot, limits) or _under_pause(snapshot, limits)):
        return step
    if not snapshot.stopped:
        return FailoverStep(_K.STOP_MIRROR, "the mirror's appends to be answered", limit_s=limits.stop_s)
    if not snapshot.on_target and (waits := _copy_waits(snapshot, limits)):
        again = _READ_AGAIN_S if snapshot.reading_since is not None else 0.0
        return FailoverStep(_K.READ_COPY, waits, again, limits.copy_s)
    return FailoverStep(
        _K.PERSIST, "the cutover to be stored", LOOK_AGAIN_S if snapshot.storing_since is not None else 0.0
    )


def _after_cutover(snapshot: FailoverSnapshot) -> FailoverStep:
    if not snapshot.released:
        return FailoverStep(_K.RELEASE)
    if snapshot.on_target:
        return FailoverStep(_K.DONE)
    if not snapshot.restored:
        return FailoverStep(_K.RESTORE_CONFIGS, "the configs of the target's topic")
    if not snapshot.told:
        return FailoverStep(_K.TELL_GROUPS, "the groups that read the topic")
    return FailoverStep(_K.DONE)


def _trouble(snapshot: FailoverSnapshot, limits: FailoverLimits) -> str:
    """Why the failover must be given up, or ''."""
    record, now = snapshot.record, snapshot.now
    if snapshot.gave_up:
        return snapshot.gave_up
    if written_on_target(record) != snapshot.on_target:
        return f"mirror topic '{record.mirror_topic}' has changed sides meanwhile; look at it, and try again"
    if refused := why_not(record):
        return refused
    if snapshot.stopped and not snapshot.on_target and not _is_read(snapshot):
        since = snapshot.reading_since
        if since is not None and now - since >= limits.copy_s:
            return f"not known after {limits.copy_s:g} s: {_unread(snapshot)}; try again"
    since = snapshot.storing_since
    if since is not None and now - since >= limits.store_s:
        return f"mirror topic '{record.mirror_topic}' is being changed by other operations; try again"
    return ""


def _before_pause(snapshot: FailoverSnapshot, limits: FailoverLimits) -> FailoverStep | None:
    if snapshot.source is None:
        return FailoverStep(_K.READ_SOURCE, "the log ends of the source")
    since = snapshot.warming_since
    warms = snapshot.paused_since is None and snapshot.source.answered and snapshot.cold
    if warms and since is not None and snapshot.now - since < limits.warm_s:
        where = f"{snapshot.record.mirror_topic}, partition {snapshot.cold[0]}"
        return FailoverStep(_K.WAIT, f"the last batches of the producers of {where}, to be read", LOOK_AGAIN_S)
    if not snapshot.stopped and snapshot.now < snapshot.earliest_stop:  # also of one that goes under the pause
        return FailoverStep(_K.WAIT, "appends of a gateway that has just stopped may still land", LOOK_AGAIN_S)
    return None


def _under_pause(snapshot: FailoverSnapshot, limits: FailoverLimits) -> FailoverStep | None:
    if snapshot.paused_since is None or (missing := snapshot.gateways - snapshot.paused):
        asked = snapshot.gateways if snapshot.paused_since is None else missing
        reason = f"gateways to pause their writes: {', '.join(sorted(asked))}"
        return FailoverStep(_K.PAUSE_WRITES, reason, limit_s=limits.pause_s)
    if snapshot.gateways - snapshot.drained:
        return FailoverStep(_K.DRAIN, "what is in flight to the source to be answered", limit_s=limits.drain_s)
    if snapshot.source is not None and snapshot.source.answered and snapshot.last is None:
        return FailoverStep(_K.READ_LAST, "the log ends of the source, once more")
    return None


def _is_read(snapshot: FailoverSnapshot) -> bool:
    copy = snapshot.copy
    return copy is not None and len(copy) == len(snapshot.record.starts) and None not in copy


def _copy_waits(snapshot: FailoverSnapshot, limits: FailoverLimits) -> str:
    """What of the copy is waited for: that it says where it ends, and, for a while, that all of it is on all of its
    replicas."""
    if not _is_read(snapshot):
        return _unread(snapshot)
    above, since = _above(snapshot.copy or ()), snapshot.reading_since
    if not above or (since is not None and snapshot.now - since >= limits.copy_s):
        return ""
    where = ", ".join(map(str, above))
    return f"all replicas to have what the log of the copy of '{snapshot.record.mirror_topic}' holds, partition {where}"


def _above(copy: Sequence[CopyEnd | None]) -> tuple[int, ...]:
    """The partitions whose log goes on above the high watermark."""
    return tuple(at for at, one in enumerate(copy) if one is not None and one.above)


def _unread(snapshot: FailoverSnapshot) -> str:
    """What of the copy is not known."""
    topic, partitions, copy = snapshot.record.mirror_topic, len(snapshot.record.starts), snapshot.copy or ()
    missing = [at for at in range(partitions) if at >= len(copy) or copy[at] is None]
    where = "its partitions" if len(missing) == partitions else f"partition {', '.join(map(str, missing))}"
    error = f" ({snapshot.copy_error})" if snapshot.copy_error else ""
    return f"where the copy of '{topic}' ends, {where}{error}"


# -- the records of a failover ---------------------------------------------------------------------------------


def left_behind(ends: Sequence[int | None], copy: Sequence[CopyEnd]) -> tuple[int, ...]:
    """Per partition the records on the source beyond what is on the copy; UNKNOWN where nobody has seen the end.

    An end below what was mirrored was never really seen.
    """
    pairs = zip(ends, copy, strict=True)
    return tuple(end - at.mirrored_to if end is not None and end >= at.mirrored_to else UNKNOWN for end, at in pairs)


def handed_on(
    known: KnownProducers, copy: Sequence[CopyEnd], most: int = MOST_BATCHES
) -> tuple[Producers, tuple[int, ...]]:
    """Per partition the batches whose retry is answered after the cutover, and where a retry may be appended once more.

    The mirror knows a batch when it has fetched it, and that may have stayed behind: on the copy is what lies below its
    end as a whole. Where that is not known, no retry is answered: twice is better than never.
    """
    missing = tuple(sorted({*known.missing, *_above(copy), *too_many(known, most)}))
    pairs = enumerate(zip(known.tables, copy, strict=True))
    tables = (
        PackedProducers.later(partial(_on_the_copy, table, end), 0 if at in missing else len(table))
        for at, (table, end) in pairs
    )
    return tuple(tables), missing


def too_many(known: KnownProducers, most: int = MOST_BATCHES) -> tuple[int, ...]:
    """The partitions whose producers' batches do not go along, since all of them would be more than a cutover takes:
    those that have the most. A failover is never refused for that: who needs one cannot wait until there are fewer."""
    sizes = sorted((len(table), at) for at, table in enumerate(known.tables) if at not in known.missing)
    sums = accumulate(size for size, _ in sizes)
    return tuple(sorted(at for total, (_, at) in zip(sums, sizes, strict=True) if total > most))


def _on_the_copy(table: Sequence[KnownBatch], end: CopyEnd) -> Iterator[bytes]:
    if isinstance(table, KnownBatches):
        for _ in table.batches.work_out():
            yield b""
    batches = iter(table)
    while some := tuple(islice(batches, _AT_ONCE)):
        yield PackedProducers.of(one.entry for one in some if one.following <= end.mirrored_to).rows


def failed_over(
    record: MirrorRecord,
    copy: Sequence[CopyEnd],
    source: SourceReading,
    producers: KnownProducers,
    epoch: int,
    now_ms: int,
    most: int = MOST_BATCHES,
) -> MirrorRecord:
    """The record of the cutover.

    Args:
        most: batches of producers that go along.
        copy: where it ends, of every partition.
        source: where its logs end, and whether it said so under the pause.
        epoch: of the write pause.

    Raises:
        WrongState, WrongLength, ValueError: the record, or one of the lists, does not allow it.
    """
    tables, missing = handed_on(producers, copy, most)
    mirrored, copied = tuple(end.mirrored_to for end in copy), tuple(end.copy_end for end in copy)
    mode, reason = mode_at(record, mirrored, copied, "failover")
    return apply(
        MirrorOperation.FAILOVER,
        record,
        now_ms,
        mode=mode,
        mode_reason=reason,
        cutover=MirrorCutover(
            pause_epoch=epoch,
            at_ms=now_ms,
            producers=ProducerTables(handed_over(record, tables)),
            stopped_at=mirrored,
            stopped_copy_at=copied,
            not_mirrored=left_behind(source.ends, copy),
            source_answered=source.answered,
            retries_unknown=missing,
            unstamped=stamps_itself(record.restore_configs),
        ),
        error=MirrorError.NO_ERROR,
        error_message="",
    )


def failback_ended(record: MirrorRecord, now_ms: int) -> MirrorRecord:
    """The record once its failback is given up. Nothing is lost: the target has all.

    Raises:
        WrongState, WrongLength: the record does not allow it.
    """
    ended = at_its_end(record)
    return apply(
        MirrorOperation.FAILOVER,
        ended,
        now_ms,
        cutover=replace(ended.cutover, not_mirrored=(), source_answered=False),
        failback=replace(ended.failback, then_pause=False, recreate={}),
        restore_configs={},
        error=MirrorError.NO_ERROR,
        error_message=_TIME_OVER if record.cutover.undo is Undo.OVER else "the failback was ended by a failover",
    )
