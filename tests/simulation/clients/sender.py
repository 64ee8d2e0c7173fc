"""Sends a producer's batches: which broker gets them, how many requests are in flight, what an answer or none does.

No task of its own: each event (a batch to send, an answer, a connection, a timer) leads to one step that sends what may
be sent. One batch per partition in a request, as in the libraries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from typing import Final

from gateway.kafka.cluster import Cluster, ConnectionClosed, NetError
from gateway.kafka.connection.connection import Connection
from protocol.apis import ApiKey
from protocol.errors import ErrorCode, MalformedFrame
from protocol.produce import PartitionResult, build_request_body, scan_response
from tests.simulation.clients.client import CONNECT_TRY_S
from tests.simulation.clients.records import stamped_batch
from tests.simulation.clients.sequences import Batch, Key, Sequences

LANE: Final = "produce"
_VERSION: Final = 9
_LOOK_AGAIN_S: Final = 0.1


class Sender:
    """Args:
    sequences: what may be sent.
    acks, timeout_s: of the requests.
    in_flight: requests at a time per broker.
    epoch_ms: of time 0 on the loop.
    """

    def __init__(
        self,
        cluster: Cluster,
        sequences: Sequences,
        *,
        acks: int = -1,
        timeout_s: float = 30.0,
        in_flight: int = 5,
        transactional_id: str | None = None,
        epoch_ms: int = 0,
        spawn: Callable[..., object],
    ) -> None:
        self._cluster, self._sequences = cluster, sequences
        self._acks, self._timeout_s, self._in_flight = acks, timeout_s, in_flight
        self._transactional_id = transactional_id
        self._epoch_ms = epoch_ms
        self._spawn = spawn
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self._wire: dict[int, int] = {}
        self._opening: set[int] = set()
        self._stepping = False
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._idle: list[asyncio.Future[None]] = []
        self.allowed: set[Key] | None = None
        """None: every partition may be sent to; else these (those that are in the transaction)."""
        self.requests = 0

    def send(self, batch: Batch) -> None:
        """Have it sent."""
        self._sequences.add(batch)
        self.wake()

    def wake(self) -> None:
        """Something has changed."""
        if not self._stepping and not self._closed:
            self._stepping = True
            self._loop.call_soon(self._step, context=self._context)

    async def flushed(self) -> None:
        """Wait until nothing waits for an answer, or to be sent."""
        if self._sequences.unanswered:
            waiter = self._loop.create_future()
            self._idle.append(waiter)
            await waiter

    def close(self, why: str) -> None:
        """Send nothing more; what is not answered ends as unknown."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._sequences.give_up(why)
        self._look_if_idle()

    # -- one step --------------------------------------------------------------------------------------------

    def _step(self) -> None:
        self._stepping = False
        if self._closed:
            return
        sequences, now = self._sequences, self._loop.time()
        sequences.tick(now)
        homeless = False
        if sequences.ready:
            leaders: dict[int, list[Key]] = {}
            for key in sequences.waiting():
                if self.allowed is not None and key not in self.allowed:
                    continue
                leader = self._cluster.leader(*key)
                if leader is None:
                    sequences.stale.add(key[0])
                    homeless = True
                else:
                    leaders.setdefault(leader, []).append(key)
            for leader, keys in leaders.items():
                self._send_to(leader, keys, now)
        for topic in sorted(sequences.stale):
            self._cluster.invalidate(topic)
        sequences.stale.clear()
        self._look_if_idle()
        self._again_at(min(sequences.next_time(), now + _LOOK_AGAIN_S if homeless else float("inf")))

    def _again_at(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if when < float("inf"):
            when = max(when, self._loop.time() + 0.001)
            self._timer = self._loop.call_at(when, self._step, context=self._context)

    def _send_to(self, leader: int, keys: list[Key], now: float) -> None:
        connection = self._cluster.cached_connection(leader, LANE)
        if connection is None or connection.closed:
            self._open(leader)
            return
        while self._wire.get(leader, 0) < self._in_flight:
            batches = [batch for key in keys if (batch := self._sequences.take(key, now)) is not None]
            if not batches:
                return
            self._request(connection, leader, batches)

    def _request(self, connection: Connection, leader: int, batches: list[Batch]) -> None:
        topics: dict[str, list[tuple[int, bytes]]] = {}
        for batch in batches:
            topics.setdefault(batch.key[0], []).append((batch.key[1], self._encoded(batch)))
        version = connection.version(ApiKey.PRODUCE, _VERSION)
        body = build_request_body(version, self._transactional_id, self._acks, int(self._timeout_s * 1000), topics)
        self.requests += 1
        by_key = {batch.key: (batch, batch.attempts) for batch in batches}

        def answered(response: memoryview | None) -> None:
            self._wire[leader] -= 1
            self._answered(by_key, _scanned(response, version))

        if self._acks == 0:
            connection.send(ApiKey.PRODUCE, version, body, answered, expect_response=False)
            for batch in batches:
                self._sequences.unheard(batch)
            return
        self._wire[leader] = self._wire.get(leader, 0) + 1
        try:
            connection.send(ApiKey.PRODUCE, version, body, answered, timeout_s=self._timeout_s)
        except ConnectionClosed:
            self._wire[leader] -= 1
            for batch in batches:  # nothing was sent
                self._sequences.answered(batch, ErrorCode.NETWORK_EXCEPTION, -1, -1, self._loop.time())

    def _answered(self, asked: dict[Key, tuple[Batch, int]], results: list[PartitionResult] | None) -> None:
        if self._closed:
            return
        now = self._loop.time()
        if results is None:
            for topic in sorted({key[0] for key in asked}):
                self._cluster.invalidate(topic)
        found = {(result.topic, result.partition): result for result in results or ()}
        for key, (batch, _attempt) in asked.items():
            result = found.get(key)
            if result is None:
                self._sequences.lost(batch, now)
            else:
                self._sequences.answered(batch, result.error_code, result.base_offset, result.log_start_offset, now)
        self.wake()

    def _encoded(self, batch: Batch) -> bytes:
        timestamp_ms = self._epoch_ms + int(batch.created * 1000)
        if batch.identity is None:
            return stamped_batch(batch.body, batch.count, timestamp_ms)
        return stamped_batch(
            batch.body,
            batch.count,
            timestamp_ms,
            producer_id=batch.identity.producer_id,
            epoch=batch.identity.epoch,
            sequence=batch.sequence,
            transactional=self._transactional_id is not None,
        )

    def _open(self, leader: int) -> None:
        if leader not in self._opening:
            self._opening.add(leader)
            self._spawn(self._connect(leader), f"connects to {leader}")

    async def _connect(self, leader: int) -> None:
        try:
            await self._cluster.connection(leader, LANE, CONNECT_TRY_S)
        except NetError:
            self._sequences.stale.update(topic for topic, _ in self._sequences.waiting())  # does somebody else lead?
            await asyncio.sleep(_LOOK_AGAIN_S)
        self._opening.discard(leader)
        self.wake()

    def _look_if_idle(self) -> None:
        if self._idle and (not self._sequences.unanswered or self._closed):
            waiters, self._idle = self._idle, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)


def _scanned(response: memoryview | None, version: int) -> list[PartitionResult] | None:
    try:
        return None if response is None else scan_response(response, version)
    except MalformedFrame:
        return None
