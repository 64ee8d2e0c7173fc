"""Rehearsals of promotes, as operations requested by operators and by migrations."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from gateway.cutover.promote.rehearsal import Rehearsal
from gateway.errors import BadRequest
from gateway.operations.partners import TopicPromoter
from gateway.topics.mirrors import Mirrors
from gateway.transport.background import Background


class RehearsesPromotes(TopicPromoter, Protocol):
    """A promoter of topics that can rehearse."""

    async def rehearse(self, link: str, topics: Sequence[str], bound_s: float = 0.0) -> Rehearsal:
        """See `cutover/promote/promoter.py`."""

    async def check_rehearsal(self, link: str, topics: Sequence[str]) -> None:
        """Raises as `rehearse` would before it begins; changes nothing."""


class Rehearsals:
    """Runs rehearsals. Each one runs to its end, even if its caller stops waiting."""

    def __init__(self, mirrors: Mirrors, promoter: RehearsesPromotes, background: Background) -> None:
        self._mirrors = mirrors
        self._promoter = promoter
        self._background = background

    async def rehearse(self, link: str, topics: Sequence[str], bound_s: float = 0.0) -> Rehearsal:
        """Rehearse the promote of these mirror topics as one set; returns when it is over.

        Args:
            bound_s: the longest write pause in seconds; 0: a promote's, which is also the upper limit.

        Raises:
            BadRequest: no topic. NotFound, WrongState, Conflict, SourceUnreachable: refused, nothing was begun.
        """
        names = self._required(link, topics)
        run = asyncio.create_task(self._run(link, names, bound_s), name=f"rehearse {link} {','.join(names)}")
        self._background.keep(run)
        return await asyncio.shield(run)

    async def check(self, link: str, topics: Sequence[str]) -> Sequence[str]:
        """The topics that would be rehearsed. Raises as `rehearse`; changes nothing."""
        names = self._required(link, topics)
        await self._promoter.check_rehearsal(link, names)
        return names

    def _required(self, link: str, topics: Sequence[str]) -> Sequence[str]:
        if not topics:
            raise BadRequest("no topic to rehearse was named")
        names = list(dict.fromkeys(topics))
        for name in names:
            self._mirrors.require_promotable(link, name, direction=None)
        return names

    async def _run(self, link: str, names: Sequence[str], bound_s: float) -> Rehearsal:
        with self._mirrors.promoting_now(link, names):
            return await self._promoter.rehearse(link, names, bound_s)
