"""Which operations hold the writes of a topic at one gateway. Pure.

A hold belongs to one operation: a promote's fence, a failover, what another leader has commanded. Several may stand on
one topic at once; its writes flow only when none is left, and the end of one never ends another's. What tells two
operations on a topic apart is the epoch under the leader's term: `next_epoch` gives none out twice, so that a command
that comes late cannot be taken for one of a younger operation.

A term that ends leaves its holds behind: until the state is read up to the next leader's assignment, or the next term
of this gateway has begun, nobody knows whether what they were for has been written (`term_over`, `decided`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class HoldKind(StrEnum):
    """What the writes are held for."""

    PROMOTE = "promote"
    FAILOVER = "failover"
    COMMANDED = "commanded"  # by another leader, which knows what for


@dataclass(frozen=True, slots=True)
class Hold:
    """One operation's hold of a mirror topic's writes. `term`: of the leader whose operation it is."""

    topic: str
    epoch: int
    term: int = -1
    kind: HoldKind = field(default=HoldKind.COMMANDED, compare=False)


class WriteHolds:
    """The holds at one gateway: of its own operations while it leads, and by the word of a leader."""

    def __init__(self) -> None:
        self._own: set[Hold] = set()
        self._left: set[Hold] = set()
        self._commanded: dict[str, Hold] = {}
        self._highest: dict[str, int] = {}

    @property
    def topics(self) -> frozenset[str]:
        """Whose writes are held now."""
        return frozenset(hold.topic for hold in (*self._own, *self._left, *self._commanded.values()))

    @property
    def own(self) -> Mapping[str, int]:
        """Those of this gateway's own operations, in this term: topic -> the youngest one's epoch."""
        found: dict[str, int] = {}
        for hold in self._own:
            found[hold.topic] = max(hold.epoch, found.get(hold.topic, hold.epoch))
        return found

    def next_epoch(self, topic: str, recorded: int) -> int:
        """For the topic's next operation: above what its record says, and above every one that was held here."""
        return max(recorded, self._highest.get(topic, recorded)) + 1

    def begin(self, hold: Hold) -> None:
        """An operation of this gateway holds writes; a second time has no effect."""
        self._own.add(hold)
        self._saw(hold)

    def end(self, hold: Hold) -> None:
        """It is over, also where this gateway's own assignment has named it. The others stay."""
        self._own.discard(hold)
        if self._commanded.get(hold.topic) == hold:
            del self._commanded[hold.topic]

    def commanded(self, hold: Hold) -> None:
        """The leader wants the topic held, for this operation now."""
        self._commanded[hold.topic] = hold
        self._saw(hold)

    def command_over(self, topic: str) -> None:
        """The end of `commanded`; own operations go on."""
        self._commanded.pop(topic, None)

    def term_over(self) -> None:
        """This gateway leads no more: its holds stay, but they are nobody's."""
        self._left |= self._own
        self._own.clear()

    def decided(self) -> frozenset[str]:
        """All that earlier terms of this gateway wrote is read: their holds end. Returns their topics."""
        topics = frozenset(hold.topic for hold in self._left)
        self._left.clear()
        return topics

    def forget(self, topics: Iterable[str]) -> None:
        """The mirror topics were deleted."""
        gone = frozenset(topics)
        self._own = {hold for hold in self._own if hold.topic not in gone}
        self._left = {hold for hold in self._left if hold.topic not in gone}
        for topic in gone:
            self._commanded.pop(topic, None)

    def _saw(self, hold: Hold) -> None:
        self._highest[hold.topic] = max(hold.epoch, self._highest.get(hold.topic, hold.epoch))
