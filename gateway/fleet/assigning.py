"""The leader's part in who mirrors what: partitions are assigned with the group's assignment, some moves per round."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from gateway.fleet.rules.assignment import FleetAssignment
from gateway.fleet.rules.membership import Gateway, Role, assign, balanced
from gateway.fleet.rules.ownership import spread
from gateway.mirror.rules.mirror_partition import MirrorPartition
from gateway.state.views import StateViews

ASSIGN_S: Final = 1.0
_A_SECOND: Final = 20_000
"""Partitions that a round is thought to look at in a second, at every gateway: with more there are fewer rounds."""


class PartitionAssigner:
    """`rebalance` has the group agree anew; it is called ASSIGN_S after there was a reason, once for all reasons.

    Later in a fleet of many partitions, each of which a round looks at: so rounds have their part of the time, no more.
    """

    def __init__(self, views: StateViews, rebalance: Callable[[], None]) -> None:
        self._views = views
        self._changes = views.mirror_changes()
        self._rebalance = rebalance
        self._assignment: FleetAssignment | None = None  # as looked at last
        self._given: frozenset[MirrorPartition] = frozenset()  # in it
        self._count = 0  # of partitions, in the last round
        self._unlooked: set[str] = set()  # topics that may have settled since they were seen to be given out
        self._due: asyncio.TimerHandle | None = None

    def owners(
        self, members: Iterable[Gateway], last: FleetAssignment | None = None
    ) -> dict[str, frozenset[MirrorPartition]]:
        """Each node's partitions from now on, after the `last` assignment. Another round follows when they are not even
        yet."""
        self._look_at(last)
        nodes = {each.name: each.owned for each in members if each.role is Role.NODE}
        partitions = spread(self._views.mirrors.values())
        self._count = len(partitions)
        found = assign(nodes, partitions, given=self._given if self._assignment is not None else None)
        if not balanced(found):
            self.soon()
        return found

    def records_changed(self, assignment: FleetAssignment | None) -> None:
        """Mirrors that have settled are given out, together if several do."""
        self._unlooked.update(self._changes.take()[0])
        if assignment is None or self._due is not None or len(assignment.owners) < 2:
            return
        self._look_at(assignment)
        self._unlooked = {topic for topic in self._unlooked if not self._is_given(topic)}
        if self._unlooked:
            self.soon()

    def _look_at(self, assignment: FleetAssignment | None) -> None:
        if assignment is not None and assignment is not self._assignment:
            self._assignment = assignment
            self._given = frozenset[MirrorPartition]().union(*assignment.owners.values())
            self._unlooked.update(topic for _, topic in self._views.mirrors)

    def _is_given(self, topic: str) -> bool:
        """All of its mirror is given out that is to be."""
        mirror = self._views.mirror_of(topic)
        return mirror is None or spread([mirror]) <= self._given

    def soon(self) -> None:
        """There is a reason."""
        if self._due is None:
            after_s = ASSIGN_S * max(1.0, self._count / _A_SECOND)
            self._due = asyncio.get_running_loop().call_later(after_s, self._now)

    def close(self) -> None:
        """No more rounds."""
        if self._due is not None:
            self._due.cancel()

    def _now(self) -> None:
        self._due = None
        self._rebalance()
