"""The gateways of the fleet, as the leader shows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gateway.errors import NotFound
from gateway.fleet.registry import FleetRegistry
from gateway.mirror.rules.mirror_partition import MirrorPartition
from gateway.state.gateway_records import GatewayRecord
from gateway.state.mirror_states import is_mirroring
from gateway.state.store import StateStore


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayView:
    """One gateway. `state`: up | silent (not heard for a moment) | lost (not in the group).

    `lease_left_s`: of a lost one, after which it is waited for no more; None while that is not known. `mirrors`: what
    it mirrors.
    """

    record: GatewayRecord
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
        return [self._view(self._store.gateways[name]) for name in sorted(self._store.gateways)]

    def describe(self, name: str) -> GatewayView:
        """One of them; NotFound if there is none."""
        record = self._store.gateways.get(name)
        if record is None:
            raise NotFound(f"the fleet has no gateway '{name}'")
        return self._view(record)

    async def forget(self, name: str) -> None:
        """Wait no more for a lost gateway: the operator knows that it has stopped.

        Raises:
            NotFound: there is none.
            Conflict: it is there.
            StoreError: not written.
        """
        self.describe(name)
        await self._registry.forget_absent(name, "an operator says that it has stopped")

    def _runs(self, partition: MirrorPartition) -> bool:
        mirror = self._store.mirrors.get((partition.link, partition.topic))
        return mirror is not None and mirror.created and is_mirroring(mirror.state)

    def _view(self, record: GatewayRecord) -> GatewayView:
        name, registry = record.name, self._registry
        lost = registry.is_lost(name)
        state = "up" if not lost else "silent" if name in registry.members else "lost"
        return GatewayView(
            record=record,
            state=state,
            leads=name == self._me,
            lease_left_s=registry.lease_left_s(name) if lost else None,
            mirrors=frozenset(each for each in self._mirrored().get(name, ()) if self._runs(each)),
        )
