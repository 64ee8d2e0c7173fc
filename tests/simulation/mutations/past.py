"""What chaos found in the past (CHANGELOG, "Fixed"), put back one by one, as far as it concerns what is simulated."""

from __future__ import annotations

from typing import Any, Final

from gateway.app.peering import Peering
from gateway.control.failover import Failover
from gateway.control.store import StoreUncertain
from gateway.domain.fence_view import FenceView
from gateway.domain.leader_order import LeaderOrder
from tests.simulation.mutations.lives import Event, EventKind, Fault, FaultKind, Operation, again, brief, life
from tests.simulation.mutations.patching import Mutation, Patching

_CREATE, _PROMOTE, _REVERSE, _HOME = Operation.CREATE, Operation.PROMOTE, Operation.REVERSE, Operation.HOME


def told_of_its_own_fences(patching: Patching) -> None:
    """The leader is held by its own assignment, too; nobody tells it the end."""
    admitted = Peering._admitted

    def admitting(self: Any, assignment: Any) -> None:
        admitted(self, assignment)
        self.fences.assigned(assignment.term, assignment.fenced)

    patching.replace(Peering, "_admitted", admitting)


def an_assignment_ends_fences(patching: Patching) -> None:
    """An assignment that does not name a fence ends it, also one of its own leader that it is too old for."""
    assigned = FenceView.assigned

    def ending(self: Any, term: int, epoch: int | None) -> None:
        assigned(self, term, epoch)
        if epoch is None and term >= self.term:
            self._fenced, self.term = False, term

    patching.replace(FenceView, "assigned", ending)


def an_unknown_failover_lets_go(patching: Patching) -> None:
    """A failover whose record may or may not be written lets writes go to the source."""
    under = Failover._under_the_fence

    async def letting_go(self: Any, record: Any, hold: Any, ends: Any, answered: Any) -> Any:
        try:
            return await under(self, record, hold, ends, answered)
        except StoreUncertain:
            self._go_on(record, hold)
            raise

    patching.replace(Failover, "_under_the_fence", letting_go)


def batches_overtake(patching: Patching) -> None:
    """A change of leader on the source lets a batch overtake the one before it."""
    patching.replace(LeaderOrder, "overtakes", lambda self, plan, view_of, leads: False)


_WAITS: Final = brief(
    life(_CREATE, Operation.FAILOVER, pause_s=2.0),
    events=[Event(EventKind.STATE_UNANSWERED, 1, "persist", 0.0, 24.0)],
)

MUTATIONS: Final = (
    Mutation(
        "past: the leader is told of its own fences",
        told_of_its_own_fences,
        tuple(
            brief(life(_CREATE, _PROMOTE, _REVERSE, _HOME), faults=[Fault(FaultKind.GATEWAY_JOINS, 3, step, delay_s)])
            for step, delay_s in (("fence", 0.0), ("read_ends", 0.0), ("mark_pending", 1.0), ("stop_mirror", 0.0))
        ),
    ),
    Mutation(
        "past: an assignment ends a fence that it is too old for",
        an_assignment_ends_fences,
        tuple(
            brief(
                life(_CREATE, _PROMOTE, pause_s=1.0),
                faults=[Fault(FaultKind.GATEWAY_JOINS, 1, "mark_pending", delay_s)],
            )
            for delay_s in (0.9, 0.95, 1.0, 1.02, 0.85, 0.8)
        ),
    ),
    Mutation("past: a failover of unknown outcome lets writes go", an_unknown_failover_lets_go, again(_WAITS, 3)),
    Mutation(
        "past: a batch overtakes the one before it",
        batches_overtake,
        again(
            brief(
                life(_CREATE, _PROMOTE, pause_s=3.0),
                faults=[Fault(FaultKind.SOURCE_LEADER_LOST, 1, "", delay_s, 3.0) for delay_s in (0.0, 0.4)],
            ),
            6,
        ),
    ),
)
