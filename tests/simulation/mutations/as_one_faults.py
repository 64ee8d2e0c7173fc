"""Faults of topics and groups that change sides as one: each lets the two be apart, or offsets be too old."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from gateway.cutover.promote.run import PromoteRun
from gateway.groups.moves import GroupSet
from gateway.state.records import MirrorRecord
from tests.simulation.mutations.lives import seeds
from tests.simulation.mutations.patching import Mutation, Patching
from tests.simulation.plan import AS_ONE_FROM

_BEFORE_S: Final = 1.5


def groups_behind_topics(patching: Patching) -> None:
    """Two writes instead of one: topics first."""
    persist = PromoteRun._persist_stopped

    async def in_two(self: Any, step: Any) -> None:
        store = self._store
        put = store.put

        async def first_topics(*records: Any, guard: Any = lambda: None) -> None:
            await put(*(one for one in records if isinstance(one, MirrorRecord)), guard=guard)
            rest = [one for one in records if not isinstance(one, MirrorRecord)]
            if rest:
                await put(*rest)

        store.put = first_topics
        try:
            await persist(self, step)
        finally:
            del store.put

    patching.replace(PromoteRun, "_persist_stopped", in_two)


def offsets_of_before(patching: Patching) -> None:
    """Offsets are those of a second before the pause: a transaction that was open then commits behind them."""
    hold, at_origin = GroupSet.hold, GroupSet._at_origin
    known: dict[tuple[int, str], Any] = {}

    async def holding(self: Any) -> None:
        await hold(self)
        for group in self.groups:
            known[id(self), group] = await at_origin(self, self._record(group))
        await asyncio.sleep(_BEFORE_S)

    async def as_known(self: Any, record: Any) -> Any:
        return known.get((id(self), record.group)) or await at_origin(self, record)

    patching.replace(GroupSet, "hold", holding)
    patching.replace(GroupSet, "_at_origin", as_known)


_RUNS: Final = seeds(*range(AS_ONE_FROM + 2, AS_ONE_FROM + 8))

MUTATIONS: Final = (
    Mutation("as one: offsets of before the pause", offsets_of_before, _RUNS),
    Mutation("as one: topics first, groups behind", groups_behind_topics, _RUNS[:2]),
)
