"""Listener ports of the target's brokers, kept in the state topic: the same at every gateway, over restarts.

Which port a broker gets is decided in `proxy/rules/port_allocation.py`, by whoever sees the broker first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import structlog

from gateway.fleet.peers.channel import Peers
from gateway.kafka.connection.errors import NetError
from gateway.state.gateway_records import PortRecord
from gateway.state.store import StateStore, StoreConflict, StoreError

PORTS = "ports"

_ASK_S = 5.0
_AGAIN_S = 1.0
_log = structlog.get_logger("lockgate.control")


class PortBook:
    """Has ports stored: by this gateway while it leads, else by the leader."""

    def __init__(self, store: StateStore, peers: Peers, leader: Callable[[], str]) -> None:
        self._store = store
        self._peers = peers
        self._leader = leader
        peers.handlers[PORTS] = self._asked

    async def keep(self, ports: Mapping[int, int]) -> None:
        """Until each of the brokers has a port in the state topic; one that has another there keeps that.

        A port that another broker has there is not asked for any more: whoever reads that gives out another one.
        """
        while missing := self._new(ports):
            try:
                if self._store.leading:
                    await self._put(missing)
                else:
                    asked = {"ports": [list(pair) for pair in missing.items()]}
                    await self._peers.ask(self._leader(), PORTS, asked, _ASK_S)
            except (StoreError, NetError) as exc:
                _log.info("ports of brokers not stored yet", brokers=sorted(missing), reason=str(exc))
                await asyncio.sleep(_AGAIN_S)
            else:
                await self._seen(missing)

    def _new(self, ports: Mapping[int, int]) -> dict[int, int]:
        """Those that can be stored: neither the broker nor the port is in a record."""
        taken = {record.port for record in self._store.ports.values()}
        return {node: port for node, port in ports.items() if node not in self._store.ports and port not in taken}

    async def _put(self, ports: Mapping[int, int]) -> None:
        while new := self._new(ports):

            def free(new: Mapping[int, int] = new) -> None:
                if self._new(new) != new:
                    raise StoreConflict("a port was given out meanwhile; try again")

            with suppress(StoreConflict):  # another gateway's word came first: its port stands
                await self._store.insert(*(PortRecord(node, port) for node, port in sorted(new.items())), guard=free)

    async def _seen(self, ports: Mapping[int, int]) -> None:
        """The answer may be here before the record."""
        for _ in range(10):
            if not self._new(ports):
                return
            await asyncio.sleep(_AGAIN_S / 10)

    async def _asked(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            await self._put({int(node): int(port) for node, port in body["ports"]})
        except StoreError as exc:  # such as the end of a term: who asks tries again
            raise NetError(str(exc)) from exc
        return {}
