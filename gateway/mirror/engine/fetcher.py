"""Fetches from one source broker: one long poll after the other, in an incremental session.

The fetcher examines a partition when its state changes (`touch`): it was fetched, appended, placed. It examines a
partition that waits (`_waiting`: for memory, or after an error) before each request. So the cost of a request grows
with activity, not with the number of idle partitions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from gateway.kafka.cluster import Cluster, ClusterUnavailable, NetError
from gateway.kafka.connection.connection import Connection
from gateway.kafka.connection.quota_rest import LONGEST_S
from gateway.kafka.rules.error_codes import SESSION_ERRORS
from gateway.mirror.engine.fetch_session import FetchSession, Key
from gateway.mirror.engine.read_replicas import ReadReplicas, Reads
from gateway.mirror.partition.rules.opened import Allowance
from gateway.mirror.partition.rules.source_side import PAUSE_BYTES
from gateway.mirror.partition.rules.throttle import Throttle
from gateway.transport.backoff import Backoff
from protocol.apis import ApiKey
from protocol.errors import MalformedFrame, error_name
from protocol.fetch import FetchPartition, FetchResponseView, build_request_body, scan_response

if TYPE_CHECKING:
    from gateway.mirror.partition.runner import PartitionRunner

_log = logging.getLogger(__name__)

LANE: Final = "mirror-fetch"  # separate from appends: a broker may hold a fetch answer back for long
NEAR_LANE: Final = "mirror-fetch-near"  # for fetches that send the rack: a request has one rack for all partitions
_BY_ID: Final = 13
_FETCH_CAP: Final = 15
MAX_WAIT_MS: Final = 500
"""How long a broker may hold an answer back. A new partition may wait as long for its first fetch."""

_BACKING_OFF_MS: Final = 100
_FULL_MS: Final = 20
_RESPONSE_BYTES: Final = 16 * 1024 * 1024
_ANSWER_S: Final = 15.0
_QUEUED_BYTES: Final = 256 * 1024 * 1024
"""How much the partitions of one source broker may have queued together. Above it the fetcher fetches only partitions
that have nothing queued, and little of each, until half of it is on the target: one stalled target broker must not
starve the others."""

_THROTTLE_LOOK_S: Final = 0.5  # within this time a changed throttle takes effect
_SHORT_BYTES: Final = 64 * 1024

_MIN_PAUSE_BYTES: Final = 256 * 1024


class Fetcher:
    """The fetch lane to one source broker, for the partitions read from it.

    Args:
        fetched: called after each answer has been handed to its partitions.
        max_wait_ms: how long a broker may hold an answer back now.
        replicas: the replicas that are read instead of leaders; None: leaders are read.
        asks: send the rack, so that leaders may name a nearer replica.
    """

    def __init__(
        self,
        cluster: Cluster,
        node: int,
        throttle: Throttle,
        fetched: Callable[[], None],
        clock: Callable[[], float],
        max_wait_ms: Callable[[], int] = lambda: MAX_WAIT_MS,
        replicas: ReadReplicas | None = None,
        *,
        asks: bool = False,
    ) -> None:
        self._replicas = replicas
        self._rack = replicas.rack if replicas is not None and asks else ""
        self._lane = NEAR_LANE if self._rack else LANE
        self._max_wait_ms = max_wait_ms
        self._cluster = cluster
        self._node = node
        self._throttle = throttle
        self._fetched = fetched
        self._clock = clock
        self._runners: dict[PartitionRunner, Key] = {}
        self._by_name = 0  # how many of them have no topic id
        self._session = FetchSession()
        self._by_id: bool | None = None  # how the session names topics; None: no session yet
        self._fetched_as: dict[Key, tuple[int, PartitionRunner]] = {}  # from which offset, per partition in the session
        self._touched: dict[PartitionRunner, None] = {}
        self._waiting: dict[PartitionRunner, None] = {}
        self._shared = 0
        self._allowance = Allowance()
        self._queued: dict[PartitionRunner, int] = {}  # bytes at the last look; never 0
        self._queued_bytes = 0  # of all
        self._short = False  # of memory
        self._wake = asyncio.Event()

    @property
    def empty(self) -> bool:
        """This fetcher has no partitions."""
        return not self._runners

    def add(self, runner: PartitionRunner) -> None:
        """Fetch this partition, too."""
        if runner in self._runners:
            return
        self._by_name += runner.source_topic_id is None
        self._runners[runner] = self._key(runner)
        runner.reader = self
        runner.cursor.allowance = self._allowance
        self._share(runner)
        self.touch(runner)

    def discard(self, runner: PartitionRunner) -> None:
        """Leave this partition out from the next fetch on."""
        key = self._runners.pop(runner, None)
        if key is None:
            return
        self._by_name -= runner.source_topic_id is None
        runner.reader = None
        self._touched.pop(runner, None)
        self._waiting.pop(runner, None)
        self._queued_bytes -= self._queued.pop(runner, 0)
        found = self._fetched_as.get(key)
        if found is not None and found[1] is runner:
            del self._fetched_as[key]
            self._session.leave(key)
        self._share()

    def touch(self, runner: PartitionRunner) -> None:
        """The partition's state changed: examine whether and from which offset it is to be fetched now."""
        self._touched[runner] = None
        if runner not in self._waiting:  # a waiting partition is examined soon anyway
            self._wake.set()

    def _key(self, runner: PartitionRunner) -> Key:
        topic = runner.source_topic_id if self._by_id else None
        return runner.source_topic if topic is None else topic, runner.partition

    def _share(self, new: PartitionRunner | None = None) -> None:
        """Set how much each partition may have queued: a power of two, so that the limit changes only a few times."""
        share = PAUSE_BYTES
        while share > _MIN_PAUSE_BYTES and share * len(self._runners) > _QUEUED_BYTES:
            share //= 2
        if share != self._shared:
            self._shared = share
            for runner in self._runners:
                runner.mirror.source.pause_bytes = share
        elif new is not None:
            new.mirror.source.pause_bytes = share

    async def run(self) -> None:
        """Fetch until cancelled. Errors are retried with backoff, for ever."""
        backoff = Backoff(*self._cluster.config.reconnect_backoff_s, self._cluster.rng)
        while True:
            try:
                connection = await self._cluster.connection(self._node, self._lane)
                await self._poll(connection, backoff)
            except ClusterUnavailable as exc:
                self._find_leaders()
                _log.debug("fetch from source broker %d: %s", self._node, exc)
                await asyncio.sleep(backoff.next())
            except (NetError, MalformedFrame) as exc:
                _log.warning("fetch from source broker %d: %s", self._node, exc)
                self._lost()
                await asyncio.sleep(backoff.next())

    def _find_leaders(self) -> None:
        """The broker is gone: its partitions may have other leaders by now."""
        for topic in {runner.source_topic for runner in self._runners}:
            self._cluster.invalidate(topic)
        self._lost()

    def _lost(self) -> None:
        if self._replicas is not None:
            self._replicas.lost(self._node, tuple(self._runners))

    async def _poll(self, connection: Connection, backoff: Backoff) -> None:
        """Fetch on one connection until it breaks, in one session after the other."""
        self._session.reset()
        while True:
            self._name_topics(connection)
            max_wait_ms = self._look()
            session = self._session
            if not session.wanted:
                await self._idle(max_wait_ms / 1000)
                continue
            version = connection.version(ApiKey.FETCH, _FETCH_CAP if self._by_id else _BY_ID - 1)
            request = session.request()
            body = build_request_body(
                version,
                request.topics,
                max_wait_ms=max_wait_ms,
                max_bytes=self._throttle.limit(_RESPONSE_BYTES),
                read_committed=True,
                session=request.session,
                forgotten=request.forgotten,
                rack_id=self._rack,
            )
            response = scan_response(await self._exchange(connection, version, body), version)
            self._throttle.spend(sum(len(part.records) for part in response.parts))
            self._throttle.told_ms += response.throttle_ms
            if response.error_code:
                await self._refused(response.error_code, backoff)
                await asyncio.sleep(min(response.throttle_ms / 1000, LONGEST_S))
                continue
            session.answered(response.session_id)
            backoff.reset()
            self._hand_out(response)
            # A broker that throttles reads nothing meanwhile (KIP-219): a request would wait there and time out.
            if response.throttle_ms:
                await asyncio.sleep(min(response.throttle_ms / 1000, LONGEST_S))
            await self._rest()

    async def _rest(self) -> None:
        """Wait until the link's own throttle allows the next fetch. A throttle changed meanwhile takes effect."""
        while True:
            wait_s = self._throttle.wait_s(self._clock())
            if not wait_s:
                return
            await asyncio.sleep(min(wait_s, _THROTTLE_LOOK_S))

    async def _exchange(self, connection: Connection, version: int, body: bytes) -> memoryview:
        try:
            return await connection.exchange(connection.send, ApiKey.FETCH, version, body, _ANSWER_S)
        except NetError as exc:
            connection.close(str(exc))  # a late answer would belong to a session that is gone
            raise

    def _name_topics(self, connection: Connection) -> None:
        """Name topics by id where possible, so that a recreated topic is not mistaken for the old one.

        A session uses either names or ids throughout.
        """
        has = connection.versions.get(ApiKey.FETCH, (0, 0))[1] >= _BY_ID
        by_id = has and not self._by_name
        if by_id is not self._by_id:
            self._by_id = by_id
            self._session = FetchSession()
            self._fetched_as.clear()
            self._runners = {runner: self._key(runner) for runner in self._runners}
            self._touched = dict.fromkeys(self._runners)

    def _look(self) -> int:
        """Update the session with what to fetch now. Returns how long the broker may hold its answer back, in ms."""
        now = self._clock()
        max_wait_ms = self._max_wait_ms()
        self._count_queued()
        for runner in (*self._waiting, *self._touched):
            key = self._runners[runner]
            if runner.mirror.wants_fetch(now) and not (self._short and runner in self._queued):
                cursor = runner.cursor
                max_bytes = self._throttle.limit(_SHORT_BYTES if self._short else runner.mirror.source.fetch_bytes)
                part = FetchPartition(
                    runner.partition,
                    cursor.fetch_offset,
                    max_bytes,
                    leader_epoch=self._cluster.leader_epoch(runner.source_topic, runner.partition),
                    last_epoch=cursor.last_epoch,
                )
                self._session.want(key, part)
                self._fetched_as[key] = cursor.fetch_offset, runner
                self._waiting.pop(runner, None)
                continue
            self._session.leave(key)
            self._fetched_as.pop(key, None)
            if runner.mirror.copying and not runner.mirror.source.waits:  # the end of such a wait touches it
                self._waiting[runner] = None
                full = runner.mirror.source.full or self._short
                max_wait_ms = min(max_wait_ms, _FULL_MS if full else _BACKING_OFF_MS)
            else:
                self._waiting.pop(runner, None)
        self._touched.clear()
        return max_wait_ms

    def _count_queued(self) -> None:
        """Update how much each changed partition has queued, and whether all together have too much."""
        for runner in self._touched:
            queued = runner.mirror.source.queued_bytes
            self._queued_bytes += queued - self._queued.pop(runner, 0)
            if queued:
                self._queued[runner] = queued
        short = self._queued_bytes > (_QUEUED_BYTES // 2 if self._short else _QUEUED_BYTES)
        if short is not self._short:
            self._short = short
            self._touched = dict.fromkeys(self._runners)  # each now asks for another size

    async def _idle(self, wait_s: float) -> None:
        self._wake.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._wake.wait()

    async def _refused(self, code: int, backoff: Backoff) -> None:
        self._session.reset()
        if code not in SESSION_ERRORS:
            _log.warning("fetch from source broker %d: %s", self._node, error_name(code))
            await asyncio.sleep(backoff.next())

    def _hand_out(self, response: FetchResponseView) -> None:
        now = self._clock()
        self._allowance.refill()
        for part in response.parts:
            found = self._fetched_as.get((part.topic, part.partition))
            if found is None:  # the partition has left meanwhile
                continue
            offset, runner = found
            self._touched[runner] = None
            reads = Reads.LEADER if self._replicas is None else self._replicas.answered(runner, self._node, part)
            if reads is Reads.MOVED:
                continue
            if part.error_code:
                runner.fetch_failed(part.error_code, now)
            elif part.diverging is not None:
                runner.fetch_diverged(*part.diverging)
            else:
                runner.fetched(
                    part.records,
                    part.high_watermark,
                    now,
                    asked=offset,
                    stable=part.last_stable_offset,
                    aborted=part.aborted,
                    log_start=part.log_start_offset,
                    follower=reads is Reads.FOLLOWER,
                )
                if self._replicas is not None and reads is Reads.FOLLOWER:
                    self._replicas.used(runner)
        self._fetched()
