"""The memory of requests whose clients have not logged in yet: a pot of their own, and who is over it is closed.

Whoever may do nothing must not take what those need who may. So what a connection holds before its first login counts
here and not in `held_requests.py`, up to a sixteenth of it; from the first login on it counts there. Nobody is made to
wait here, since a stranger may never end his request: above the limit connections are closed until there is room, those
first that have held something for the longest time. A login is a few short requests, each of which is on its way
within a round trip; so who holds one for long is hardly ever somebody who logs in. One address may hold an eighth of
all, so that one stranger does not close the others.

What one connection may hold is bounded elsewhere (a request of a login, and one read), so the last one is never closed.
"""

from __future__ import annotations

from typing import Final, Protocol

from gateway.proxy.rules.admission import address_of

OVER: Final = "too many bytes before logins"
_SHARE: Final = 16  # of limits.held_request_bytes
_ADDRESSES: Final = 8  # that can fill it


class Stranger(Protocol):
    """A connection whose client has not logged in yet. `host`: its client's address."""

    host: str

    def close(self, reason: str) -> None:
        """Close it; it tells of its end by `ended`."""


class UnprovenRequests:
    """Of all connections before a login. `bytes`: held now.

    Args:
        held_request_bytes: the limit of that name.
    """

    def __init__(self, held_request_bytes: int) -> None:
        self._limit = max(held_request_bytes // _SHARE, 1)
        self._limit_of_address = max(self._limit // _ADDRESSES, 1)
        self._of: dict[Stranger, int] = {}  # in the order in which they began to hold something
        self._at: dict[str, dict[Stranger, None]] = {}  # address -> those of it, in the same order
        self._bytes_at: dict[str, int] = {}
        self.bytes = 0

    def holds(self, stranger: Stranger, count: int, *, unfinished: bool) -> None:
        """The connection holds so many bytes now. It may be closed within the call, and so may others."""
        address = address_of(stranger.host)
        before = self._of.get(stranger, 0)
        self._count(stranger, address, count)
        if count <= before:
            return
        while self._bytes_at.get(address, 0) > self._limit_of_address and len(self._at[address]) > 1:
            self._close(next(iter(self._at[address])))
        while self.bytes > self._limit and len(self._of) > 1:
            self._close(next(iter(self._of)))

    def ended(self, stranger: Stranger) -> None:
        """The connection is closed, or its client has logged in."""
        if stranger in self._of:
            self._count(stranger, address_of(stranger.host), 0)

    def _count(self, stranger: Stranger, address: str, count: int) -> None:
        more = count - self._of.get(stranger, 0)
        self.bytes += more
        self._bytes_at[address] = self._bytes_at.get(address, 0) + more
        if count:
            self._of[stranger] = count
            self._at.setdefault(address, {})[stranger] = None
            return
        self._of.pop(stranger, None)
        there = self._at.get(address, {})
        there.pop(stranger, None)
        if not there:
            self._at.pop(address, None)
            del self._bytes_at[address]

    def _close(self, stranger: Stranger) -> None:
        self.ended(stranger)
        stranger.close(OVER)
