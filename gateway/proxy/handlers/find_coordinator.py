"""FindCoordinator: v0-6.

Behaviour: answered by the target; the coordinator's address becomes its listener on the gateway. Groups that
are asked for are remembered with the client: it will speak for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.groups.gate.rules.gates import GroupGates
from gateway.groups.gate.rules.seen_groups import GROUPS_OF_A_CLIENT
from gateway.proxy.session.addresses import Advertised, patched
from protocol.apis import ApiKey

if TYPE_CHECKING:
    from gateway.proxy.session.exchange import Exchange
    from gateway.proxy.session.session import Session

_KEY = int(ApiKey.FIND_COORDINATOR)
_GROUP = 0


class FindCoordinatorHandler:
    """See the module's docstring."""

    def __init__(self, *, gates: GroupGates, advertised: Advertised) -> None:
        self._gates = gates
        self._advertised = advertised

    def intercepts(self, session: Session) -> bool:
        return True

    def handle(self, session: Session, exchange: Exchange) -> None:
        request = exchange.request()
        if (request.key_type or 0) == _GROUP:
            groups = request.coordinator_keys if exchange.api_version >= 4 else [request.key]
            last = tuple(dict.fromkeys(reversed(groups)))[:GROUPS_OF_A_CLIENT]  # of more the first would be forgotten
            for group in reversed(last):
                self._gates.saw(session.identity, group)
        exchange.forward(patched(self._advertised, exchange))
