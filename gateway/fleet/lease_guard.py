"""Acts when the write lease of this gateway ends: what waits in sockets must not be sent on for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

import structlog

from gateway.fleet.rules.leases import WriteLease
from gateway.kafka.cluster import Cluster
from gateway.transport.background import together

_LOOK_S: Final = 0.5
_LOOK_WHILE_VALID_S: Final = 1.0
_LANES: Final = ("produce", "transactions")  # of the proxy, to sources
_OVER: Final = "the write lease of this gateway is over"
_log = structlog.get_logger("lockgate.fleet")


class LeaseGuard:
    """Args.

    lease: this gateway's; `clock` is the one it is counted by.
    sources: the clusters that clients' writes are forwarded to.
    drop_appends: closes the connections that the mirror appends by.
    drop_writes: closes the connections to the target that clients' writes may still wait in.
    """

    def __init__(
        self,
        lease: WriteLease,
        clock: Callable[[], float],
        sources: Callable[[], Iterable[Cluster]],
        drop_appends: Callable[[str], None],
        drop_writes: Callable[[], None],
    ) -> None:
        self._lease = lease
        self._clock = clock
        self._sources = sources
        self._drop_appends = drop_appends
        self._drop_writes = drop_writes
        self._was = False  # valid when it was looked at last

    def valid(self) -> bool:
        """May what a write pause concerns be written and answered now? For sessions and the engine."""
        return self._lease.valid(self._clock())

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            left = self._lease.left_s(self._clock())
            if self._was and not left:
                _log.error("the write lease is over: mirrored topics are not written until the fleet is heard again")
                for cluster in self._sources():
                    cluster.drop(_LANES, _OVER)
                self._drop_appends(_OVER)
                self._drop_writes()
            elif left and not self._was:
                _log.info("the write lease is valid", left_s=round(left, 1))
            self._was = left > 0
            while_valid = together(_LOOK_WHILE_VALID_S, asyncio.get_running_loop().time())
            await asyncio.sleep(min(left, while_valid) if left else _LOOK_S)
