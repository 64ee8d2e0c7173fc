"""When a group promote looked at its group's members for the last time before it stored that the group is promoted.

Whoever joins on the source behind that look cannot be seen by the promote. How long that goes on is for the gateway to
bound (`MARK_S`), and within it for chance: a gateway that is stopped in between stores the record when it wakes up. So
it is asked, not guessed. What is wrapped is called with the same arguments, and its answer is passed on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from gateway.groups.gather import GroupGatherer
from gateway.groups.promote import GroupPromotions


class Look(NamedTuple):
    """At a group's members, in virtual seconds: the source was asked, and it had answered."""

    began: float
    ended: float


class Looks:
    """Of one run. `clock`: virtual seconds, which are the gateways' monotonic ones, too."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last: dict[int, tuple[Any, Look]] = {}  # by identity of what a promote knows of its group
        self._marked: dict[tuple[str, str], Look] = {}

    def of(self, link: str, group: str) -> Look | None:
        """The look that the group's last mark as promoted went by, made or not; None when there was none."""
        return self._marked.get((link, group))

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note them while the block runs."""
        look, mark = GroupGatherer.look, GroupPromotions._mark_promoted

        @functools.wraps(look)
        async def looking(gatherer: Any, record: Any, progress: Any, **named: Any) -> None:
            before, began = progress.members_at, self._clock()
            await look(gatherer, record, progress, **named)
            if progress.members_at != before:
                self._last[id(progress)] = progress, Look(began, self._clock())

        @functools.wraps(mark)
        async def marking(promotions: Any, record: Any, progress: Any) -> None:
            if id(progress) in self._last:
                self._marked[record.link, record.group] = self._last[id(progress)][1]
            await mark(promotions, record, progress)

        _put(looking, marking)
        try:
            yield
        finally:
            _put(look, mark)


def _put(look: Any, mark: Any) -> None:
    GroupGatherer.look, GroupPromotions._mark_promoted = look, mark  # type: ignore[method-assign]
