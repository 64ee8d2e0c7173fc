"""The gateways of the fleet, as the leader shows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.errors import NotFound
from gateway.fleet.registry import FleetRegistry
from gateway.fleet.rules.membership import gateway_of
from gateway.mirror.rules.period import MirrorPartition
from gateway.state.gateway_records import GatewayRecord
from gateway.state.mirror_states import is_mirroring
from gateway.state.store import StateStore

_STATES: Final = ("up", "silent", "lost")


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayView:
    """One gateway, with all of its processes. `state`: up | silent (not heard for a moment) | lost (not in the group).

    `record`: of its first process. `workers`: how many there are. One that is away makes the gateway so.
    `lease_left_s`: of a lost one, after which it is waited for no more; None while that is not known. `mirrors`: what
    it mirrors.
    """

    record: GatewayRecord
    name: str
    workers: int
    state: str
    leads: bool
    lease_left_s: float | None
    mirrors: frozenset[MirrorPartition]


class Gateways:
    """Lists and forgets gateways. One per term. `mirrored`: whose is which partition, of mirrors in any state."""

    def __init__(
        self,
        me: str,
        store: StateStore,
        registry: FleetRegistry,
        mirrored: Callable[[], Mapping[str, frozenset[MirrorPartition]]],
    ) -> None:
        self._me = me
        self._store = store
        self._registry = registry
        self._mirrored = mirrored

    def list(self) -> list[GatewayView]:
        """All that may write to sources, by name."""
        return [self._view(name, members) for name, members in sorted(self._members().items())]

    def describe(self, name: str) -> GatewayView:
        """One of them; NotFound if there is none."""
        members = self._members().get(name)
        if members is None:
            raise NotFound(f"the fleet has no gateway '{name}'")
        return self._view(name, members)

    async def forget(self, name: str) -> None:
        """Wait no more for a lost gateway, or a lost process of one: the operator knows that it has stopped.

        Raises:
            NotFound: there is none.
            Conflict: it is there, all of it.
            StoreError: not written.
        """
        for each in self.forgotten(name):
            await self._registry.forget_absent(each, "an operator says that it has stopped")

    def forgotten(self, name: str) -> Sequence[str]:
        """The processes that `forget` would wait for no more; nothing is changed. Raises NotFound, Conflict as it."""
        if name in self._store.gateways and name not in self._members():
            members = [name]  # one process by its own name, as a promote that waits for it says
        else:
            self.describe(name)
            members = [one.name for one in self._members()[name]]
        found = [each for each in members if self._registry.is_lost(each)] or members[:1]
        for each in found:
            self._registry.require_absent(each)
        return found

    def _members(self) -> Mapping[str, Sequence[GatewayRecord]]:
        return _by_gateway(self._store.gateways)

    def _runs(self, partition: MirrorPartition) -> bool:
        mirror = self._store.mirrors.get((partition.link, partition.topic))
        return mirror is not None and mirror.created and is_mirroring(mirror.state)

    def _view(self, name: str, members: Sequence[GatewayRecord]) -> GatewayView:
        mirrored, names = self._mirrored(), [one.name for one in members]
        lost = [each for each in names if self._registry.is_lost(each)]
        left = [self._registry.lease_left_s(each) for each in lost]
        known = [left_s for left_s in left if left_s is not None]
        return GatewayView(
            record=members[0],
            name=name,
            workers=len(members),
            state=max((self._state(each) for each in names), key=_STATES.index),
            leads=self._me in names,
            lease_left_s=max(known) if known and len(known) == len(left) else None,
            mirrors=frozenset(each for of in names for each in mirrored.get(of, ()) if self._runs(each)),
        )

    def _state(self, member: str) -> str:
        if not self._registry.is_lost(member):
            return "up"
        return "silent" if member in self._registry.members else "lost"


def _by_gateway(members: Mapping[str, GatewayRecord]) -> Mapping[str, Sequence[GatewayRecord]]:
    """The processes of each gateway, the first one first."""
    found: dict[str, list[GatewayRecord]] = {}
    for name in sorted(members):
        found.setdefault(gateway_of(name), []).append(members[name])
    return found
