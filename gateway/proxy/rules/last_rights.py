"""What the target said last of who may write, for the time when it cannot be asked (`produce/target_down.py`).

An answer counts for `COUNTS_S` of the target's presence: a right that was asked for days before the target was lost may
have been revoked since, one from an hour before is what a client of the broker would have met about then. However
long the target stays away, what counted when it was heard last goes on to count. Pure: the time is an argument.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

COUNTS_S: Final = 3_600.0
KEPT: Final = 100_000
"""Answers: by principal and topic. Those that were given longest ago go first."""


class LastRights:
    """Of all clients."""

    def __init__(self) -> None:
        self._said: OrderedDict[tuple[str, str], tuple[float, bool]] = OrderedDict()
        self._heard = 0.0

    def __len__(self) -> int:
        return len(self._said)

    def heard(self, now: float) -> None:
        """The target is there, at this time of the monotonic clock in seconds."""
        self._heard = now

    def remember(self, principal: str, topic: str, allowed: bool, now: float) -> None:
        """The target has answered whether the principal may write the topic."""
        self._said[principal, topic] = now, allowed
        self._said.move_to_end((principal, topic))
        if len(self._said) > KEPT:
            self._said.popitem(last=False)

    def may_write(self, principal: str, topic: str) -> bool | None:
        """What the target said; None when it was not asked, or too long before it was heard last."""
        at, allowed = self._said.get((principal, topic), (self._heard - COUNTS_S - 1, False))
        return allowed if at >= self._heard - COUNTS_S else None
