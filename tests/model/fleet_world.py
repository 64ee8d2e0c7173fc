"""A fleet of three gateways in which a topic is promoted, and bad luck: crashes, pauses, partitions, leader changes.

Gateways 0 and 1 are nodes that may lead, 2 is a sidecar. The leader's decisions are those of the real resolver
(`domain/promote.py`) and its memory; each gateway's are those of the real `FenceView` and `WriteLease`; who is waited
for is told by the real `Presumptions` and `fence_quorum`. Played are: the group's coordinator, the state topic, the
network, the source's log and the mirror.

Time is in ticks. Clocks are as bad as allowed, always in the dangerous direction: a holder's runs slow, the
presumer's fast. `broken` names a fault to seed: a rule of the protocol that this world leaves out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from typing import Any

from gateway.domain.fence_view import FenceView
from gateway.domain.leases import Presumptions, WriteLease
from gateway.domain.membership import fence_quorum
from gateway.domain.ports import FenceAck
from gateway.domain.promote import next_step
from gateway.domain.promote_memory import PromoteMemory, TopicFacts
from gateway.domain.promote_snapshot import EndReading, PromoteLimits, PromoteSnapshot, StepKind
from gateway.domain.records import MirrorRecord, MirrorState
from gateway.domain.routing import Phase
from tests.model.search import Violation

TOPIC = "t"
LEASE, DRIFT = 1.0, 0.5
LANDS_WITHIN = 1  # ticks in which a write lands whose gateway does not run any more
LIMITS = PromoteLimits(lag_threshold=1, fence_timeout_s=5, grace_s=1, unknown_grace_s=2, source_timeout_s=2)
NODES = (0, 1)
BROKEN = (
    "lease ignored",
    "answered without a lease",
    "acknowledgement forgotten",
    "acknowledged in flight",
    "drift forgotten",
    "presumed at once",
    "epochs ignored",
    "registry forgotten",
)


class Gateway:
    """One gateway. `write`: '' | checked | sent | landed; `sent_at`; `place` in the source's log."""

    __slots__ = ("cut", "lease", "place", "read", "sent_at", "status", "unknown", "view", "write")

    def __init__(self) -> None:
        self.status = "up"  # up | paused | dead
        self.cut = False  # from the target and from all peers, not from the source
        self.lease = WriteLease(LEASE)
        self.view = FenceView(MirrorState.ACTIVE, 0)
        self.read = 1  # records of the state topic
        self.write = ""
        self.sent_at = 0
        self.place = -1
        self.unknown = 0

    def clone(self) -> Gateway:
        other: Gateway = object.__new__(Gateway)
        other.status, other.cut, other.lease, other.read = self.status, self.cut, self.lease, self.read
        other.write, other.sent_at, other.place, other.unknown = self.write, self.sent_at, self.place, self.unknown
        other.view = view = object.__new__(FenceView)
        old = self.view
        view.state, view.epoch, view._fenced, view._ended = old.state, old.epoch, old._fenced, old._ended
        return other

    def renewed(self, now: int) -> None:
        self.lease = WriteLease(LEASE)
        self.lease.renewed(now / (1 + DRIFT))

    @property
    def reachable(self) -> bool:
        return self.status == "up" and not self.cut

    def key(self, now: int) -> tuple[Any, ...]:
        view = self.view
        sent = min(now - self.sent_at, LANDS_WITHIN) if self.write == "sent" else 0
        return (
            self.status, self.cut, round(self.lease.left_s(now / (1 + DRIFT)), 2), view.state, view.epoch,
            view._fenced, view._ended, self.read, self.write, sent, self.place, self.unknown,
        )  # fmt: skip


class FleetWorld:
    """One state of the world. `budget`: how often each thing may happen yet; `faults`: all of them together.

    `actors`: the gateways that take writes and have bad luck. 1 is like 2 until it leads, and then like 0, so that
    with one fault nothing new is found with it.
    """

    def __init__(
        self,
        budget: dict[str, int],
        *,
        faults: int = 1,
        writes: int = 1,
        promotes: int = 1,
        actors: tuple[int, ...] = (0, 2),
        limits: PromoteLimits = LIMITS,
        broken: str = "",
    ) -> None:
        self.limits = limits
        self.broken = broken
        self.actors = actors
        self.gateways = [Gateway() for _ in range(3)]
        self.now = 0
        self.records: tuple[tuple[MirrorState, int], ...] = ((MirrorState.ACTIVE, 0),)
        self.members = frozenset((0, 1, 2))
        self.leader = 0
        self.log: tuple[bool, ...] = ()  # the source; True: acknowledged
        self.limbo: tuple[int, ...] = ()  # deadlines of writes whose gateway gave them up
        self.mirrored = 0
        self.engine = True
        self.stale: frozenset[tuple[str, int]] = frozenset()  # commands of a leader that is one no more
        self.budget = {**dict.fromkeys(("crash", "pause", "cut", "doubt"), 0), **budget, "write": writes}
        self.faults = faults
        self.promotes = promotes  # how often somebody asks for it
        self._lead()
        for gateway in self.gateways:
            gateway.renewed(0)

    def _lead(self) -> None:
        """A leader begins: nothing is remembered but what the state topic holds."""
        self.memory = PromoteMemory([TOPIC])
        self.presumptions = Presumptions(0.0 if self.broken == "drift forgotten" else DRIFT)
        self.asked: frozenset[int] = frozenset()
        self.reading: tuple[int, int] | None = None
        self.running = self.records[-1][0] is MirrorState.PENDING_STOPPED  # nobody else will end it
        self.engine = self.records[-1][0] is not MirrorState.STOPPED
        self._generation()

    def clone(self) -> FleetWorld:
        """What an event changes of it is copied by `_own` and `_own_memory`."""
        other: FleetWorld = object.__new__(FleetWorld)
        other.__dict__.update(self.__dict__)
        other.gateways = list(self.gateways)
        return other

    def _own(self, g: int) -> Gateway:
        self.gateways[g] = own = self.gateways[g].clone()
        return own

    def _own_memory(self) -> PromoteMemory:
        self.memory = memory = copy(self.memory)
        memory._epochs, memory._acked_at = dict(memory._epochs), dict(memory._acked_at)
        memory._acks = {topic: dict(acks) for topic, acks in memory._acks.items()}
        memory._drains, memory._stopped = dict(memory._drains), set(memory._stopped)
        return memory

    def _spend(self, what: str) -> None:
        self.budget = {**self.budget, what: self.budget[what] - 1}
        self.faults -= what != "write"

    # -- what tells states apart ---------------------------------------------------------------------------

    def key(self) -> tuple[Any, ...]:
        memory = self.memory
        return (
            *(gateway.key(self.now) for gateway in self.gateways),
            self.records, self.members, self.leader, self.log, tuple(d - self.now for d in self.limbo),
            self.mirrored, self.engine, self.stale, tuple(self.budget.values()), self.faults, self.promotes,
            self.running, self.asked, self._age(memory.fenced_at, 5), memory.committing, bool(memory.gave_up),
            memory._epochs.get(TOPIC), TOPIC in memory._stopped,
            tuple((g, a.epoch, a.unknown_outcomes) for g, a in sorted(memory.acks(TOPIC).items())),
            tuple(sorted((g, self._age(at / (1 + DRIFT), 2)) for g, (at, _) in self.presumptions._since.items())),
            self._drain_key(),
        )  # fmt: skip

    def _drain_key(self) -> tuple[Any, ...]:
        drain, acked_at = self.memory._drains.get(TOPIC), self.memory._acked_at.get(TOPIC, -1)
        reading = None if self.reading is None else (self._age(self.reading[0], 2), self.reading[1])
        if drain is None:
            return reading, self._age(acked_at, 1)
        first, last = drain.first, drain.last
        ages = self._age(drain.since, 3), self._age(first.asked, 1), first.asked >= acked_at
        return reading, first.ends, last.ends, last.mirrored, min(max(drain.stable_s, 0), 2), *ages

    def _age(self, at: float | None, enough: float) -> float | None:
        return None if at is None else round(min(self.now - at, enough), 2)

    # -- what may happen -----------------------------------------------------------------------------------

    def events(self) -> Iterator[tuple[str, Callable[[FleetWorld], None]]]:
        if self.ending == "STOPPED" and not any(g.write or self._may_write(g) for g in self.gateways):
            return
        for g, gateway in enumerate(self.gateways):
            yield from self._gateway_events(g, gateway)
        if self.engine and self.mirrored < len(self.log):
            yield "mirror", lambda w: setattr(w, "mirrored", w.mirrored + 1)
        if self.limbo:
            yield "a lost write lands", lambda w: w._limbo(lands=True)
            yield "a lost write is dropped", lambda w: w._limbo(lands=False)
        yield from self._leader_events()
        if not self._overdue() and not self.ending and not self._prompt():
            yield "tick", FleetWorld._tick

    def _tick(self) -> None:
        """Time goes on; who can renews its lease."""
        self.now += 1
        for g, gateway in enumerate(self.gateways):
            if gateway.reachable and g in self.members:
                self._own(g).renewed(self.now)

    def _prompt(self) -> bool:
        """The leader has something to do that takes no time: a leader that is slow is one that is paused."""
        if not self.running:
            return all(g.reachable for g in self.gateways) and len(self.members) == len(self.gateways)
        if not self._leads():
            return False
        if self.reading is not None:
            return True
        return not self._waits() and self._next() not in (StepKind.READ_ENDS, StepKind.AWAIT_MIRROR, StepKind.FENCE)

    def _next(self) -> StepKind:
        return next_step(self._snapshot(), self.limits).kind

    def _leads(self) -> bool:
        return self.gateways[self.leader].reachable and self.leader in self.members

    def _overdue(self) -> bool:
        """Something must happen before time goes on: who runs and is connected needs no time for what it does.

        What may take time is what is paused, cut off or dead, and the source's answer to a write.
        """
        if any(deadline <= self.now for deadline in self.limbo) or (self.engine and self.mirrored < len(self.log)):
            return True
        return any(self._gateway_overdue(g, gateway) for g, gateway in enumerate(self.gateways))

    def _gateway_overdue(self, g: int, gateway: Gateway) -> bool:
        if gateway.status != "up":
            return gateway.write == "sent" and self.now - gateway.sent_at >= LANDS_WITHIN
        if gateway.write in ("checked", "landed") or (gateway.write and not self._leased(gateway)):
            return True
        if gateway.cut:
            return False
        if gateway.read < len(self.records) or (g not in self.members and not gateway.write and self._leads()):
            return True
        return g in self.asked and gateway.view.phase is not Phase.FENCED and self._leads()

    def _gateway_events(self, g: int, gateway: Gateway) -> Iterator[tuple[str, Callable[[FleetWorld], None]]]:
        up = gateway.status == "up"
        if gateway.write == "sent":
            yield f"the source takes a write of {g}", lambda w: w._land(g)
        if up:
            yield from self._running(g, gateway)
        if gateway.status == "paused":
            yield f"{g} goes on", lambda w: w._resume(g)
        if gateway.cut and gateway.status != "dead":
            yield f"{g} is connected again", lambda w: setattr(w._own(g), "cut", False)
        if g in self.members and not gateway.reachable:
            yield f"the group drops {g}", lambda w: w._expel(g)
        if not self.ending and g in self.actors:
            yield from self._bad_luck(g, gateway)

    def _running(self, g: int, gateway: Gateway) -> Iterator[tuple[str, Callable[[FleetWorld], None]]]:
        if not gateway.write and self.budget["write"] and g in self.actors and self._may_write(gateway):
            yield f"{g} takes a write", lambda w: w._take_write(g)
        if gateway.write == "checked":
            yield f"{g} forwards it", lambda w: w._send(g)
        if gateway.write == "sent" and not self._leased(gateway):
            yield f"{g} closes its connections", lambda w: w._abort(g)
        if gateway.write == "landed":
            yield f"{g} answers", lambda w: w._answer(g)
        if not gateway.cut:
            if gateway.read < len(self.records):
                yield f"{g} reads the records", lambda w: w._read_records(g)
            if g not in self.members or not self._leased(gateway):
                yield f"{g} renews", lambda w: w._renew(g)
            for command, epoch in self.stale:
                yield f"a late {command} {epoch} reaches {g}", lambda w, c=command, e=epoch: w._stale(g, c, e)  # type: ignore[misc]

    def _bad_luck(self, g: int, gateway: Gateway) -> Iterator[tuple[str, Callable[[FleetWorld], None]]]:
        if not self.faults:
            return
        if self.budget["crash"] and gateway.status != "dead":
            yield f"{g} is killed", lambda w: w._crash(g)
        if self.budget["pause"] and gateway.status == "up":
            yield f"{g} is paused", lambda w: w._fault("pause", g, "status", "paused")
        if self.budget["cut"] and gateway.reachable:
            yield f"{g} is cut off", lambda w: w._fault("cut", g, "cut", True)
        if self.budget["doubt"] and gateway.reachable and g in self.members:
            yield f"the group drops {g}, which lives", lambda w: w._doubt(g)

    def _fault(self, what: str, g: int, attribute: str, value: object) -> None:
        self._spend(what)
        setattr(self._own(g), attribute, value)

    # -- a gateway -----------------------------------------------------------------------------------------

    def _leased(self, gateway: Gateway) -> bool:
        return self.broken == "lease ignored" or gateway.lease.valid(self.now / (1 + DRIFT))

    def _may_write(self, gateway: Gateway) -> bool:
        return gateway.status != "dead" and gateway.view.phase is Phase.FORWARD and self._leased(gateway)

    def _take_write(self, g: int) -> None:
        self._spend("write")
        self._own(g).write = "checked"

    def _send(self, g: int) -> None:
        gateway = self._own(g)
        gateway.write, gateway.sent_at = "sent", self.now

    def _land(self, g: int) -> None:
        gateway = self._own(g)
        gateway.write, gateway.place = ("landed", len(self.log)) if gateway.status != "dead" else ("", -1)
        self.log += (False,)

    def _answer(self, g: int) -> None:
        gateway = self._own(g)
        if self._leased(gateway) or self.broken == "answered without a lease":
            self.log = (*self.log[: gateway.place], True, *self.log[gateway.place + 1 :])
        gateway.write, gateway.place = "", -1

    def _abort(self, g: int) -> None:
        gateway = self._own(g)
        self.limbo += (self.now + LANDS_WITHIN,)
        gateway.write, gateway.unknown = "", gateway.unknown + 1

    def _limbo(self, *, lands: bool) -> None:
        self.limbo = self.limbo[1:]
        if lands:
            self.log += (False,)

    def _crash(self, g: int) -> None:
        self._fault("crash", g, "status", "dead")
        gateway = self._own(g)
        if gateway.write == "sent":
            self.limbo += (self.now + LANDS_WITHIN,)
        gateway.write, gateway.place = "", -1

    def _resume(self, g: int) -> None:
        self._own(g).status = "up"

    def _read_records(self, g: int) -> None:
        gateway = self._own(g)
        for record in self.records[gateway.read :]:
            gateway.view.record(*record)
        gateway.read = len(self.records)

    def _renew(self, g: int) -> None:
        """A heartbeat; one that the coordinator does not know joins again and is admitted with what is in force."""
        gateway = self._own(g)
        if g in self.members:
            gateway.renewed(self.now)
            return
        gateway.lease = WriteLease(LEASE)
        orphaned = self.leader not in self.members and g in NODES
        if gateway.write or not (self._leads() or orphaned):
            return  # what is in flight is ended first; nobody is there to admit it
        self.members |= {g}
        if orphaned:
            self.leader = g
            self._lead()
        self._generation()
        state, epoch = self.records[-1]
        fenced = self.memory._epochs.get(TOPIC) if self.memory.fenced_at is not None else None
        gateway.view, gateway.read = FenceView(state, epoch, fenced), len(self.records)
        gateway.renewed(self.now)

    def _stale(self, g: int, command: str, epoch: int) -> None:
        self.stale -= {(command, epoch)}
        view = self._own(g).view
        if self.broken == "epochs ignored":
            view._fenced = command == "fence"
        elif command == "fence":
            view.fence(epoch)
        else:
            view.unfence(epoch)

    # -- the group -----------------------------------------------------------------------------------------

    def _doubt(self, g: int) -> None:
        self._spend("doubt")
        self._expel(g)

    def _expel(self, g: int) -> None:
        self.members -= {g}
        if g != self.leader:
            self._generation()
            return
        epoch = self.records[-1][1]
        heirs = [node for node in NODES if node in self.members]
        if heirs:
            if self.memory.fenced_at is not None:
                self.stale |= {("fence", epoch)}
                if self.records[-1][0] is MirrorState.PENDING_STOPPED:  # a run that persisted STOPPED never gave up
                    self.stale |= {("unfence", epoch)}
            self.leader = heirs[0]
            self._lead()

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
        quorum = fence_quorum(registry, presumed, acks)
        return quorum.required, len(quorum.departed)

    # -- the leader ----------------------------------------------------------------------------------------

    def _leader_events(self) -> Iterator[tuple[str, Callable[[FleetWorld], None]]]:
        if not self._leads():
            return
        if not self.running:
            if self.promotes and self.records[-1][0] is MirrorState.ACTIVE:
                yield "a promote is asked for", FleetWorld._begin
            return
        if self.reading is not None:
            yield "ends answered", FleetWorld._read_ends
            return
        yield from self._acknowledging()
        if not self._waits():
            yield "step", FleetWorld._step

    def _waits(self) -> bool:
        """Somebody was asked to acknowledge who has to, and may yet in time."""
        if not self.asked or self.now - (self.memory.fenced_at or 0) >= self.limits.fence_timeout_s:
            return False
        required, _ = self._quorum()
        return any(str(g) in required for g in self.asked)

    def _acknowledging(self) -> Iterator[tuple[str, Callable[[FleetWorld], None]]]:
        epoch = self.records[-1][1]
        for g in self.asked:
            gateway = self.gateways[g]
            if not gateway.reachable or g not in self.members:
                continue
            if gateway.view.phase is not Phase.FENCED or gateway.view.epoch != epoch:
                yield f"fence {epoch} reaches {g}", lambda w, g=g, e=epoch: w._hold(g, e)  # type: ignore[misc]
            elif not gateway.write or self.broken == "acknowledged in flight":
                yield f"{g} acknowledges {epoch}", lambda w, g=g, e=epoch: w._ack(g, e)  # type: ignore[misc]

    def _begin(self) -> None:
        self.promotes -= 1
        self.running = True
        self.memory = PromoteMemory([TOPIC])

    def _hold(self, g: int, epoch: int) -> None:
        gateway = self._own(g)
        if gateway.view.fence(epoch) and (not gateway.write or self.broken == "acknowledged in flight"):
            self._ack(g, epoch)

    def _ack(self, g: int, epoch: int) -> None:
        self.asked -= {g}
        gateway = self._own(g)
        self._own_memory().acknowledged(FenceAck(str(g), TOPIC, epoch, gateway.unknown), self.now)
        gateway.unknown = 0

    def _snapshot(self) -> PromoteSnapshot:
        state, epoch = self.records[-1]
        record = MirrorRecord(
            link="l", source_topic=TOPIC, mirror_topic=TOPIC, mirror_id=1, state=state, fence_epoch=epoch
        )
        required, departed = self._quorum()
        acked = {g for g, ack in self.memory.acks(TOPIC).items() if ack.epoch == epoch}
        believed = Phase.SWITCHED if state is MirrorState.STOPPED else Phase.FORWARD
        phases = {g: Phase.FENCED if g in acked and believed is Phase.FORWARD else believed for g in required}
        facts = TopicFacts(
            record=record, phases=phases, positions=(self.mirrored,), lag=max(len(self.log) - self.mirrored, 0)
        )
        return replace(self.memory.snapshot(self.now, required, [facts]), departed=departed)

    def _read_ends(self) -> None:
        assert self.reading is not None
        asked, position = self.reading
        self.reading = None
        ends = (len(self.log),)
        self._own_memory().read(TOPIC, EndReading(asked, self.now, ends, ends, (position,)))

    def _step(self) -> None:
        self.asked = frozenset()
        self._own_memory()
        step = next_step(self._snapshot(), self.limits)
        getattr(self, f"_do_{step.kind}")(step.reason)

    def _write_record(self, state: MirrorState, epoch: int) -> None:
        self.records += ((state, epoch),)
        for g, gateway in enumerate(self.gateways):
            if gateway.reachable and gateway.read == len(self.records) - 1:
                self._read_records(g)

    def _do_mark_pending(self, _: str) -> None:
        epoch = self.records[-1][1] + 1
        self._write_record(MirrorState.PENDING_STOPPED, epoch)
        self.memory.marked(TOPIC, epoch)

    def _do_wait(self, _: str) -> None:
        pass

    def _do_fence(self, _: str) -> None:
        self.memory.fence_began(self.now)
        required, _ignored = self._quorum()
        epoch = self.records[-1][1]
        acked = {g for g, ack in self.memory.acks(TOPIC).items() if ack.epoch == epoch}
        self.asked = frozenset(int(g) for g in required if g not in acked)

    def _do_read_ends(self, _: str) -> None:
        self.reading = (self.now, self.mirrored)

    _do_await_mirror = _do_read_ends

    def _do_stop_mirror(self, _: str) -> None:
        self.engine = False
        self.memory.mirror_stopped(TOPIC)

    def _do_persist_stopped(self, _: str) -> None:
        self._write_record(MirrorState.STOPPED, self.records[-1][1])

    def _do_publish_switched(self, _: str) -> None:
        raise Violation("gateways switch by the record")

    def _do_unfence(self, reason: str) -> None:
        """Commands go out; those that are not heard are made up for by the record."""
        self.memory.give_up(reason)
        epoch = self.records[-1][1]
        for g in self.members:
            if self.gateways[g].reachable:
                self._own(g).view.unfence(epoch)
        self.memory.unfenced()
        self.engine = True

    def _do_mark_active(self, reason: str) -> None:
        self.memory.give_up(reason)
        self._write_record(MirrorState.ACTIVE, self.records[-1][1])
        self.running = False

    def _do_done(self, _: str) -> None:
        self.running = False

    # -- what must hold ------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raises Violation."""
        if self.records[-1][0] is not MirrorState.STOPPED:
            return
        if any(self.log[self.mirrored :]):
            raise Violation("a record that was acknowledged is not on the target")
        for g, gateway in enumerate(self.gateways):
            if self._may_write(gateway):
                raise Violation(f"{g} may write to the source after STOPPED")

    @property
    def ending(self) -> str:
        """Done, and everybody that lives and can be reached knows; or nobody is left to do anything."""
        state = self.records[-1][0]
        if self.running or state is MirrorState.PENDING_STOPPED or (state is MirrorState.ACTIVE and self.promotes):
            return "no leader" if not any(self.gateways[g].status == "up" for g in NODES) else ""
        if any(g.reachable and g.read < len(self.records) for g in self.gateways):
            return ""
        return state.value
