"""The delegation tokens of one cluster by their owners: made when they are wanted, kept while they are good.

One creation at a time per owner, however many wait for it, and a few at a time in all. When three quarters of its time
are over a token is renewed by another one: that one is only made while the administrator still allows it, so that a
right that was taken away ends with the present token. A refusal is kept for a while, too: clients that come again and
again must not be a load on the controller. Who was not asked for longest goes first when there are too many; its token
is ended on the cluster, as all are when the gateway stops.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import structlog

from gateway.kafka.access.delegation_tokens import Token, TokenRefused
from gateway.kafka.connection.errors import ClusterUnavailable, NetError
from gateway.transport.background import Background

AT_A_TIME: Final = 8
REFUSED_S: Final = 10.0
REPLACED_AT: Final = 0.75  # of its lifetime
LEAST_S: Final = 5.0  # a token with less to live logs nobody in
_CLOSE_S: Final = 2.0
_log = structlog.get_logger("lockgate.identity")


@dataclass(slots=True)
class _Entry:
    """What is known of an owner. Times are the clock's seconds."""

    token: Token | None = None
    replaced_at: float = 0.0
    ends_at: float = 0.0
    refused: str = ""
    refused_until: float = 0.0
    making: asyncio.Task[Token] | None = None


class TokenBook:
    """Args.

    where: the cluster, for the log.
    create: makes a token for an owner; raises TokenRefused or ClusterUnavailable.
    expire: ends one, if it can.
    clock: monotonic seconds.
    most: owners at a time.

    Attributes:
        made, refused: how many tokens were made; how many creations the cluster has refused.
    """

    def __init__(
        self,
        where: str,
        *,
        create: Callable[[str], Awaitable[Token]],
        expire: Callable[[Token], Awaitable[None]],
        clock: Callable[[], float],
        most: int,
    ) -> None:
        self.made = self.refused = 0
        self._where = where
        self._create = create
        self._expire = expire
        self._clock = clock
        self._most = most
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._turns = asyncio.Semaphore(AT_A_TIME)
        self._ending = Background()
        self._closed = False

    def __len__(self) -> int:
        """Owners that have a token now."""
        return sum(entry.token is not None for entry in self._entries.values())

    @property
    def counts(self) -> tuple[int, int, int]:
        """Owners that have a token now; tokens made and refused so far."""
        return len(self), self.made, self.refused

    async def get(self, owner: str) -> Token:
        """A token to log in with now.

        Raises:
            TokenRefused: nobody can log in as this owner; says what the administrator has to do.
            ClusterUnavailable: the cluster does not answer.
        """
        entry = self._entry(owner)
        now = self._clock()
        if entry.token is not None and now < entry.replaced_at:
            return entry.token
        if now < entry.refused_until:
            raise TokenRefused(entry.refused)
        if self._closed:
            raise ClusterUnavailable("this gateway is being stopped")
        if entry.making is None:
            entry.making = asyncio.get_running_loop().create_task(
                self._make(owner, entry), name=f"delegation token at {self._where}"
            )
            entry.making.add_done_callback(_looked_at)
        try:
            return await asyncio.shield(entry.making)
        except ClusterUnavailable:
            if entry.token is not None and self._clock() < entry.ends_at - LEAST_S:
                return entry.token
            raise

    def forget(self, owner: str, token: Token) -> None:
        """The cluster does not take this token any more: the next one who asks gets another."""
        entry = self._entries.get(owner)
        if entry is not None and entry.token == token:
            entry.token = None

    async def close(self) -> None:
        """End all tokens, as far as the cluster answers in two seconds."""
        self._closed = True
        entries = list(self._entries.values())
        self._entries.clear()
        for entry in entries:
            if entry.making is not None:
                entry.making.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await asyncio.gather(*(self._end(entry) for entry in entries))
        await self._ending.close()

    def _entry(self, owner: str) -> _Entry:
        entry = self._entries.get(owner)
        if entry is None:
            self._make_room()
            entry = self._entries[owner] = _Entry()
        else:
            self._entries.move_to_end(owner)
        return entry

    def _make_room(self) -> None:
        if len(self._entries) < self._most:
            return
        for owner, entry in self._entries.items():
            if entry.making is None:
                del self._entries[owner]
                self._ending.spawn(self._end(entry), "end a delegation token")
                return

    async def _make(self, owner: str, entry: _Entry) -> Token:
        try:
            async with self._turns:
                now = self._clock()
                token = await self._create(owner)
        except TokenRefused as error:
            self.refused += 1
            entry.token = None
            entry.refused, entry.refused_until = str(error), self._clock() + REFUSED_S
            _log.warning(
                "no client can come as this principal", principal=owner, cluster=self._where, reason=str(error)
            )
            raise
        except NetError as error:
            _log.warning("no delegation token", principal=owner, cluster=self._where, error=str(error))
            raise ClusterUnavailable(str(error)) from error
        finally:
            entry.making = None
        self.made += 1
        entry.token = token
        entry.replaced_at = now + token.lifetime_s * REPLACED_AT
        entry.ends_at = now + token.lifetime_s
        _log.debug("delegation token made", principal=owner, cluster=self._where, lifetime_s=token.lifetime_s)
        return token

    async def _end(self, entry: _Entry) -> None:
        if entry.token is not None and self._clock() < entry.ends_at:
            async with self._turns:
                await self._expire(entry.token)


def _looked_at(task: asyncio.Task[Token]) -> None:
    """Whoever waited has heard of its failure; when nobody waits any more, nobody misses it."""
    if not task.cancelled():
        task.exception()
