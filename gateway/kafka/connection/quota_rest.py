"""What a broker's quota asks of one connection (KIP-219): nothing is sent on it until the throttle time is over.

A broker answers a throttled request at once, says for how long it throttles, and reads nothing more of the connection
meanwhile. What is sent all the same is in flight for as long, and behind it what others have sent on the connection:
nobody can say of it whether it was carried out, and whatever waits for it waits for the broker. So it stays with
whoever has it. When the time is over one request tells whether there is room again; the others follow its answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

LONGEST_S: Final = 60.0
"""A broker that throttles for longer is asked again all the same: it reads the request when it does."""


class QuotaRest:
    """Of one connection. `in_flight`: how many requests wait for their answer on it.

    Attributes:
        active: the last answer was throttled: `may_send` is to be asked. False nearly always, so this is asked first.
        until: loop time at which the broker reads the connection again; 0.0 before it was ever throttled.
    """

    __slots__ = ("_in_flight", "_loop", "_timer", "_waiting", "active", "until")

    def __init__(self, loop: asyncio.AbstractEventLoop, in_flight: Callable[[], int]) -> None:
        self._loop = loop
        self._in_flight = in_flight
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: dict[object, Callable[[], None]] = {}
        self.active = False
        self.until = 0.0

    def told(self, throttle_ms: int) -> None:
        """An answer has come that says this (`throttle_time_ms`); when not `active`, only those above 0 are told."""
        now = self._loop.time()
        if throttle_ms > 0:
            self.active = True
            self.until = max(self.until, now + min(throttle_ms / 1000, LONGEST_S))
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(self.until, self._over)
        elif now >= self.until:
            self.active = False
            self._let_go()

    def may_send(self) -> bool:
        """A request may be sent now: there is no rest, or it is over and this one tells whether there is another."""
        return not self.active or (self._loop.time() >= self.until and not self._in_flight())

    @property
    def left_s(self) -> float:
        """For how long the broker reads nothing yet; 0.0 when it does."""
        return max(0.0, self.until - self._loop.time()) if self.active else 0.0

    def when_may_send(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` once, in order of arrival, when a request may be sent, or the connection is closed. Returns
        what ends the wait before that."""
        key = object()
        self._waiting[key] = callback

        def leave() -> None:
            self._waiting.pop(key, None)

        return leave

    @property
    def waiting(self) -> int:
        """Who waits now."""
        return len(self._waiting)

    def end(self) -> None:
        """The connection is closed: whoever waits finds another one. A broker throttles a new one as it sees fit."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.active = False
        self._let_go()

    def _over(self) -> None:
        self._timer = None
        # A timer may go off a little before its time (uvloop counts milliseconds); there is no other one behind it.
        self.until = min(self.until, self._loop.time())
        self._let_go()

    def _let_go(self) -> None:
        """All, or while there may be another rest one: what it sends tells. It may have nothing to send any more."""
        while self._waiting and self.may_send():
            self._waiting.pop(next(iter(self._waiting)))()
            if self.active:
                if self._waiting:
                    self._loop.call_soon(self._let_go)
                return
