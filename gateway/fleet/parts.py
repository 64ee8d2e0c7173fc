"""What a gateway's place in the fleet is made of: who it is, a term of leadership, its right to write.

When its write lease ends, what waits in sockets must not be sent on for it: `LeaseGuard` sees to that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from gateway.fleet.quorum import FleetQuorum
from gateway.fleet.registry import FleetRegistry
from gateway.fleet.rules.assignment import FleetAssignment
from gateway.fleet.rules.leases import WriteLease
from gateway.fleet.rules.membership import FleetRole
from gateway.kafka.cluster import Cluster
from gateway.mirror.rules.period import MirrorPartition
from gateway.transport.background import together


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayIdentity:
    """This gateway. `peer`: host:port where the others find it. `place`: where it holds the lock of its name, or ''.

    It is asked at each join: a process that is just being followed may have held the lock before. `keys`,
    `bootstrap`: see `GatewayRecord`.
    """

    name: str
    incarnation: str
    role: FleetRole
    peer: str
    lease_s: float
    place: Callable[[], str] = str
    keys: str = ""
    bootstrap: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One term of leadership."""

    number: int
    registry: FleetRegistry
    quorum: FleetQuorum


@dataclass(kw_only=True)
class FleetHooks:
    """What the rest of the gateway does when something changes here.

    `admitted`: an assignment counts from now on, the state has been read up to it. `forgotten`: none does any more.
    `paused`: the write pauses in force that a leader names. `owned`: what is mirrored here. `lead`, `follow`: a term
    begins, has ended. `lapsed`: the lease was over, and this gateway may have been presumed: what is in flight to
    sources must end now. `failed`: the gateway must stop, with one line.
    """

    admitted: Callable[[FleetAssignment], None]
    forgotten: Callable[[], None]
    paused: Callable[[], Mapping[str, int]]
    owned: Callable[[], frozenset[MirrorPartition]]
    lead: Callable[[Term], Awaitable[None]]
    follow: Callable[[], Awaitable[None]]
    lapsed: Callable[[], None]
    failed: Callable[[str], None]


class RightToWrite:
    """The lease counts while the gateway is admitted: registered, and up to date with the records.

    To be forgotten by the group ends neither, but if the lease has lapsed until it is admitted anew, it may have been
    presumed meanwhile, and what is in flight from before must not be answered.
    """

    def __init__(self, lease: WriteLease, clock: Callable[[], float]) -> None:
        self.lease = lease
        self._clock = clock
        self._admitted = False
        self._forgotten_at: int | None = None  # the lease's lapses when the group had forgotten this gateway

    @property
    def lapsed(self) -> bool:
        """The lease was over since the group has forgotten this gateway, or is so yet."""
        before = self._forgotten_at
        return before is not None and (self.lease.lapses != before or not self.lease.valid(self._clock()))

    def valid(self) -> bool:
        """May what a write pause concerns be written now?"""
        return self._admitted and not self.lapsed and self.lease.valid(self._clock())

    def left_s(self) -> float:
        """For how many seconds yet; 0 when it may not."""
        return self.lease.left_s(self._clock()) if self.valid() else 0.0

    def admitted(self) -> None:
        """An assignment counts."""
        self._admitted, self._forgotten_at = True, None

    def refused(self) -> None:
        """The assignment has no place for this gateway."""
        self._admitted = False

    def forgotten(self) -> None:
        """The group does not know this gateway any more."""
        if self._forgotten_at is None:
            self._forgotten_at = self.lease.lapses


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
