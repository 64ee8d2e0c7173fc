"""When to check whether a client wrote to the source of a promoted topic: less and less often, and not for ever. Pure.

Such a record comes from a forgotten client that writes directly to the source; it shows soon after the promote or
hardly ever. So each topic is checked every `LOOK_S` at first, half as often after each check without news, and no more
once `post.promote.watch.ms` has passed since its cutover. A reverse compares both logs anyway.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

TopicOfLink = tuple[str, str]
"""Link and mirror topic."""

LOOK_S: Final = 5.0
MOST_S: Final = 300.0


class PostPromoteWatch:
    """When each topic is checked next. `now` is monotonic seconds."""

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next: dict[TopicOfLink, tuple[float, float]] = {}  # when, and the time until the check after that

    def due(self, topics: Collection[TopicOfLink], now: float) -> list[TopicOfLink]:
        """The watched topics that are due now. A new topic is due; one that is no longer watched is forgotten."""
        known = self._next
        for gone in known.keys() - set(topics):
            del known[gone]
        return [topic for topic in topics if topic not in known or known[topic][0] <= now]

    def looked(self, topic: TopicOfLink, now: float, *, is_news: bool) -> None:
        """The topic was checked. `is_news`: there are records that were not there the last time."""
        _, wait_s = self._next.get(topic, (now, LOOK_S))
        wait_s = LOOK_S if is_news else wait_s
        self._next[topic] = now + wait_s, min(MOST_S, 2 * wait_s)


def is_over(cutover_ms: int, watch_ms: int, now_ms: int) -> bool:
    """True when a topic that was cut over at `cutover_ms` is no longer watched. All in ms of the time of day."""
    return now_ms - cutover_ms >= watch_ms
