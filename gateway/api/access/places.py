"""Who has a connection to REST, and who gives one up when all are taken. Pure: times and ends are arguments.

Connections are few, and a stranger costs nothing: silent ones of one address must keep neither an operator behind the
same address out, nor a liveness probe. So a connection that has proved nothing is only lent. When there is no room for
a new one, the oldest of those ends, first one without a question that is being answered. Those that have proved who
they are stay; but one caller cannot have all, and some places are never for keeps: probes prove nothing.

How many new ones of an address come in a second is bounded besides: each costs an accept, and perhaps a handshake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

_KEPT: Final = 8  # places of all, and twice as many that are not for others than admins
_KEPT_OF_ONE: Final = 4  # the same of one address
_SMALL: Final = 4  # a quarter of few places at most
_CALLERS: Final = 4  # that have all places between them at least
_BURST_S: Final = 2.0
_BUCKETS: Final = 4_096


@dataclass(eq=False, slots=True)
class Place:
    """One connection. `address`: '' of a Unix socket. `end`: cuts it off. `is_busy`: a question is being answered.

    `caller`: who it has been proved to be of; '' of nobody.
    """

    address: str
    end: Callable[[], None]
    is_busy: Callable[[], bool]
    caller: str = field(default="", init=False)


class Places:
    """Args.

    most: connections at a time.
    most_of_one: of one address.
    """

    def __init__(self, most: int, most_of_one: int) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._taken: dict[Place, None] = {}  # in the order of their coming

    def enter(self, address: str, end: Callable[[], None], is_busy: Callable[[], bool]) -> Place | None:
        """A place for a new connection, perhaps that of another one; None: all are of those who have proved who they
        are."""
        of_one = [each for each in self._taken if address and each.address == address]
        full = of_one if len(of_one) >= self._most_of_one else self._taken if len(self._taken) >= self._most else ()
        if full:
            oldest = _lent(full)
            if oldest is None:
                return None
            self.leave(oldest)
            oldest.end()
        place = Place(address, end, is_busy)
        self._taken[place] = None
        return place

    def leave(self, place: Place) -> None:
        """The connection has ended."""
        self._taken.pop(place, None)

    def prove(self, place: Place, caller: str, *, is_admin: bool) -> bool:
        """Whether the place may be this caller's for keeps; it stays lent otherwise."""
        if place.caller:
            return True
        proved = [each for each in self._taken if each.caller]
        of_address = sum(bool(place.address) and each.address == place.address for each in proved)
        own = sum(each.caller == caller for each in proved)
        share = 1 if is_admin else 2
        may = (
            len(proved) < self._most - share * min(_KEPT, self._most // _SMALL)
            and of_address < self._most_of_one - share * min(_KEPT_OF_ONE, self._most_of_one // _SMALL)
            and (is_admin or own < max(1, self._most // _CALLERS))
        )
        if may:
            place.caller = caller
        return may


class NewConnections:
    """How many of each address come: `a_second`, and two seconds' worth at once. `clock`: seconds."""

    def __init__(self, a_second: int, clock: Callable[[], float]) -> None:
        self._a_second = a_second
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}  # how many may come, and when that was so

    def take(self, address: str) -> bool:
        """Whether one more may come now. A Unix socket ('') has no address."""
        if not address:
            return True
        now, most = self._clock(), self._a_second * _BURST_S
        left, at = self._buckets.pop(address, (most, now))
        left = min(most, left + (now - at) * self._a_second)
        if len(self._buckets) >= _BUCKETS:
            del self._buckets[next(iter(self._buckets))]  # who was asked about longest ago
        self._buckets[address] = (left - 1 if left >= 1 else left, now)
        return left >= 1


def _lent(places: Iterable[Place]) -> Place | None:
    lent = [each for each in places if not each.caller]
    return next((each for each in lent if not each.is_busy()), lent[0] if lent else None)
