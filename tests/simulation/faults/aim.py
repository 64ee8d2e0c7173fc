"""Faults and events strike where the plan says: at a step of an operation, or a while after it began.

What nobody was there for (a leader that is being elected, a broker that is down) waits for its step to be taken again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from tests.simulation.faults.faults import Faults
from tests.simulation.plan import AS_ONE_STEPS, MORE_STEPS, STEPS, Act, Event, Fault, Operation

if TYPE_CHECKING:
    from tests.simulation.world import World

_FAMILIES: Final[dict[Operation, tuple[str, ...]]] = {
    Operation.CREATE: ("create",),
    Operation.GROUP_PROMOTE: ("group",),
    Operation.PROMOTE: ("promote",),
    Operation.PROMOTE_SET: ("promote",),
    Operation.REVERSE: ("back",),
    Operation.FAILBACK: ("promote", "back"),
    Operation.FAILBACK_SET: ("promote", "back"),
    Operation.DEMOTE: ("demote",),
    Operation.FAILOVER: ("failover",),
    Operation.RESTORE: ("back",),
    Operation.REBALANCE: ("rebalance",),
    Operation.RESTART: ("leave",),
    Operation.PROMOTE_GIVEN_UP: ("promote",),
    Operation.GROUP_GIVEN_UP: ("group",),
    Operation.REVERSE_GIVEN_UP: ("back",),
    Operation.RESTORE_GIVEN_UP: ("back",),
    Operation.RELINK: ("link",),
    Operation.UNMIRROR: ("unmirror",),
    Operation.UPDATE_LINK: ("update",),
    Operation.AUTO_CREATE: ("create", "auto"),
    Operation.CHANGE_ACLS: ("acls",),
    Operation.SPOIL: (),
    Operation.REPAIR: ("repair", "create"),
    Operation.AGGREGATE: ("link", "create"),
    Operation.CHAIN: ("link", "create"),
    Operation.FAN_OUT: ("link", "create"),
    Operation.BOTH_WAYS: ("link", "create"),
    Operation.PROMOTE_JOINED: ("promote",),
    Operation.REHEARSE: ("promote",),
    Operation.OWN: ("link", "create"),
    Operation.MADE_AGAIN: ("link", "unmirror", "create"),
    Operation.AS_ONE: ("promote",),
    Operation.AS_ONE_HOME: ("promote",),
}
"""Which families of steps an operation takes; see `steps.py`."""


class Aim:
    """Of one run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._faults = Faults(world, world.loop.random("faults"))
        self._waiting: list[Fault | Event] = []

    def begin(self, act: Act) -> None:
        """An operation begins, and what is to strike at it is armed."""
        both: tuple[Fault | Event, ...] = (*self._world.plan.faults, *self._world.plan.events)
        here = [each for each in both if each.act == act.number]
        self._waiting = [fault for fault in here if fault.step]
        for fault in here:
            if not fault.step:
                self._world.soon(self._strike_later(fault), f"fault {fault.kind}")

    def stepped(self, family: str, step: str) -> None:
        """The product is about to take a step."""
        act = self._world.act()
        if act is None or family not in _FAMILIES[act.operation]:
            return
        self._world.trouble.stepped(act, step)
        for fault in [one for one in self._waiting if one.step == step]:
            self._waiting.remove(fault)
            if fault.delay_s:
                self._world.soon(self._strike_later(fault), f"fault {fault.kind}")
            elif not self._strike(fault):
                self._waiting.append(fault)  # nobody to strike: it waits for the step to be taken again

    async def _strike_later(self, fault: Fault | Event) -> None:
        await asyncio.sleep(fault.delay_s)
        self._strike(fault)

    def _strike(self, fault: Fault | Event) -> bool:
        """False when there was nobody to strike."""
        if isinstance(fault, Event):
            if happened := self._world.events.strike(fault):
                self._world.story.tell(
                    "EVENT", f"{happened} (at {named(self._world.act())} {fault.step or 'anywhere'})"
                )
            return bool(happened)
        act = self._world.act()
        branch = None if act is None else self._world.branch_of(act)
        done = (self._faults if branch is None else branch.faults).strike(fault)
        if not done:
            return False
        self._world.outcome.faults += 1
        self._world.recorder.fault(fault.kind.value)
        self._world.story.tell("FAULT", f"{done} (at {named(self._world.act())} {fault.step or 'anywhere'})")
        steps = [
            of[act.operation] for of in (STEPS, MORE_STEPS, AS_ONE_STEPS) if act is not None and act.operation in of
        ]
        if act is not None and any(fault.step in found for found in steps):
            self._world.outcome.pairs[act.operation, fault.step, fault.kind] += 1
        return True


def named(act: Act | None) -> str:
    """An operation in a story."""
    return "set-up" if act is None else f"act {act.number} {act.operation} {' '.join((*act.topics, *act.how.split()))}"
