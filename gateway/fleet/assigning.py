"""The leader's part in who mirrors what: partitions are assigned with the group's assignment, some moves per round."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from gateway.fleet.rules.assignment import FleetAssignment
from gateway.fleet.rules.membership import Gateway, Role, assign, balanced
from gateway.fleet.rules.ownership import spread
from gateway.mirror.rules.mirror_partition import MirrorPartition
from gateway.state.views import StateViews

ASSIGN_S = 1.0


class PartitionAssigner:
    """`rebalance` has the group agree anew; it is called ASSIGN_S after there was a reason, once for all reasons."""

    def __init__(self, views: StateViews, rebalance: Callable[[], None]) -> None:
        self._views = views
        self._changes = views.mirror_changes()
        self._rebalance = rebalance
        self._assignment: FleetAssignment | None = None  # as looked at last
        self._given: frozenset[MirrorPartition] = frozenset()  # in it
        self._unlooked: set[str] = set()  # topics that may have settled since they were seen to be given out
        self._due: asyncio.TimerHandle | None = None

    def owners(self, members: Iterable[Gateway]) -> dict[str, frozenset[MirrorPartition]]:
        """Each node's partitions from now on. Another round follows when they are not even yet."""
        nodes = {each.name: each.owned for each in members if each.role is Role.NODE}
        found = assign(nodes, spread(self._views.mirrors.values()))
        if not balanced(found):
            self.soon()
        return found

    def records_changed(self, assignment: FleetAssignment | None) -> None:
        """Mirrors that have settled are given out, together if several do."""
        self._unlooked.update(self._changes.take()[0])
        if assignment is None or self._due is not None or len(assignment.owners) < 2:
            return
        if assignment is not self._assignment:
            self._assignment = assignment
            self._given = frozenset[MirrorPartition]().union(*assignment.owners.values())
            self._unlooked.update(topic for _, topic in self._views.mirrors)
        self._unlooked = {topic for topic in self._unlooked if not self._is_given(topic)}
        if self._unlooked:
            self.soon()

    def _is_given(self, topic: str) -> bool:
        """All of its mirror is given out that is to be."""
        mirror = self._views.mirror_of(topic)
        return mirror is None or spread([mirror]) <= self._given

    def soon(self) -> None:
        """There is a reason."""
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(ASSIGN_S, self._now)

    def close(self) -> None:
        """No more rounds."""
        if self._due is not None:
            self._due.cancel()

    def _now(self) -> None:
        self._due = None
        self._rebalance()
