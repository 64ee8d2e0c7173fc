"""Limits clients' connections: in total, per address, and new ones per address and second.

An address is an IPv4 address, or an IPv6 network of 64 bits, which one host can have. Pure: the clock is an argument.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from functools import lru_cache

from gateway.proxy.rules.limits import Limits
from gateway.proxy.rules.rates import Rates


class Admission:
    """Counts open connections. `refused`: reason -> how many were not accepted."""

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._open = 0
        self._of_address: dict[str, int] = {}
        self._rates = Rates(limits.connections_per_second, clock)
        self.refused: dict[str, int] = {}

    def refusal(self, host: str) -> str:
        """The limit that refuses a new connection from there; '': it is accepted, and counts until `left`."""
        address = address_of(host)
        reason = self._reason(address)
        if reason:
            return self.count(reason)
        self._open += 1
        self._of_address[address] = self._of_address.get(address, 0) + 1
        return ""

    def waits(self) -> str:
        """Same as `refusal`, while the client is unknown (PROXY protocol): counts only in the total, until `named`."""
        if self._open >= self._limits.connections:
            return self.count("connections")
        self._open += 1
        return ""

    def named(self) -> None:
        """Such a connection stops counting: its client is known, and `refusal` counts it, or it has ended."""
        self._open -= 1

    def count(self, reason: str) -> str:
        """Count a connection that was not accepted. Returns the reason."""
        self.refused[reason] = self.refused.get(reason, 0) + 1
        return reason

    def left(self, host: str) -> None:
        """An accepted connection has ended."""
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


@lru_cache(maxsize=4_096)  # called several times per connection, for at least 10 us
def address_of(host: str) -> str:
    """The address that counts for a host: its IPv4 address, or its IPv6 network of 64 bits; other text unchanged."""
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return host
    if found.version == 4:
        return host
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((int(found) >> 64 << 64, 64)))
