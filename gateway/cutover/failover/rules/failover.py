"""Failover: from a snapshot to the next step. Pure; `cutover/failover/run.py` carries the steps out.

Theory of operation
-------------------
A failover moves a topic's writes to the target without waiting for the source, and counts the records that stay behind
there. Nothing is stored before the cutover::

    any mirror to the target
        --READ_SOURCE--> the source's log ends, as answered now or last seen
        [it answers: the producers' last batches are read, for a moment]
        --PAUSE_WRITES--> every live gateway has confirmed that its writes pause
        --DRAIN--> writes in flight to the source were answered, or timed out: then no answer is passed on any more
        --READ_LAST--> the source's ends once more, if it answers: what was written until the pause
        --STOP_MIRROR--> nothing appends to the copy any more
        --READ_COPY--> the copy's own log ends
        --PERSIST--> STOPPED                                            persisted: the point of no return
        --RELEASE--> writes that waited, and new ones, go to the target
        --RESTORE_CONFIGS, TELL_GROUPS--> DONE          writes of a LogAppendTime topic wait for the first of these

    before PERSIST, on any trouble: --TAKE_BACK--> DONE                 mirror and writes are as before

    a failback: --STOP_MIRROR, PERSIST--> STOPPED, RELEASE, DONE        the target is written already, and has all

Safety. A write goes to the target only when STOPPED is durable, and what STOPPED says is so:

* every live gateway has confirmed that its writes pause, so that no record after the cutover goes to the source, and
  before READ_LAST that no write is in flight, or that its answer is dropped (`proxy/produce/cutover_connections.py`): a
  gateway that has not heard of the cutover yet acknowledges nothing either;
* the mirror was stopped, and the copy's own log ends and offset map were read after that; no earlier position counts.
  The mirror is not stopped before appends in flight of a gateway that left have landed (the grace of a promote): the
  broker would accept them at any later log end, since their sequence is the next one of the mirror's producer id;
* there is such an answer for every partition. If the copy does not tell where one ends, it is asked again for a while,
  and then the failover is given up: it makes up no number;
* a retry is answered only for a batch that is on the copy by that answer: a batch that the mirror had fetched and not
  appended stays behind, and its producer's retry is the only copy that reaches the target. So the copy is read for a
  while until its high watermarks are its leaders' log ends, as at a promote: a batch above would be appended once more.
  A target that has lost replicas may never reach that; then the failover goes on, hands over no batch of that
  partition, and says that retries may be appended twice there (`MirrorCutover.retries_unknown`); it does the same where
  more batches are known than a cutover hands over (`too_many`);
* an unknown number of records on the source is stored as unknown (-1), never as 0. If the source did not answer under
  the pause, the numbers count what was last seen, and the record says that there may be more
  (`MirrorCutover.source_answered`). While the source answers, the number includes every acknowledged record, except
  those of a transaction that was open when the time of DRAIN was over, and ends on the source before its gateway sees
  the cutover.

While the outcome of PERSIST is unknown, writes stay paused and no promote begins (SETTLE). That has no bound of its
own: it ends when the target answers, or when another gateway leads, which knows.

Interruption. Only the record outlives the process: the former one, or STOPPED. Pauses at other gateways end with the
next leader's assignment, and the loops that watch STOPPED topics take the steps after the cutover:
`cutover/promote/records_after_cutover.py` for configs, the group monitor for groups.
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
"""In a record: an unknown number of records stayed behind."""
LOOK_AGAIN_S = 0.01
_TIME_OVER = "the time for an undo was over: the mirror back has ended, nothing is lost"
_SETTLE_AGAIN_S = 0.2
_READ_AGAIN_S = 0.1
_AT_ONCE: Final = 5_000  # batches of producers
_K = FailoverStepKind


def next_step(snapshot: FailoverSnapshot, limits: FailoverLimits) -> FailoverStep:
    """The next step.

    Raises:
        FailoverViolated: no run of these steps leads to this snapshot.
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
    if not snapshot.stopped and snapshot.now < snapshot.earliest_stop:  # also for a gateway that leaves under the pause
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
    """What to wait for: that the copy tells where it ends, and, for a while, that all its replicas have all of it."""
    if not _is_read(snapshot):
        return _unread(snapshot)
    above, since = _above(snapshot.copy or ()), snapshot.reading_since
    if not above or (since is not None and snapshot.now - since >= limits.copy_s):
        return ""
    where = ", ".join(map(str, above))
    return f"all replicas to have what the log of the copy of '{snapshot.record.mirror_topic}' holds, partition {where}"


def _above(copy: Sequence[CopyEnd | None]) -> tuple[int, ...]:
    """The partitions whose log extends above the high watermark."""
    return tuple(at for at, one in enumerate(copy) if one is not None and one.above)


def _unread(snapshot: FailoverSnapshot) -> str:
    """The partitions of the copy whose end is unknown, and why."""
    topic, partitions, copy = snapshot.record.mirror_topic, len(snapshot.record.starts), snapshot.copy or ()
    missing = [at for at in range(partitions) if at >= len(copy) or copy[at] is None]
    where = "its partitions" if len(missing) == partitions else f"partition {', '.join(map(str, missing))}"
    error = f" ({snapshot.copy_error})" if snapshot.copy_error else ""
    return f"where the copy of '{topic}' ends, {where}{error}"


# -- the records of a failover ---------------------------------------------------------------------------------


def left_behind(ends: Sequence[int | None], copy: Sequence[CopyEnd]) -> tuple[int, ...]:
    """Per partition, how many records the source has beyond the copy; UNKNOWN if its end was never seen.

    An end below the mirrored position is stale, and counts as not seen.
    """
    pairs = zip(ends, copy, strict=True)
    return tuple(end - at.mirrored_to if end is not None and end >= at.mirrored_to else UNKNOWN for end, at in pairs)


def handed_on(
    known: KnownProducers, copy: Sequence[CopyEnd], most: int = MOST_BATCHES
) -> tuple[Producers, tuple[int, ...]]:
    """Per partition, the batches whose retry is answered after the cutover; and the partitions where a retry may be
    appended twice.

    The mirror knows a batch once it has fetched it, and that batch may have stayed behind: only batches entirely below
    the copy's end are on it. Where that is unknown, no retry is answered: a duplicate is better than a loss.
    """
    missing = tuple(sorted({*known.missing, *_above(copy), *too_many(known, most)}))
    pairs = enumerate(zip(known.tables, copy, strict=True))
    tables = (
        PackedProducers.later(partial(_on_the_copy, table, end), 0 if at in missing else len(table))
        for at, (table, end) in pairs
    )
    return tuple(tables), missing


def too_many(known: KnownProducers, most: int = MOST_BATCHES) -> tuple[int, ...]:
    """The partitions whose producer batches are not handed over because all of them would be too many: those with the
    most. That never refuses a failover: it cannot wait until there are fewer."""
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
        most: how many producer batches to hand over at most.
        copy: the copy's end, for every partition.
        source: its log ends, and whether it answered under the pause.
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
    """The record once its failback is given up. Nothing is lost: the target has every record.

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
