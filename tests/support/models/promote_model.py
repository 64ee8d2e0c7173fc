"""A small world in which a topic is promoted: one or two gateways, a source of one partition, a mirror, and bad luck.

Source and copy count differently. The partition is released to another gateway and comes back, the leader leaves in
order, the copy loses what it had acknowledged: the record of the cutover must have the real ends, and the real table.

Every interleaving of the runner's steps with what the world does is gone through by `search`, within a budget of
faults. The runner's part is the real resolver and the real memory; only the I/O is played.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy

from gateway.cutover.promote.rules.memory import PromoteMemory, TopicObservations
from gateway.cutover.promote.rules.promote import next_step
from gateway.cutover.promote.rules.snapshot import CopyReading, EndReading, PromoteLimits, PromoteSnapshot, StepKind
from gateway.cutover.write_pause.interface import PauseAck
from gateway.cutover.write_pause.rules.routing import WritePhase
from gateway.mirror.rules.copy_ends import CopyEnds, RunningPartitions
from gateway.state.promote_sets import called_off
from gateway.state.records import MirrorState, ProducerEntry
from tests.support.control.mirror_records import one_partition
from tests.support.models.search import Violation, search

TOPIC = "t"
LIMITS = PromoteLimits(lag_threshold=1, pause_timeout_s=4, grace_s=1, unknown_grace_s=2, source_timeout_s=2)
Key = tuple[object, ...]
COPY = 7  # the copy's offsets are higher by so much
LANDS_WITHIN = 1  # ticks in which a write lands whose connection broke: less than the grace for unknown outcomes


# What may go wrong, and how often at most. All of them together: `World.faults`.
FAULTS = {
    "bypass": 1, "crash": 1, "outage": 1, "store": 2, "break": 1, "ack lost": 1, "release": 1, "leave": 1,
    "copy loses": 1, "call off": 1,
}  # fmt: skip


class World:
    """One state of the world. Time is in ticks; `budget` says how often each event may happen yet.

    `unended`: somebody has a transaction on the source without records in it, and is gone; a marker comes some time.
    """

    def __init__(
        self,
        gateways: int,
        faults: int,
        writes: int = 1,
        limits: PromoteLimits = LIMITS,
        *,
        unended: bool = False,
        rehearses: bool = False,
    ) -> None:
        self.rehearses = rehearses
        self.limits = limits
        self.state = MirrorState.ACTIVE
        self.epoch = 0
        self.phases = [WritePhase.FORWARD] * gateways
        self.in_flight = [0] * gateways
        self.unknown = [0] * gateways
        self.limbo: tuple[int, ...] = ()  # deadlines of writes whose answer was lost
        self.log = ""  # the source: g = written by a gateway, b = by somebody else, m = a marker
        self.high_watermark = 0
        self.mirrored = 0  # of the source, really on the copy, whoever put it there
        self.engine = True
        self.here = True  # the partition runs in the leader's process
        self.warm = True  # and knows the last batches of producers
        self.at = 0  # where it believes to be
        self.leaving = False
        self.source_up = True
        self.now = 0
        self.tells_log_ends = True
        self.budget = {"write": writes, **FAULTS}
        self.faults = faults
        self.memory = PromoteMemory([TOPIC], rehearses=rehearses)
        self.earliest_pause = 0
        self.reading: tuple[int, int] | None = None  # asked at, position then
        self.unended = self.tells_apart = unended
        self.sampled: tuple[int, int] | None = None  # high watermark and log end of a reading under way
        self.asked: frozenset[int] = frozenset()  # gateways that were sent a write pause
        self.called_off = False  # the record says so
        self.asks_at_cutover = True
        self.committed = False  # what the state topic holds, if the runner does not know
        self.done = False

    def clone(self) -> World:
        other = copy(self)
        other.phases, other.in_flight = list(self.phases), list(self.in_flight)
        other.unknown, other.budget = list(self.unknown), dict(self.budget)
        other.memory = memory = copy(self.memory)
        memory._epochs, memory._acked_at = dict(memory._epochs), dict(memory._acked_at)
        memory._acks = {topic: dict(acks) for topic, acks in memory._acks.items()}
        memory._drains, memory._stopped = dict(memory._drains), dict(memory._stopped)
        memory._copies, memory._partitions = dict(memory._copies), dict(memory._partitions)
        return other

    def key(self) -> Key:
        """Two worlds with the same key have the same future: times as ages, up to where age stops mattering."""
        memory = self.memory
        return (
            self.state, self.epoch, *self.phases, *self.in_flight, *self.unknown, self.log, self.high_watermark,
            tuple(d - self.now for d in self.limbo), self.mirrored, self.engine, self.source_up, self.faults,
            tuple(self.budget.values()), max(self.earliest_pause - self.now, 0), self.asked, self.committed, self.done,
            self._age(memory.paused_at, 4), memory.committing, bool(memory.gave_up),
            self._age(memory.unreachable_since, 2), memory._epochs.get(TOPIC), memory._stopped.get(TOPIC),
            memory._copies.get(TOPIC), TOPIC in memory._partitions, self.here, self.warm, self.at, self.leaving,
            self.unended, self.sampled, memory.configs_read, self.called_off,
            tuple((g, a.epoch, a.unknown_outcomes) for g, a in sorted(memory.acks(TOPIC).items())),
            *self._drain_key(),
        )  # fmt: skip

    def _drain_key(self) -> Key:
        drain, acked_at = self.memory._drains.get(TOPIC), self.memory._acked_at.get(TOPIC, -1)
        since = drain.since if drain is not None else self.now
        reading: object = None
        if self.reading is not None:
            asked, position = self.reading
            reading = position, min(max(asked - since, 0), 2), self._age(asked, 1)
        if drain is None:
            return reading, self._age(acked_at, 1)
        first, last = drain.first, drain.last
        ages = min(max(drain.stable_s, 0), 2), self._age(since, 2), self._age(first.asked, 1), first.asked >= acked_at
        return reading, first.log_end_offsets, last.ends, last.log_end_offsets, last.mirrored, drain.complete, *ages

    def _age(self, at: float | None, enough: int) -> float | None:
        return None if at is None else min(self.now - at, enough)

    # -- what the world does -----------------------------------------------------------------------------------

    def events(self) -> Iterator[tuple[str, Callable[[World], None]]]:
        """Everything that may happen next."""
        if self.state is not MirrorState.STOPPED or any(p is not WritePhase.SWITCHED for p in self.phases):
            yield from self._traffic()
        if self.source_up and self.high_watermark < len(self.log):
            yield "followers fetch", lambda w: setattr(w, "high_watermark", w.high_watermark + 1)
        if self.source_up and self.engine and self.mirrored < self.high_watermark and self._is_mirrored():
            yield "mirror", World._mirror
        yield from self._moves()
        if self._may("bypass") and self.source_up:
            yield "bypassing write", World._bypass
        if not self.source_up:
            yield "source up", lambda w: setattr(w, "source_up", True)
        elif self._may("outage"):
            yield "source down", lambda w: w._fault("outage", "source_up", False)
        if not self.done:
            yield from self._people_and_leaders()
            yield from self._run()
        if not self.done and not any(deadline <= self.now for deadline in self.limbo):
            yield "tick", lambda w: setattr(w, "now", w.now + 1)

    def _people_and_leaders(self) -> Iterator[tuple[str, Callable[[World], None]]]:
        if self._may("crash"):
            yield "crash", World._crash
        if self.state is MirrorState.PENDING_STOPPED and not self.called_off and self._may("call off"):
            yield "an operator calls it off", World._call_off

    def _is_mirrored(self) -> bool:
        """By the leader, or by another gateway: which does not under a write pause."""
        return self.here or self.phases[0] is not WritePhase.PAUSED

    def _mirror(self) -> None:
        """The next append; one that does not continue the copy's log is refused, and the log is gone on from."""
        self.mirrored += 1
        self.at = self.mirrored if self.here else self.at

    def _moves(self) -> Iterator[tuple[str, Callable[[World], None]]]:
        """The partition goes from gateway to gateway, and the copy may lose what it had."""
        if self.state is MirrorState.STOPPED or self.committed or TOPIC in self.memory._copies:
            return
        if self.here and self._may("release"):
            yield "partition released", lambda w: w._fault("release", "here", False)
        if not self.here:
            yield "partition returns", World._return
        if self.here and not self.warm:
            yield "producers read", lambda w: setattr(w, "warm", True)
        if self.mirrored and self._may("copy loses"):
            yield "the copy loses a record", lambda w: w._fault("copy loses", "mirrored", w.mirrored - 1)
        if not self.done and not self.leaving and self._may("leave"):
            yield "leader leaves in order", lambda w: w._fault("leave", "leaving", True)

    def _return(self) -> None:
        """It begins where the copy's log ends, and has to read back for the producers."""
        self.here, self.warm, self.at = True, False, self.mirrored

    def _ends(self) -> CopyEnds | None:
        """As the engine: one answer of what runs here, or None."""
        if not self.here or not self.warm:
            return None
        return CopyEnds((self.at,), (self.at + COPY,), (self._table(self.at),))

    def _table(self, up_to: int) -> tuple[ProducerEntry, ...]:
        """Of the batches of gateways below a source offset, at their places on the copy."""
        return tuple(ProducerEntry(0, 0, at, at, at + COPY) for at in range(up_to) if self.log[at] == "g")

    def _traffic(self) -> Iterator[tuple[str, Callable[[World], None]]]:
        for g, phase in enumerate(self.phases):
            if phase is WritePhase.FORWARD and self._may("write"):
                yield f"write at {g}", lambda w, g=g: w._write(g)  # type: ignore[misc]
            if self.in_flight[g] and self.source_up:
                yield f"source takes a write of {g}", lambda w, g=g: w._land(g)  # type: ignore[misc]
            if self.in_flight[g] and self._may("break"):
                yield f"connection of {g} breaks", lambda w, g=g: w._break(g)  # type: ignore[misc]
        if self.unended and self.source_up:
            yield "a marker comes", World._end_transaction
        if self.limbo and self.source_up:
            yield "a lost write lands", lambda w: w._limbo(lands=True)
        if self.limbo:
            yield "a lost write is dropped", lambda w: w._limbo(lands=False)

    def _may(self, what: str) -> bool:
        return self.budget.get(what, 0) > 0 and (what == "write" or self.faults > 0)

    def _fault(self, what: str, attribute: str, value: object) -> None:
        self.budget[what] -= 1
        self.faults -= 1
        setattr(self, attribute, value)

    def _write(self, g: int) -> None:
        self.budget["write"] -= 1
        self.in_flight[g] += 1

    def _land(self, g: int) -> None:
        self.in_flight[g] -= 1
        self.log += "g"

    def _break(self, g: int) -> None:
        self._fault("break", "limbo", (*self.limbo, self.now + LANDS_WITHIN))
        self.in_flight[g] -= 1
        self.unknown[g] += 1

    def _limbo(self, *, lands: bool) -> None:
        self.limbo = self.limbo[1:]
        if lands:
            self.log += "g"

    def _end_transaction(self) -> None:
        """Its timeout is over."""
        self.unended, self.log = False, self.log + "m"

    def _bypass(self) -> None:
        self._fault("bypass", "log", self.log + "b")

    def _call_off(self) -> None:
        """The record of it: what became of a cutover before is found out first, and no other is written behind it."""
        self._fault("call off", "called_off", not self.committed)
        if self.committed:
            self.state, self.committed = MirrorState.STOPPED, False

    def _crash(self) -> None:
        """The process of gateway 0 and the runner is killed and starts again: only the record is left."""
        self._fault("crash", "done", False)
        self.limbo += (self.now + LANDS_WITHIN,) * self.in_flight[0]
        self.in_flight[0] = self.unknown[0] = 0
        if self.committed:
            self.state, self.committed = MirrorState.STOPPED, False
        self.memory = self._of_a_successor()
        self.earliest_pause = self.now + int(self.limits.unknown_grace_s)
        self.reading, self.sampled, self.asked = None, None, frozenset()
        self.engine = self.state is not MirrorState.STOPPED
        self.here = self.leaving = False
        self.phases[0] = WritePhase.FORWARD if self.engine else WritePhase.SWITCHED
        self.done = self.state is MirrorState.ACTIVE  # nothing to resume; an operator would ask again

    # -- what the runner does ----------------------------------------------------------------------------------

    def _run(self) -> Iterator[tuple[str, Callable[[World], None]]]:
        if self.reading is not None:
            yield self._answer()
            return
        for g in self.asked:
            if self.phases[g] is not WritePhase.PAUSED:
                yield f"fence reaches {g}", lambda w, g=g: w.phases.__setitem__(g, WritePhase.PAUSED)  # type: ignore[misc]
            elif not self.in_flight[g]:
                yield f"{g} acknowledges", lambda w, g=g: w._ack(g)  # type: ignore[misc]
        if self._may("ack lost"):
            for g in self.asked:
                yield f"ack of {g} lost", lambda w, g=g: w._fault("ack lost", "asked", w.asked - {g})  # type: ignore[misc]
        if self.asked and self.now - (self.memory.paused_at or 0) < self.limits.pause_timeout_s:
            return  # the runner waits for its gateways
        yield "step", lambda w: w._step("ok")
        if self._may("store") and self._next() in (StepKind.PERSIST_STOPPED, StepKind.MARK_ACTIVE):
            for outcome in ("refused", "lost after commit", "lost before commit"):
                yield f"step, store {outcome}", lambda w, o=outcome: w._step(o)  # type: ignore[misc]

    def _answer(self) -> tuple[str, Callable[[World], None]]:
        if self.tells_apart and self.sampled is None and self.source_up:
            return "the leader of the partition tells its ends", World._sample
        return "ends answered", World._read_ends

    def _next(self) -> StepKind:
        return next_step(self.clone()._snapshot(), self.limits).kind

    def _snapshot(self) -> PromoteSnapshot:
        if self.memory.paused_at is None and self.source_up:
            self.memory.source_answered()
        elif self.memory.paused_at is None:
            self.memory.source_failed(self.now, "down")
        record = one_partition(TOPIC, self.state, self.epoch)
        record = called_off(record) if self.called_off else record
        gateways = [str(g) for g in range(len(self.phases))]
        lag = max(len(self.log) - self.mirrored, 0) if self.source_up else None
        facts = TopicObservations(
            record=record,
            phases=dict(zip(gateways, self.phases, strict=True)),
            running_partitions=self._running_partitions(),
            lag=lag,
        )
        return self.memory.snapshot(self.now, frozenset(gateways), [facts], earliest_pause=self.earliest_pause)

    def _running_partitions(self) -> RunningPartitions:
        if not self.here:
            return RunningPartitions((-1,), absent=(0,))
        return RunningPartitions((self.at,), cold=() if self.warm else (0,))

    def _ack(self, g: int) -> None:
        self.asked -= {g}
        self.memory.acknowledged(PauseAck(str(g), TOPIC, self.epoch, self.unknown[g], self.phases[g]), self.now)

    def _read_ends(self) -> None:
        assert self.reading is not None
        asked, position = self.reading
        high_watermark, log_end = self.sampled or (self.high_watermark, len(self.log))
        self.reading = self.sampled = None
        if not self.source_up:
            self.memory.source_failed(self.now, "down")
            return
        log_ends = (log_end,) if self.tells_log_ends else None
        unended = ("of somebody who is gone",) if self.unended else ()
        ends = (high_watermark,)
        self.memory.read(TOPIC, EndReading(asked, self.now, ends, log_ends, (position,), 1, ends, unended))

    def _sample(self) -> None:
        """Before coordinators tell of transactions: these are different brokers."""
        self.sampled = self.high_watermark, len(self.log)

    def _step(self, outcome: str) -> None:
        self.asked = frozenset()
        step = next_step(self._snapshot(), self.limits)
        begins = step.kind in (StepKind.MARK_PENDING, StepKind.WAIT, StepKind.READ_CONFIGS, StepKind.PAUSE_WRITES)
        if self.leaving and begins and self.memory.paused_at is None:
            self._succeed()
            return
        if outcome != "ok":
            self.budget["store"] -= 1
            self.faults -= 1
        getattr(self, f"_do_{step.kind}")(step.reason, outcome)

    def _succeed(self) -> None:
        """The leader is gone. Another one leads, takes the partition over, and goes on with what it finds."""
        self.memory = self._of_a_successor()
        self.here = self.leaving = False
        self.done = self.state is MirrorState.ACTIVE

    def _of_a_successor(self) -> PromoteMemory:
        """The record says that it was a rehearsal: it is given up (`promoter.py`)."""
        memory = PromoteMemory([TOPIC], rehearses=self.rehearses)
        if self.rehearses:
            memory.give_up("the rehearsal was interrupted")
        return memory

    def _do_mark_pending(self, reason: str, outcome: str) -> None:
        self.state, self.epoch = MirrorState.PENDING_STOPPED, self.epoch + 1
        self.memory.marked(TOPIC, self.epoch)

    def _do_wait(self, reason: str, outcome: str) -> None:
        pass

    def _do_read_configs(self, reason: str, outcome: str) -> None:
        self.memory.configs({TOPIC: {}})

    def _do_pause_writes(self, reason: str, outcome: str) -> None:
        self.memory.pause_began(self.now)
        self.phases[0] = WritePhase.PAUSED
        acked = {int(g) for g, a in self.memory.acks(TOPIC).items() if a.epoch == self.epoch}
        self.asked = frozenset(range(len(self.phases))) - acked

    def _do_read_ends(self, reason: str, outcome: str) -> None:
        self.reading = (self.now, self._running_partitions().mirrored[0])

    _do_await_mirror = _do_read_ends  # the runner waits a little, then reads

    def _do_stop_mirror(self, reason: str, outcome: str) -> None:
        ends = self._ends()
        if ends is None:
            self.memory.give_up("not whole here")
            return
        self.engine = False
        self.memory.mirror_stopped(TOPIC, ends)

    def _do_read_copy(self, reason: str, outcome: str) -> None:
        end = (self.mirrored + COPY,)
        self.memory.copy_read(TOPIC, CopyReading(end, end))

    def _do_persist_stopped(self, reason: str, outcome: str) -> None:
        """As the store does it: a change whose fate is unknown is settled before the next one."""
        if self.committed:
            self.state, self.committed = MirrorState.STOPPED, False
        if outcome == "refused" or (self.called_off and self.asks_at_cutover):
            self.memory.committing = False
            return
        self.memory.committing = outcome != "ok"
        if outcome != "lost before commit":
            self._check_record()
        if outcome == "ok":
            self.state = MirrorState.STOPPED
        self.committed = outcome == "lost after commit"

    def _do_publish_switched(self, reason: str, outcome: str) -> None:
        behind = [g for g, phase in enumerate(self.phases) if phase is not WritePhase.SWITCHED]
        for g in behind[:1]:
            self.phases[g] = WritePhase.SWITCHED
        if len(behind) < 2:
            self.memory.resumed()

    def _do_resume_writes(self, reason: str, outcome: str) -> None:
        self.memory.give_up(reason)
        paused = [g for g, phase in enumerate(self.phases) if phase is WritePhase.PAUSED]
        self.phases[paused[0]] = WritePhase.FORWARD
        if len(paused) == 1:
            self.memory.resumed()
            if not self.engine:
                self.engine = True
                self._return()  # begun anew

    def _do_mark_active(self, reason: str, outcome: str) -> None:
        self.memory.give_up(reason)
        if outcome in ("ok", "lost after commit"):
            self.state, self.called_off = MirrorState.ACTIVE, False

    def _do_done(self, reason: str, outcome: str) -> None:
        self.done = True

    # -- what must hold ----------------------------------------------------------------------------------------

    def _check_record(self) -> None:
        """The record of the cutover has where both logs really end, and every batch that may be retried."""
        handed = self.memory.handed(TOPIC)
        real = CopyEnds((self.mirrored,), (self.mirrored + COPY,), (self._table(self.mirrored),))
        if handed != real:
            raise Violation(f"the record of the cutover says {handed}, but it is {real}")

    @property
    def ending(self) -> str:
        """The state that a run ended in; '' before its end."""
        return self.state if self.done else ""

    def check(self) -> None:
        """Raises Violation."""
        phases = set(self.phases)
        stopped = self.state is MirrorState.STOPPED or self.committed
        if {WritePhase.FORWARD, WritePhase.SWITCHED} <= phases:
            raise Violation("written on both clusters")
        if WritePhase.SWITCHED in phases and self.state is not MirrorState.STOPPED:
            raise Violation("written on the target before STOPPED is durable")
        if stopped and self.called_off:
            raise Violation("a promote that was called off has cut over")
        if stopped and "g" in self.log[self.mirrored :]:
            raise Violation("a record written through a gateway is not on the target")
        if stopped and (self.unended or "m" in self.log[self.mirrored :]):
            raise Violation("a marker comes to the source behind the cutover")
        if stopped and (any(self.in_flight) or self.engine):
            raise Violation("writes in flight, or the mirror running, after STOPPED")
        if self.done and (self.state is MirrorState.PENDING_STOPPED or WritePhase.PAUSED in phases):
            raise Violation(f"ended in {self.state} with {phases}")


def assert_all_end_well(world: World) -> None:
    """Search it: nothing is lost, and some runs end in either state."""
    states, endings = search(world)
    assert endings[MirrorState.STOPPED]
    assert endings[MirrorState.ACTIVE]  # by time alone, at least
    assert states > 1000
