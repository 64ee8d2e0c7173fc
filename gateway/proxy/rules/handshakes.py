"""TLS handshakes of clients: how many are begun, and how many may be under way.

A handshake costs the event loop half a millisecond of CPU to four, by the certificate's key, and a stranger nearly
nothing. So one address may begin so many a second, and all of them together no more than take `SHARE` of a core, by
what one was measured to cost and what is done around it (`AROUND_S`). A handshake begins when the client has sent
something, so silence costs no more than a connection, and in a slice of a turn (`loop_shares.py`): one slice for all of
them together, whatever number of addresses they come from, so that they take no more of a turn than one client does.
On a machine that gives the gateway little CPU they become fewer, too. Addresses take turns in it, and of each as many
handshakes wait as may come at once.

`UNDER_WAY` may be under way at a time. For one more the oldest is closed: a handshake is over within two round trips,
so the oldest of so many is hardly ever a client's. Having newcomers wait was the other way: then as many strangers who
end none would hold everybody up.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, Protocol

from gateway.proxy.rules.admission import address_of
from gateway.proxy.rules.limits import Limits
from gateway.proxy.rules.rates import Rates

SHARE: Final = 0.25
"""Of a core's time, for the handshakes of a process."""
UNDER_WAY: Final = 512
AROUND_S: Final = 0.0005
"""The transport, the session, and their end (measured: as much as the handshake with a P-256 key)."""
_ALL: Final = ""
_LEAST_S: Final = SHARE / UNDER_WAY
"""What a handshake is taken to cost, at least: so at the highest rate each has a second before it is the oldest."""


class Handshake(Protocol):
    """One that is under way."""

    def cancel(self) -> object:
        """End it, and its connection."""


class Handshakes:
    """Of one process. `cost_s`: of one, with all around it."""

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        self._at_once = 2 * limits.handshakes_per_second
        self._of_address = Rates(limits.handshakes_per_second, clock)
        self._of_all = Rates(SHARE / _LEAST_S, clock)
        self._under_way: dict[Handshake, None] = {}
        self._waiting: OrderedDict[str, deque[Callable[[], None]]] = OrderedDict()  # by address, in the order of turns
        self.cost_s = _LEAST_S

    @property
    def under_way(self) -> int:
        """How many."""
        return len(self._under_way)

    @property
    def per_second(self) -> float:
        """Of all addresses."""
        return self._of_all.rate

    def cost(self, seconds: float) -> None:
        """What one takes of the CPU, at the listener where it takes most."""
        self.cost_s = max(self.cost_s, seconds + AROUND_S)
        self._of_all.rate = SHARE / self.cost_s

    def refusal(self, host: str) -> str:
        """By which limit none is begun with a client there; '': it may be."""
        if not self._of_address.take(address_of(host)):
            return "handshakes"
        return "" if self._of_all.take(_ALL) else "handshakes_of_all"

    def wait(self, host: str, begin: Callable[[], None]) -> bool:
        """Have `begin` called by `begin_next`. False: too many of the address wait."""
        waits = self._waiting.setdefault(address_of(host), deque())
        if len(waits) >= self._at_once:
            return False
        waits.append(begin)
        return True

    def begin_next(self) -> None:
        """There is time for one: called as often as somebody waits."""
        address, waits = self._waiting.popitem(last=False)
        begin = waits.popleft()
        if waits:
            self._waiting[address] = waits
        begin()

    def begins(self, handshake: Handshake) -> None:
        """It begins; the oldest may be ended for it."""
        self._under_way[handshake] = None
        if len(self._under_way) > UNDER_WAY:
            oldest = next(iter(self._under_way))
            del self._under_way[oldest]
            oldest.cancel()

    def ended(self, handshake: Handshake) -> None:
        """It has come to its end, whichever."""
        self._under_way.pop(handshake, None)
