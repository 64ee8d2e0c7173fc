"""How a set of topics and groups is promoted, behind one interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class PromotesSets(Protocol):
    """Promotes a set."""

    async def promote(self, link: str, topics: Sequence[str], groups: Sequence[str]) -> None:
        """Begin to promote what is left of a set; whoever asks looks at the world for how it goes on.

        Args:
            topics: mirror topics that are not promoted yet. groups: mirror groups likewise.

        Raises:
            ControlError, WrongState: refused, or given up, with the reason; nothing is paused then.
        """


class PromotesTopics(Protocol):
    """`Mirrors`, as far as it is needed."""

    async def promote(self, link: str, topics: Sequence[str], *, groups: Sequence[str] = ()) -> Any:
        """See `Mirrors.promote`."""


class PromotesGroups(Protocol):
    """`Groups`, as far as it is needed."""

    async def promote(self, link: str, group: str) -> Any:
        """See `Groups.promote`."""


class SetPromotion:
    """Topics and groups change sides under one write pause, by one write of the state.

    Groups alone are what is left of a set whose topics are promoted already: they go one by one.
    """

    def __init__(self, topics: PromotesTopics, groups: PromotesGroups) -> None:
        self._topics = topics
        self._groups = groups

    async def promote(self, link: str, topics: Sequence[str], groups: Sequence[str]) -> None:
        """See `PromotesSets`."""
        if topics:
            await self._topics.promote(link, topics, groups=groups)
            return
        for group in groups:
            await self._groups.promote(link, group)
