"""How many may be there at a time, in all and from one address. No I/O."""

from __future__ import annotations

import ipaddress
from collections import Counter


class Slots:
    """An address of version 6 counts as its /64: whoever has one has all of them."""

    def __init__(self, total: int, per_address: int) -> None:
        self._total = total
        self._per_address = per_address
        self._taken: Counter[str] = Counter()

    def take(self, address: str) -> bool:
        """Whether there was room; then `release` it."""
        key = _network(address)
        if self._taken.total() >= self._total or self._taken[key] >= self._per_address:
            return False
        self._taken[key] += 1
        return True

    def release(self, address: str) -> None:
        """End a `take` that was True."""
        key = _network(address)
        self._taken[key] -= 1
        if self._taken[key] <= 0:
            del self._taken[key]


def _network(address: str) -> str:
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if found.version == 6 and found.ipv4_mapped is None:
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found if found.version == 4 else found.ipv4_mapped)
