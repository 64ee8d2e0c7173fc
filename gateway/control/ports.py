"""Listener ports of the target's brokers, kept in the state topic (decided in `domain/ports_alloc.py`)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from gateway.control.store import StateStore
from gateway.domain.ports_alloc import allocate
from gateway.domain.records import PortRecord


class PortAllocator:
    """Gives each broker its port, for good."""

    def __init__(
        self,
        store: StateStore,
        *,
        base_port: int,
        explicit: Mapping[int, int],
        reserved: AbstractSet[int] = frozenset(),
    ) -> None:
        self._store = store
        self._base_port = base_port
        self._explicit = explicit
        self._reserved = reserved
        self._lock = asyncio.Lock()

    async def ports_for(self, node_ids: Iterable[int]) -> dict[int, int]:
        """Port by node id; new ones are stored before they are returned.

        Raises:
            PortError: the explicit map lacks a node, or no port is left.
            StoreError: a new port could not be stored.
        """
        async with self._lock:
            known = {node: record.port for node, record in self._store.ports.items()}
            ports = allocate(
                node_ids,
                known=known,
                base_port=self._base_port,
                explicit=self._explicit,
                reserved=self._reserved,
            )
            new = [PortRecord(node, port) for node, port in ports.items() if node not in known]
            if new and not self._explicit:
                await self._store.put(*new)
            return ports
