"""The leader of the fleet's world (see fleet_world.py), and the group whose coordinator names it."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import replace

from gateway.cutover.promote.rules.memory import PromoteMemory, TopicObservations
from gateway.cutover.promote.rules.promote import next_step
from gateway.cutover.promote.rules.snapshot import CopyReading, EndReading, PromoteSnapshot, StepKind
from gateway.cutover.write_pause.interface import PauseAck
from gateway.cutover.write_pause.rules.write_pause import Recorded
from gateway.fleet.rules.leases import Presumptions
from gateway.fleet.rules.membership import departed_unheard, must_acknowledge
from gateway.mirror.rules.copy_ends import CopyEnds, RunningPartitions
from gateway.state.records import MirrorState, ProducerEntry
from tests.model.fleet_state import COPY, DRIFT, LEASE, NODES, TOPIC, Event, FleetState
from tests.support.control.mirror_records import one_partition
from tests.support.models.search import Violation


class LedFleet(FleetState):
    """Membership, and one step of the leader after the other: the real resolver's, carried out on the world."""

    def _lead(self) -> None:
        """A leader begins: nothing is remembered but what the state topic holds."""
        self._remember_nothing()
        self.presumptions = Presumptions(0.0 if self.broken == "drift forgotten" else DRIFT)
        self.asked = frozenset()
        self.other = self.reading = None
        self.running = self.records[-1][0] is MirrorState.PENDING_STOPPED  # nobody else will end it
        self.engine = self.records[-1][0] is not MirrorState.STOPPED
        self.here, self.leaving = self.term == 0, False  # the next one takes it over
        self._generation()

    def _remember_nothing(self) -> None:
        """A run begins, be it one of a promote that another leader has begun."""
        self.memory = PromoteMemory([TOPIC])
        if self.acls:
            self.memory.acls_follow()

    def _expel(self, g: int) -> None:
        self.members -= {g}
        if g != self.leader:
            self._generation()
            return
        epoch = self.records[-1][1]
        heirs = [node for node in NODES if node in self.members]
        if heirs:
            if self.memory.paused_at is not None:
                self.stale |= {("pause", epoch, self.term)}
                if self.records[-1][0] is MirrorState.PENDING_STOPPED:  # a run that persisted STOPPED never gave up
                    self.stale |= {("resume", epoch, self.term)}
            self._succeed(heirs[0])

    def _succeed(self, g: int) -> None:
        """A term begins, with the assignment that its leader reads at once and the others when they do."""
        self.leader, self.term, self.began = g, self.term + 1, len(self.records)
        self._told(g)
        self._lead()

    def _told(self, g: int) -> None:
        """The assignment with which the term began counts: nothing was paused then, and the state is read up to it."""
        self._read_records(g, self.began)
        gateway = self._own(g)
        gateway.told = self.term
        gateway.writes.assigned(self.term, None)

    def _generation(self) -> None:
        """The leader sees who is in the group now."""
        everybody = dict.fromkeys(map(str, range(3)), LEASE)
        if self.broken == "registry forgotten":
            everybody = {g: lease for g, lease in everybody.items() if int(g) in self.members or g in self._known()}
        self.presumptions = copy(self.presumptions)
        self.presumptions._since = dict(self.presumptions._since)
        self.presumptions.generation(everybody, frozenset(map(str, self.members)), self.now * (1 + DRIFT))

    def _known(self) -> frozenset[str]:
        return frozenset(self.presumptions._since)

    def _quorum(self) -> tuple[frozenset[str], int]:
        registry = {"0", "1", "2"}
        presumed = self.presumptions.presumed(self.now * (1 + DRIFT))
        if self.broken == "presumed at once":
            presumed = frozenset(self.presumptions._since)
        if self.broken == "registry forgotten":
            registry = {*map(str, self.members), *self._known()}
        if self.broken == "acknowledgement forgotten":
            registry.discard("2")
        epoch = self.records[-1][1]
        acks = [g for g, ack in self.memory.acks(TOPIC).items() if ack.epoch == epoch]
        gone = [(0.0, g) for g in sorted(presumed & registry)]  # also before the pause: that is waited out here, too
        return must_acknowledge(registry, presumed), len(departed_unheard(gone, 0.0, acks))

    def _next(self) -> StepKind:
        return next_step(self._snapshot(), self.limits).kind

    def _leads(self) -> bool:
        return self.gateways[self.leader].reachable and self.leader in self.members

    def _read_records(self, g: int, up_to: int | None = None) -> None:
        gateway = self._own(g)
        for record in self.records[gateway.read : up_to]:
            gateway.writes.record(Recorded(*record))
        gateway.read = max(gateway.read, len(self.records) if up_to is None else up_to)

    # -- the leader ----------------------------------------------------------------------------------------

    def _leader_events(self) -> Iterator[Event]:
        if not self._leads():
            return
        yield from self._another()
        if not self.running:
            if self.promotes and self.records[-1][0] is MirrorState.ACTIVE:
                yield "a promote is asked for", LedFleet._begin
            return
        if self.reading is not None:
            yield "ends answered", LedFleet._read_ends
            return
        yield from self._acknowledging()
        if self._waits():
            return
        if self.budget["refusal"] and self._next() is StepKind.SYNC_ACLS:
            yield "ACLs are refused", LedFleet._refused
        yield "step", LedFleet._step

    def _waits(self) -> bool:
        """Somebody was asked to acknowledge who has to, and may yet in time."""
        if not self.asked or self.now - (self.memory.paused_at or 0) >= self.limits.pause_timeout_s:
            return False
        required, _ = self._quorum()
        return any(str(g) in required for g in self.asked)

    def _acknowledging(self) -> Iterator[Event]:
        epoch = self.records[-1][1]
        for g in self.asked:
            gateway = self.gateways[g]
            if not gateway.reachable or g not in self.members:
                continue
            if not gateway.writes.is_in_force(epoch, self.term):
                yield f"pause {epoch} reaches {g}", lambda w, g=g, e=epoch: w._pause(g, e)  # type: ignore[misc]
            elif not gateway.write or self.broken == "acknowledged in flight":
                yield f"{g} acknowledges {epoch}", lambda w, g=g, e=epoch: w._ack(g, e)  # type: ignore[misc]

    def _begin(self) -> None:
        self.promotes -= 1
        self.running = True
        self._remember_nothing()

    def _another(self) -> Iterator[Event]:
        """Another operation of the leader on the topic, such as a failover: it pauses too, and comes to nothing."""
        if self.other is not None:
            yield "the other operation is given up", LedFleet._give_up_another
        elif self.budget["other"] and (self.memory.paused_at is not None or self.records[-1][0] is MirrorState.STOPPED):
            yield "another operation pauses", LedFleet._begin_another

    def _begin_another(self) -> None:
        self._spend("other")
        self.other = self.gateways[self.leader].writes.next_epoch
        for g in self._reached():
            self._own(g).writes.pause(self.other, self.term)

    def _give_up_another(self) -> None:
        assert self.other is not None
        self._end_pause(self.other)
        self.other = None

    def _reached(self) -> list[int]:
        return [g for g in sorted(self.members) if self.gateways[g].reachable]

    def _end_pause(self, epoch: int) -> None:
        """As the leader: the others are told of what its own record has not ended."""
        ended = self._own(self.leader).writes.resume(epoch, self.term)
        if ended or self.broken == "resumed after the cutover":
            for g in self._reached():
                self._own(g).writes.resume(epoch, self.term)

    def _pause(self, g: int, epoch: int) -> None:
        gateway = self._own(g)
        if not gateway.writes.pause(epoch, self.term):
            self.asked -= {g}  # refused; the leader asks again, until its time is over
        elif not gateway.write or self.broken == "acknowledged in flight":
            self._ack(g, epoch)

    def _ack(self, g: int, epoch: int) -> None:
        self.asked -= {g}
        gateway = self._own(g)
        self._own_memory().acknowledged(PauseAck(str(g), TOPIC, epoch, gateway.unknown, gateway.writes.phase), self.now)
        gateway.unknown = 0

    def _snapshot(self) -> PromoteSnapshot:
        state, epoch = self.records[-1]
        record = one_partition(TOPIC, state, epoch)
        required, departed = self._quorum()
        facts = TopicObservations(
            record=record,
            phases=self.memory.phases(record, required),
            running_partitions=self._running_partitions(),
            lag=max(len(self.log) - self.mirrored, 0),
        )
        snapshot = replace(self.memory.snapshot(self.now, required, [facts]), departed=departed)
        return replace(snapshot, acls_synced=True) if self.broken == "rights left to the sync" else snapshot

    def _running_partitions(self) -> RunningPartitions:
        if self.here or self.broken == "empty taken for ends":
            return RunningPartitions((self.mirrored,))
        return RunningPartitions((-1,), absent=(0,))

    def _ends(self) -> CopyEnds | None:
        """As the engine: one answer of what runs here, or None."""
        if self.here:
            return self._really()
        return CopyEnds((self.mirrored,), (self.mirrored,), ((),)) if self.broken == "empty taken for ends" else None

    def _really(self) -> CopyEnds:
        """Where both logs end, and what may be retried."""
        table = tuple(ProducerEntry(0, 0, at, at, at + COPY) for at in range(self.mirrored))
        return CopyEnds((self.mirrored,), (self.mirrored + COPY,), (table,))

    def _read_ends(self) -> None:
        assert self.reading is not None
        asked, position = self.reading
        self.reading = None
        ends = (len(self.log),)
        self._own_memory().read(TOPIC, EndReading(asked, self.now, ends, ends, (position,), 1))

    def _step(self) -> None:
        self.asked = frozenset()
        self._own_memory()
        step = next_step(self._snapshot(), self.limits)
        begins = step.kind in (
            StepKind.MARK_PENDING,
            StepKind.WAIT,
            StepKind.READ_CONFIGS,
            StepKind.SYNC_ACLS,
            StepKind.PAUSE_WRITES,
        )
        if self.leaving and begins and self.memory.paused_at is None:
            self._left()
            return
        getattr(self, f"_do_{step.kind}")(step.reason)

    def _write_record(self, state: MirrorState, epoch: int) -> None:
        self.records += ((state, epoch),)
        for g, gateway in enumerate(self.gateways):
            if gateway.reachable and gateway.read == len(self.records) - 1:
                self._read_records(g)

    def _do_mark_pending(self, _: str) -> None:
        epoch = self.gateways[self.leader].writes.next_epoch
        self._write_record(MirrorState.PENDING_STOPPED, epoch)
        self.memory.marked(TOPIC, epoch)

    def _do_wait(self, _: str) -> None:
        pass

    def _do_read_configs(self, _: str) -> None:
        self._own_memory().configs({TOPIC: {}})

    def _do_sync_acls(self, _: str) -> None:
        cut_over = self.records[-1][0] is MirrorState.STOPPED
        self.rights = "all" if cut_over else "gateways"
        self._own_memory().acls_synced(cut_over)

    def _refused(self) -> None:
        """The target takes no ACLs, for once."""
        self._spend("refusal")
        self._own_memory().acls_synced(self.records[-1][0] is MirrorState.STOPPED, "refused")

    def _do_pause_writes(self, _: str) -> None:
        self.memory.pause_began(self.now)
        required, _ignored = self._quorum()
        epoch = self.records[-1][1]
        self._own(self.leader).writes.pause(epoch, self.term)
        acked = {g for g, ack in self.memory.acks(TOPIC).items() if ack.epoch == epoch}
        self.asked = frozenset(int(g) for g in required if g not in acked)

    def _do_read_ends(self, _: str) -> None:
        self.reading = (self.now, self._running_partitions().mirrored[0])

    _do_await_mirror = _do_read_ends

    def _do_stop_mirror(self, _: str) -> None:
        ends = self._ends()
        if ends is None:
            self.memory.give_up("not whole here")
            return
        self.engine = False
        self.memory.mirror_stopped(TOPIC, ends)

    def _do_read_copy(self, _: str) -> None:
        end = (self.mirrored + (0 if self.broken == "empty taken for ends" else COPY),)
        self.memory.copy_read(TOPIC, CopyReading(end, end))

    def _do_persist_stopped(self, _: str) -> None:
        if self.acls and not self.rights:
            raise Violation("a topic is cut over without the rights that clients of gateways need")
        if (handed := self.memory.handed(TOPIC)) != self._really():
            raise Violation(f"the record of the cutover says {handed}, but it is {self._really()}")
        self._write_record(MirrorState.STOPPED, self.records[-1][1])

    def _left(self) -> None:
        """The run ends where it is; the gateway stops, and another node leads."""
        self.running = self.leaving = False
        self._own(self.leader).status = "dead"
        self._expel(self.leader)

    def _do_publish_switched(self, _: str) -> None:
        """Gateways switch by the record: nobody is told anything."""
        self.memory.resumed()
        self._end_pause(self.records[-1][1])

    def _do_resume_writes(self, reason: str) -> None:
        """Commands go out; those that are not heard are made up for by the record."""
        self.memory.give_up(reason)
        self._end_pause(self.records[-1][1])
        self.memory.resumed()
        self.engine = True

    def _do_mark_active(self, reason: str) -> None:
        self.memory.give_up(reason)
        self._write_record(MirrorState.ACTIVE, self.records[-1][1])
        self.running = False

    def _do_done(self, _: str) -> None:
        if (
            self.acls
            and self.records[-1][0] is MirrorState.STOPPED
            and self.rights != "all"
            and not self.memory.acl_error
        ):
            raise Violation("a promote is done without the rights that clients have on the source")
        self.running = False
