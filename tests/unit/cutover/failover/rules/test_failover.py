"""The failover of a topic: its steps one by one, and every way in which it can be interrupted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.cutover.failover.rules import failover
from gateway.cutover.failover.rules.checks import FailoverViolated, check_invariants, check_step
from gateway.cutover.failover.rules.failover import (
    failback_ended,
    failed_over,
    handed_on,
    left_behind,
    next_step,
    too_many,
    why_not,
)
from gateway.cutover.failover.rules.memory import FailoverMemory
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
from gateway.cutover.write_pause.rules.routing import WritePhase
from gateway.state.mirror_states import WrongState
from gateway.state.producer_entries import PackedProducers
from gateway.state.records import MirrorDirection, MirrorMode, MirrorRecord, MirrorState, ProducerEntry
from tests.support.models.failover_model import World, back, forward
from tests.support.models.search import Violation, explore

K, S = FailoverStepKind, MirrorState
LIMITS = FailoverLimits()
BOTH = frozenset({"a", "b"})
DOWN = SourceReading((None,), answered=False)
UP = SourceReading((105,), answered=True)


def snapshot(**known: object) -> FailoverSnapshot:
    values = {"now": 100.0, "record": forward(), "phase": WritePhase.FORWARD, "gateways": BOTH} | known
    return FailoverSnapshot(**values)  # type: ignore[arg-type]


def paused(**known: object) -> FailoverSnapshot:
    """Writes are paused everywhere, and nothing is in flight; the source does not answer."""
    values = {"phase": WritePhase.PAUSED, "source": DOWN, "paused_since": 99.0, "paused": BOTH, "drained": BOTH} | known
    return snapshot(**values)


def storable(**known: object) -> FailoverSnapshot:
    values = {"stopped": True, "producers": KnownProducers(((),), ()), "copy": (CopyEnd(90, 80),)} | known
    return paused(**values)


def decide(known: FailoverSnapshot) -> FailoverStep:
    return next_step(known, LIMITS)


@pytest.mark.parametrize(
    ("known", "kind"),
    [
        (snapshot(), K.READ_SOURCE),
        (snapshot(source=DOWN), K.PAUSE_WRITES),
        (snapshot(source=DOWN, cold=(0,), warming_since=100.0), K.PAUSE_WRITES),  # nothing more is read from it
        (snapshot(source=UP, cold=(0,), warming_since=98.0), K.WAIT),
        (snapshot(source=UP, cold=(0,), warming_since=97.0), K.PAUSE_WRITES),  # a failover cannot wait for ever
        (snapshot(source=UP), K.PAUSE_WRITES),
        (paused(paused=frozenset({"a"})), K.PAUSE_WRITES),
        (paused(drained=frozenset()), K.DRAIN),
        (paused(source=UP), K.READ_LAST),
        (paused(source=UP, last=DOWN), K.STOP_MIRROR),
        (paused(), K.STOP_MIRROR),
        (snapshot(source=DOWN, earliest_stop=100.5), K.WAIT),
        (paused(earliest_stop=100.5), K.WAIT),  # a gateway has gone under the pause
        (paused(earliest_stop=100.0), K.STOP_MIRROR),
        (storable(earliest_stop=100.5), K.PERSIST),  # all have acknowledged the pause, and append nothing more
        (storable(copy=None), K.READ_COPY),
        (storable(copy=(None,), reading_since=99.0), K.READ_COPY),
        (storable(copy=(), reading_since=99.0), K.READ_COPY),
        (storable(copy=None, reading_since=95.0), K.TAKE_BACK),
        (storable(copy=(CopyEnd(90, 80, above=2),), reading_since=96.0), K.READ_COPY),
        (storable(copy=(CopyEnd(90, 80, above=2),), reading_since=95.0), K.PERSIST),  # a failover cannot wait for ever
        (storable(), K.PERSIST),
        (storable(storing_since=96.0), K.PERSIST),
        (storable(storing_since=95.0), K.TAKE_BACK),
        (storable(committing=True), K.SETTLE),
        (storable(committing=True, gave_up="no"), K.SETTLE),  # first it must be known
        (storable(gave_up="no"), K.TAKE_BACK),
        (snapshot(gave_up="no"), K.DONE),
        (snapshot(gave_up="no", taken_back=True, stopped=True, paused_since=99.0), K.DONE),
        (snapshot(record=replace(forward(), readable=False)), K.DONE),
        (snapshot(record=replace(forward(), created=False)), K.DONE),
        (snapshot(record=forward(S.FAILED)), K.READ_SOURCE),
        (storable(record=forward(S.STOPPED)), K.RELEASE),
        (storable(record=forward(S.STOPPED), gave_up="too late"), K.RELEASE),
        (snapshot(record=forward(S.STOPPED), phase=WritePhase.SWITCHED, released=True), K.RESTORE_CONFIGS),
        (snapshot(record=forward(S.STOPPED), phase=WritePhase.SWITCHED, released=True, restored=True), K.TELL_GROUPS),
        (
            snapshot(record=forward(S.STOPPED), phase=WritePhase.SWITCHED, released=True, restored=True, told=True),
            K.DONE,
        ),
        (snapshot(record=back(), phase=WritePhase.SWITCHED, on_target=True), K.STOP_MIRROR),
        (snapshot(record=back(), phase=WritePhase.SWITCHED, on_target=True, stopped=True), K.PERSIST),
        (snapshot(record=back(S.STOPPED), phase=WritePhase.SWITCHED, on_target=True, released=True), K.DONE),
        (snapshot(record=back(), phase=WritePhase.SWITCHED), K.DONE),  # it has changed sides
    ],
)
def test_steps(known: FailoverSnapshot, kind: FailoverStepKind) -> None:
    assert decide(known).kind is kind


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        (snapshot(source=UP, cold=(3,), warming_since=100.0), "producers of t, partition 3"),
        (paused(paused=frozenset({"a"})), "gateways to pause their writes: b"),
        (storable(copy=(None,), copy_error="connection refused"), "the copy of 't' ends, its partitions (connection"),
        (paused(earliest_stop=100.5), "a gateway that has just stopped may still land"),
        (
            storable(copy=(CopyEnd(90, 80, above=2),), reading_since=96.0),
            "all replicas to have what the log of the copy of 't' holds, partition 0",
        ),
        (storable(copy=None, reading_since=95.0), "not known after 5 s: where the copy of 't' ends"),
        (storable(committing=True), "whether the failover is stored is not known"),
        (storable(storing_since=1.0), "is being changed by other operations"),
        (snapshot(record=replace(forward(), readable=False)), "does not hold a record yet"),
        (snapshot(record=back(), phase=WritePhase.SWITCHED), "has changed sides"),
    ],
)
def test_what_is_waited_for_and_why_it_ends_is_said(known: FailoverSnapshot, reason: str) -> None:
    assert reason in decide(known).reason


def test_every_step_that_asks_somebody_says_how_long_it_may_take() -> None:
    for known in (snapshot(source=DOWN), paused(drained=frozenset()), paused(), storable(copy=None)):
        assert decide(known).limit_s > 0


def test_one_partition_without_an_answer_is_named() -> None:
    three = replace(forward(), starts=forward().starts * 3)
    step = decide(storable(record=three, copy=(CopyEnd(1, 1), None, CopyEnd(1, 1)), producers=None))
    assert step.reason == "where the copy of 't' ends, partition 1"


@pytest.mark.parametrize(
    ("wrong", "missing"),
    [
        ({"stopped": False}, "a stopped mirror"),
        ({"paused": frozenset({"a"})}, r"every gateway that its writes are paused \(b\)"),
        ({"drained": frozenset({"a"})}, r"every gateway that it passes no answer of the source on \(b\)"),
        ({"phase": WritePhase.FORWARD, "stopped": True}, "paused here"),
        ({"source": None}, "log ends, known or not"),
        ({"source": UP}, "read under the pause"),
        ({"producers": None}, "producers of every partition"),
        ({"copy": None}, "end of every partition of the copy"),
        ({"copy": ()}, "end of every partition of the copy"),
        ({"copy": (None,)}, "end of every partition of the copy"),
        ({"gave_up": "no"}, "still to be made"),
        ({"record": back()}, "to the target, as it was"),
        ({"record": replace(forward(), readable=False)}, "holds a record"),
    ],
)
def test_no_cutover_without(wrong: dict[str, object], missing: str) -> None:
    with pytest.raises(FailoverViolated, match=missing):
        check_step(replace(storable(), **wrong), FailoverStep(K.PERSIST))  # type: ignore[arg-type]
    check_step(storable(), FailoverStep(K.PERSIST))


def test_what_must_not_be() -> None:
    for wrong in (
        snapshot(phase=WritePhase.SWITCHED),
        snapshot(phase=WritePhase.FORWARD, record=forward(S.STOPPED)),
        storable(phase=WritePhase.FORWARD),
        snapshot(committing=True),
    ):
        with pytest.raises(FailoverViolated):
            check_invariants(wrong)
    with pytest.raises(FailoverViolated, match="may land"):
        check_step(paused(earliest_stop=100.5), FailoverStep(K.STOP_MIRROR))
    for kind in (K.RELEASE, K.RESTORE_CONFIGS, K.TELL_GROUPS):
        with pytest.raises(FailoverViolated):
            check_step(storable(), FailoverStep(kind))
    for known in (storable(committing=True), storable(record=forward(S.STOPPED))):
        with pytest.raises(FailoverViolated):
            check_step(known, FailoverStep(K.TAKE_BACK))


# -- what is stored --------------------------------------------------------------------------------------------


def test_what_is_not_known_of_the_source_is_stored_as_not_known() -> None:
    copy = [CopyEnd(90, 80)] * 4
    assert left_behind([100, None, 90, 40], copy) == (10, -1, 0, -1)  # an end below the copy was never really seen


def test_the_record_of_the_cutover() -> None:
    record = failed_over(
        forward(S.FAILED), [CopyEnd(90, 80)], SourceReading((95,), answered=False), KnownProducers(((),), (0,)), 7, 1234
    )
    assert (record.state, record.state_since_ms, record.cutover.at_ms, record.cutover.pause_epoch) == (
        S.STOPPED,
        1234,
        1234,
        7,
    )
    assert (record.cutover.stopped_at, record.cutover.stopped_copy_at, record.cutover.not_mirrored) == (
        (90,),
        (80,),
        (5,),
    )
    assert record.mode is MirrorMode.TRANSLATE, "both ends differ, whatever the record said before"
    assert record.cutover.retries_unknown == (0,)
    assert not record.cutover.source_answered
    with pytest.raises(ValueError, match="zip"):
        failed_over(
            forward(), [CopyEnd(90, 80)], SourceReading((95, 96), answered=True), KnownProducers(((),), ()), 7, 1
        )
    with pytest.raises(WrongState, match="STOPPED already"):
        failed_over(record, [CopyEnd(90, 80)], SourceReading((95,), answered=False), KnownProducers(((),), ()), 8, 1)


def test_only_batches_that_are_on_the_copy_are_handed_over() -> None:
    """By the source's offsets: those on the copy end where its map does."""
    copied, half, queued = (KnownBatch(ProducerEntry(7, 0, first, first + 4, 80), first + 5) for first in (85, 88, 95))
    table = (copied, half, queued)
    known = KnownProducers((table, table, table), (1,))
    copy = [CopyEnd(90, 80), CopyEnd(90, 80), CopyEnd(90, 80, above=1)]
    assert handed_on(known, copy) == (((copied.entry,), (), ()), (1, 2))


def test_more_batches_than_a_cutover_takes_do_not_go_along() -> None:
    """It is not refused, as a promote is: who fails over cannot wait. Whose retries are unknown then is said."""
    few, many = (tuple(KnownBatch(ProducerEntry(7 + at, 0, 0, 4, 80), 5) for at in range(count)) for count in (2, 6))
    known = KnownProducers((few, many, few), ())
    copy = [CopyEnd(90, 80)] * 3
    assert too_many(known, 10) == ()
    assert too_many(known, 9) == (1,)
    tables, missing = handed_on(known, copy, 9)
    assert [len(table) for table in tables] == [2, 0, 2]
    assert missing == (1,)


def test_many_batches_are_filtered_piece_by_piece() -> None:
    entries = [ProducerEntry(at, 0, 0, 0, at) for at in range(12_000)]
    table = KnownBatches(PackedProducers.of(entries), range(12_000))
    (handed,), _ = handed_on(KnownProducers((table,), ()), [CopyEnd(11_000, 80)])
    assert isinstance(handed, PackedProducers)
    assert len(list(handed.work_out())) == 3
    assert list(handed) == entries[:11_001]
    assert list(handed.work_out()) == []


def test_the_record_of_a_failback_that_was_ended() -> None:
    record = failback_ended(back(), 5)
    assert (record.state, record.failback.direction, record.cutover.not_mirrored) == (
        S.STOPPED,
        MirrorDirection.FORWARD,
        (),
    )
    assert record.cutover.stopped_at == (100,)


def test_what_cannot_be_failed_over_yet() -> None:
    assert not why_not(forward())
    assert not why_not(replace(back(), readable=False))
    assert "does not hold a record yet" in why_not(replace(forward(), readable=False))


def test_the_highest_end_that_was_seen_counts() -> None:
    memory = FailoverMemory(forward())
    memory.source_read(SourceReading((5, None, None, 9), answered=True), 1.0)
    memory.pause_began(2.0)
    memory.source_read(SourceReading((7, None, 3, None), answered=False), 3.0)
    assert memory.reading() == ((7, None, 3, 9), False)


def test_only_what_was_read_under_the_pause_is_the_sources_own_word() -> None:
    memory = FailoverMemory(forward())
    memory.source_read(SourceReading((5,), answered=True), 1.0)
    assert not memory.reading().answered, "more may have been acknowledged since"
    memory.pause_began(2.0)
    memory.source_read(SourceReading((7,), answered=True), 3.0)
    assert memory.reading() == ((7,), True)


# -- every interruption ----------------------------------------------------------------------------------------

_STATES = [S.ACTIVE, S.PAUSED, S.SOURCE_UNAVAILABLE, S.FAILED]


@pytest.mark.parametrize("began", [*map(forward, _STATES), back(), back(S.PENDING_MIRROR), back(S.FAILED)])
def test_whatever_is_interrupted_where_it_is_cut_over_or_as_before(began: MirrorRecord) -> None:
    ended, steps, states = explore(World(began))
    assert "cut_over" in ended
    assert {K.PERSIST, K.SETTLE, K.RELEASE, K.TAKE_BACK} <= steps
    assert states > 50


def test_every_step_is_met() -> None:
    _, steps, _ = explore(World(forward(), gateways=1, faults=2))
    assert steps == set(K) - {K.WAIT}  # which is for what a mirror knows of producers


@pytest.mark.parametrize(
    "kind",
    [K.READ_SOURCE, K.PAUSE_WRITES, K.DRAIN, K.READ_LAST, K.STOP_MIRROR, K.READ_COPY, K.PERSIST],
)
@pytest.mark.parametrize("taken", [False, True], ids=["before", "after"])
def test_a_run_that_is_killed_at_a_step_is_taken_up_by_the_next(kind: FailoverStepKind, taken: bool) -> None:
    world = World(forward(), faults=1)
    while world.step().kind is not kind:
        world.happen("step")
    if taken:
        world.happen("step")
    world.happen("killed")
    assert world.ended == ("cut_over" if taken and kind is K.PERSIST else "")
    while not world.ended:
        world.happen("step")
    assert world.ended == "cut_over"


@settings(max_examples=300, deadline=None)
@given(data=st.data(), began=st.sampled_from([*map(forward, _STATES), back()]))
def test_random_interleavings(data: st.DataObject, began: MirrorRecord) -> None:
    """More gateways, writes and faults than can be gone through one by one."""
    world = World(began, gateways=3, writes=6, faults=8)
    for _ in range(80):
        events = sorted(world.events())
        if not events:
            break
        world.happen(data.draw(st.sampled_from(events)))
    world.faults = 0
    for _ in range(40):
        if world.ended:
            break
        world.happen("step")
    assert world.ended


# -- each rule is needed ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        ("the pause", "a gateway writes to the source behind the cutover"),
        ("the last reading", "said that it did not answer"),
        ("the stop", "the mirror runs behind the cutover"),
        ("settling", "behind the cutover"),
    ],
)
def test_without_a_rule_there_is_a_counterexample(monkeypatch: pytest.MonkeyPatch, rule: str, found: str) -> None:
    """The second opinion is left out too: it would refuse."""
    monkeypatch.setattr(failover, "check_step", lambda known, step: None)
    monkeypatch.setattr(failover, "check_invariants", lambda known: None)
    decide_as_shipped = failover._decide

    def decide(known: FailoverSnapshot, limits: FailoverLimits) -> FailoverStep:
        if rule == "the pause" and known.paused_since is not None:
            known = replace(known, paused=known.gateways)
        if rule == "the last reading" and known.source is not None:
            known = replace(known, source=known.source._replace(answered=False))
        if rule == "the stop" and not known.stopped:
            known = replace(known, stopped=True)
        if rule == "settling":
            known = replace(known, committing=False)
        return decide_as_shipped(known, limits)

    monkeypatch.setattr(failover, "_decide", decide)
    monkeypatch.setattr(World, "_do_pause_writes", _pause_here_only if rule == "the pause" else World._do_pause_writes)
    with pytest.raises((Violation, AssertionError), match=found):
        explore(World(forward(), faults=2))


def _pause_here_only(world: World, _: FailoverStep) -> None:
    world._begin_pause()
    world.memory.paused(["0"])
