"""Decisions of the failbacks: step by step, and in every order of interruptions against a small world."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.cutover.failback.rules.checks import check_step
from gateway.cutover.failback.rules.failback import next_step, records_after_cutover, why_not_reversed
from gateway.cutover.failback.rules.snapshot import (
    FailbackDestination,
    FailbackSnapshot,
    FailbackStep,
    FailbackStepKind,
    FailbackViolated,
)
from gateway.cutover.write_pause.rules.routing import WritePhase
from gateway.cutover.write_pause.rules.write_pause import phase_of
from gateway.state.mirror_states import UNDER_WAY, MirrorOperation, apply
from gateway.state.records import MirrorDirection, MirrorRecord, MirrorState, PartitionStart
from tests.support.control.mirror_records import changed, mirror_record

S, K, Op = MirrorState, FailbackStepKind, MirrorOperation
OLD, NEW, ALIEN = "old-id", "new-id", "alien-id"
PATIENCE_S = 30.0


def mirror(state: MirrorState = S.STOPPED, **changes: object) -> MirrorRecord:
    values = {
        "link": "l",
        "source_topic": "t",
        "mirror_topic": "t",
        "mirror_id": 1,
        "source_topic_id": OLD,
        "state": state,
        "starts": (PartitionStart(0, 0),) * 2,
        "stopped_at": (10, 20),
    } | changes
    return mirror_record(**values)


def source(*log_end_offsets: int, **changes: object) -> FailbackDestination:
    values = {
        "topic_id": OLD,
        "ends": log_end_offsets,
        "log_end_offsets": log_end_offsets,
        "ours": (False,) * len(log_end_offsets),
        "unlike": (),
    } | changes
    return FailbackDestination(**values)  # type: ignore[arg-type]


def decide(record: MirrorRecord, **known: object) -> FailbackStep:
    snapshot = FailbackSnapshot(record=record, phase=phase_of(record, is_paused=False), **known)  # type: ignore[arg-type]
    return next_step(snapshot, patience_s=PATIENCE_S)


SYNC = mirror(S.PENDING_SYNCHRONIZE)
KEPT = {"replication.factor": "1"}
SET_UP = mirror(S.PENDING_SETUP_FOR_RESTORE, direction=MirrorDirection.REVERSE)
HOME = mirror(S.PENDING_MIRROR, restore_configs={"a": "b"})


@pytest.mark.parametrize(
    ("record", "known", "kind"),
    [
        (mirror(), {}, K.DONE),
        (mirror(S.ACTIVE), {}, K.DONE),
        (SYNC, {}, K.READ_SOURCE),
        (SYNC, {"unreachable_s": 1.0}, K.WAIT),
        (SYNC, {"unreachable_s": PATIENCE_S}, K.ABORT),
        (SYNC, {"gave_up": "no"}, K.ABORT),
        (SYNC, {"source": source(10, 21)}, K.ABORT),
        (SYNC, {"source": source(10, 20, ends=(10, 19))}, K.WAIT),
        (SYNC, {"source": source(10, 20)}, K.KEEP),
        (changed(SYNC, recreate=KEPT), {"source": source(10, 20)}, K.PREPARE),
        (changed(SYNC, recreate=KEPT), {"source": source(10, 20), "prepared": True}, K.SYNCHRONIZED),
        (HOME, {}, K.RESTORE_CONFIGS),
        (replace(HOME, restore_configs={}), {}, K.KEEP),
        (changed(HOME, restore_configs={}, recreate=KEPT), {}, K.PREPARE),
        (changed(HOME, restore_configs={}, recreate=KEPT), {"prepared": True}, K.START),
        (changed(HOME, restore_configs={}, recreate=KEPT), {"prepared": True, "running": True}, K.BEGIN),
        (SET_UP, {}, K.READ_SOURCE),
        (SET_UP, {"source": source(10, 25)}, K.KEEP),
        (changed(SET_UP, recreate=KEPT), {"source": source(10, 25)}, K.DELETE),
        (changed(SET_UP, recreate=KEPT), {"source": FailbackDestination(present=False)}, K.CREATE),
        (SET_UP, {"source": FailbackDestination(present=False)}, K.KEEP),
        (changed(SET_UP, recreate=KEPT), {"source": source(0, 0, topic_id=NEW)}, K.PREPARE),
        (changed(SET_UP, recreate=KEPT), {"source": source(0, 0, topic_id=NEW), "prepared": True}, K.RECREATED),
        (changed(SET_UP, recreate=KEPT), {"source": source(0, 3, topic_id=ALIEN)}, K.FAIL),
        (changed(SET_UP, recreate=KEPT), {"unreachable_s": 10 * PATIENCE_S}, K.WAIT),  # half done: never given up
    ],
)
def test_steps(record, known, kind):
    assert decide(record, **known).kind is kind


def test_a_paused_reverse_starts_nothing():
    record = mirror(S.PENDING_MIRROR, direction=MirrorDirection.REVERSE, then_pause=True)
    assert decide(record, prepared=True).kind is K.BEGIN


def test_records_after_cutover_are_counted_and_forbid_the_reverse():
    found = source(12, 21)
    assert records_after_cutover(mirror(), found) == {0: 2, 1: 1}
    reason = why_not_reversed(mirror(), found)
    assert reason.startswith("3 records are on the source and not on the target (2 in partition 0, 1 in partition 1)")
    assert "truncate-and-restore" in reason


def test_what_an_earlier_mirror_back_appended_is_not_late():
    assert records_after_cutover(mirror(), source(12, 21, ours=(True, False))) == {1: 1}
    assert not why_not_reversed(mirror(), source(12, 20, ours=(True, False)))


def test_a_partition_that_came_later_was_empty_at_the_cutover():
    assert records_after_cutover(mirror(), source(10, 20, 4)) == {2: 4}
    assert not why_not_reversed(mirror(), source(10, 20, 0))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (FailbackDestination(present=False), "was deleted on the source"),
        (source(10, 20, topic_id=ALIEN), "created anew"),
        (source(10), "1 partitions on the source, at the cutover it had 2"),
        (source(9, 20), "the source lost records: partition 0 of t ends at 9, at the cutover it ended at 10"),
    ],
)
def test_why_a_source_cannot_follow(found, words):
    assert words in why_not_reversed(mirror(), found)


def test_a_source_without_topic_ids_is_told_by_its_records():
    nameless = changed(SET_UP, source_topic_id="", recreate=KEPT)
    assert decide(nameless, source=source(10, 25, topic_id="")).kind is K.DELETE
    assert decide(nameless, source=source(0, 0, topic_id="")).kind is K.PREPARE


@pytest.mark.parametrize(
    ("record", "known", "step"),
    [
        (changed(SET_UP, recreate=KEPT), {"source": source(10, 25, topic_id=ALIEN)}, K.DELETE),
        (SET_UP, {"source": source(10, 25)}, K.DELETE),
        (mirror(), {"source": source(10, 25)}, K.DELETE),
        (changed(SET_UP, recreate=KEPT), {"source": source(10, 25)}, K.CREATE),
        (SYNC, {"source": source(10, 21)}, K.SYNCHRONIZED),
        (SYNC, {"source": source(10, 20, ends=(10, 19))}, K.SYNCHRONIZED),
        (SYNC, {"source": source(10, 20, unlike=None)}, K.SYNCHRONIZED),
        (SYNC, {}, K.SYNCHRONIZED),
        (SET_UP, {"source": source(0, 1, topic_id=NEW)}, K.RECREATED),
        (SYNC, {}, K.START),
    ],
)
def test_the_second_opinion_refuses_what_could_lose_records(record, known, step):
    snapshot = FailbackSnapshot(record=record, phase=phase_of(record, is_paused=False), **known)
    with pytest.raises(FailbackViolated):
        check_step(snapshot, FailbackStep(step))


def test_a_route_that_is_not_what_the_record_says_is_refused():
    with pytest.raises(FailbackViolated, match="is forward in state PENDING_SYNCHRONIZE"):
        next_step(FailbackSnapshot(record=SYNC, phase=WritePhase.FORWARD), patience_s=PATIENCE_S)


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=4),
    st.lists(st.integers(0, 5), min_size=1, max_size=4),
    st.lists(st.booleans(), min_size=4, max_size=4),
    st.sampled_from([OLD, NEW, ""]),
)
def test_a_reverse_begins_only_where_every_record_of_the_source_is_on_the_target(
    stopped, log_end_offsets, ours, topic_id
):
    starts = (PartitionStart(0, 0),) * len(stopped)
    record = mirror(S.PENDING_SYNCHRONIZE, stopped_at=tuple(stopped), starts=starts, recreate=KEPT)
    found = source(*log_end_offsets, ours=tuple(ours[: len(log_end_offsets)]), topic_id=topic_id)
    step = decide(record, source=found, prepared=True)

    known = [*stopped, *[0] * 4]
    same = all(top == at or (top > at and mine) for top, at, mine in zip(log_end_offsets, known, ours, strict=False))
    expected = topic_id in (OLD, "") and len(log_end_offsets) >= len(stopped) and same
    assert (step.kind is K.SYNCHRONIZED) == expected
    assert step.kind in (K.SYNCHRONIZED, K.ABORT)


# -- every interruption ----------------------------------------------------------------------------------------


class World:
    """One topic between two clusters, a run that may be killed before and after each of its steps, and bad luck.

    `topic`: what is on the source: (id, has records) or None. `faults`: how many more things may happen.
    """

    def __init__(self, record: MirrorRecord, topic: tuple[str, bool] | None, faults: int) -> None:
        self.record = record
        self.topic = topic
        self.faults = faults
        self.engine: MirrorDirection | None = None
        self.forget()

    def forget(self) -> None:
        """The process was killed: only the record is left."""
        self.read: FailbackDestination | None = None
        self.prepared = False
        self.engine = None

    def clone(self) -> World:
        other = World(self.record, self.topic, self.faults)
        other.engine, other.read, other.prepared = self.engine, self.read, self.prepared
        return other

    def key(self) -> tuple[object, ...]:
        r = self.record
        kept = (
            bool(r.failback.recreate),
            bool(r.restore_configs),
            r.source_topic_id,
            r.failback.direction,
            r.failback.then_pause,
            r.state,
        )
        return (*kept, self.topic, self.faults, self.engine, self.read, self.prepared)

    def step(self) -> FailbackStepKind:
        snapshot = FailbackSnapshot(
            record=self.record,
            phase=phase_of(self.record, is_paused=False),
            source=self.read,
            prepared=self.prepared,
            running=self.engine is not None,
            copying=self.engine is not None,
        )
        return next_step(snapshot, patience_s=PATIENCE_S).kind

    def act(self, kind: FailbackStepKind) -> None:
        getattr(self, f"_{kind}")()

    def events(self) -> list[World]:
        """What else may happen now, each in a world of its own."""
        if self.faults <= 0:
            return []
        killed, bypassed, taken = self.clone(), self.clone(), self.clone()
        killed.forget()
        found = [killed]
        if self.topic is not None and not self.topic[1]:
            bypassed.topic = (self.topic[0], True)  # somebody writes to the empty topic
            found.append(bypassed)
        if self.topic is None:
            taken.topic = (ALIEN, False)  # a client of the source creates it, by asking for it
            found.append(taken)
        for world in found:
            world.faults -= 1
        return found

    def _change(self, operation: MirrorOperation, **changes: object) -> None:
        self.record = apply(operation, changed(self.record, **changes), 5)

    def _wait(self) -> None:
        self.read = None

    def _read_source(self) -> None:
        if self.topic is None:
            self.read = FailbackDestination(present=False)
        else:
            name, filled = self.topic
            self.read = source(*((10, 20) if filled else (0, 0)), topic_id=name)

    def _keep(self) -> None:
        self.record = changed(self.record, recreate=KEPT)

    def _prepare(self) -> None:
        self.prepared = True

    def _restore_configs(self) -> None:
        self.record = replace(self.record, restore_configs={})

    def _delete(self) -> None:
        assert self.topic is not None
        assert self.topic[0] == OLD, "a topic that was never mirrored is deleted"
        assert self.record.failback.recreate, "its configs are not kept"
        self.topic, self.read = None, None

    def _create(self) -> None:
        assert self.record.failback.recreate
        if self.topic is None:
            self.topic = (NEW, False)
        self.read = None

    def _synchronized(self) -> None:
        self._change(Op.SYNCHRONIZED, restore_configs={"a": "b"}, recreate={})

    def _recreated(self) -> None:
        assert self.read is not None
        self._change(Op.RECREATED, source_topic_id=self.read.topic_id, recreate={}, stopped_at=(), mirror_id=2)

    def _abort(self) -> None:
        self._change(Op.ABORT_REVERSE, recreate={})

    def _fail(self) -> None:
        self._change(Op.FAIL)

    def _start(self) -> None:
        assert self.record.state in (S.PENDING_MIRROR, S.PENDING_RESTORE_MIRROR)
        self.engine = self.record.failback.direction

    def _begin(self) -> None:
        assert self.record.failback.then_pause or self.engine is self.record.failback.direction
        self._change(Op.BEGIN_PAUSED if self.record.failback.then_pause else Op.BEGIN_MIRROR, recreate={})


@pytest.mark.parametrize(
    ("begun", "ends"),
    [
        (SYNC, {S.ACTIVE}),
        (changed(SYNC, then_pause=True), {S.PAUSED}),
        (SET_UP, {S.ACTIVE, S.FAILED}),
        (HOME, {S.ACTIVE}),
    ],
)
def test_whatever_is_interrupted_where_the_way_ends_and_nothing_foreign_is_touched(begun, ends):
    """Three faults at most: kills of the process, writes beside the gateway, a topic created by somebody else."""
    direction = begun.failback.direction
    seen: set[tuple[object, ...]] = set()
    reached: set[MirrorState] = set()
    todo = deque([World(begun, (OLD, True), 3)])
    while todo:
        world = todo.popleft()
        if world.key() in seen:
            continue
        seen.add(world.key())
        kind = world.step()
        if kind is K.DONE:
            assert world.record.state not in UNDER_WAY
            assert not world.record.failback.recreate or world.record.state is S.FAILED
            reached.add(world.record.state)
            continue
        after = world.clone()
        after.act(kind)
        todo.append(after)
        todo.extend(world.events())
        if world.record is not begun and direction is MirrorDirection.FORWARD and begun.state is S.PENDING_MIRROR:
            assert phase_of(after.record, is_paused=False) is WritePhase.FORWARD
        else:
            assert begun is HOME or phase_of(after.record, is_paused=False) is WritePhase.SWITCHED
    assert reached == ends
    assert len(seen) > 5
