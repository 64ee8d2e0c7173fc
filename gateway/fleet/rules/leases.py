"""Write leases: a gateway stops using the old side of a write pause before anybody may presume that it has.

A promote or a demote needs to know that no gateway writes (or serves) on the old side any more. A gateway that
acknowledged the write pause is known to have stopped. One that cannot be asked has stopped when its lease is over:

* the **holder** may use the old side until `lease_s` of its own clock after it *sent* the renewal that was last
  answered. A renewal is an offset that it commits as a member of its generation, and that the coordinator has accepted;
* the **presumer** counts from when the SyncGroup was answered by which a generation without the holder began;
  `presumable_after` makes up for clocks that do not run alike.

Why that is enough: a coordinator answers a SyncGroup of the leader, and a commit, when it has appended the group's
record, or the offset, to the partition of `__consumer_offsets` that has the group, and all replicas in sync have it. So
generations and renewals stand in *one* log, in one order. A renewal behind the record of a generation without the
holder there is not: whoever appends it has read that record, or written it, and refuses who is not in it. One that is
appended by a broker that leads the partition no more is never in sync, and so never answered. Hence every renewal that
was answered was sent before the record of that generation was in sync, and so before the presumer began to count.

Why nothing less is:

* *a heartbeat* (or a SyncGroup that is repeated) is answered from memory. A coordinator that is cut off from its
  cluster, and not from its clients, would renew without end what another one has given up;
* *a JoinGroup* that was answered is in no log. When the coordinator dies before SyncGroup, the next one knows the
  generation before it only, and takes renewals of those who are in that one.

Assumed is what all that Kafka acknowledges rests on: `__consumer_offsets` loses nothing that was in sync.

An answer from the old side is passed to the client only while the lease is valid *then*: what is acknowledged has
landed before the lease was over, whatever pause came between the look at the lease and the write.

Times are seconds of a clock that never jumps and counts while the machine sleeps (CLOCK_BOOTTIME).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

DRIFT = 0.01  # no clock runs more than this part faster or slower than the true time
_NEVER = float("-inf")

CATCH_UP_LEASE_S: Final = 15.0
"""For how long the engine leaves a topic to a catch-up job that it does not hear of."""


def presumable_after(lease_s: float, drift: float = DRIFT) -> float:
    """How long, by its own clock, a presumer waits: the holder's clock may be slow and its own fast by `drift`."""
    return lease_s * (1 + drift) ** 2


class WriteLease:
    """The holder's side. Not valid until the first renewal. `lapses`: how often it was renewed when it was over."""

    def __init__(self, lease_s: float) -> None:
        self.lease_s = lease_s
        self.lapses = 0
        self._until = _NEVER

    def renewed(self, sent_at: float) -> None:
        """A renewal was answered that had been sent then. Answers may come in any order."""
        if sent_at > self._until:
            self.lapses += 1
        self._until = max(self._until, sent_at + self.lease_s)

    def revoked(self) -> None:
        """The coordinator does not count us among the group any more, or we are leaving it."""
        self._until = _NEVER

    def valid(self, now: float) -> bool:
        """True while the old side may be used."""
        return now < self._until

    def left_s(self, now: float) -> float:
        """Seconds until the lease ends; 0 when it has."""
        return max(0.0, self._until - now)


class Presumptions:
    """The presumer's side: gateways that left the group's generation, and when each may be presumed to stand still.

    Nothing of it outlives the process: a new leader begins to count anew, from when it saw its first generation.
    """

    def __init__(self, drift: float = DRIFT) -> None:
        self._drift = drift
        self._since: dict[str, tuple[float, float]] = {}  # gateway -> (seen to be gone, its lease)

    def generation(self, registered: Mapping[str, float], members: frozenset[str], now: float) -> None:
        """A generation of the group began with these members. `registered`: gateway -> its lease in seconds."""
        kept = {g: at for g, at in self._since.items() if g in registered and g not in members}
        for gateway, lease_s in registered.items():
            if gateway not in members:
                kept.setdefault(gateway, (now, lease_s))
        self._since = kept

    def at(self, gateway: str) -> float | None:
        """When the gateway may be presumed; None for one that is not gone."""
        found = self._since.get(gateway)
        return None if found is None else found[0] + presumable_after(found[1], self._drift)

    def presumed(self, now: float) -> frozenset[str]:
        """The gateways whose leases are certainly over."""
        return frozenset(g for g in self._since if now >= (self.at(g) or 0.0))
