"""DescribeGroups: v0-6; ConsumerGroupDescribe: v0-1.

Behaviour: the target answers, so it says who may look. Where it knows of no member, and members of the group wait at a
closed gate here, they are put into the answer: to tools the group is in a rebalance, which is how it looks to its
members. As a broker tells one that prepares a rebalance (PreparingRebalance), members have neither metadata nor an
assignment; of a group of the new protocol the state is Assigning. Their ids say where they wait. So
`kafka-consumer-groups --describe` shows them, and `--reset-offsets` refuses with a reason.

A ConsumerGroupDescribe of a group that the target does not know stays unanswered (GROUP_ID_NOT_FOUND), as of a classic
one: clients ask by DescribeGroups then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from gateway.groups.gate.rules.gates import GateStatus, GroupGates, Waiter
from gateway.proxy.handlers.partly_refused import edit
from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import ConsumerGroupDescribeResponse, DescribeGroupsResponse

if TYPE_CHECKING:
    from gateway.proxy.session.exchange import Exchange
    from gateway.proxy.session.session import Session

MOST_SHOWN: Final = 1_000
"""Members of one group that are told: a gate may have many more."""
_WITHOUT_MEMBERS: Final = ("Dead", "Empty")
_Classic = DescribeGroupsResponse.DescribedGroup
_Member = ConsumerGroupDescribeResponse.DescribedGroup.Member


class DescribeGroupsHandler:
    """See the module's docstring. `key`: which of the two it is."""

    def __init__(self, key: ApiKey, *, gates: GroupGates) -> None:
        self._gates = gates
        classic = key is ApiKey.DESCRIBE_GROUPS
        self._asked = "groups" if classic else "group_ids"
        self._show: Callable[[Any, Sequence[Waiter]], None] = _show_classic if classic else _show_consumer

    def intercepts(self, session: Session) -> bool:
        return self._gates.enabled

    def handle(self, session: Session, exchange: Exchange) -> None:
        waiting = self._waiting(getattr(exchange.request(), self._asked))
        if waiting:
            edit(exchange, lambda answer: self._shown(answer, waiting))
        exchange.forward()

    def _waiting(self, groups: Sequence[str]) -> Mapping[str, Sequence[Waiter]]:
        found = {}
        for group in dict.fromkeys(groups):
            if self._gates.known_status(group) is GateStatus.CLOSED:
                members = [waiter for waiter in self._gates.waiters(group) if waiter.is_consumer]
                if members:
                    found[group] = sorted(members, key=_by_name)[:MOST_SHOWN]
        return found

    def _shown(self, answer: Any, waiting: Mapping[str, Sequence[Waiter]]) -> Any:
        for told in answer.groups:
            if (members := waiting.get(told.group_id)) and not told.members:
                self._show(told, members)
        return answer


def _by_name(waiter: Waiter) -> tuple[str, str]:
    return waiter.identity.client_id, waiter.identity.host


def _id_of(waiter: Waiter, number: int) -> str:
    return f"{waiter.identity.client_id or 'a-client'}-waits-at-the-gate-{number}"


def _show_classic(told: Any, members: Sequence[Waiter]) -> None:
    unknown = told.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    if not unknown and (told.error_code or told.group_state not in _WITHOUT_MEMBERS):
        return
    told.error_code, told.error_message = 0, None
    told.group_state, told.protocol_type, told.protocol_data = "PreparingRebalance", "consumer", ""
    told.members = [
        _Classic.DescribedGroupMember(
            member_id=_id_of(waiter, number),
            group_instance_id=waiter.instance_id or None,
            client_id=waiter.identity.client_id,
            client_host=f"/{waiter.identity.host}",
            member_metadata=b"",
            member_assignment=b"",
        )
        for number, waiter in enumerate(members, 1)
    ]


def _show_consumer(told: Any, members: Sequence[Waiter]) -> None:
    if told.error_code or told.group_state not in _WITHOUT_MEMBERS:
        return
    told.group_state = "Assigning"
    told.members = [
        _Member(
            member_id=_id_of(waiter, number),
            instance_id=waiter.instance_id or None,
            member_epoch=0,
            client_id=waiter.identity.client_id,
            client_host=f"/{waiter.identity.host}",
            assignment=_Member.Assignment(topic_partitions=[]),
            target_assignment=_Member.Assignment(topic_partitions=[]),
        )
        for number, waiter in enumerate(members, 1)
    ]
