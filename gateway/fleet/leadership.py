"""A gateway's terms as leader: the state topic is taken over, a term begins, and ends (docs/background/agreement.md).

The leader assigns partitions with the group's assignment, some moves per round (`PartitionAssigner`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import structlog

from gateway.fleet.parts import FleetHooks, GatewayIdentity, Term
from gateway.fleet.peers.channel import Peers
from gateway.fleet.quorum import FleetQuorum
from gateway.fleet.registry import FleetRegistry
from gateway.fleet.rules.assignment import FleetAssignment
from gateway.fleet.rules.membership import FleetMember, FleetRole, assign, balanced
from gateway.fleet.rules.ownership import spread
from gateway.mirror.rules.period import MirrorPartition
from gateway.state.gateway_records import SECRET_BYTES
from gateway.state.store import StateStore, StoreError
from gateway.state.views import StateViews
from gateway.transport.host import MACHINE, Host

_log = structlog.get_logger("lockgate.fleet")


class Leadership:
    """One call at a time. `term`: the one that has begun, None while it is built and when there is none."""

    def __init__(
        self, me: GatewayIdentity, store: StateStore, peers: Peers, hooks: FleetHooks, host: Host = MACHINE
    ) -> None:
        self._me = me
        self._host = host
        self._store = store
        self._peers = peers
        self._hooks = hooks
        self.term: Term | None = None
        self._registry: FleetRegistry | None = None

    async def take_over(self) -> None:
        """Write the state topic from now on; nothing is told to others yet. Raises StoreError, as `StateStore.lead`."""
        await self._store.lead()
        self._registry = FleetRegistry(
            self._store,
            self._me.name,
            self._me.incarnation,
            clock=self._host.boot,
            monotonic=self._host.monotonic,
            wall_ms=self._host.wall_ms,
            new_secret=lambda: self._host.token_hex(SECRET_BYTES),
        )
        _log.info("leading the fleet", gateway=self._me.name, term=self._store.term)

    async def admit(self, members: Mapping[str, FleetMember]) -> Mapping[str, FleetMember]:
        """Register who is in the group, by member id; returns those that have a place in the fleet.

        Raises:
            StoreError: not written, or the state topic was not taken over.
        """
        return await self._book().admit(members)

    def begun(self) -> None:
        """The generation that was admitted last has begun; see `FleetRegistry.begun`."""
        if self._registry is not None:
            self._registry.begun()

    async def begin(self) -> None:
        """Build the control plane, unless it is there."""
        if self.term is not None:
            return
        registry, number = self._book(), self._store.term
        quorum = FleetQuorum(self._me.name, self._store, registry, self._peers, number)
        term = Term(number=number, registry=registry, quorum=quorum)
        await self._hooks.lead(term)
        self.term = term

    async def end(self) -> None:
        """Take the control plane down, if it is there; the state topic is given up."""
        if self.term is not None:
            self.term = None
            log = _log.info if self._store.leading else _log.warning  # it gives the state up, or another one has it
            log("this gateway leads the fleet no more", gateway=self._me.name)
            await self._hooks.follow()
        self._registry = None
        if self._store.leading:
            await self._store.resign()

    def _book(self) -> FleetRegistry:
        if self._registry is None:
            raise StoreError("this gateway does not lead the fleet")
        return self._registry


ASSIGN_S: Final = 1.0
_A_SECOND: Final = 20_000
"""Partitions that a round is thought to look at in a second, at every gateway: with more there are fewer rounds."""


class PartitionAssigner:
    """`rebalance` has the group agree anew; it is called ASSIGN_S after there was a reason, once for all reasons.

    Later in a fleet of many partitions, each of which a round looks at: so rounds have their part of the time, no more.
    """

    def __init__(self, views: StateViews, rebalance: Callable[[], None]) -> None:
        self._views = views
        self._changes = views.mirror_changes()
        self._rebalance = rebalance
        self._assignment: FleetAssignment | None = None  # as looked at last
        self._given: frozenset[MirrorPartition] = frozenset()  # in it
        self._count = 0  # of partitions, in the last round
        self._unlooked: set[str] = set()  # topics that may have settled since they were seen to be given out
        self._due: asyncio.TimerHandle | None = None

    def owners(
        self, members: Iterable[FleetMember], last: FleetAssignment | None = None
    ) -> dict[str, frozenset[MirrorPartition]]:
        """Each node's partitions from now on, after the `last` assignment. Another round follows when they are not even
        yet."""
        self._look_at(last)
        nodes = {each.name: each.owned for each in members if each.role is FleetRole.NODE}
        partitions = spread(self._views.mirrors.values())
        self._count = len(partitions)
        found = assign(nodes, partitions, given=self._given if self._assignment is not None else None)
        if not balanced(found):
            self.soon()
        return found

    def records_changed(self, assignment: FleetAssignment | None) -> None:
        """Mirrors that have settled are given out, together if several do."""
        self._unlooked.update(self._changes.take()[0])
        if assignment is None or self._due is not None or len(assignment.owners) < 2:
            return
        self._look_at(assignment)
        self._unlooked = {topic for topic in self._unlooked if not self._is_given(topic)}
        if self._unlooked:
            self.soon()

    def _look_at(self, assignment: FleetAssignment | None) -> None:
        if assignment is not None and assignment is not self._assignment:
            self._assignment = assignment
            self._given = frozenset[MirrorPartition]().union(*assignment.owners.values())
            self._unlooked.update(topic for _, topic in self._views.mirrors)

    def _is_given(self, topic: str) -> bool:
        """All of its mirror is given out that is to be."""
        mirror = self._views.mirror_of(topic)
        return mirror is None or spread([mirror]) <= self._given

    def soon(self) -> None:
        """There is a reason."""
        if self._due is None:
            after_s = ASSIGN_S * max(1.0, self._count / _A_SECOND)
            self._due = asyncio.get_running_loop().call_later(after_s, self._now)

    def close(self) -> None:
        """No more rounds."""
        if self._due is not None:
            self._due.cancel()

    def _now(self) -> None:
        self._due = None
        self._rebalance()
