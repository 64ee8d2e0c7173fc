"""When the source of a link counts as gone, so that groups need not wait for it any more. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

GONE_S: Final = 15.0
"""A source that has not answered at all for this long is not waited for where its topics have failed over."""


class SourceSeen(NamedTuple):
    """How the source of a link is, by the link's health and not by what one request has met.

    A coordinator that moves or loads, an offset whose transaction is open, a refusal: all of these are answers, of a
    source that may have members of the group.

    `silent_s`: for how long it has not answered, in seconds; None while it does, or refuses the link. `trouble`: what
    is wrong with it, '' when nothing is known to be.
    """

    silent_s: float | None = None
    trouble: str = ""

    @property
    def is_gone(self) -> bool:
        """It has not answered for so long that nobody waits for it."""
        return self.silent_s is not None and self.silent_s >= GONE_S
