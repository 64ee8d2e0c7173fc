"""What a gateway's place in the fleet is made of: who it is, a term of leadership, its right to write."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from gateway.fleet.quorum import FleetQuorum
from gateway.fleet.registry import FleetRegistry
from gateway.fleet.rules.assignment import FleetAssignment
from gateway.fleet.rules.leases import WriteLease
from gateway.fleet.rules.membership import Role
from gateway.mirror.rules.mirror_partition import MirrorPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """This gateway. `peer`: host:port where the others find it. `place`: where it holds the lock of its name, or ''.

    It is asked at each join: a process that is just being followed may have held the lock before. `keys`,
    `bootstrap`: see `GatewayRecord`.
    """

    name: str
    incarnation: str
    role: Role
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
