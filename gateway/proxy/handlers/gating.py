"""Holds a request at a group's gate; shared by the group APIs' handlers.

If the target authenticates its clients, the gateway first asks it whether the client has the right that the request
needs on a closed or unknown group. A client without it is answered as by the target, and no source is asked about the
group for it.

Gates depend on the gateway's lease, as writes do: without a valid one a group's record may be outdated, and a group
without a record may have got one (`fleet/rules/leases.py`). So then requests are held as at a closed gate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from gateway.groups.gate.rules.gates import ASKS_OFFSETS, JOINS, GateStatus, GroupGates, Waiter, named
from gateway.proxy.handlers.group_rights import Right, group_rights
from gateway.proxy.session.session import LEASE_OVER
from protocol.errors import ErrorCode, MalformedFrame
from protocol.framing import framed

if TYPE_CHECKING:
    from gateway.proxy.session.exchange import Exchange
    from gateway.proxy.session.session import Session

Refusal = Callable[[Mapping[str, int]], None]
"""Answers the request: the given error codes for some groups; all others may not read yet."""

Joins = Callable[[], tuple[str, float]]
"""(instance id or '', session timeout in seconds or 0) from a member's join request."""


def passes(gates: GroupGates, session: Session, group: str) -> bool:
    """Whether a request of the group may proceed now. Asks no source about an unknown group."""
    return gates.known_status(group) is GateStatus.OPEN and _leased(gates, session)


def _leased(gates: GroupGates, session: Session) -> bool:
    return not gates.enabled or session.context.lease_valid()


def has_to_leave(gates: GroupGates, session: Session, exchange: Exchange, group: str) -> bool:
    """Whether a heartbeat comes from a member that had joined (its epoch is above 0), while its gate is now closed.

    It gets UNKNOWN_MEMBER_ID, on which it gives its partitions up, without a commit, and joins with epoch 0 (KIP-848,
    KIP-1071). On a merely retriable error it would keep them, and read on.
    """
    if gates.known_status(group) is not GateStatus.CLOSED:
        return False
    try:
        joined: bool = exchange.request().member_epoch > 0
    except MalformedFrame:  # the target says so, once it is let on
        return False
    if joined:
        gates.saw(session.identity, group)
    return joined


def leaves(gates: GroupGates, session: Session, exchange: Exchange, group: str) -> bool:
    """Whether a heartbeat that would be held is a member's last one (epoch -1, or -2 of a static member).

    It may pass any gate, since it reads nothing; if the target does not get it, the member stays until its timeout.
    """
    if passes(gates, session, group):
        return False
    try:
        is_last: bool = exchange.request().member_epoch < 0
    except MalformedFrame:  # the target says so, once it is let on
        return False
    return is_last


def forward_counted(gates: GroupGates, session: Session, exchange: Exchange, groups: Sequence[str]) -> None:
    """Forward a request that changes these groups' offsets on the target. It counts as in flight until it is answered,
    for which a demote waits. An answer that comes without a valid lease is not passed on."""
    for group in groups:
        gates.commit_begins(group)

    def ends() -> None:
        for group in groups:
            gates.commit_ends(group)

    def answered(frame: memoryview) -> bytes | None:
        if not session.context.lease_valid():
            session.close(LEASE_OVER)
            return None
        session.on_close.remove(ends)
        ends()
        return framed(frame)

    session.on_close.append(ends)
    exchange.forward(answered)


def pass_or_hold(
    gates: GroupGates,
    session: Session,
    exchange: Exchange,
    groups: Sequence[str],
    hold_s: float,
    refuse: Refusal,
    forward: Callable[[], None] | None = None,
    right: Right = Right.READ,
    joins: Joins = lambda: ("", 0.0),
    looks_at: Collection[str] = (),
) -> None:
    """Forward when every group is open (by `forward`, if given); else hold up to `hold_s` seconds, then `refuse`.

    The request proceeds at the moment the last closed gate opens. The session is stalled meanwhile, as a broker stalls
    the connection of a member that waits in a rebalance.

    Args:
        right: the right on the group that the request needs. Only a client with READ counts as a waiter.
        joins: the member's data in the request, asked when it has to wait.
        looks_at: groups that the request does not ask about as a consumer: it does not count as their waiter.
    """
    if len(groups) > session.context.limits.groups_per_request:
        refuse(dict.fromkeys(groups, int(ErrorCode.INVALID_REQUEST)))
        return
    api = exchange.api_key
    uncounted = looks_at if api in JOINS or api in ASKS_OFFSETS else frozenset(groups)
    hold = _Hold(gates, session, forward or exchange.forward, groups, refuse, hold_s, joins, api, uncounted)
    closed = [group for group in groups if not passes(gates, session, group)]
    if closed and session.context.asks_login:
        group_rights(session, closed, lambda rights: hold.begin(rights, right))
    else:
        hold.begin({}, right)


class _Hold:
    """One request, held if necessary. Ends once: gate open, time over, or client gone."""

    def __init__(
        self,
        gates: GroupGates,
        session: Session,
        forward: Callable[[], None],
        groups: Sequence[str],
        refuse: Refusal,
        hold_s: float,
        joins: Joins,
        api: int,
        uncounted: Collection[str],
    ) -> None:
        self._joins = joins
        self._api = api
        self._uncounted = uncounted
        self._session = session
        self._forward = forward
        self._groups = groups
        self._refuse = refuse
        self._gates = gates
        self._hold_s = hold_s
        self._keys: list[tuple[str, int]] = []
        self._closed: set[str] = set()
        self._who = ""
        self._taken = 0
        self._turn: asyncio.TimerHandle | None = None

    def begin(self, rights: Mapping[str, Right | int], right: Right) -> None:
        """Args.

        rights: for the groups that were not open, the target's answer: a right, or an error code.
        """
        denied = {group: code for group, found in rights.items() if (code := refused_right(found, right))}
        if denied:
            self._refuse(denied)
            return
        gates, session = self._gates, self._session
        self._who = session.principal or session.host
        for group in self._groups:
            gates.saw(session.identity, group)
        wait_s = self._questions_wait_s()
        if wait_s == 0.0:
            self._closed = self._not_open()
            if not self._closed:
                self._forward()
                return
        session.stall()
        self._timer = session.context.loop.call_later(self._hold_s, lambda: self._end(lambda: self._refuse({})))
        session.on_close.append(self._leave)
        if wait_s:
            self._turn = session.context.loop.call_later(wait_s, self._ask, rights)
        elif wait_s is not None:
            self._wait(rights)

    def _questions_wait_s(self) -> float | None:
        """Seconds until the sources may be asked about its unknown groups; None: the principal's queue is too long,
        and the request is refused when its time is up."""
        gates, context = self._gates, self._session.context
        new = sum(
            gates.known_status(group) is GateStatus.UNKNOWN and not gates.is_asked_about(group)
            for group in self._groups
        )
        return context.asked_groups.turn(self._who, new, context.clock()) if new else 0.0

    def _ask(self, rights: Mapping[str, Right | int]) -> None:
        self._closed = self._not_open()
        if self._closed:
            self._wait(rights)
        else:
            self._end(self._forward)

    def _wait(self, rights: Mapping[str, Right | int]) -> None:
        gates, session = self._gates, self._session
        if not session.context.waiters.take(self._who, len(self._closed)):
            return  # refused when its time is up; the gate may be open when it comes again
        self._taken = len(self._closed)
        now = session.context.clock()
        unasked = Right.NONE if session.context.asks_login else Right.READ
        instance_id, session_timeout_s = self._joins()
        instance_id = named(instance_id)
        for group in tuple(self._closed):
            counts = Right.READ in Right(rights.get(group, unasked)) and group not in self._uncounted
            waiter = Waiter(group, session.identity, now, counts, instance_id, session_timeout_s, self._api)
            self._keys.append((group, gates.wait(waiter, lambda group=group: self._opened(group))))  # type: ignore[misc]

    def _not_open(self) -> set[str]:
        gates, session = self._gates, self._session
        return {
            group for group in self._groups if gates.status(group) is not GateStatus.OPEN or not _leased(gates, session)
        }

    def _opened(self, group: str) -> None:
        self._closed.discard(group)
        if not self._closed:
            self._closed = self._not_open()  # one that opened before may be closed again
            if not self._closed:
                self._end(self._forward)

    def _end(self, action: Callable[[], None]) -> None:
        self._leave()
        if not self._session.closed:
            self._session.on_close.remove(self._leave)
            self._session.again(action)

    def _leave(self) -> None:
        self._timer.cancel()
        if self._turn is not None:
            self._turn.cancel()
        for group, key in self._keys:
            self._gates.leave(group, key)
        self._keys.clear()
        if self._taken:
            self._session.context.waiters.give_back(self._who, self._taken)
            self._taken = 0


def refused_right(found: Right | int, right: Right) -> int:
    """The error code for a client with the right `found`; 0 when it includes `right`."""
    if not isinstance(found, Right):
        return found
    return 0 if right in found else int(ErrorCode.GROUP_AUTHORIZATION_FAILED)
