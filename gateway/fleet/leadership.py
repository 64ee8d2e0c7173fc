"""A gateway's terms of leadership: the state topic is taken over, a term begins on it, and ends. See docs/fleet.md."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from gateway.fleet.parts import FleetHooks, Identity, Term
from gateway.fleet.peers.channel import Peers
from gateway.fleet.quorum import FleetQuorum
from gateway.fleet.registry import FleetRegistry
from gateway.fleet.rules.membership import Gateway
from gateway.state.gateway_records import SECRET_BYTES
from gateway.state.store import StateStore, StoreError
from gateway.transport.host import MACHINE, Host

_log = structlog.get_logger("lockgate.fleet")


class Leadership:
    """One call at a time. `term`: the one that has begun, None while it is built and when there is none."""

    def __init__(self, me: Identity, store: StateStore, peers: Peers, hooks: FleetHooks, host: Host = MACHINE) -> None:
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

    async def admit(self, members: Mapping[str, Gateway]) -> Mapping[str, Gateway]:
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
