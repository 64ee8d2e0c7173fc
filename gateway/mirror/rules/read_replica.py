"""Which replica of a source partition is read, for a link with a rack (`client.rack`, KIP-392). Pure.

This follows Kafka's consumer: a Fetch to the leader carries the rack; a leader that knows a nearer replica names it and
sends no records. The mirror reads that replica for `max_age_s` (Kafka's `metadata.max.age.ms`), then asks the leader
again::

    ASK ──► REPLICA ──► ASK              the time is over, or the partition has another leader
               └──────► LEADER ──► ASK   it was lost, refused the fetch, or lags; the leader is read, and asked later

In LEADER the fetch does not send the rack: the leader would name the same replica at once.

A replica's log start and high watermark are older than the leader's. So nothing is concluded from them: not that
records were deleted, not that the log was truncated, not that the mirror is level. If a replica refuses a fetch, the
mirror asks the leader.
"""

from __future__ import annotations

from typing import Final

LAG_LOOKS: Final = 3
"""A replica lags if at this many looks in a row it lacks records that the leader had at the look before."""

MAX_AGE_S: Final = 300.0
"""Kafka's default of `metadata.max.age.ms`."""

_LOOK_S: Final = 1.0
_LOOK_MOST_S: Final = 30.0
_STAY_S: Final = 10.0
_NEVER: Final = float("inf")


class ReadReplica:
    """The choice of replica for one partition. Times are monotonic seconds.

    Attributes:
        leader: the node that leads the partition; -1 before one was known.
        node: the replica that is read instead; None: the leader.
        asks: fetches send the rack.
        replica_end: the high watermark last reported by the replica; -1 before.
        look_at: when to look at the leader's end next, while a replica is read.
        queued_at: bookkeeping of the owner's queue by `next_at`.
    """

    __slots__ = ("_behind", "_leader_end", "_look_s", "_stay_s", "_until", "asks", "leader", "look_at", "node",
                 "queued_at", "replica_end")  # fmt: skip

    def __init__(self) -> None:
        self.leader = -1
        self.node: int | None = None
        self.queued_at = -1.0
        self._stay_s = _STAY_S
        self._look_s = _LOOK_S
        self._ask()

    @property
    def next_at(self) -> float:
        """When the next action is due; infinite while there is none."""
        return min(self._until, self.look_at)

    def led_by(self, leader: int) -> None:
        """Set the partition's leader. A new leader is asked again for a nearer replica."""
        if leader != self.leader:
            self.leader = leader
            self._ask()

    def named(self, node: int, now: float, max_age_s: float) -> None:
        """The leader has named a nearer replica."""
        self.node, self.asks = node, True
        self._until = now + max_age_s
        self.replica_end = self._leader_end = -1
        self._behind = 0
        self.look_at = now + self._look_s

    def refused(self, now: float, max_age_s: float) -> None:
        """The replica was lost, refused the fetch or lags: read the leader, for a longer time after each refusal."""
        self.node, self.asks, self.look_at = None, False, _NEVER
        self._until = now + min(self._stay_s, max_age_s)
        self._stay_s = min(2 * self._stay_s, max_age_s)

    def is_due(self, now: float) -> bool:
        """True when the leader is to be asked again; once per choice."""
        if now < self._until:
            return False
        if self.node is not None:
            self._stay_s = _STAY_S  # the replica served for the whole time
        self._ask()
        return True

    def replica_told(self, end: int) -> None:
        """Note the high watermark of a replica's answer."""
        self.replica_end = max(self.replica_end, end)

    def leader_told(self, end: int, now: float, *, fetching: bool) -> bool:
        """Note the leader's high watermark, as read at a look. True when the replica lags.

        Args:
            fetching: the partition is being fetched; otherwise the replica could not report its end.
        """
        lacks = fetching and self.replica_end < self._leader_end
        moved = end != self._leader_end
        self._behind = self._behind + 1 if lacks else 0
        self._leader_end = end
        self._look_s = _LOOK_S if lacks or moved else min(2 * self._look_s, _LOOK_MOST_S)
        self.look_at = now + self._look_s
        return self._behind >= LAG_LOOKS

    def _ask(self) -> None:
        self.node = None
        self.asks = True
        self._until = self.look_at = _NEVER
        self.replica_end = self._leader_end = -1
        self._behind = 0
