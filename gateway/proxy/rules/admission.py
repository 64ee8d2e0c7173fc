"""Which connections of clients are accepted: so many in all, so many of one address, so many new ones of it a second.

An address is an IPv4 address, or an IPv6 network of 64 bits, which is what one host can have. Pure: the time is an
argument.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from functools import lru_cache

from gateway.proxy.rules.limits import Limits
from gateway.proxy.rules.rates import Rates


class Admission:
    """Counts the connections that are open. `refused`: reason -> how many were not accepted."""

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._open = 0
        self._of_address: dict[str, int] = {}
        self._rates = Rates(limits.connections_per_second, clock)
        self.refused: dict[str, int] = {}

    def refusal(self, host: str) -> str:
        """By which limit a new connection from there is not accepted; '': it is, and counts until `left`."""
        address = address_of(host)
        reason = self._reason(address)
        if reason:
            return self.count(reason)
        self._open += 1
        self._of_address[address] = self._of_address.get(address, 0) + 1
        return ""

    def waits(self) -> str:
        """As `refusal`, of a connection whose client is told later (PROXY protocol): it counts in all until `named`."""
        if self._open >= self._limits.connections:
            return self.count("connections")
        self._open += 1
        return ""

    def named(self) -> None:
        """A connection waits no more: its client is known, and asked for by `refusal`, or it has ended."""
        self._open -= 1

    def count(self, reason: str) -> str:
        """One more connection that was not accepted, for this reason."""
        self.refused[reason] = self.refused.get(reason, 0) + 1
        return reason

    def left(self, host: str) -> None:
        """A connection that was accepted has ended."""
        address = address_of(host)
        count = self._of_address.get(address, 0)
        if not count:
            return
        self._open -= 1
        if count > 1:
            self._of_address[address] = count - 1
        else:
            del self._of_address[address]

    def _reason(self, address: str) -> str:
        limits = self._limits
        if not self._rates.take(address):
            return "rate"
        if self._open >= limits.connections:
            return "connections"
        return "address" if self._of_address.get(address, 0) >= limits.connections_per_address else ""


@lru_cache(maxsize=4_096)  # it is asked several times for each connection, and takes 10 us and more
def address_of(host: str) -> str:
    """What one host can have: an IPv4 address, or an IPv6 network of 64 bits; other text as it is."""
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return host
    if found.version == 4:
        return host
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((int(found) >> 64 << 64, 64)))
