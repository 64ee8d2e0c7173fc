"""How much of the event loop's time one client gets while others want some. A client is a principal at an address.

All sessions are served by one loop, and a turn of it serves whoever has sent something. Fifty connections that each
have a thousand requests in their sockets would make a turn of seconds, in which nobody else is served. So:

* **Slices.** Between two of the loop's turns a client's requests and answers take `SLICE_S`, and those of all clients
  together `TURN_S`. Who would go on beyond that waits: in the next turn, client by client, while everything that is
  small and there for the first time is served beside it. Nothing is lost by it: where nobody else wants the loop, the
  next turn comes at once.
* **A share.** Requests that no client needs at a high rate (`METERED`: metadata, descriptions, administration) take
  `SHARE` of the time besides, for each client, `BURST_S` of it at once. Who has had more waits until it is paid back.

Whoever waits is not read meanwhile. Time is measured, and a measurement counts up to what the bytes of a request and
its answer can have cost (`most_cost`): nobody owes for garbage collection, or for a machine that was busy elsewhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from typing import Final
from weakref import WeakValueDictionary

from protocol.apis import ApiKey

SLICE_S: Final = 0.002
TURN_S: Final = 0.004
SHARE: Final = 0.25
BURST_S: Final = 0.1
_LEAST_WAIT_S: Final = 0.005  # a timer is worth its own time then
_OWES_AT_MOST_S: Final = 1.0  # so nobody waits for more than four seconds, whatever was measured
_BASE_S: Final = 0.001
_S_PER_BYTE: Final = 2e-7

_UNMETERED: Final = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.OFFSET_COMMIT,
        ApiKey.FIND_COORDINATOR,
        ApiKey.JOIN_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.API_VERSIONS,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.END_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        ApiKey.PUSH_TELEMETRY,
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.SHARE_FETCH,
        ApiKey.SHARE_ACKNOWLEDGE,
        ApiKey.STREAMS_GROUP_HEARTBEAT,
    }
)
"""What clients send while they write, read, and are members: as often as they have to."""
METERED: Final = frozenset(ApiKey) - _UNMETERED

GoOn = Callable[[], None]


def most_cost(size: int) -> float:
    """What so many bytes of a request and its answer can have taken at most: decoded and encoded twice."""
    return _BASE_S + size * _S_PER_BYTE


class ClientShare:
    """Of one client. `spent`: seconds since the last turn. `in_ring`: some of its connections wait for a slice.

    `unread`: bytes of answers that it has not taken (`held_answers.py`).
    """

    __slots__ = ("__weakref__", "_at", "_owes", "_rests", "_waiting", "in_ring", "spent", "unread")

    def __init__(self) -> None:
        self.spent = 0.0
        self.unread = 0
        self.in_ring = False
        self._owes, self._at = 0.0, 0.0
        self._waiting: deque[GoOn] = deque()  # for the next slice
        self._rests: deque[GoOn] = deque()  # until what is owed has become less

    def owes(self, now: float) -> float:
        """Seconds of metered requests that are not paid back yet."""
        return max(0.0, self._owes - (now - self._at) * SHARE)

    def meter(self, seconds: float, now: float) -> None:
        """A metered request, or its answer, took so long."""
        self._owes, self._at = min(self.owes(now) + seconds, _OWES_AT_MOST_S), now

    def may_meter(self, now: float) -> bool:
        """Whether a metered request may be looked at now."""
        return not self._owes or self.owes(now) <= BURST_S


class LoopShares:
    """Of one event loop.

    Args:
        clock: monotonic seconds.
        soon: has a function called in the loop's next turn.
        later: has one called after some seconds.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        soon: Callable[[GoOn], object],
        later: Callable[[float, GoOn], object],
    ) -> None:
        self._clock = clock
        self._soon = soon
        self._later = later
        self._shares: WeakValueDictionary[Hashable, ClientShare] = WeakValueDictionary()
        self._spent = 0.0
        self._spenders: list[ClientShare] = []
        self._ring: deque[ClientShare] = deque()  # clients that wait for a slice
        self._asked = False  # for the next turn

    def of(self, client: Hashable) -> ClientShare:
        """Its share: the same one for all its connections."""
        share = self._shares.get(client)
        if share is None:
            share = self._shares[client] = ClientShare()
        return share

    def is_over(self, share: ClientShare, seconds: float) -> bool:
        """Whether a client waits for the next turn that has taken so long, besides what it has `spent`."""
        return share.spent + seconds >= SLICE_S or self._spent + seconds >= TURN_S

    def spend(self, share: ClientShare, seconds: float) -> None:
        """It has taken so long."""
        if seconds <= 0:
            return
        if not share.spent:
            self._spenders.append(share)
        share.spent += seconds
        self._spent += seconds
        if not self._asked and self.is_over(share, 0.0):
            self._ask()

    def wait(self, share: ClientShare, go_on: GoOn) -> None:
        """Until the client's next slice."""
        share._waiting.append(go_on)
        self._stands_in_ring(share)
        if not self._asked:
            self._ask()

    def _stands_in_ring(self, share: ClientShare) -> None:
        if not share.in_ring:
            share.in_ring = True
            self._ring.append(share)

    def pace(self, share: ClientShare, seconds: float, go_on: GoOn) -> None:
        """Have `go_on` called, now or in the client's next slice. What it begins is going to take so long."""
        if self.is_over(share, 0.0):
            self.wait(share, lambda: self.pace(share, seconds, go_on))
        else:
            self.spend(share, seconds)
            go_on()

    def rest(self, share: ClientShare, go_on: GoOn) -> None:
        """Until the client has paid back what its metered requests took."""
        share._rests.append(go_on)
        if len(share._rests) == 1:
            self._set_timer(share)

    def _set_timer(self, share: ClientShare) -> None:
        over_s = (share.owes(self._clock()) - BURST_S) / SHARE
        self._later(max(over_s, _LEAST_WAIT_S), lambda: self._rested(share))

    def _rested(self, share: ClientShare) -> None:
        now = self._clock()
        while share._rests and share.may_meter(now) and not self.is_over(share, 0.0):
            share._rests.popleft()()
            now = self._clock()
        if share._rests:
            self._set_timer(share)

    def _ask(self) -> None:
        self._asked = True
        self._soon(self._turn)

    def _turn(self) -> None:
        """Everybody begins anew; who has waited comes first, client by client."""
        self._asked = False
        for share in self._spenders:
            share.spent = 0.0
        self._spenders.clear()
        self._spent = 0.0
        try:
            for _ in range(len(self._ring)):
                if self._spent >= TURN_S:
                    break
                share = self._ring.popleft()
                share.in_ring = False
                self._serve(share)
        finally:
            if self._ring and not self._asked:
                self._ask()

    def _serve(self, share: ClientShare) -> None:
        """Its slice."""
        waiting = share._waiting
        try:
            for _ in range(len(waiting)):
                if self.is_over(share, 0.0):
                    break
                waiting.popleft()()
        finally:
            if waiting:
                self._stands_in_ring(share)
