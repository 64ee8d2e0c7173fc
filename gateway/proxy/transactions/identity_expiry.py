"""Forgets the identities of transactional producers that are no more (`identities.py`).

A coordinator forgets a transactional id that nobody has used for transactional.id.expiration.ms (7 days by default).
Once the target has, the identity that clients were given is void: whoever uses the id again begins with
InitProducerId, and gets a new one everywhere. So a record that nobody has written for that long is asked about at the
target, and gets a tombstone if the target does not know its transactional id. A broker that keeps ids for longer is so
asked again and again; one that keeps them for less loses nothing by a record that stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from gateway.kafka.connection.errors import NetError
from gateway.proxy.rules.transactional_ids import OWN
from gateway.proxy.transactions.coordinators import Lost, Refused, Unseen
from gateway.proxy.transactions.identities import Identities
from gateway.proxy.transactions.transactions import Transactions

LOOK_S: Final = 3_600.0
AT_A_TIME: Final = 200
"""Records that are asked about in one look. Those that stay are asked about again when all others were."""

_log = structlog.get_logger("lockgate.proxy")


class IdentityExpiry:
    """Args.

    leads: whether this gateway leads the fleet; one asks for all.
    wall_ms: milliseconds since the epoch.
    """

    def __init__(
        self,
        transactions: Transactions,
        identities: Identities,
        leads: Callable[[], bool],
        wall_ms: Callable[[], int],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._transactions = transactions
        self._identities = identities
        self._leads = leads
        self._wall_ms = wall_ms
        self._sleep = sleep
        self._asked: set[str] = set()  # in this round

    async def run(self) -> None:
        """Look every hour, for as long as the gateway lives."""
        while True:
            await self._sleep(LOOK_S)
            if self._leads():
                await self.look()

    async def look(self) -> int:
        """Ask about some old records, and forget those that nobody can use. Returns how many that were.

        What goes wrong ends the look; the next one goes on.
        """
        forgotten = 0
        try:
            for name in await self._some():
                self._asked.add(name)
                forgotten += await self._forgotten(name)
        except Unseen:
            pass  # before Kafka 3.0 nobody can tell: records stay
        except (NetError, Refused, Lost) as exc:
            _log.debug("old identities of producers could not be looked at", reason=str(exc))
        if forgotten:
            _log.info("identities of producers that are no more are forgotten", count=forgotten)
        return forgotten

    async def _some(self) -> list[str]:
        old = await self._identities.old(self._wall_ms())
        fresh = [name for name in old if name not in self._asked]
        if not fresh:  # all were asked about: from the beginning
            self._asked.clear()
            fresh = old
        return fresh[:AT_A_TIME]

    async def _forgotten(self, name: str) -> bool:
        async with self._transactions.lock(name):
            seen = await self._transactions.coordinators.describe(OWN, name)
            return seen is None and await self._identities.forget(name, self._wall_ms())
