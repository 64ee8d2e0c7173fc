"""Connections by (node, lane): opened once however many wait, kept, opened again with backoff."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator
from random import random
from typing import TypeAlias

from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.connection.connection import Connection
from gateway.kafka.connection.errors import AuthenticationFailed, ClusterUnavailable, NetError
from gateway.transport.backoff import Backoff

Lane: TypeAlias = int | str
Opener: TypeAlias = Callable[[str, int], Awaitable[Connection]]
Address: TypeAlias = Callable[[int], tuple[str, int] | None]

_log = logging.getLogger(__name__)

_STEADY_S = 1.0  # a connection that breaks sooner counts as a failed attempt: no loop of opening and losing


class _Slot:
    """One (node, lane): its connection, or the attempt to open it, or when to try again and why."""

    __slots__ = ("backoff", "connection", "error", "not_before", "opening", "refused", "retiring")

    def __init__(self, backoff: Backoff) -> None:
        self.backoff = backoff
        self.connection: Connection | None = None
        self.opening: asyncio.Task[None] | None = None
        self.not_before = 0.0
        self.error = ""
        self.refused = False
        self.retiring: asyncio.Event | None = None  # set when the connection is closed at last

    def live(self) -> Connection | None:
        """The connection; None also while it retires, or is being closed and those in flight on it hear of that."""
        connection = self.connection
        return None if connection is None or connection.closed or self.retiring is not None else connection

    def forgive(self) -> None:
        """What was wrong before says nothing of the next attempt."""
        self.error, self.refused, self.not_before = "", False, 0.0
        self.backoff.reset()


class Pool:
    """The open connections to a cluster's brokers.

    Args:
        address: node id -> (host, port), None for a node that is not in the cluster.
        opener: opens a connection.
        on_trouble: called when a connection could not be opened or was lost.
    """

    def __init__(
        self,
        config: ClusterConfig,
        address: Address,
        opener: Opener,
        on_trouble: Callable[[], None],
        rng: Callable[[], float] = random,
    ) -> None:
        self._config = config
        self._address = address
        self._opener = opener
        self._on_trouble = on_trouble
        self._rng = rng
        self._slots: dict[tuple[int, Lane], _Slot] = {}
        self._closed = False
        self._generation = 0  # of the configuration

    def get(self, node_id: int, lane: Lane) -> Connection | None:
        """The open connection, None if there is none now."""
        slot = self._slots.get((node_id, lane))
        return None if slot is None else slot.live()

    def open_connections(self) -> Iterator[tuple[int, Lane, Connection]]:
        """Every open connection, those that retire among them."""
        for (node_id, lane), slot in self._slots.items():
            if slot.connection is not None and not slot.connection.closed:
                yield node_id, lane, slot.connection

    @property
    def last_error(self) -> str:
        """Why a connection that is wanted is not there, for any one of them; empty when all are."""
        return next((slot.error for slot in self._slots.values() if slot.error), "")

    async def connection(self, node_id: int, lane: Lane, deadline: float) -> Connection:
        """The open connection, opened if need be, with backoff between attempts.

        Raises:
            ClusterUnavailable: none by `deadline` (loop time), with the last reason; at once when the broker
                refuses the credentials or has left the cluster.
        """
        loop = asyncio.get_running_loop()
        slot = self._slots.get((node_id, lane))
        if slot is None:
            first, longest = self._config.reconnect_backoff_s
            slot = self._slots.setdefault((node_id, lane), _Slot(Backoff(first, longest, self._rng)))
        while (connection := slot.live()) is None:
            if self._closed:
                raise ClusterUnavailable("this client is closed")
            if slot.retiring is not None:
                await _closed(slot.retiring, node_id, deadline)
                continue
            wait_s = slot.not_before - loop.time()
            if slot.opening is None and ((slot.refused and wait_s > 0) or loop.time() + max(wait_s, 0) >= deadline):
                raise _as_error(slot, node_id)
            if slot.opening is None and wait_s > 0:
                await asyncio.sleep(wait_s)
                continue
            if slot.opening is None:
                where = self._address(node_id)
                if where is None:
                    raise ClusterUnavailable(f"broker {node_id} is not in the cluster")
                slot.opening = loop.create_task(self._open(slot, *where), name=f"connect {node_id}/{lane}")
            attempt = slot.opening
            await asyncio.wait((attempt,), timeout=max(0.0, deadline - loop.time()))
            if slot.live() is None and (loop.time() >= deadline or (attempt.done() and slot.refused)):
                raise _as_error(slot, node_id)
        return connection

    def reconfigure(self, config: ClusterConfig, reason: str) -> None:
        """From now on connections are opened by another configuration.

        Those that are open retire: what is in flight on them is answered first, and nothing is sent on the next one
        before. So no request overtakes an earlier one, and no outcome gets lost.
        """
        self._config = config
        self._generation += 1
        for slot in tuple(self._slots.values()):
            slot.forgive()
            if (connection := slot.live()) is not None:
                slot.retiring = asyncio.Event()
                connection.retire(reason)

    def drop(self, lanes: Collection[str], reason: str) -> None:
        """Close the connections of these lanes, and have the kernel send on nothing that was written to them; a lane is
        named by what comes before a '-'."""
        for _, lane, connection in tuple(self.open_connections()):
            if isinstance(lane, str) and (lane in lanes or lane.split("-", 1)[0] in lanes):
                connection.take_back(reason)

    def forget_missing(self) -> None:
        """Drop what is kept about nodes that have left the cluster and have no connection."""
        for key, slot in tuple(self._slots.items()):
            if slot.connection is None and slot.opening is None and self._address(key[0]) is None:
                del self._slots[key]

    async def close(self) -> None:
        """Close every connection and end every attempt."""
        self._closed = True
        opening = [slot.opening for slot in self._slots.values() if slot.opening is not None]
        for task in opening:
            task.cancel()
        for _, _, connection in tuple(self.open_connections()):
            connection.close()
        if opening:
            await asyncio.wait(opening)

    async def _open(self, slot: _Slot, host: str, port: int) -> None:
        generation = self._generation
        try:
            connection = await self._opener(host, port)
        except Exception as exc:  # noqa: BLE001 - whatever it was: those who wait must hear of it
            if generation != self._generation:
                return  # it was tried as before, and is tried anew
            if not isinstance(exc, NetError):
                _log.error("a connection could not be opened", exc_info=exc)
            slot.refused = isinstance(exc, AuthenticationFailed)
            slot.error = str(exc) or type(exc).__name__
            slot.not_before = asyncio.get_running_loop().time() + slot.backoff.next()
            if slot.backoff.failures == 1:
                _log.warning("cannot connect: %s", exc)
            self._on_trouble()
        else:
            if generation != self._generation:
                connection.close()
                return
            self._opened(slot, connection)
        finally:
            slot.opening = None

    def _opened(self, slot: _Slot, connection: Connection) -> None:
        if slot.backoff.failures:
            _log.info("connected again: %s:%d", connection.host, connection.port)
        slot.error, slot.refused, slot.not_before = "", False, 0.0
        loop = asyncio.get_running_loop()
        since = loop.time()
        if self._closed or connection.closed:
            connection.close()
            return
        slot.connection = connection

        def lost(closed: Connection) -> None:
            if slot.connection is closed:
                slot.connection = None
            if slot.retiring is not None:
                slot.retiring.set()
                slot.retiring = None
                return
            if loop.time() - since >= _STEADY_S:
                slot.backoff.reset()
            else:
                slot.not_before = loop.time() + slot.backoff.next()
            if not self._closed:
                self._on_trouble()

        connection.on_closed.insert(0, lost)


async def _closed(retiring: asyncio.Event, node_id: int, deadline: float) -> None:
    """Until a connection has retired. Raises ClusterUnavailable when that takes too long."""
    try:
        async with asyncio.timeout_at(deadline):
            await retiring.wait()
    except TimeoutError:
        raise ClusterUnavailable(f"broker {node_id}: requests are still in flight on the former connection") from None


def _as_error(slot: _Slot, node_id: int) -> ClusterUnavailable:
    reason = slot.error or f"broker {node_id}: no connection in time"
    return AuthenticationFailed(reason) if slot.refused else ClusterUnavailable(reason)
