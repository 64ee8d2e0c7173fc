"""On which cluster a consumer group's offsets are: for transactions that commit them with their records."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gateway.groups.gate.rules.gates import GateStatus
from gateway.proxy.rules.transactional_ids import TARGET, TransactionSide
from gateway.proxy.rules.transactional_producers import TopicPlacement
from gateway.proxy.transactions.coordinators import Refused
from gateway.state.promote_sets import GROUP, name_of
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from gateway.groups.gate.rules.gates import GroupGates
    from gateway.proxy.transactions.placement import TopicPlacements

OFFSETS = "__consumer_offsets"
_KNOWN_S = 4.0
_LOOK_AGAIN_S = 0.02


def as_name(group: str) -> str:
    """A group among the names of a transaction, where topics are too: no topic has a slash."""
    return name_of(group)


def is_group(name: str) -> bool:
    """Whether one of a transaction's names is a group's, or the topic of one's offsets, as a coordinator tells it."""
    return name.startswith((GROUP, OFFSETS))


class GroupSides:
    """Args.

    clock: monotonic seconds.
    """

    def __init__(self, *, gates: GroupGates, placements: TopicPlacements, clock: Callable[[], float]) -> None:
        self._gates = gates
        self._placements = placements
        self._clock = clock

    async def known(self, group: str) -> None:
        """Wait until it is known whether the group is gated.

        Raises:
            Refused: COORDINATOR_LOAD_IN_PROGRESS while the source has not said whether it has the group.
        """
        deadline = self._clock() + _KNOWN_S
        while self._gates.status(group) is GateStatus.UNKNOWN:
            if self._clock() >= deadline:
                raise _unknown(group)
            await asyncio.sleep(_LOOK_AGAIN_S)

    @property
    def any_gated(self) -> bool:
        """Some group may be gated: some topic is mirrored, or was."""
        return self._gates.enabled

    def is_open(self, group: str) -> bool:
        """The group is known to commit on the target."""
        return self._gates.known_status(group) is GateStatus.OPEN

    def placement(self, group: str) -> TopicPlacement:
        """Where the group commits now: on the target once it is promoted (or never was on a source), else on the
        source of its link. One that changes sides with topics is where these are written, and paused as they are.

        Raises:
            Refused: it is not `known`, or its source was not reached yet; or a promoted group's gate is shut while it
                goes home: whether it gets there, its record says later.
        """
        held = self._placements.of_group(group)
        if held is not None:  # whatever its gate says by now, which is shut first when a group goes home
            return held
        status = self._gates.status(group)
        if status is GateStatus.UNKNOWN:
            raise _unknown(group)
        if status is GateStatus.OPEN:
            return TopicPlacement(TARGET)
        self.require_settled(group)
        return TopicPlacement(self._placements.source_of(self._gates.link_of(group)))

    def require_settled(self, group: str) -> None:
        """No operation keeps a promoted group's gate shut: its record is in force. Raises Refused."""
        if self._gates.is_going_home(group):
            raise _carried(group)

    def require_at(self, group: str, side: TransactionSide) -> None:
        """The group's offsets belong where its transaction is, now. To be asked right before they are sent there: the
        transaction may have taken the group in before it was promoted, or sent back.

        Raises:
            Refused: COORDINATOR_LOAD_IN_PROGRESS, after which clients ask again, while they are being carried over;
                UNKNOWN_MEMBER_ID, after which they abort the transaction, when the group is on the other side.
        """
        held = self._placements.of_group(group)
        if held is None and self._gates.is_changing_sides(group):
            raise _carried(group)
        there = self.placement(group).cluster
        if there != side.cluster:
            raise Refused(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"group {group!r} commits on {there or 'the target'} by now, its transaction is on "
                f"{side.cluster or 'the target'}",
            )

    @contextmanager
    def committing(self, group: str) -> Iterator[None]:
        """A commit of the group is on its way while the block runs: a promote or demote waits for its end."""
        self._gates.commit_begins(group)
        try:
            yield
        finally:
            self._gates.commit_ends(group)

    def commit_begins(self, group: str) -> None:
        """As `committing`, until `commit_ends`."""
        self._gates.commit_begins(group)

    def commit_ends(self, group: str) -> None:
        """It was answered, or its connection closed."""
        self._gates.commit_ends(group)


def _carried(group: str) -> Refused:
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return Refused(code, f"the offsets of group {group!r} are being carried to the other cluster")


def _unknown(group: str) -> Refused:
    return Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"group {group!r} is not known yet")
