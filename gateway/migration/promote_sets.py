"""How a set of topics and groups is promoted, behind one interface.

Today topics are promoted under one write pause, and groups one by one. `InTwoSteps` puts both together in the order in
which that loses nothing. A promote of topics and groups under one pause takes its place without a change elsewhere: it
is asked for a whole set, and does as much of it as it can in one go.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Protocol

from gateway.errors import Conflict

UnpromotedReaders = Callable[[str, Sequence[str]], Awaitable[Collection[str]]]
"""(link, mirror topics) -> groups of the source, by their names there, that read them and are not promoted."""


class PromotesSets(Protocol):
    """Promotes a set."""

    async def promote(self, link: str, topics: Sequence[str], groups: Sequence[str], own: Collection[str]) -> None:
        """Begin to promote what is left of a set; whoever asks looks at the world for how it goes on.

        Args:
            topics: mirror topics that are not promoted yet. groups: mirror groups likewise.
            own: names of all of the set's groups on the source. Each of them that is not promoted has no member there.

        Raises:
            ControlError, WrongState: refused, or given up, with the reason; nothing is paused then.
        """


class PromotesTopics(Protocol):
    """`Mirrors`, as far as it is needed."""

    async def promote(self, link: str, topics: Sequence[str], *, force: bool = False) -> Any:
        """See `Mirrors.promote`."""


class PromotesGroups(Protocol):
    """`Groups`, as far as it is needed."""

    async def promote(self, link: str, group: str) -> Any:
        """See `Groups.promote`."""


class InTwoSteps:
    """Topics first, and, asked again when they are STOPPED, their groups.

    A group of a set stands still meanwhile: none of its members is on the source any more, and its gate is closed. So
    no transaction is under way that could have two sides, and its offsets are carried over behind the cutover, by the
    map of the period in which they were committed. The check for groups that still read on the source would refuse
    that: it is left out when only groups of this very set would be in its way.
    """

    def __init__(self, topics: PromotesTopics, groups: PromotesGroups, readers: UnpromotedReaders) -> None:
        self._topics = topics
        self._groups = groups
        self._readers = readers

    async def promote(self, link: str, topics: Sequence[str], groups: Sequence[str], own: Collection[str]) -> None:
        """See `PromotesSets`."""
        if not topics:
            for group in groups:
                await self._groups.promote(link, group)
            return
        waiting = await self._readers(link, topics) if own else ()
        others = sorted(set(waiting) - set(own))
        if others:
            raise Conflict(f"group '{others[0]}' reads these topics and is not promoted{_more(len(others) - 1)}")
        await self._topics.promote(link, topics, force=bool(waiting))


def _more(count: int) -> str:
    return f", nor are {count} more" if count else ""
