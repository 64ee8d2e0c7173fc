"""When to look whether a promoted topic's source was written to: less and less often, and not for ever. Pure.

Such a record is of a writer that was forgotten beside the gateway, and that is seen soon after the promote or hardly
ever. So each topic is looked at every `LOOK_S` at first, half as often after each time that nothing was new, and not at
all once `post.promote.watch.ms` has gone by since its cutover. A reverse compares both logs anyway.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

TopicOfLink = tuple[str, str]
"""Link and mirror topic."""

LOOK_S: Final = 5.0
MOST_S: Final = 300.0


class PostPromoteWatch:
    """Of each topic when it is looked at next. `now` is monotonic seconds."""

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next: dict[TopicOfLink, tuple[float, float]] = {}  # when, and how long after that

    def due(self, topics: Collection[TopicOfLink], now: float) -> list[TopicOfLink]:
        """Those of all watched topics that are to be looked at now. One that comes new is; others are forgotten."""
        known = self._next
        for gone in known.keys() - set(topics):
            del known[gone]
        return [topic for topic in topics if topic not in known or known[topic][0] <= now]

    def looked(self, topic: TopicOfLink, now: float, *, is_news: bool) -> None:
        """It was looked at. `is_news`: there are records that were not there the last time."""
        _, wait_s = self._next.get(topic, (now, LOOK_S))
        wait_s = LOOK_S if is_news else wait_s
        self._next[topic] = now + wait_s, min(MOST_S, 2 * wait_s)


def is_over(cutover_ms: int, watch_ms: int, now_ms: int) -> bool:
    """True when a topic that was cut over at `cutover_ms` is watched no longer. All in ms of the time of day."""
    return now_ms - cutover_ms >= watch_ms
