"""Fetches from one source broker: one long poll after the other, in an incremental session."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from gateway.kafka.cluster import Cluster, ClusterUnavailable, NetError
from gateway.kafka.connection.connection import Connection
from gateway.kafka.rules.error_codes import SESSION_ERRORS
from gateway.mirror.engine.fetch_session import FetchSession, Key
from gateway.mirror.partition.rules.source_side import PAUSE_BYTES
from gateway.mirror.partition.rules.throttle import Throttle
from gateway.transport.backoff import Backoff
from protocol.apis import ApiKey
from protocol.errors import MalformedFrame, error_name
from protocol.fetch import FetchPartition, FetchResponseView, build_request_body, scan_response

if TYPE_CHECKING:
    from gateway.mirror.partition.runner import PartitionRunner

_log = logging.getLogger(__name__)

LANE: Final = "mirror-fetch"  # apart from appends: an answer may be held back for long
_BY_ID: Final = 13
_FETCH_CAP: Final = 15
MAX_WAIT_MS: Final = 500
"""How long a broker may hold an answer back. A partition that comes new waits as long for its first fetch."""

_BACKING_OFF_MS: Final = 100
_FULL_MS: Final = 20
_RESPONSE_BYTES: Final = 8 * 1024 * 1024
_PARTITION_BYTES: Final = 1024 * 1024
_ANSWER_S: Final = 15.0
_QUEUED_BYTES: Final = 256 * 1024 * 1024
"""What the partitions of one broker may have queued together."""

_MIN_PAUSE_BYTES: Final = 256 * 1024


Wanted = dict[Key, tuple[FetchPartition, "PartitionRunner"]]


class Fetcher:
    """The fetch lane to one source broker, for the partitions it leads.

    Args:
        fetched: called after each answer has been handed to its partitions.
        max_wait_ms: how long a broker may hold an answer back now.
    """

    def __init__(
        self,
        cluster: Cluster,
        node: int,
        throttle: Throttle,
        fetched: Callable[[], None],
        clock: Callable[[], float],
        max_wait_ms: Callable[[], int] = lambda: MAX_WAIT_MS,
    ) -> None:
        self._max_wait_ms = max_wait_ms
        self._cluster = cluster
        self._node = node
        self._throttle = throttle
        self._fetched = fetched
        self._clock = clock
        self._runners: dict[PartitionRunner, None] = {}
        self._wake = asyncio.Event()

    @property
    def empty(self) -> bool:
        """Nothing to fetch here."""
        return not self._runners

    def add(self, runner: PartitionRunner) -> None:
        """Fetch this partition too."""
        self._runners[runner] = None
        self._share()
        self._wake.set()

    def discard(self, runner: PartitionRunner) -> None:
        """Leave this partition out from the next fetch on."""
        self._runners.pop(runner, None)
        self._share()

    def _share(self) -> None:
        share = _QUEUED_BYTES // max(1, len(self._runners))
        for runner in self._runners:
            runner.mirror.source.pause_bytes = min(PAUSE_BYTES, max(_MIN_PAUSE_BYTES, share))

    async def run(self) -> None:
        """Fetch until cancelled. Trouble is retried with backoff, for ever."""
        backoff = Backoff(*self._cluster.config.reconnect_backoff_s, self._cluster.rng)
        while True:
            try:
                connection = await self._cluster.connection(self._node, LANE)
                await self._poll(connection, backoff)
            except ClusterUnavailable as exc:
                self._find_leaders()
                _log.debug("fetch from source broker %d: %s", self._node, exc)
                await asyncio.sleep(backoff.next())
            except (NetError, MalformedFrame) as exc:
                _log.warning("fetch from source broker %d: %s", self._node, exc)
                await asyncio.sleep(backoff.next())

    def _find_leaders(self) -> None:
        """The broker is gone: its partitions may have other leaders by now."""
        for topic in {runner.source_topic for runner in self._runners}:
            self._cluster.invalidate(topic)

    async def _poll(self, connection: Connection, backoff: Backoff) -> None:
        """One connection's life, with one session after the other."""
        session = FetchSession()
        by_id: bool | None = None
        while True:
            had_ids, by_id = by_id, self._by_id(connection)
            if by_id is not had_ids:  # a session is of one kind
                session.reset()
            wanted, max_wait_ms = self._wanted(by_id)
            if not wanted:
                await self._idle(max_wait_ms / 1000)
                continue
            version = connection.version(ApiKey.FETCH, _FETCH_CAP if by_id else _BY_ID - 1)
            request = session.request({key: part for key, (part, _) in wanted.items()})
            body = build_request_body(
                version,
                request.topics,
                max_wait_ms=max_wait_ms,
                max_bytes=self._throttle.limit(_RESPONSE_BYTES),
                read_committed=True,
                session=request.session,
                forgotten=request.forgotten,
            )
            response = scan_response(await self._exchange(connection, version, body), version)
            self._throttle.spend(sum(len(part.records) for part in response.parts))
            if response.error_code:
                await self._refused(response.error_code, session, backoff)
                continue
            session.answered(response.session_id)
            backoff.reset()
            self._hand_out(response, wanted)
            wait_s = self._throttle.wait_s(self._clock())
            if wait_s:
                await asyncio.sleep(wait_s)

    async def _exchange(self, connection: Connection, version: int, body: bytes) -> memoryview:
        try:
            return await connection.exchange(connection.send, ApiKey.FETCH, version, body, _ANSWER_S)
        except NetError as exc:
            connection.close(str(exc))  # an answer that comes later would belong to a session nobody knows
            raise

    def _by_id(self, connection: Connection) -> bool:
        """Topics are named by id if that is possible: then a topic that was created again is not mistaken."""
        has = connection.versions.get(ApiKey.FETCH, (0, 0))[1] >= _BY_ID
        return has and all(runner.source_topic_id is not None for runner in self._runners)

    def _wanted(self, by_id: bool) -> tuple[Wanted, int]:
        """What to fetch now, and how long the broker may wait with its answer."""
        now = self._clock()
        wanted: Wanted = {}
        max_wait_ms = self._max_wait_ms()
        max_bytes = self._throttle.limit(_PARTITION_BYTES)
        for runner in self._runners:
            if runner.mirror.wants_fetch(now):
                cursor = runner.cursor
                part = FetchPartition(runner.partition, cursor.fetch_offset, max_bytes, last_epoch=cursor.last_epoch)
                topic = runner.source_topic_id if by_id else None
                wanted[runner.source_topic if topic is None else topic, runner.partition] = part, runner
            elif runner.mirror.copying:
                max_wait_ms = min(max_wait_ms, _FULL_MS if runner.mirror.source.full else _BACKING_OFF_MS)
        return wanted, max_wait_ms

    async def _idle(self, wait_s: float) -> None:
        self._wake.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._wake.wait()

    async def _refused(self, code: int, session: FetchSession, backoff: Backoff) -> None:
        session.reset()
        if code not in SESSION_ERRORS:
            _log.warning("fetch from source broker %d: %s", self._node, error_name(code))
            await asyncio.sleep(backoff.next())

    def _hand_out(self, response: FetchResponseView, wanted: Wanted) -> None:
        now = self._clock()
        for part in response.parts:
            found = wanted.get((part.topic, part.partition))
            if found is None or found[1] not in self._runners:
                continue
            asked, runner = found
            if part.error_code:
                runner.fetch_failed(part.error_code, now)
            elif part.diverging is not None:
                runner.fetch_diverged(*part.diverging)
            else:
                runner.fetched(
                    part.records,
                    part.high_watermark,
                    now,
                    asked=asked.offset,
                    stable=part.last_stable_offset,
                    aborted=part.aborted,
                )
        self._fetched()
