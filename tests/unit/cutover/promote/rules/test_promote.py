"""The topic promote: its steps one by one, and every way in which it can be interrupted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.cutover.promote.rules import promote
from gateway.cutover.promote.rules.checks import InvariantViolated, check_invariants, check_step
from gateway.cutover.promote.rules.memory import ACL_TRIES, CONFIG_TRIES, PromoteMemory, TopicObservations
from gateway.cutover.promote.rules.promote import next_step
from gateway.cutover.promote.rules.snapshot import (
    CopyReading,
    EndReading,
    PromoteLimits,
    PromoteSnapshot,
    PromoteStep,
    StepKind,
    TopicSnapshot,
    observe,
)
from gateway.cutover.write_pause.interface import PauseAck
from gateway.cutover.write_pause.rules.routing import WritePhase
from gateway.mirror.rules.copy_ends import CopyEnds, RunningPartitions
from gateway.state.records import MirrorState
from tests.support.control.mirror_records import changed, mirror_record
from tests.support.models.promote_model import COPY, LIMITS, World, assert_all_end_well
from tests.support.models.search import Violation, search

K = StepKind
AS_SET = PromoteLimits(lag_threshold=1000, pause_timeout_s=5.0, grace_s=0.03, unknown_grace_s=2.0)


# -- every interleaving of a small world; `tests/model/test_widest.py` has the wider ones ---------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("gateways", "faults", "writes"), [(1, 0, 2), (1, 1, 1), (2, 1, 1)])
def test_every_interleaving(gateways: int, faults: int, writes: int) -> None:
    assert_all_end_well(World(gateways, faults, writes))


@pytest.mark.parametrize(("gateways", "faults", "writes"), [(1, 0, 1), (1, 1, 0), (2, 0, 1)])
def test_every_interleaving_with_a_transaction_that_only_its_coordinator_knows(
    gateways: int, faults: int, writes: int
) -> None:
    assert_all_end_well(World(gateways, faults, writes, unended=True))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("left_out", ["what coordinators tell", "a reading after it"])
def test_the_model_bites_when_such_a_transaction_is_forgotten(monkeypatch: pytest.MonkeyPatch, left_out: str) -> None:
    quiet = promote._quiet

    def forgetful(topic: TopicSnapshot, grace_s: float) -> bool:
        drain = None if topic.drain is None else replace(topic.drain, complete=True)
        if drain is not None and left_out == "what coordinators tell":
            drain = replace(drain, last=replace(drain.last, transactions=None))
        return quiet(replace(topic, drain=drain), grace_s)

    monkeypatch.setattr(promote, "_quiet", forgetful)
    with pytest.raises(Violation, match="a marker comes to the source behind the cutover"):
        search(World(1, 0, 1, unended=True))


@pytest.mark.parametrize(("gateways", "faults", "writes"), [(1, 0, 1), (1, 1, 1), (2, 1, 0)])
def test_every_interleaving_of_a_rehearsal_ends_as_it_began(gateways: int, faults: int, writes: int) -> None:
    """Killed at any step, with any fault: never STOPPED, always ACTIVE again, nothing lost."""
    states, endings = search(World(gateways, faults, writes, rehearses=True))
    assert set(filter(None, endings)) == {MirrorState.ACTIVE}
    assert states > 200


@pytest.mark.usefixtures("unchecked")
def test_the_model_bites_when_a_rehearsal_forgets_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    decide = promote._decide
    monkeypatch.setattr(promote, "_decide", lambda snapshot, limits: decide(replace(snapshot, rehearses=False), limits))
    assert MirrorState.STOPPED in search(World(1, 0, 1, rehearses=True))[1]


@pytest.mark.usefixtures("unchecked")
def test_the_model_bites_when_a_promote_that_was_called_off_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    trouble = promote._trouble

    def deaf(snapshot: PromoteSnapshot, limits: PromoteLimits) -> str:
        topics = tuple(replace(topic, called_off=False) for topic in snapshot.topics)
        return trouble(replace(snapshot, topics=topics), limits)

    monkeypatch.setattr(promote, "_trouble", deaf)
    world = World(1, 1, 0)
    search(world)  # the record that cuts over asks once more
    world = World(1, 1, 0)
    world.asks_at_cutover = False
    with pytest.raises(Violation, match="a promote that was called off has cut over"):
        search(world)


def test_the_model_bites_without_log_ends() -> None:
    """A source that hides what its followers have not fetched can lose an acks=1 record: that is why we ask."""
    world = World(1, 0, 2)
    world.tells_log_ends = False
    with pytest.raises(Violation, match="not on the target"):
        search(world)


def test_the_model_bites_without_a_grace_for_unknown_outcomes() -> None:
    with pytest.raises(Violation, match="not on the target"):
        search(World(1, 1, 1, replace(LIMITS, unknown_grace_s=0, grace_s=0)))


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the second opinion, so that the model alone must find what is wrong."""
    monkeypatch.setattr(promote, "check_step", lambda *_: None)
    monkeypatch.setattr(promote, "check_invariants", lambda *_: None)


@pytest.mark.usefixtures("unchecked")
def test_the_model_bites_without_acknowledgements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TopicSnapshot, "missing", lambda self, gateways: frozenset())
    with pytest.raises(Violation):
        search(World(2, 1, 1))


@pytest.mark.usefixtures("unchecked")
def test_the_model_bites_when_a_lost_commit_counts_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promote, "_decide", _forgetting(promote._decide))
    with pytest.raises(Violation):
        search(World(1, 1, 1))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("forgotten", ["absent", "cold"])
def test_the_model_bites_when_what_is_not_here_is_taken_for_an_answer(
    monkeypatch: pytest.MonkeyPatch, forgotten: str
) -> None:
    """As it was once: nothing known is written down as ends, and as a table, that are empty."""
    monkeypatch.setattr(World, "_ends", _friendly)
    monkeypatch.setattr(promote, "_is_read", lambda topic: True)  # else the copy's end gives it away
    known = World._running_partitions
    monkeypatch.setattr(
        World,
        "_running_partitions",
        lambda self: RunningPartitions(**{**known(self)._asdict(), "mirrored": (self.at,), forgotten: ()}),
    )
    with pytest.raises(Violation, match="the record of the cutover says"):
        search(World(1, 1, 1))


def _friendly(world: World) -> CopyEnds:
    if not world.here:
        return CopyEnds((world.at,), (world.at,), ((),))  # equal offsets, no producers
    return CopyEnds((world.at,), (world.at + COPY,), (world._table(world.at) if world.warm else (),))


@pytest.mark.usefixtures("unchecked")
def test_the_model_bites_when_the_copy_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promote, "_is_read", lambda topic: True)
    with pytest.raises(Violation, match="the record of the cutover says"):
        search(World(1, 1, 1))


def _forgetting(decide):
    return lambda snapshot, limits: decide(replace(snapshot, committing=False), limits)


# -- the steps, one by one -------------------------------------------------------------------------------------

T = "orders"
ONE = frozenset({"g"})


class Script:
    """A promote of one topic with two partitions, told step by step."""

    def __init__(self, *topics: str, limits: PromoteLimits | None = None) -> None:
        self.limits = limits or AS_SET
        self.now = 100.0
        first = TopicSnapshot(
            topic=T, state=MirrorState.ACTIVE, phases={"g": WritePhase.FORWARD}, lag=5, positions=(10, 20)
        )
        self.snapshot = PromoteSnapshot(
            now=self.now, gateways=ONE, topics=tuple(replace(first, topic=topic) for topic in topics or (T,))
        )

    def set(self, **changes: object) -> Script:
        self.snapshot = replace(self.snapshot, **changes)  # type: ignore[arg-type]
        return self

    def topic(self, **changes: object) -> Script:
        return self.set(topics=tuple(replace(t, **changes) for t in self.snapshot.topics))  # type: ignore[arg-type]

    def pending(self, epoch: int = 1) -> Script:
        return self.topic(state=MirrorState.PENDING_STOPPED, epoch=epoch, marked=True)

    def paused(self) -> Script:
        return self.pending().topic(phases={"g": WritePhase.PAUSED}).set(paused_at=self.now)

    def acked(self, unknown: int = 0) -> Script:
        acks = {"g": PauseAck("g", T, 1, unknown, WritePhase.PAUSED)}
        return self.paused().topic(acks=acks, acked_at=self.now)

    def read(self, after: float, ends: tuple[int, ...], log_ends: tuple[int, ...] | None = None) -> Script:
        at = self.now + after
        for topic in self.snapshot.topics:
            reading = EndReading(at, at, ends, log_ends or ends, topic.positions, len(ends))
            self.topic(drain=observe(topic.drain, reading, topic.acked_at))
        return self.set(now=at)

    def read_stable(self, after: float, ends: tuple[int, ...], stable: tuple[int, ...]) -> Script:
        at = self.now + after
        for topic in self.snapshot.topics:
            reading = EndReading(at, at, ends, ends, topic.positions, len(ends), stable)
            self.topic(drain=observe(topic.drain, reading, topic.acked_at))
        return self.set(now=at)

    def read_with(self, after: float, ends: tuple[int, ...], *transactions: str) -> Script:
        """With transactions that have the topic, and nothing in it yet. It takes 1 ms."""
        at = self.now + after
        for topic in self.snapshot.topics:
            reading = EndReading(at, at + 0.001, ends, ends, topic.positions, len(ends), ends, transactions)
            self.topic(drain=observe(topic.drain, reading, topic.acked_at))
        return self.set(now=at + 0.001)

    def stopped(self) -> Script:
        """The mirror answered and was stopped; its copy, whose offsets are lower by 3, was read since."""
        at = self.snapshot.topics[0].positions
        copied = tuple(end - 3 for end in at)
        handed = CopyEnds(at, copied, ((),) * len(at))
        return self.topic(stopped=True, handed=handed, copy=CopyReading(copied, copied), partitions=len(at))

    def quiet(self) -> Script:
        return self.acked().read(0.001, (10, 20)).read(0.04, (10, 20))

    @property
    def step(self) -> PromoteStep:
        return next_step(self.snapshot, self.limits)


def test_the_way_without_trouble() -> None:
    script = Script()
    kinds = [
        script.step,
        script.pending().step,
        script.paused().step,
        script.acked().step,
        script.read(0.001, (12, 20)).step,
        script.topic(positions=(12, 20)).read(0.004, (12, 20)).step,
        script.read(0.035, (12, 20)).step,
        script.stopped().topic(copy=None).step,
        script.stopped().step,
        script.topic(state=MirrorState.STOPPED, restored=False).step,
        script.topic(phases={}).set(paused_at=None).step,
        script.topic(restored=True).step,
    ]
    assert [step.kind for step in kinds] == [
        K.MARK_PENDING, K.PAUSE_WRITES, K.PAUSE_WRITES, K.READ_ENDS, K.AWAIT_MIRROR, K.READ_ENDS, K.STOP_MIRROR,
        K.READ_COPY, K.PERSIST_STOPPED, K.PUBLISH_SWITCHED, K.RESTORE_CONFIGS, K.DONE,
    ]  # fmt: skip
    assert not any(step.reason for step in kinds[-4:])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"lag": 1001}, "1001 records behind"),
        ({"lag": None}, "not known"),
    ],
)
def test_waits_for_the_lag(changes: dict[str, object], reason: str) -> None:
    step = Script().pending().topic(**changes).step
    assert (step.kind, reason in step.reason) == (K.WAIT, True)
    assert step.delay_s > 0


def test_no_write_pause_right_after_the_start() -> None:
    assert Script().pending().set(earliest_pause=101.0).step.kind is K.WAIT
    assert Script().pending().set(earliest_pause=101.0, now=101.0).step.kind is K.PAUSE_WRITES


def test_a_record_of_another_run_is_marked_anew() -> None:
    assert Script().pending().topic(marked=False).step.kind is K.MARK_PENDING


def test_the_next_reading_is_when_the_grace_is_over() -> None:
    script = Script().acked().read(0.001, (10, 20))
    step = script.step
    assert step.kind is K.READ_ENDS
    assert step.delay_s == pytest.approx(0.03)
    late = Script().acked(unknown=1).read(0.001, (10, 20))
    assert late.step.delay_s == pytest.approx(2.0)
    kinds = [late.read(after, (10, 20)).step.kind for after in (1.9, 2.1)]
    assert kinds == [K.READ_ENDS, K.STOP_MIRROR]


def test_records_above_the_high_watermark_are_waited_for() -> None:
    script = Script().acked().read(0.001, (10, 20), (10, 21)).read(0.1, (10, 20), (10, 21))
    before = script.step.kind
    after = script.topic(positions=(10, 21)).read(0.15, (10, 21)).read(0.2, (10, 21)).step.kind
    assert (before, after) == (K.READ_ENDS, K.STOP_MIRROR)


def test_a_bypassing_writer_aborts_and_is_described() -> None:
    script = Script().acked().read(0.001, (10, 20)).read(0.02, (10, 23))
    step = script.step
    assert step.kind is K.RESUME_WRITES
    assert step.reason == (
        "a producer that does not use the gateway wrote to orders on the source under the write pause: "
        "partition 1 from offset 20 to 23"
    )
    script.topic(phases={"g": WritePhase.FORWARD}).set(paused_at=None, gave_up=step.reason)
    assert script.step == PromoteStep(K.MARK_ACTIVE, step.reason)
    script.topic(state=MirrorState.ACTIVE)
    assert script.step == PromoteStep(K.DONE, step.reason)


def test_a_record_that_comes_between_two_questions_of_one_reading_is_no_open_transaction() -> None:
    """The last stable offset is asked for behind the high watermark; a busy bypassing writer moves it meanwhile."""
    script = Script().acked().read_stable(0.001, (10, 20), (10, 21)).read_stable(0.02, (10, 23), (10, 23))
    step = script.step
    assert step.kind is K.RESUME_WRITES
    assert "does not use the gateway wrote to orders" in step.reason


def test_a_source_that_moves_within_a_reading_is_not_at_rest() -> None:
    script = Script().acked().read_stable(0.001, (10, 20), (10, 21)).read_stable(0.2, (10, 20), (10, 21))
    assert script.step.kind is K.READ_ENDS


def test_a_move_may_be_our_own_while_outcomes_are_unknown() -> None:
    script = Script().acked(unknown=1).read(0.001, (10, 20)).topic(positions=(11, 20)).read(0.5, (11, 20))
    kinds = [script.step.kind, script.read(2.4, (11, 20)).step.kind, script.read(2.6, (11, 20)).step.kind]
    assert kinds == [K.READ_ENDS, K.READ_ENDS, K.STOP_MIRROR]


def test_what_was_mirrored_after_the_last_look_is_a_bypass() -> None:
    script = Script().quiet().stopped().topic(positions=(10, 21))
    step = script.step
    assert step.kind is K.RESUME_WRITES
    assert "does not use the gateway" in step.reason


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (Script().paused(), "still in flight at g"),
        (Script().acked().read(0.001, (12, 20)), "partition 0 at 10 of 12"),
        (Script().acked().read(0.001, (10, 20)).set(source_error="connection refused"), "connection refused"),
        (Script().acked(unknown=1).read(0.1, (10, 20)).read(4.9, (10, 21)), "does not rest"),
    ],
)
def test_the_timeout_says_what_was_missing(script: Script, reason: str) -> None:
    step = script.set(now=105.0).step
    assert step.kind is K.RESUME_WRITES
    assert step.reason.startswith("not done 5 s after the write pause: ")
    assert reason in step.reason


def test_the_source_may_be_away_for_a_while_before_the_write_pause() -> None:
    script = Script().pending().set(unreachable_since=90.0, source_error="down")
    assert script.step.kind is K.WAIT
    assert script.set(now=120.0).step.kind is K.MARK_ACTIVE


def test_a_failed_mirror_is_resumed_and_left_as_it_is() -> None:
    script = Script().acked().topic(state=MirrorState.FAILED)
    assert script.step.kind is K.RESUME_WRITES
    script.topic(phases={"g": WritePhase.FORWARD}).set(paused_at=None)
    assert script.step == PromoteStep(K.DONE, "orders became FAILED")


def test_nothing_goes_back_once_stopped_may_be_persisted() -> None:
    script = Script().quiet().stopped().set(committing=True)
    trouble: list[dict[str, object]] = [{"gave_up": "asked to"}, {"now": 1000.0}, {"source_error": "down"}]
    for changes in trouble:
        assert replace_step(script, changes).kind is K.PERSIST_STOPPED


def replace_step(script: Script, changes: dict[str, object]) -> PromoteStep:
    return next_step(replace(script.snapshot, **changes), script.limits)  # type: ignore[arg-type]


def test_a_set_cuts_over_together() -> None:
    script = Script("a", "b").quiet()
    assert script.step.kind is K.STOP_MIRROR
    one_behind = replace(script.snapshot.topics[1], positions=(10, 19))
    assert replace_step(script, {"topics": (script.snapshot.topics[0], one_behind)}).kind is K.AWAIT_MIRROR


def test_invariants() -> None:
    both = (
        Script().topic(phases={"g": WritePhase.FORWARD, "h": WritePhase.SWITCHED}, state=MirrorState.STOPPED).snapshot
    )
    early = Script().pending().topic(phases={"g": WritePhase.SWITCHED}).snapshot
    stopped = Script().topic(state=MirrorState.STOPPED).snapshot
    committing = Script().set(committing=True).snapshot
    for wrong in (both, early, stopped, committing):
        with pytest.raises(InvariantViolated):
            check_invariants(wrong)


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"state": MirrorState.ACTIVE}, "PENDING_STOPPED"),
        ({"marked": False}, "PENDING_STOPPED"),
        ({"phases": {"g": WritePhase.FORWARD}}, "pause at every live gateway"),
        ({"acks": {}}, "acknowledgement"),
        ({"acks": {"g": PauseAck("g", T, 0, 0, WritePhase.PAUSED)}}, "acknowledgement"),
        (
            {"acks": {"g": PauseAck("g", T, 1, 0, WritePhase.PAUSED, acked=((1, 21),))}},
            r"'g' has acknowledged.*\(1, 21\)",
        ),
        ({"acked_at": 200.0}, "younger"),
        ({"drain": None}, "younger"),
        ({"stopped": False}, "stopped mirror"),
        ({"positions": (10, 19)}, "at the source's end"),
        ({"handed": None}, "ends and producers of every partition"),
        ({"handed": CopyEnds((10, 20), (7, 17), ((),))}, "ends and producers of every partition"),
        ({"handed": CopyEnds((10, 20), (7,), ((), ()))}, "ends and producers of every partition"),
        ({"handed": CopyEnds((10, 19), (7, 17), ((), ()))}, "stood at the source's end"),
        ({"copy": None}, "a copy that ends where its mirror stood"),
        ({"copy": CopyReading((7, 16), (7, 17))}, "a copy that ends where its mirror stood"),
        ({"copy": CopyReading((7, 17), (7, 17), ((1, 1, 3),))}, "a copy on two replicas"),
        ({"copy": CopyReading((7, 16), (7, 16))}, "a copy that ends where its mirror stood"),
        ({"partitions": 3}, "as many partitions"),
        ({"partitions": None}, "as many partitions"),
    ],
)
def test_no_cutover_without(changes: dict[str, object], missing: str) -> None:
    ready = Script().quiet().stopped()
    step = ready.step
    assert step.kind is K.PERSIST_STOPPED
    with pytest.raises(InvariantViolated, match=missing):
        check_step(ready.topic(**changes).snapshot, step, ready.limits)


def test_a_copy_that_is_on_one_replica_alone_is_waited_for_and_said() -> None:
    """An ISR of one makes the high watermark the log end: what nobody else has any more would be on one disk."""
    ready = Script().quiet().stopped()
    step = ready.topic(copy=CopyReading((7, 17), (7, 17), ((1, 1, 3),))).step
    assert step.kind is K.READ_COPY
    assert "partition 1: 1 of its 3 replicas is in sync" in step.reason


def test_no_cutover_before_the_grace() -> None:
    ready = Script().acked().read(0.001, (10, 20)).read(0.02, (10, 20)).stopped()
    with pytest.raises(InvariantViolated, match="stood still"):
        check_step(ready.snapshot, PromoteStep(K.PERSIST_STOPPED), ready.limits)


@pytest.mark.parametrize("kind", [K.RESUME_WRITES, K.MARK_ACTIVE, K.MARK_PENDING])
def test_stopped_is_final(kind: StepKind) -> None:
    stopped = Script().topic(state=MirrorState.STOPPED, phases={"g": WritePhase.SWITCHED})
    with pytest.raises(InvariantViolated):
        check_step(stopped.snapshot, PromoteStep(kind), stopped.limits)


def test_memory_keeps_acknowledgements_of_other_epochs_out() -> None:
    memory = PromoteMemory([T])
    memory.marked(T, 4)
    memory.acknowledged(PauseAck("g", T, 3, 0, WritePhase.PAUSED), 1.0)
    assert not memory.acks(T)
    memory.acknowledged(PauseAck("g", T, 4, 0, WritePhase.PAUSED), 2.0)
    assert set(memory.acks(T)) == {"g"}
    memory.resumed()
    assert not memory.acks(T)


def test_a_reading_below_what_clients_were_told_is_none() -> None:
    """Of a broker that leads no more and has not heard of it. The next one is by what another broker says."""
    memory = PromoteMemory([T])
    memory.marked(T, 4)
    memory.pause_began(1.0)
    memory.acknowledged(PauseAck("g", T, 4, 0, WritePhase.PAUSED, acked=((0, 5), (1, 20), (2, 0))), 1.0)
    memory.acknowledged(PauseAck("older", T, 4, 0, WritePhase.PAUSED), 1.0)
    record = mirror_record(link="l", source_topic=T, mirror_topic=T, mirror_id=1, pause_epoch=4)
    facts = TopicObservations(record=record, phases={}, running_partitions=RunningPartitions((10, 19)))

    def topic() -> TopicSnapshot:
        return memory.snapshot(2.0, frozenset("g"), [facts]).topics[0]

    for ends, short in (((10, 19), (1, 19, 20)), ((10, 20), None), ((4, 20), (0, 4, 5))):
        memory.read(T, EndReading(1.5, 1.6, ends, ends, (10, 19), 2, ends, ()))
        assert topic().short == short
        assert (topic().drain is None) is (short is not None), "what was read before was of the same broker, perhaps"
    memory.resumed()
    assert topic().short is None


def test_a_reading_without_a_partition_that_clients_have_written_is_none() -> None:
    """The broker that was asked has not heard of it."""
    memory = PromoteMemory([T])
    memory.marked(T, 4)
    memory.pause_began(1.0)
    memory.acknowledged(PauseAck("g", T, 4, 0, WritePhase.PAUSED, acked=((0, 10), (2, 6))), 1.0)
    record = mirror_record(link="l", source_topic=T, mirror_topic=T, mirror_id=1, pause_epoch=4)
    facts = TopicObservations(record=record, phases={}, running_partitions=RunningPartitions((10, 19)))
    memory.read(T, EndReading(1.5, 1.6, (10, 19), (10, 19), (10, 19), 2, (10, 19), ()))
    (topic,) = memory.snapshot(2.0, frozenset("g"), [facts]).topics
    assert (topic.short, topic.drain) == ((2, 0, 6), None)


def test_an_end_below_what_clients_were_told_is_read_again_and_named() -> None:
    script = Script().acked().topic(drain=None, short=(1, 19, 21))
    step = script.step
    assert (step.kind, step.delay_s) == (K.READ_ENDS, promote.WAIT_S)
    told = (
        f"the leader of {T}, partition 1, on the source: a broker says that it ends at offset 19, but records up to 20"
    )
    assert step.reason.startswith(told)
    given_up = script.set(now=script.snapshot.now + 60.0).step
    assert given_up.kind is K.RESUME_WRITES
    assert told in given_up.reason


def test_phases_are_what_gateways_answered_to_the_present_pause() -> None:
    memory = PromoteMemory([T])
    memory.marked(T, 4)
    for gateway, phase in (("g", WritePhase.PAUSED), ("h", WritePhase.SWITCHED), ("gone", WritePhase.PAUSED)):
        memory.acknowledged(PauseAck(gateway, T, 4, 0, phase), 1.0)
    record = mirror_record(link="l", source_topic=T, mirror_topic=T, mirror_id=1, pause_epoch=4)
    asked = frozenset(("g", "h", "silent"))
    assert memory.phases(record, asked) == {"g": WritePhase.PAUSED, "h": WritePhase.SWITCHED}
    assert memory.phases(changed(record, pause_epoch=5), asked) == {}


def test_a_pause_that_nobody_has_answered_is_ended_too() -> None:
    script = Script().pending().topic(phases={}).set(paused_at=100.0, gave_up="for a reason")
    assert script.step == PromoteStep(K.RESUME_WRITES, "for a reason")
    assert script.topic(state=MirrorState.STOPPED).step.kind is K.PUBLISH_SWITCHED


def test_an_open_transaction_is_waited_for_and_ends_the_promote_when_it_outlasts_the_write_pause() -> None:
    script = Script().acked().read_stable(0.001, (10, 20), (10, 15)).read_stable(0.04, (10, 20), (10, 15))
    waiting = script.step
    assert waiting.kind is StepKind.READ_ENDS
    assert waiting.reason == f"the end of a transaction that is open in {T}, partition 1"
    script.set(now=script.now + script.limits.pause_timeout_s)
    given_up = script.step
    assert given_up.kind is StepKind.RESUME_WRITES
    assert "a transaction that is open" in given_up.reason


def test_the_cutover_follows_the_end_of_the_last_transaction() -> None:
    script = Script().acked().read_stable(0.001, (10, 20), (10, 15))
    script.read_stable(0.01, (10, 20), (10, 20)).read_stable(0.04, (10, 20), (10, 20))
    assert script.step.kind is StepKind.STOP_MIRROR


def test_a_transaction_without_records_is_waited_for_too() -> None:
    """Its marker would come behind the cutover, whatever ends it."""
    script = Script().acked().read_with(0.001, (10, 20), "payments", "refunds").read_with(0.04, (10, 20), "payments")
    assert script.step == PromoteStep(
        K.READ_ENDS, f"the end of transaction 'payments', which has {T}", promote.LOOK_AGAIN_S
    )
    script.set(now=script.now + script.limits.pause_timeout_s)
    assert script.step.kind is K.RESUME_WRITES
    assert "the end of transaction 'payments'" in script.step.reason


def test_an_answer_that_the_end_of_the_pause_cuts_off_does_not_hide_what_was_waited_for() -> None:
    script = Script().acked().read_with(0.001, (10, 20), "payments").read_with(0.04, (10, 20), "payments")
    script.set(source_error="no answer in time", now=script.now + script.limits.pause_timeout_s)
    assert script.step.reason.endswith(
        f"no answer from a cluster: no answer in time; before that, the end of transaction 'payments', which has {T}"
    )


def test_the_marker_of_such_a_transaction_is_no_bypass() -> None:
    script = Script().acked().read_with(0.001, (10, 20), "payments").read_with(0.01, (10, 21))
    assert script.step.kind is not K.RESUME_WRITES


def test_ends_are_read_again_after_the_last_transaction_was_seen_to_be_complete() -> None:
    """The reading that tells so may have read the ends before its marker came."""
    script = Script().acked().read_with(0.001, (10, 20), "payments").read_with(0.1, (10, 20))
    assert script.step.kind is K.READ_ENDS
    assert script.read_with(0.11, (10, 20)).step.kind is K.STOP_MIRROR


def test_one_that_begins_meanwhile_is_waited_for() -> None:
    """What a gateway that died had sent may land under the pause."""
    script = Script().acked().read_with(0.001, (10, 20)).read_with(0.04, (10, 20), "payments")
    assert script.step.kind is K.READ_ENDS
    assert script.read_with(0.05, (10, 20)).step.kind is K.READ_ENDS
    assert script.read_with(0.06, (10, 20)).step.kind is K.STOP_MIRROR


@pytest.mark.parametrize("copy_next", [False, True], ids=["the ends", "the copy"])
def test_a_reading_that_failed_is_not_tried_again_at_once(copy_next: bool) -> None:
    """An error may take no time at all, such as a partition without a leader: the loop would not let go of a core."""
    script = Script().quiet().stopped().topic(copy=None) if copy_next else Script().acked()
    assert script.step.delay_s == 0
    assert script.set(unreachable_since=script.now).step.delay_s > 0


def test_configs_are_read_last_before_the_pause() -> None:
    script = Script().pending().set(configs_read=False)
    assert script.topic(lag=5000).step.kind is K.WAIT
    assert script.topic(lag=5).set(lost="a gateway is lost").step.kind is K.WAIT
    assert script.set(lost="").step == PromoteStep(K.READ_CONFIGS, "the topic configs of the source")
    again = script.set(config_error="refused").step
    assert (again.kind, again.reason) == (K.READ_CONFIGS, "the topic configs of the source: refused")
    assert again.delay_s > 0
    assert script.set(configs_read=True).step.kind is K.PAUSE_WRITES


def test_configs_that_cannot_be_read_are_not_waited_for_for_good() -> None:
    memory = PromoteMemory([T])
    for _ in range(CONFIG_TRIES):
        assert not memory.configs_read
        memory.configs_failed("refused")
    assert memory.configs_read
    assert memory.restore_of(T) is None
    memory.configs({T: {"retention.ms": "1"}})
    assert (memory.restore_of(T), memory.config_error) == ({"retention.ms": "1"}, "")


def test_acls_are_the_last_before_the_pause_and_the_first_behind_it() -> None:
    script = Script().pending().topic(lag=5).set(acls_synced=False)
    assert script.set(configs_read=False).step.kind is K.READ_CONFIGS
    assert script.set(configs_read=True).step == PromoteStep(K.SYNC_ACLS, "the ACLs of the target")
    again = script.set(acl_error="refused").step
    assert (again.kind, again.reason) == (K.SYNC_ACLS, "the ACLs of the target: refused")
    assert again.delay_s > 0
    assert script.set(acls_synced=True).step.kind is K.PAUSE_WRITES
    behind = script.set(acls_synced=False).topic(
        state=MirrorState.STOPPED, phases={"a": WritePhase.PAUSED, "b": WritePhase.PAUSED}
    )
    assert behind.step.kind is K.PUBLISH_SWITCHED
    switched = behind.topic(phases={"a": WritePhase.SWITCHED, "b": WritePhase.SWITCHED}, restored=False)
    assert switched.step.kind is K.SYNC_ACLS
    assert switched.set(acls_synced=True).step.kind is K.RESTORE_CONFIGS


def test_acls_are_not_waited_for_for_good() -> None:
    memory = PromoteMemory([T])

    def synced(state: MirrorState) -> bool:
        facts = TopicObservations(
            record=mirror_record(link="l", source_topic=T, mirror_topic=T, mirror_id=1, state=state),
            phases={},
            running_partitions=RunningPartitions(()),
        )
        return memory.snapshot(0.0, frozenset(), [facts]).acls_synced

    assert synced(MirrorState.ACTIVE)
    memory.acls_follow()
    for _ in range(ACL_TRIES):
        assert not synced(MirrorState.PENDING_STOPPED)
        memory.acls_synced(cut_over=False, error="refused")
    assert synced(MirrorState.PENDING_STOPPED)
    assert not synced(MirrorState.STOPPED)
    memory.acls_synced(cut_over=True, error="refused")
    assert synced(MirrorState.STOPPED)


def test_the_schema_gate_comes_before_the_pause() -> None:
    script = Script().pending().topic(lag=5).set(schema_gate="schema id 7")
    assert (script.step.kind, script.step.reason) == (K.WAIT, "schema id 7")
    assert script.set(schema_gate="").step.kind is K.PAUSE_WRITES
