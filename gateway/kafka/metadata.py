"""Keeps the view fresh: one Metadata request at a time, over connections of its own, from any broker that answers.

A broker cut off from its controller and its replicas, but not from its clients, keeps claiming partitions that others
lead by now. So no broker is believed for ever: a refresh after a hint, or by age, asks another broker than the last one
(`_Turn`), and the leader epochs tell which answer is newer (`view.py`). Two connections are kept for that, so that a
hint needs no new one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import suppress
from enum import Enum
from random import random
from typing import Any, Final

from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.connection.connection import Connection
from gateway.kafka.connection.errors import AuthenticationFailed, ClusterUnavailable, NetError
from gateway.kafka.view import ClusterView, next_view
from gateway.transport.background import kept_running
from gateway.transport.backoff import Backoff
from protocol.asked_again import MetadataAgain
from protocol.errors import error_name
from protocol.messages import MetadataRequest

_log = logging.getLogger(__name__)

_TRY_S = 4.0  # one broker's time to answer before the next is asked; doubled while none does
_REFUSED_PAUSE_S = 5.0  # after refused credentials: brokers lock accounts that try too often
_MIN_INTERVAL_S = 0.1  # between refreshes that were only hinted at
_TOLD_LIMIT = 64  # questions whose answers are recognized while the view does not change
_COMPLETE_LIMIT = 2000  # partitions up to which the periodic refresh asks for every topic (about 5 ms to decode)
_KEPT: Final = 2  # connections
_ELSEWHERE_S = 1.0  # for a new connection, while an open one can be asked instead
_ELSEWHERE_AGAIN_S = 2.0  # after a failed one: its broker may be dead, and the next try takes another broker


class _Turn(Enum):
    """Which broker a refresh asks: the last one; the other connected one; a new one."""

    STAY = 0
    NEXT = 1
    NEW = 2


class MetadataKeeper:
    """Owns the `ClusterView` and the task that refreshes it.

    Attributes:
        view: the latest snapshot.
        last_error: why the last refresh failed; empty when it did not.
        refused: the last refresh failed because the credentials were rejected.
        on_view: called with each view that differs from the one before.
    """

    def __init__(
        self,
        config: ClusterConfig,
        opener: Callable[[str, int], Awaitable[Connection]],
        rng: Callable[[], float] = random,
    ) -> None:
        self.view = ClusterView()
        self.last_error = ""
        self.refused = False
        self.on_view: list[Callable[[ClusterView], None]] = []
        self._config = config
        self._opener = opener
        self._rng = rng
        self._connections: list[Connection] = []  # the one asked last is at the end
        self._turn = _Turn.STAY
        self._elsewhere_after = 0.0  # loop time
        self._reconfigured = asyncio.Event()  # since the present connection was opened, or the last attempt failed
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._urgent = asyncio.Event()  # a caller waits, so the pause after a refresh is cut short
        self._everything = True
        self._follow_all = True
        self._named: set[str] = set()
        self._tracked: set[str] = set()
        # Digests of the answers behind the view, by question and broker: each broker has its own order.
        self._told: dict[frozenset[str] | None, dict[str, bytes]] = {}
        self._waiters: list[asyncio.Future[None]] = []

    def start(self, *, everything: bool = True) -> None:
        """Begin to refresh: every topic, now and from time to time, or only requested ones."""
        if self._task is None:
            self._everything = self._follow_all = everything
            if everything:
                self._wake.set()
            self._task = asyncio.get_running_loop().create_task(
                kept_running(self._run, "kafka metadata"), name="kafka metadata"
            )

    async def close(self) -> None:
        """Stop. Callers that wait for a refresh get ClusterUnavailable."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
        self._refuse_waiting(ClusterUnavailable("this client is closed"))
        self._close_all("closed by this client")

    def hint(self, topics: Iterable[str] = ()) -> None:
        """Refresh soon, from another broker, since something in the view turned out to be wrong. Does not wait."""
        self._named.update(topics)
        if self._turn is _Turn.STAY:
            self._turn = _Turn.NEXT
        self._wake.set()

    def reconfigure(self, config: ClusterConfig) -> None:
        """Use another configuration from now on; ask immediately, even after rejected credentials."""
        self._config = config
        self._reconfigured.set()
        self._wake.set()

    async def refresh(self, topics: Collection[str] | None, timeout_s: float) -> None:
        """Wait for a refresh that begins after this call; None asks for every topic.

        Raises:
            ClusterUnavailable: none within `timeout_s`; the message has the last reason.
        """
        if self._task is None or self._task.done():
            raise ClusterUnavailable("this client is closed" if self._task else "this client was not started")
        if topics is None:
            self._everything = True
        else:
            self._named.update(topics)
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._wake.set()
        self._urgent.set()
        try:
            async with asyncio.timeout(timeout_s):
                await waiter
        except TimeoutError:
            raise ClusterUnavailable(self.last_error or f"no metadata within {timeout_s:g} s") from None

    async def _run(self) -> None:
        backoff = Backoff(*self._config.retry_backoff_s, self._rng)
        while True:
            await self._until_wanted()
            everything, self._everything = self._everything, False
            asked, self._named = self._named, set()
            waiters, self._waiters = self._waiters, []
            turn, self._turn = self._turn, _Turn.STAY
            try_s = min(_TRY_S * 2.0 ** min(backoff.failures, 5), self._config.request_timeout_s)
            try:
                await self._refresh_once(None if everything else asked, try_s, turn)
            except Exception as exc:  # noqa: BLE001 - whatever it was: this task must go on
                self._everything |= everything
                self._named |= asked
                self._failed(exc, waiters)
                await self._pause(_REFUSED_PAUSE_S if isinstance(exc, AuthenticationFailed) else backoff.next())
                continue
            except BaseException:
                self._waiters += waiters
                raise
            backoff.reset()
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
            with suppress(TimeoutError):
                async with asyncio.timeout(_MIN_INTERVAL_S):
                    await self._urgent.wait()

    async def _pause(self, wait_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._reconfigured.wait()

    async def _until_wanted(self) -> None:
        """Wait until a refresh is requested, or the view is too old."""
        try:
            async with asyncio.timeout(self._config.metadata_max_age_s * (0.9 + 0.2 * self._rng())):
                await self._wake.wait()
        except TimeoutError:
            self._everything |= self._follow_all and self.view.partition_count <= _COMPLETE_LIMIT
            self._named |= self._tracked
            self._turn = _Turn.NEW
        self._wake.clear()
        self._urgent.clear()

    def _failed(self, exc: Exception, waiters: list[asyncio.Future[None]]) -> None:
        """No broker answered: try again for the callers that still wait, unless that cannot help."""
        if not isinstance(exc, NetError):
            _log.error("the metadata refresh failed", exc_info=exc)
        elif not self.last_error:
            _log.warning("no metadata: %s", exc)
        self.last_error = str(exc) or type(exc).__name__
        self.refused = isinstance(exc, AuthenticationFailed)
        self._waiters += [waiter for waiter in waiters if not waiter.done()]
        if isinstance(exc, AuthenticationFailed):
            self._refuse_waiting(exc)
        self._wake.set()

    def _refuse_waiting(self, exc: ClusterUnavailable) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(exc)

    async def _refresh_once(self, asked: Collection[str] | None, try_s: float, turn: _Turn) -> None:
        """Ask one broker after the other until one answers."""
        reasons: list[str] = []
        if self._reconfigured.is_set():
            self._reconfigured.clear()
            self._elsewhere_after = 0.0
            self._close_all("reached in another way now")
        for connection in await self._open_ones(turn, try_s, reasons):
            self._connections.remove(connection)
            self._connections.append(connection)
            try:
                return await self._ask(connection, asked, try_s)
            except NetError as exc:
                reasons.append(str(exc))
                connection.close(f"metadata: {exc}")
        for where in self._candidates():
            try:
                connection = await self._connect(where, try_s)
            except AuthenticationFailed:
                raise
            except NetError as exc:
                reasons.append(str(exc))
                continue
            try:
                return await self._ask(connection, asked, try_s)
            except NetError as exc:
                reasons.append(str(exc))
                connection.close(f"metadata: {exc}")
        raise ClusterUnavailable("; ".join(dict.fromkeys(reasons)))

    async def _open_ones(self, turn: _Turn, try_s: float, reasons: list[str]) -> Sequence[Connection]:
        """The open connections in the order in which to ask them, with a new one if it is the turn for one."""
        self._connections = [connection for connection in self._connections if not connection.closed]
        if turn is _Turn.STAY or not self._connections:
            return self._connections[::-1]
        brokers = self._brokers()  # a connection to a bootstrap server may be one to the same broker
        others = [each for each in self._connections[:-1] if (each.host, each.port) in brokers]
        now = asyncio.get_running_loop().time()
        if (turn is _Turn.NEW or not others) and now >= self._elsewhere_after:
            connected = {(each.host, each.port) for each in self._connections}
            for where in [broker for broker in brokers if broker not in connected][:1]:
                try:
                    others = [await self._connect(where, min(try_s, _ELSEWHERE_S))]
                except NetError as exc:  # the broker asked before is still there
                    reasons.append(str(exc))
                    refused = isinstance(exc, AuthenticationFailed)
                    self._elsewhere_after = now + (_REFUSED_PAUSE_S if refused else _ELSEWHERE_AGAIN_S)
        return [*others, *(each for each in reversed(self._connections) if each not in others)]

    async def _connect(self, where: tuple[str, int], try_s: float) -> Connection:
        """Open a connection, and close the oldest ones beyond `_KEPT`. Raises NetError."""
        try:
            async with asyncio.timeout(try_s):
                connection = await self._opener(*where)
        except TimeoutError:
            raise ClusterUnavailable(f"{where[0]}:{where[1]}: no answer within {try_s:g} s") from None
        self._connections.append(connection)
        connection.on_closed.append(self._lost)
        while len(self._connections) > _KEPT:
            self._connections.pop(0).close("metadata comes from another broker now")
        return connection

    def _lost(self, connection: Connection) -> None:
        """Losing the connection asked last hints that the cluster may be gone; other ones are not missed."""
        if self._connections and self._connections[-1] is connection:
            self.hint()

    def _close_all(self, reason: str) -> None:
        for connection in tuple(self._connections):
            connection.close(reason)

    def _brokers(self) -> list[tuple[str, int]]:
        """The addresses of the known brokers, in random order."""
        brokers = [(broker.host, broker.port) for broker in self.view.brokers.values()]
        brokers.sort(key=lambda _: self._rng())
        return brokers

    def _candidates(self) -> list[tuple[str, int]]:
        """Known brokers in random order, then the bootstrap servers that are not among them."""
        brokers = self._brokers()
        return brokers + [server for server in self._config.bootstrap if server not in brokers]

    async def _ask(self, connection: Connection, asked: Collection[str] | None, try_s: float) -> None:
        topics = None if asked is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in sorted(asked)]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        question, where = None if asked is None else frozenset(asked), f"{connection.host}:{connection.port}"
        known = self._told.get(question, {}).get(where, b"")
        told = await connection.request(MetadataAgain(request, known), timeout_s=try_s)
        if told.message is None:  # the view already reflects it, and nothing later
            self._accept(self.view, asked)
            return
        self._accept(self._next_view(told.message, asked, where), asked)
        if len(self._told) >= _TOLD_LIMIT and question not in self._told:
            self._told.clear()
        self._told.setdefault(question, {})[where] = told.digest

    def _next_view(self, response: Any, asked: Collection[str] | None, where: str) -> ClusterView:
        """The view after an answer. Raises ClusterUnavailable when the answer is unusable."""
        error = getattr(response, "error_code", 0)
        if error:
            raise ClusterUnavailable(f"{where}: Metadata: {error_name(error)}")
        if not response.brokers:
            raise ClusterUnavailable(f"{where}: Metadata without brokers")
        known = self.view.cluster_id
        if known and response.cluster_id and response.cluster_id != known:
            raise ClusterUnavailable(f"{where} is a broker of another cluster: {response.cluster_id}, not {known}")
        return next_view(self.view, response, asked)

    def _accept(self, view: ClusterView, asked: Collection[str] | None) -> None:
        if self.last_error:
            _log.info("metadata is back")
        self.last_error, self.refused = "", False
        self._tracked.update(asked or ())
        self._tracked &= view.topics.keys()
        if view != self.view:
            self.view = view
            self._told.clear()  # an earlier answer to the same question would be news now
            for callback in tuple(self.on_view):
                try:
                    callback(view)
                except Exception:  # noqa: BLE001 - a subscriber's fault must not end the refreshes
                    _log.exception("a view subscriber failed")
