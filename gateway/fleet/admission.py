"""Which of the group's assignments counts here, and whether this gateway has a place in it. See docs/fleet.md."""

from __future__ import annotations

import asyncio

import structlog

from gateway.fleet.parts import FleetHooks, Identity, RightToWrite
from gateway.fleet.peers.channel import Peers
from gateway.fleet.rules.assignment import FleetAssignment
from gateway.fleet.rules.leases import WriteLease
from gateway.state.errors import StateWentBack
from gateway.state.store import StateStore
from gateway.transport.host import MACHINE, Host

_log = structlog.get_logger("lockgate.fleet")


class Admission:
    """An assignment counts once the state is read up to it; with it comes the right to write.

    Attributes:
        assignment: the last that the group told, whether it counts yet or not; None when it knows this gateway no more.
        right: to write what a write pause concerns.
    """

    def __init__(
        self,
        me: Identity,
        store: StateStore,
        peers: Peers,
        hooks: FleetHooks,
        lease: WriteLease,
        host: Host = MACHINE,
    ) -> None:
        self._me = me
        self._store = store
        self._peers = peers
        self._hooks = hooks
        self.right = RightToWrite(lease, host.boot)
        self.assignment: FleetAssignment | None = None
        self._counted: FleetAssignment | None = None
        self._admitted = asyncio.Event()

    async def wait(self) -> None:
        """Until this gateway is admitted for the first time. No limit of its own."""
        await self._admitted.wait()

    def told(self, assignment: FleetAssignment | None) -> None:
        """The group has agreed, or has forgotten this gateway."""
        self.assignment = assignment
        if assignment is None:
            self.right.forgotten()
            self._hooks.forgotten()

    def alone(self, assignment: FleetAssignment) -> None:
        """Nobody else can be there: this gateway's own assignment counts at once, without the group's word."""
        self._admit()
        self._hooks.admitted(assignment)

    async def count(self) -> None:
        """Let the last assignment count, if it does not yet; one that is outdated by then never does."""
        assignment = self.assignment
        if assignment is not None and assignment is not self._counted and await self._count(assignment):
            self._counted = assignment

    async def _count(self, assignment: FleetAssignment) -> bool:
        """False when it is outdated by the time the state is read."""
        address = assignment.peers.get(self._me.name)
        if address is None:
            _log.warning("the fleet has no node: nothing is written to sources", leader=assignment.leader)
            self.right.refused()
            return True
        if address != self._me.peer:
            self.right.refused()
            self._hooks.failed(
                f"another gateway has the name '{self._me.name}' ({address}): give each its own, in fleet.name"
            )
            return True
        self._peers.expect(assignment.peers)
        try:
            await self._store.read_up_to(assignment.state_offset)
        except StateWentBack:
            return False  # it is of a log that is no more
        if self.assignment is not assignment:
            return False
        if self.right.lapsed:
            self._hooks.lapsed()
        self._hooks.admitted(assignment)
        self._admit()
        return True

    def _admit(self) -> None:
        self.right.admitted()
        self._admitted.set()
