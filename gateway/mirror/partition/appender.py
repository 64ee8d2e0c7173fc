"""Appends to one target broker: a Produce request carries one batch of each of several partitions.

A broker takes exactly one batch per partition and request, and answers the requests of a connection one after the
other; so a request is filled across partitions. As many small requests are in flight as keep the broker busy, at most
five (`rules/throttle.py`). More large requests may be, up to some megabytes in total: that keeps a distant target busy.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from gateway.kafka.cluster import Cluster, ClusterUnavailable, NetError
from gateway.kafka.connection.connection import Connection
from gateway.kafka.topic_partition import TopicPartition
from gateway.mirror.partition.rules.append_window import Append
from gateway.mirror.partition.rules.throttle import MOST, Depth
from gateway.transport.backoff import Backoff
from gateway.transport.tasks import Tasks
from protocol.apis import ApiKey
from protocol.errors import MalformedFrame
from protocol.produce import build_restamped_body, scan_answer
from protocol.wire import Buffer

LANE: Final = "mirror-append"
MAX_IN_FLIGHT: Final = MOST
_REQUEST_BYTES: Final = 4 * 1024 * 1024
_DEEP: Final = 32
_DEEP_BYTES: Final = 16 * 1024 * 1024
_LARGE: Final = 64 * 1024
_PRODUCE_CAP: Final = 11  # later versions handle transactions differently (12) and name topics by id (13)
_ANSWER_SHARE: Final = 0.5  # of the request timeout: the broker gives up on its replicas before we give up on it


class AppendedPartition(Protocol):
    """A partition that hands out its batches and learns the outcome of each."""

    key: TopicPartition

    @property
    def has_more(self) -> bool:
        """There may be another batch to take at once."""

    def take(self) -> Append | None:
        """The next batch for the target; None while there is none to send."""

    def append_answered(self, base: int, code: int, landed_at: int, message: str, repeated: bool = False) -> None:
        """The target answered the append that expected `base`. The caller pumps."""

    def append_unknown(self, message: str) -> None:
        """The outcome of an append is unknown."""

    def target_unreachable(self, message: str) -> None:
        """There is no connection for appends; queued batches wait."""


_Sent = dict[TopicPartition, tuple[AppendedPartition, int]]


class Appender:
    """The append lane to one broker. `may_append` is asked before each request (`fleet/rules/leases.py`). `clock`:
    monotonic seconds.

    Attributes:
        throttled_s: how long the broker has throttled appends, in total, in seconds.
    """

    __slots__ = (
        "_backoff",
        "_bytes",
        "_clock",
        "_cluster",
        "_connecting",
        "_depth",
        "_in_flight",
        "_last_bytes",
        "_may_append",
        "_node",
        "_ready",
        "_tasks",
        "_timeout_ms",
        "_waits",
        "throttled_s",
    )

    def __init__(
        self,
        cluster: Cluster,
        node: int,
        tasks: Tasks,
        may_append: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._cluster = cluster
        self._depth = Depth()
        self._may_append = may_append
        self._node = node
        self._tasks = tasks
        self._ready: dict[AppendedPartition, None] = {}  # in turn
        self._in_flight = 0
        self._bytes = 0  # in flight
        self._last_bytes = 0  # in the last request sent
        self._connecting = False
        self._waits = False  # until the connection is writable, or its quota rest is over
        self.throttled_s = 0.0
        self._backoff = Backoff(*cluster.config.reconnect_backoff_s, cluster.rng)
        self._timeout_ms = int(cluster.config.request_timeout_s * 1000 * _ANSWER_SHARE)

    def ready(self, runner: AppendedPartition) -> None:
        """The partition may have a batch to append. Nothing is sent before `pump`."""
        self._ready[runner] = None

    def discard(self, runner: AppendedPartition) -> None:
        """The partition has ended or has another leader."""
        self._ready.pop(runner, None)

    def pump(self) -> None:
        """Send as many requests as may be in flight now."""
        while self._ready and self._has_room() and self._may_append():
            connection = self._cluster.cached_connection(self._node, LANE)
            if connection is None:
                self._connect()
                return
            if connection.write_paused:
                self._wait_writable(connection)
                return
            if connection.rest.active and not connection.rest.may_send():
                self._wait_rested(connection)
                return
            self._send(connection)

    def _has_room(self) -> bool:
        if not self._in_flight:
            return True
        if self._last_bytes < _LARGE:
            return self._in_flight < self._depth.most(self._clock())
        return self._in_flight < MAX_IN_FLIGHT or (self._in_flight < _DEEP and self._bytes < _DEEP_BYTES)

    def _send(self, connection: Connection) -> None:
        topics: dict[str, list[tuple[int, bytes, Buffer]]] = {}
        sent: _Sent = {}
        size = 0
        ready = self._ready
        while ready and size < _REQUEST_BYTES:
            runner = next(iter(ready))
            del ready[runner]
            append = runner.take()
            if append is None:
                continue
            base, data, stamp = append
            topic, index = runner.key
            topics.setdefault(topic, []).append((index, stamp, data))
            sent[runner.key] = runner, base
            size += len(data)
        if not sent:
            return
        for runner, _ in sent.values():
            if runner.has_more:
                ready[runner] = None
        alone = not self._in_flight
        self._in_flight += 1
        self._bytes += size
        self._last_bytes = size
        try:
            version = connection.version(ApiKey.PRODUCE, _PRODUCE_CAP)
            pieces = build_restamped_body(version, None, -1, self._timeout_ms, topics)
            answered = partial(self._answered, sent, size, version, connection, self._clock(), alone)
            connection.send(ApiKey.PRODUCE, version, pieces, answered)
        except (NetError, ValueError) as exc:
            self._in_flight -= 1
            self._bytes -= size
            for runner, _ in sent.values():
                runner.append_unknown(f"target broker {self._node}: {exc}")

    def _answered(
        self,
        sent: _Sent,
        size: int,
        version: int,
        connection: Connection,
        sent_at: float,
        alone: bool,
        body: memoryview | None,
    ) -> None:
        self._in_flight -= 1
        self._bytes -= size
        if body is not None:
            self._depth.answered(sent_at, self._clock(), alone=alone)
            try:
                results, throttle_ms = scan_answer(body, version)
            except MalformedFrame as exc:
                connection.close(f"a malformed Produce response: {exc}")
            else:
                if throttle_ms or connection.rest.active:
                    connection.rest.told(throttle_ms)
                    self.throttled_s += throttle_ms / 1000
                for topic, index, code, landed_at, append_time, _, message, _ in results:
                    found = sent.pop((topic, index), None)
                    if found is not None:
                        # A broker returns the append time of a batch that it already had, even with CreateTime.
                        found[0].append_answered(found[1], code, landed_at, message or "", append_time >= 0)
        for runner, _ in sent.values():
            runner.append_unknown(f"no answer from target broker {self._node}: {connection.close_reason}")
        self.pump()

    def _connect(self) -> None:
        if not self._connecting:
            self._connecting = True
            self._tasks.spawn(self._open(), f"mirror append {self._node}")

    async def _open(self) -> None:
        try:
            await self._cluster.connection(self._node, LANE)
        except ClusterUnavailable as exc:
            for runner in self._ready:
                self._cluster.invalidate(runner.key[0])  # the partition may have another leader by now
                runner.target_unreachable(str(exc))
            await asyncio.sleep(self._backoff.next())
        else:
            self._backoff.reset()
        finally:
            self._connecting = False
        self.pump()

    def _wait_writable(self, connection: Connection) -> None:
        if not self._waits:
            self._waits = True
            connection.when_writable(self._writable)

    def _wait_rested(self, connection: Connection) -> None:
        """Wait until the broker's quota allows requests again. Queued batches stay with their mirror, which can report
        them and be stopped."""
        if not self._waits:
            self._waits = True
            connection.rest.when_may_send(self._writable)

    def _writable(self) -> None:
        self._waits = False
        self.pump()
