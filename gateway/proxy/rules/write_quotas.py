"""How much each principal may write to sources: a rate in bytes, held as brokers hold theirs (KIP-13, KIP-219).

A source sees one principal, the link's, so its own quotas cannot tell clients apart. Here each principal (an address,
where nobody logs in) has a bucket that drains at the rate and holds a second's worth. What is sent is never refused nor
held back: who has sent more is told how long its bucket needs, and is not read for that time. As on brokers the quota
is that of one gateway: a principal that writes through three has three times as much.

Only what is forwarded counts; what goes to the target counts there, under the client's own principal. Counted by
request. Pure: the time is an argument.
"""

from __future__ import annotations

from typing import Final

MOST_S: Final = 10.0
"""The longest time that one answer asks for, as long as a broker's window. What is left of a debt counts next time."""
KEPT: Final = 10_000
"""Principals whose buckets are not empty; of more the fullest are kept."""


class WriteQuotas:
    """`rate`: bytes in a second for each principal; 0: no limit. `throttled`: requests that were answered so."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._levels: dict[str, tuple[float, float]] = {}  # bytes in the bucket, and when
        self.throttled = 0

    @property
    def is_limited(self) -> bool:
        """There is a limit."""
        return self._rate > 0

    def spend(self, who: str, size: int, now: float) -> float:
        """So many bytes are sent for a principal. Returns for how many seconds it is to be quiet."""
        rate = self._rate
        if not rate:
            return 0.0
        level, at = self._levels.get(who, (0.0, now))
        level = max(0.0, level - (now - at) * rate) + size
        if who not in self._levels and len(self._levels) >= KEPT:
            self._forget(now)
        self._levels[who] = level, now
        over = level - rate
        if over <= 0:
            return 0.0
        self.throttled += 1
        return min(over / rate, MOST_S)

    def _forget(self, now: float) -> None:
        """The buckets that are empty again; the emptiest tenth if none is."""
        left = {who: level - (now - at) * self._rate for who, (level, at) in self._levels.items()}
        order = sorted(left, key=left.__getitem__)
        gone = [who for who in order if left[who] <= 0] or order[: max(KEPT // 10, 1)]
        for who in gone:
            del self._levels[who]
