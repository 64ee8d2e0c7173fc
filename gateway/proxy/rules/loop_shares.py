"""How much of the event loop's time a client gets while others need some. A client is a principal at an address.

One loop serves all sessions, and each turn serves every connection that has sent something. Fifty connections with a
thousand requests each in their sockets would make a turn of seconds, in which no other client is served. So:

* **Slices.** Between two turns of the loop a client's requests and answers may take `SLICE_S`, and those of all clients
  together `TURN_S`. Beyond that they wait for the next turn, which takes waiting clients one by one, and serves small
  new requests next to them. This costs nothing: if no other client needs the loop, the next turn comes immediately.
* **A share.** Requests that no client needs at a high rate (`METERED`: metadata, descriptions, administration) may in
  addition take `SHARE` of the time, for each client, in bursts of `BURST_S`. A client that had more waits until it is
  paid back.

A client that waits is not read meanwhile. Time is measured, but counts at most as much as the bytes of a request and
its answer can have cost (`most_cost`): no client owes for garbage collection, or for a busy machine.
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
_OWES_AT_MOST_S: Final = 1.0  # so a client waits at most four seconds, whatever was measured
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
"""Requests that clients send as often as they need to while they write, read, and are members."""
METERED: Final = frozenset(ApiKey) - _UNMETERED

GoOn = Callable[[], None]


def most_cost(size: int) -> float:
    """The most seconds that this many bytes of a request and its answer can have taken, decoded and encoded twice."""
    return _BASE_S + size * _S_PER_BYTE


class ClientShare:
    """The share of one client. `spent`: seconds since the last turn. `in_ring`: some of its connections wait for a
    slice. `unread`: bytes of answers that it has not read (`held_answers.py`).
    """

    __slots__ = ("__weakref__", "_at", "_owes", "_rests", "_waiting", "in_ring", "spent", "unread")

    def __init__(self) -> None:
        self.spent = 0.0
        self.unread = 0
        self.in_ring = False
        self._owes, self._at = 0.0, 0.0
        self._waiting: deque[GoOn] = deque()  # for the next slice
        self._rests: deque[GoOn] = deque()  # until it owes less

    def owes(self, now: float) -> float:
        """Seconds of metered requests that are not paid back yet."""
        return max(0.0, self._owes - (now - self._at) * SHARE)

    def meter(self, seconds: float, now: float) -> None:
        """Count the time of a metered request, or of its answer."""
        self._owes, self._at = min(self.owes(now) + seconds, _OWES_AT_MOST_S), now

    def may_meter(self, now: float) -> bool:
        """Whether a metered request may be handled now."""
        return not self._owes or self.owes(now) <= BURST_S


class LoopShares:
    """The shares of one event loop.

    Args:
        clock: monotonic seconds.
        soon: calls a function in the loop's next turn.
        later: calls a function after some seconds.
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
        self._asked = False  # the next turn is requested

    def of(self, client: Hashable) -> ClientShare:
        """A client's share, the same for all its connections."""
        share = self._shares.get(client)
        if share is None:
            share = self._shares[client] = ClientShare()
        return share

    def is_over(self, share: ClientShare, seconds: float) -> bool:
        """Whether a client that has taken these seconds, in addition to `spent`, must wait for the next turn."""
        return share.spent + seconds >= SLICE_S or self._spent + seconds >= TURN_S

    def spend(self, share: ClientShare, seconds: float) -> None:
        """Count the seconds that a client has taken."""
        if seconds <= 0:
            return
        if not share.spent:
            self._spenders.append(share)
        share.spent += seconds
        self._spent += seconds
        if not self._asked and self.is_over(share, 0.0):
            self._ask()

    def wait(self, share: ClientShare, go_on: GoOn) -> None:
        """Call `go_on` in the client's next slice."""
        share._waiting.append(go_on)
        self._stands_in_ring(share)
        if not self._asked:
            self._ask()

    def _stands_in_ring(self, share: ClientShare) -> None:
        if not share.in_ring:
            share.in_ring = True
            self._ring.append(share)

    def pace(self, share: ClientShare, seconds: float, go_on: GoOn) -> None:
        """Call `go_on`, now or in the client's next slice, and count the seconds that its work is going to take."""
        if self.is_over(share, 0.0):
            self.wait(share, lambda: self.pace(share, seconds, go_on))
        else:
            self.spend(share, seconds)
            go_on()

    def rest(self, share: ClientShare, go_on: GoOn) -> None:
        """Call `go_on` once the client has paid back the time of its metered requests."""
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
        """A turn begins: reset what clients have spent, and serve waiting clients first, one by one."""
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
        """Give a waiting client its slice."""
        waiting = share._waiting
        try:
            for _ in range(len(waiting)):
                if self.is_over(share, 0.0):
                    break
                waiting.popleft()()
        finally:
            if waiting:
                self._stands_in_ring(share)
