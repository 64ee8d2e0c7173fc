"""The memory of answers that their clients have not taken yet: a part of it for each client, and a bound for all.

A client is a principal at an address, as for the event loop's time (`loop_shares.py`). What waits for a client that
reads slowly, what waits for its turn, and what has arrived of a broker's answer that the gateway looks into counts.
Before such an answer is read whole, its head has said how large it is, and room for it is asked for: without room it
stays in the broker's socket, and the session's next request in the client's. So no answer is made that cannot be held.
One of any size goes where its client holds nothing; one that is larger than all room, while no other such is there.

Clients take turns in what becomes free, and nobody overtakes who waits for it. Who reads slowly is served slowly; but
who has taken next to nothing for `PATIENCE_S` while others wait for the room is closed, the largest first, and no more
of them than it takes.

Small answers are not counted until they wait, and go in any case while their client holds little (`_LITTLE`).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, Protocol

LARGE: Final = 65_536
"""Bytes of an answer from which on room is asked for: as many may wait for any client's socket."""
PATIENCE_S: Final = 15.0
NEXT_TO_NOTHING: Final = 8_192
"""Bytes. A line of a modem takes more in that time."""
_CLIENTS: Final = 4  # that can fill all
_LITTLE: Final = 64  # a part of all

GoOn = Callable[[], None]


class Holder(Protocol):
    """Whose answers it counts: `unread` is what all its connections hold."""

    unread: int


class Taker(Protocol):
    """A connection of a client. `share`: the client's."""

    @property
    def share(self) -> Holder: ...  # noqa: D102

    def untaken(self) -> int:
        """Bytes that wait until the client takes them; 0: it has taken all that it could. Tells anew what it holds."""

    def close(self, reason: str) -> None:
        """Close it; it tells of its end by `ended`."""


class _Wait(NamedTuple):
    taker: Taker
    size: int
    go_on: GoOn


class HeldAnswers:
    """Of all connections. `bytes`: held now. `waited`: how often something had to wait for room.

    Args:
        limit: of all clients.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._limit_of_client = max(limit // _CLIENTS, 1)
        self._little = max(limit // _LITTLE, 1)
        self._of: dict[Taker, tuple[Holder, int]] = {}
        self._waiting: OrderedDict[Holder, deque[_Wait]] = OrderedDict()  # in the order of their turns
        self._slow: dict[Taker, tuple[float, int]] = {}  # (since when, what waited for it then)
        self.bytes = 0
        self.waited = 0

    @property
    def waiting(self) -> int:
        """How many answers and requests wait for room now."""
        return sum(map(len, self._waiting.values()))

    def has_room(self, client: Holder, size: int) -> bool:
        """For an answer of so many bytes more, without overtaking anybody."""
        if not self._fits_client(client, size):
            return False
        if size < LARGE and client.unread + size <= self._little:
            return True
        return client not in self._waiting and self._is_free(size) and not self._somebody_waits_for_all()

    def _fits_client(self, client: Holder, size: int) -> bool:
        return not client.unread or client.unread + size <= self._limit_of_client

    def _is_free(self, size: int) -> bool:
        return self.bytes + size <= self._limit or (size > self._limit and self.bytes <= self._limit)

    def _somebody_waits_for_all(self) -> bool:
        """Not for what its own client has."""
        return any(self._fits_client(client, waits[0].size) for client, waits in self._waiting.items())

    def wait(self, taker: Taker, size: int, go_on: GoOn) -> None:
        """Have `go_on` called once there is room, if the connection is there by then.

        It takes the room within the call, and does nothing else.
        """
        self.waited += 1
        self._waiting.setdefault(taker.share, deque()).append(_Wait(taker, size, go_on))

    def holds(self, taker: Taker, count: int) -> None:
        """The connection holds so many bytes now."""
        client, before = self._of.pop(taker, (taker.share, 0))
        client.unread -= before
        taker.share.unread += count  # its client may have become another one by a login
        self.bytes += count - before
        if count:
            self._of[taker] = taker.share, count
        else:
            self._slow.pop(taker, None)
        if count < before and self._waiting:
            self._let_go()

    def ended(self, taker: Taker) -> None:
        """The connection is closed."""
        for client in list(self._waiting):
            left = deque(wait for wait in self._waiting[client] if wait.taker is not taker)
            if left:
                self._waiting[client] = left
            else:
                del self._waiting[client]
        self.holds(taker, 0)

    def _let_go(self) -> None:
        """Client by client. Who waits for what its own client holds keeps nobody else from the rest."""
        blocked = 0
        while blocked < len(self._waiting):
            client, waits = next(iter(self._waiting.items()))
            size = waits[0].size
            if not self._fits_client(client, size):
                blocked += 1
                self._waiting.move_to_end(client)
                continue
            if not self._is_free(size):
                return
            blocked = 0
            go_on = waits.popleft().go_on
            if waits:
                self._waiting.move_to_end(client)
            else:
                del self._waiting[client]
            go_on()

    def too_slow(self, now: float) -> Iterator[Taker]:
        """Whom to close, one after the other: asked for the next one when the last one is."""
        stuck = [taker for taker in tuple(self._of) if self._is_stuck(taker, now)]
        for taker in sorted(stuck, key=lambda each: self._of[each][1], reverse=True):
            if taker in self._of and self._is_in_the_way(self._of[taker][0]):
                yield taker

    def _is_stuck(self, taker: Taker, now: float) -> bool:
        untaken = taker.untaken()
        if taker not in self._of:
            return False
        since, before = self._slow.get(taker, (now, untaken))
        if not untaken or before - untaken >= NEXT_TO_NOTHING or untaken > before:
            since, before = now, untaken  # more than before: it had taken all meanwhile
        self._slow[taker] = since, before
        return now - since >= PATIENCE_S

    def _is_in_the_way(self, client: Holder) -> bool:
        """Somebody waits for what this client holds."""
        return client in self._waiting or self._somebody_waits_for_all()
