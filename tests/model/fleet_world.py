"""A fleet of three gateways in which a topic is promoted, and bad luck: crashes, pauses, partitions, leader changes.

Gateways 0 and 1 are nodes that may lead, 2 is a sidecar. The leader's decisions are those of the real resolver
(`cutover/promote/rules/promote.py`) and its memory; each gateway's are those of the real `WritePause` and
`WriteLease`; who is waited
for is told by the real `Presumptions` and `must_acknowledge`. Played are: the group's coordinator, the state topic, the
network, the source's log and the mirror.

Time is in ticks. Clocks are as bad as allowed, always in the dangerous direction: a holder's runs slow, the
presumer's fast. `broken` names a fault to seed: a rule of the protocol that this world leaves out.
"""

from __future__ import annotations

from collections.abc import Iterator

from gateway.cutover.promote.rules.snapshot import StepKind
from gateway.cutover.write_pause.rules.write_pause import WritePhase
from gateway.fleet.rules.leases import WriteLease
from gateway.state.records import MirrorState
from tests.model.fleet_leader import LedFleet
from tests.model.fleet_state import DRIFT, LANDS_WITHIN, LEASE, NODES, Event, Gateway
from tests.support.models.search import Violation


class FleetWorld(LedFleet):
    """Everything that may happen, and what must hold."""

    # -- what may happen -----------------------------------------------------------------------------------

    def events(self) -> Iterator[Event]:
        if self.ending == "STOPPED" and not any(g.write or self._may_write(g) for g in self.gateways):
            return
        for g, gateway in enumerate(self.gateways):
            yield from self._gateway_events(g, gateway)
        if self.engine and self.mirrored < len(self.log) and self._is_mirrored():
            yield "mirror", lambda w: setattr(w, "mirrored", w.mirrored + 1)
        yield from self._moves()
        if self.limbo:
            yield "a lost write lands", lambda w: w._limbo(lands=True)
            yield "a lost write is dropped", lambda w: w._limbo(lands=False)
        yield from self._leader_events()
        if not self._overdue() and not self.ending and not self._prompt():
            yield "tick", FleetWorld._tick

    def _is_mirrored(self) -> bool:
        """By the leader, or by another node: which does not while it has paused."""
        return self.here or self.memory.paused_at is None

    def _moves(self) -> Iterator[Event]:
        """The partition goes from gateway to gateway, and a leader stops in order."""
        if self.engine and not self.here and self._leads():
            yield "partition returns", lambda w: setattr(w, "here", True)
        if not self.faults or self.ending or not self._leads():
            return
        if self.budget["release"] and self.here and self.engine:
            yield "partition released", lambda w: w._move("release", "here", False)
        if self.budget["leave"] and self.running and not self.gateways[self.leader].write:
            yield "leader leaves in order", lambda w: w._move("leave", "leaving", True)

    def _move(self, what: str, attribute: str, value: object) -> None:
        self._spend(what)
        setattr(self, attribute, value)

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
        return not self._waits() and self._next() not in (
            StepKind.READ_ENDS,
            StepKind.AWAIT_MIRROR,
            StepKind.PAUSE_WRITES,
        )

    def _overdue(self) -> bool:
        """Something must happen before time goes on: who runs and is connected needs no time for what it does.

        What may take time is what is paused, cut off or dead, and the source's answer to a write.
        """
        if any(deadline <= self.now for deadline in self.limbo):
            return True
        if self.engine and (self.mirrored < len(self.log) or not self.here) and self._is_mirrored():
            return True
        return any(self._gateway_overdue(g, gateway) for g, gateway in enumerate(self.gateways))

    def _gateway_overdue(self, g: int, gateway: Gateway) -> bool:
        if gateway.status != "up":
            return gateway.write == "sent" and self.now - gateway.sent_at >= LANDS_WITHIN
        if gateway.write in ("checked", "landed") or (gateway.write and not self._leased(gateway)):
            return True
        if gateway.cut:
            return False
        if gateway.read < len(self.records) or (g in self.members and gateway.told < self.term):
            return True
        if g not in self.members and not gateway.write and self._leads():
            return True
        return g in self.asked and not gateway.writes.is_in_force(self.records[-1][1], self.term) and self._leads()

    def _gateway_events(self, g: int, gateway: Gateway) -> Iterator[Event]:
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

    def _running(self, g: int, gateway: Gateway) -> Iterator[Event]:
        stops = self.leaving and g == self.leader
        if not gateway.write and self.budget["write"] and g in self.actors and self._may_write(gateway) and not stops:
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
            if g in self.members and gateway.told < self.term:
                yield f"{g} reads its assignment", lambda w: w._told(g)
            if g not in self.members or not self._leased(gateway):
                yield f"{g} renews", lambda w: w._renew(g)
            for late in self.stale:
                yield f"a late {late[0]} {late[1]} reaches {g}", lambda w, late=late: w._stale(g, *late)  # type: ignore[misc]

    def _bad_luck(self, g: int, gateway: Gateway) -> Iterator[Event]:
        if not self.faults:
            return
        if self.budget["crash"] and gateway.status != "dead":
            yield f"{g} is killed", lambda w: w._crash(g)
        if self.budget["pause"] and gateway.status == "up":
            yield f"{g} is paused", lambda w: w._fault("pause", g, "status", "paused")
        if self.budget["cut"] and gateway.reachable:
            yield f"{g} is cut off", lambda w: w._fault("cut", g, "cut", True)
        if self.budget["outcome_is_unknown"] and gateway.reachable and g in self.members:
            yield f"the group drops {g}, which lives", lambda w: w._doubt(g)

    def _fault(self, what: str, g: int, attribute: str, value: object) -> None:
        self._spend(what)
        setattr(self._own(g), attribute, value)

    # -- a gateway -----------------------------------------------------------------------------------------

    def _leased(self, gateway: Gateway) -> bool:
        return self.broken == "lease ignored" or gateway.lease.valid(self.now / (1 + DRIFT))

    def _may_write(self, gateway: Gateway) -> bool:
        return gateway.status != "dead" and gateway.writes.goes(self._leased(gateway)) is WritePhase.FORWARD

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

    def _renew(self, g: int) -> None:
        """A heartbeat; one that the coordinator does not know joins again, and is told what is in force."""
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
            self._succeed(g)
        self._generation()
        self._read_records(g)
        gateway = self._own(g)
        gateway.told = self.term
        gateway.writes.assigned(self.term, self.gateways[self.leader].writes.in_force(self.term))
        gateway.renewed(self.now)

    def _stale(self, g: int, command: str, epoch: int, term: int) -> None:
        self.stale -= {(command, epoch, term)}
        writes = self._own(g).writes
        (writes.pause if command == "pause" else writes.resume)(epoch, term)

    # -- the group -----------------------------------------------------------------------------------------

    def _doubt(self, g: int) -> None:
        self._spend("outcome_is_unknown")
        self._expel(g)

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
