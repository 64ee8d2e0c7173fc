"""One partition between two clusters and its failover, as small as can be: for every interleaving, and for random ones.

The run under test is the shipped resolver with the shipped memory; what it asks of the world is one method per step.
Gateways write to the source until they hold; the mirror copies; the process may be killed before any step, answers may
be missing, the store may refuse or leave an outcome open.
"""

from __future__ import annotations

import copy as copying
from collections.abc import Iterator

from gateway.cutover.failover.rules.failover import failback_ended, failed_over, next_step
from gateway.cutover.failover.rules.memory import FailoverMemory
from gateway.cutover.failover.rules.snapshot import (
    CopyEnd,
    FailoverLimits,
    FailoverSnapshot,
    FailoverStep,
    FailoverStepKind,
    KnownProducers,
    SourceReading,
)
from gateway.cutover.write_pause.rules.routing_build import written_on_target
from gateway.cutover.write_pause.rules.write_pause import phase_of
from gateway.state.mirror_states import is_mirroring
from gateway.state.records import MirrorDirection, MirrorRecord, MirrorState, PartitionStart
from tests.support.control.mirror_records import changed
from tests.support.models.search import Violation

K = FailoverStepKind
LIMITS = FailoverLimits(warm_s=2, pause_s=1, drain_s=1, stop_s=1, copy_s=2, store_s=2)
BEFORE = 100  # what was mirrored before the world begins


class World:
    """`faults`: how many more things may go wrong. `landed`: records on the source beyond BEFORE, of which so many were
    `acknowledged` and so many `mirrored`. `hidden`: a change of the record that was made, and that nobody knows of yet.
    Gateway 0 leads; the others read the record when they come to it (`sees_flip`)."""

    def __init__(self, record: MirrorRecord, gateways: int = 2, writes: int = 1, faults: int = 2) -> None:
        self.record = record
        self.hidden: MirrorRecord | None = None
        self.faults = faults
        self.writes = writes
        self.now = 0
        self.acknowledged = self.landed = self.mirrored = 0
        self.in_flight = [0] * gateways
        self.holds = [False] * gateways
        self.sees_flip = [False] * gateways
        self.source_up = True
        self.engine = is_mirroring(record.state)
        self.memory = FailoverMemory(record)
        self.epoch = record.cutover.pause_epoch
        self.ended = ""  # how this run ended
        self.killed = False
        self.dropped = 0  # writes that nobody hears of any more, and that may land yet

    def clone(self) -> World:
        other = copying.copy(self)
        other.memory = copying.copy(self.memory)
        other.in_flight, other.holds, other.sees_flip = list(self.in_flight), list(self.holds), list(self.sees_flip)
        return other

    def key(self) -> tuple[object, ...]:
        values = {
            name: value for name, value in vars(self).items() if name not in ("memory", "record", "hidden", "now")
        }
        memory = {
            name: value if not name.endswith("since") or value is None else self.now - value
            for name, value in vars(self.memory).items()
        }
        record = (
            self.record.state,
            self.record.failback.direction,
            self.record.cutover.pause_epoch,
            self.record.cutover.not_mirrored,
        )
        return (str(values), str(memory), record, self.hidden is not None)

    # -- what may happen -------------------------------------------------------------------------------------------

    def events(self) -> Iterator[str]:
        """Names of what may happen now; `happen` does it."""
        if not self.ended:
            yield "step"
        for index in range(len(self.in_flight)):
            if self.writes and self.source_up and self._writes_to_source(index):
                yield f"write {index}"
            if self.record.state is MirrorState.STOPPED and not self.sees_flip[index]:
                yield f"reads {index}"
            if self.in_flight[index]:
                yield f"land {index}"
        if self.dropped:
            yield "land unheard"
        if self.engine and self.mirrored < self.landed and self.source_up:
            yield "mirror"
        if self.faults and not self.ended:
            yield from self._faults()

    def _faults(self) -> Iterator[str]:
        yield "killed"
        if self.source_up:
            yield "source dies"
        step = self.step().kind
        if step is K.PAUSE_WRITES:
            yield "hold refused"
        if step is K.READ_COPY:
            yield "copy silent"
        if step is K.STOP_MIRROR:
            yield "stop times out"
        if step is K.PERSIST:
            yield from ("refused", "changed by others", "lost after commit", "lost before commit")
        if step is K.SETTLE:
            yield "still no answer"

    def happen(self, event: str) -> None:
        """Do it, and look whether all is still well."""
        what, _, index = event.partition(" ") if event[-1].isdigit() else (event, "", "")
        if what == "write":
            self.writes -= 1
            self.in_flight[int(index)] += 1
        elif what == "land":
            self._land(int(index))
        elif what == "land unheard":
            self.dropped -= 1
            self.landed += self.source_up
        elif what == "reads":
            self._reads(int(index))
        elif what == "mirror":
            self.mirrored += 1
        elif what == "step":
            self._take(self.step())
        else:
            self.faults -= 1
            self._go_wrong(what)
        self.check()

    def _writes_to_source(self, index: int) -> bool:
        """As the gateway sees it: it does not hold, and knows of no cutover."""
        return not self.holds[index] and not self.memory.on_target and not self.sees_flip[index]

    def _reads(self, index: int) -> None:
        self.sees_flip[index] = True
        if index:
            self.holds[index] = False  # the others' holds end by what they read

    def _land(self, index: int) -> None:
        """It is answered, unless the topic is written on the target by now: then nobody hears of it."""
        self.in_flight[index] -= 1
        if self.source_up:
            self.landed += 1
            if not written_on_target(self.record):
                self.acknowledged = self.landed

    def _go_wrong(self, what: str) -> None:
        if what == "killed":
            self._kill()
        elif what == "source dies":
            self.source_up = False
        elif what == "copy silent":
            self.now += 1
            self.memory.copy_read((None,), "", self.now)
        elif what == "hold refused":
            self._begin_pause()
            self.memory.give_up("gateway '1' does not stop writing")
        elif what == "stop times out":
            self.memory.give_up("not answered in time")
            self.memory.mirror_stopped(None)
            self.engine = False
        elif what != "still no answer":
            self._store(what)

    def _kill(self) -> None:
        """Another process leads: it has read what was written, and by its assignment nobody holds for the one before.
        An operator asks for the failover again, unless it is done."""
        self._known()
        self.holds = [False] * len(self.holds)
        self.sees_flip = [self.record.state is MirrorState.STOPPED] * len(self.holds)
        self.engine = is_mirroring(self.record.state)
        self.epoch = max(self.epoch, self.record.cutover.pause_epoch)
        self.memory = FailoverMemory(self.record)
        self.killed = True
        self.ended = "cut_over" if self.record.state is MirrorState.STOPPED else ""

    def _known(self) -> None:
        if self.hidden is not None:
            self._is_stored(self.hidden)

    def _is_stored(self, new: MirrorRecord) -> None:
        """The gateway that leads knows what it has stored."""
        self.record, self.hidden = new, None
        self.sees_flip[0] = True

    # -- what the runner does --------------------------------------------------------------------------------------

    def snapshot(self) -> FailoverSnapshot:
        phase = phase_of(self.record, is_paused=self.holds[0])
        gateways = frozenset(str(index) for index in range(len(self.holds)))
        return self.memory.snapshot(self.now, self.record, phase, gateways)

    def step(self) -> FailoverStep:
        return next_step(self.snapshot(), LIMITS)

    def _take(self, step: FailoverStep) -> None:
        getattr(self, f"_do_{step.kind}")(step)

    def _do_read_source(self, _: FailoverStep) -> None:
        end = BEFORE + self.landed if self.source_up else None
        self.memory.source_read(SourceReading((end,), self.source_up), self.now)

    _do_read_last = _do_read_source

    def _begin_pause(self) -> None:
        if self.memory.paused_since is None:
            self.epoch += 1
        self.holds[0] = True
        self.memory.pause_began(self.now)

    def _do_pause_writes(self, _: FailoverStep) -> None:
        self._begin_pause()
        self.holds = [True] * len(self.holds)
        self.memory.paused(str(index) for index in range(len(self.holds)))

    def _do_drain(self, _: FailoverStep) -> None:
        """What is not answered by its end is not acknowledged any more."""
        self.dropped += sum(self.in_flight)
        self.in_flight = [0] * len(self.in_flight)
        self.memory.drained(str(index) for index in range(len(self.holds)))

    def _do_stop_mirror(self, _: FailoverStep) -> None:
        self.engine = False
        self.memory.mirror_stopped(None if self.memory.on_target else KnownProducers(((),), ()))

    def _do_read_copy(self, _: FailoverStep) -> None:
        end = BEFORE + self.mirrored
        self.memory.copy_read((CopyEnd(end, end),), "", self.now)

    def _do_persist(self, _: FailoverStep) -> None:
        self._store("ok")

    def _store(self, outcome: str) -> None:
        self.memory.storing(self.now)
        self.now += 1
        memory = self.memory
        if memory.on_target:
            new = failback_ended(self.record, 1)
        else:
            copy = tuple(one for one in memory.copy or () if one is not None)
            producers = memory.producers or KnownProducers(((),), ())
            new = failed_over(self.record, copy, memory.reading(), producers, self.epoch, 1)
        if outcome == "ok":
            self._is_stored(new)
        if outcome == "lost after commit":
            self.hidden = new
        if outcome == "refused":
            memory.give_up("the target is away")
        if outcome in ("ok", "refused", "changed by others"):
            memory.known()

    def _do_settle(self, _: FailoverStep) -> None:
        self._known()
        self.memory.known()
        self.memory.give_up("the failover was not stored")

    def _do_take_back(self, step: FailoverStep) -> None:
        self.memory.give_up(step.reason)
        self.memory.taken_back = True
        self.engine = is_mirroring(self.record.state)
        self.holds = [False] * len(self.holds)

    def _do_release(self, _: FailoverStep) -> None:
        self.memory.released = True
        self.holds[0] = False

    def _do_restore_configs(self, _: FailoverStep) -> None:
        self.memory.restored = True

    def _do_tell_groups(self, _: FailoverStep) -> None:
        self.memory.told = True

    def _do_done(self, step: FailoverStep) -> None:
        self.ended = step.reason or "cut_over"

    # -- what must hold --------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raises Violation."""
        stored = self.hidden or self.record
        stopped = stored.state is MirrorState.STOPPED
        if stopped and self.engine:
            raise Violation("the mirror runs behind the cutover")
        if stopped and stored.cutover.not_mirrored:
            self._check_account(stored)
        if stopped and any(self._writes_to_source(index) for index in range(len(self.holds))):
            raise Violation("a gateway writes to the source behind the cutover")
        if self.ended:
            if self.holds[0]:
                raise Violation(f"ended ({self.ended}) with writes held")
            if self.hidden is not None or (self.ended == "cut_over") is not (self.record.state is MirrorState.STOPPED):
                raise Violation(f"ended as {self.ended!r} in {self.record.state}")
            if self.engine is not is_mirroring(self.record.state):
                raise Violation(f"ended in {self.record.state}, mirrored: {self.engine}")

    def _check_account(self, stored: MirrorRecord) -> None:
        """The copy ends where the record says. No acknowledged record that is not on the copy is left out of a number
        that is said to be the source's; and of a source that is there it is the source's."""
        if stored.cutover.stopped_at != (BEFORE + self.mirrored,):
            raise Violation(f"stopped at {stored.cutover.stopped_at}, the copy is at {BEFORE + self.mirrored}")
        left, lacks = stored.cutover.not_mirrored[0], self.acknowledged - self.mirrored
        if stored.cutover.source_answered and left < lacks:
            raise Violation(f"{lacks} acknowledged records are left behind, {left} are told for certain")
        if self.source_up and not stored.cutover.source_answered:
            raise Violation("the source is there, and it is said that it did not answer")


def forward(state: MirrorState = MirrorState.ACTIVE) -> MirrorRecord:
    """A mirror to the target."""
    start = (PartitionStart(0, 0),)
    return MirrorRecord(
        link="l", source_topic="t", mirror_topic="t", mirror_id=1, state=state, starts=start, readable=True
    )


def back(state: MirrorState = MirrorState.ACTIVE) -> MirrorRecord:
    """A failback that is to be ended."""
    ends = (BEFORE,)
    return changed(
        forward(state),
        direction=MirrorDirection.REVERSE,
        stopped_at=ends,
        stopped_copy_at=ends,
        handed_over_at=ends,
        handed_over_from=ends,
    )
