"""Holding a request at a group's gate: what the group APIs' handlers share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gateway.domain.gates import GateStatus, Waiter

if TYPE_CHECKING:
    from gateway.proxy.exchange import Exchange
    from gateway.proxy.session import Session


def pass_or_hold(
    session: Session,
    exchange: Exchange,
    groups: Sequence[str],
    hold_s: float,
    refuse: Callable[[], None],
    forward: Callable[[], None] | None = None,
) -> None:
    """Forward when every group is open (by `forward`, if given); else hold up to `hold_s` seconds, then `refuse`.

    The request goes on at the very moment the last closed gate opens. The session is stalled meanwhile, as a
    broker stalls the connection of a member that waits in a rebalance.
    """
    gates = session.context.gates
    for group in groups:
        gates.saw(session.identity, group)
    if all(gates.status(group) is GateStatus.OPEN for group in groups):
        (forward or exchange.forward)()
    else:
        _Hold(session, forward or exchange.forward, groups, refuse).begin(hold_s)


class _Hold:
    """One held request. Ends once: opened, out of time, or its client gone."""

    def __init__(
        self, session: Session, forward: Callable[[], None], groups: Sequence[str], refuse: Callable[[], None]
    ) -> None:
        self._session = session
        self._forward = forward
        self._groups = groups
        self._refuse = refuse
        self._gates = session.context.gates
        self._keys: list[tuple[str, int]] = []

    def begin(self, hold_s: float) -> None:
        session = self._session
        session.stall()
        self._timer = session.context.loop.call_later(hold_s, lambda: self._end(self._refuse))
        session.on_close.append(self._leave)
        waiter = (session.identity, session.context.clock())
        closed = [group for group in self._groups if self._gates.status(group) is not GateStatus.OPEN]
        self._keys = [(group, self._gates.wait(Waiter(group, *waiter), self._opened)) for group in closed]

    def _opened(self) -> None:
        if all(self._gates.status(group) is GateStatus.OPEN for group in self._groups):
            self._end(self._forward)

    def _end(self, action: Callable[[], None]) -> None:
        self._leave()
        if not self._session.closed:
            self._session.on_close.remove(self._leave)
            self._session.again(action)

    def _leave(self) -> None:
        self._timer.cancel()
        for group, key in self._keys:
            self._gates.leave(group, key)
        self._keys.clear()
