"""DeleteGroups: v0-2; OffsetDelete, AlterShareGroupOffsets and DeleteShareGroupOffsets: v0.

Behaviour: what is deleted of a group whose offsets are still the source's is not the group's: the target has of it
what offset sync or a promote has committed there. A deletion amid a promote would have it begin by auto.offset.reset.
So both are held while the group may not read, 3 s at most, then refused with NON_EMPTY_GROUP, as a broker refuses them
for a group with members: those wait at the gate, or are on the source. They are refused, too, when the gate opens by
the group's record meanwhile: a deletion might overtake the members that join then. Of a group that nobody knows yet,
and without a valid lease (`fleet/rules/leases.py`), it is COORDINATOR_LOAD_IN_PROGRESS, after which clients ask again.
Who may not delete the group is told so, as by the target. Other groups of a DeleteGroups are the target's to delete.

The start offsets of a share group (KIP-932) are held likewise, whether they are deleted or set: who would have them
changed has seen those of the source, or none.

What has passed is counted as commits are: a demote waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gateway.groups.gate.rules.gates import GateStatus, GroupGates
from gateway.proxy.handlers.gating import forward_counted, pass_or_hold, passes
from gateway.proxy.handlers.group_rights import Right
from gateway.proxy.handlers.partly_refused import refuse
from gateway.proxy.rules.refusals import Refusal, of_those
from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import RESPONSES, DeleteGroupsResponse, OffsetDeleteResponse

if TYPE_CHECKING:
    from gateway.proxy.session.exchange import Exchange
    from gateway.proxy.session.session import Session

HOLD_S = 3.0


class DeleteGroupsHandler:
    """See the module's docstring."""

    def __init__(self, *, gates: GroupGates) -> None:
        self._gates = gates

    def intercepts(self, session: Session) -> bool:
        return self._gates.enabled

    def handle(self, session: Session, exchange: Exchange) -> None:
        request = exchange.request()
        groups = list(request.groups_names)
        amid = _Amid(self._gates, groups)

        def go_on() -> None:
            if promoted := amid.promoted():
                self._refuse(session, exchange, request, promoted)
            else:
                forward_counted(self._gates, session, exchange, groups)

        pass_or_hold(
            self._gates,
            session,
            exchange,
            groups,
            HOLD_S,
            lambda codes: self._refuse(session, exchange, request, {**amid.promoted(), **codes}),
            go_on,
            right=Right.DELETE,
        )

    def _refuse(self, session: Session, exchange: Exchange, request: Any, codes: Mapping[str, int]) -> None:
        gates = self._gates

        def waits(group: str) -> bool:
            return group in codes or not passes(gates, session, group)

        def answer(groups: Sequence[str]) -> DeleteGroupsResponse:
            kind = DeleteGroupsResponse.DeletableGroupResult
            results = [kind(group_id=group, error_code=_code(gates, session, group, codes)) for group in groups]
            return DeleteGroupsResponse(throttle_time_ms=0, results=results)

        if refuse(exchange, request, of_those(request.groups_names, waits, "results", answer)):
            forward_counted(gates, session, exchange, [group for group in request.groups_names if not waits(group)])


class OffsetDeleteHandler:
    """See the module's docstring."""

    def __init__(self, *, gates: GroupGates) -> None:
        self._gates = gates

    def intercepts(self, session: Session) -> bool:
        return self._gates.enabled

    def handle(self, session: Session, exchange: Exchange) -> None:
        def refused(code: int) -> None:
            refuse(exchange, None, Refusal(OffsetDeleteResponse(error_code=code, throttle_time_ms=0, topics=[])))

        _one_group(self._gates, session, exchange, exchange.request().group_id, Right.DELETE, refused)


class ShareOffsetsHandler:
    """Of AlterShareGroupOffsets and DeleteShareGroupOffsets; see the module's docstring."""

    def __init__(self, key: ApiKey, *, gates: GroupGates) -> None:
        self._key = key
        self._gates = gates
        self._right = Right.READ if key is ApiKey.ALTER_SHARE_GROUP_OFFSETS else Right.DELETE  # as brokers ask for it

    def intercepts(self, session: Session) -> bool:
        return self._gates.enabled

    def handle(self, session: Session, exchange: Exchange) -> None:
        def refused(code: int) -> None:
            refuse(exchange, None, Refusal(RESPONSES[self._key](error_code=code, error_message=None)))

        _one_group(self._gates, session, exchange, exchange.request().group_id, self._right, refused)


def _one_group(
    gates: GroupGates,
    session: Session,
    exchange: Exchange,
    group: str,
    right: Right,
    refuse_with: Callable[[int], None],
) -> None:
    """Hold what changes a group's offsets; forward it, counted, unless the group was promoted meanwhile."""
    amid = _Amid(gates, [group])

    def refused(codes: Mapping[str, int]) -> None:
        refuse_with(_code(gates, session, group, codes))

    def go_on() -> None:
        if promoted := amid.promoted():
            refused(promoted)
        else:
            forward_counted(gates, session, exchange, [group])

    pass_or_hold(gates, session, exchange, [group], HOLD_S, refused, go_on, right=right)


class _Amid:
    """Groups that were not open when somebody asked for their end, or for other offsets."""

    def __init__(self, gates: GroupGates, groups: Sequence[str]) -> None:
        self._gates = gates
        self._waited = [group for group in groups if gates.known_status(group) is not GateStatus.OPEN]

    def promoted(self) -> Mapping[str, int]:
        """Those that are open by their record now, and the error code for them: they were promoted meanwhile."""
        gates = self._gates
        return {
            group: int(ErrorCode.NON_EMPTY_GROUP)
            for group in self._waited
            if gates.enabled and gates.known_status(group) is GateStatus.OPEN and gates.let_in_at(group) is None
        }


def _code(gates: GroupGates, session: Session, group: str, codes: Mapping[str, int]) -> int:
    is_gated = gates.known_status(group) is GateStatus.CLOSED and session.context.lease_valid()
    waits = ErrorCode.NON_EMPTY_GROUP if is_gated else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return codes.get(group, int(waits))
