"""A compacted topic of one partition as a map that several processes write: the last value of a key is in force."""

from __future__ import annotations

import asyncio

from gateway.domain.topic_configs import INTERNAL
from gateway.net.admin import AdminError, create_topic, is_absent
from gateway.net.backoff import Backoff
from gateway.net.cluster import Cluster, TopicView
from gateway.net.errors import BrokerError, ClusterUnavailable
from gateway.net.offsets import EARLIEST, LATEST, list_offsets
from gateway.net.range_reader import RangeReader
from protocol.apis import ApiKey
from protocol.errors import ErrorCode, error_name, is_retriable
from protocol.keyed_batch import keyed_batch
from protocol.produce import build_request_body, scan_response
from protocol.record_reader import read_records

_PRODUCE = int(ApiKey.PRODUCE)
_LANE = "keyed log"
_MAX_PRODUCE = 9  # later versions name topics by id, or begin transactions
_ALL_REPLICAS = -1

Change = tuple[bytes, bytes | None]
"""Key and value; None: deleted."""


class KeyedLog:
    """`position`: the offset after the last change that was read. Calls must not overlap: the caller has a lock."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._exists = False
        self.position = -1

    async def put(self, key: bytes, value: bytes | None, timeout_s: float) -> None:
        """Append a change; it is on every in-sync replica when this returns. May append it twice.

        Raises:
            ClusterUnavailable: not within the time; it may be there.
            BrokerError: refused, for example TOPIC_AUTHORIZATION_FAILED (29).
        """
        async with asyncio.timeout(timeout_s) as limit:
            try:
                await self._ensure()
                await self._append(keyed_batch([(key, value)], self._cluster.host.wall_ms()), timeout_s)
            except TimeoutError as exc:
                if limit.expired():
                    raise ClusterUnavailable(f"{self._topic}: not written within {timeout_s:g} s") from exc
                raise

    async def news(self, timeout_s: float) -> list[Change]:
        """Every change since the last call, in order; from the beginning the first time; none while there is no topic.

        A broker that does not know the topic is no proof that there is none.

        Raises:
            ClusterUnavailable: not read to the end within the time; the next call begins where this one did.
            BrokerError: refused.
        """
        if not self._exists:
            view = await self._cluster.refresh((self._topic,), timeout_s)
            if not _is_there(view.topics.get(self._topic)):
                if await is_absent(self._cluster, self._topic, timeout_s=timeout_s):
                    return []
                raise ClusterUnavailable(f"{self._topic} is there, but the broker that was asked lacks it yet")
            self._exists = True
        ends = await list_offsets(self._cluster, {self._topic: {0: LATEST}}, timeout_s=timeout_s)
        end = ends[self._topic, 0].offset
        if self.position < 0:
            starts = await list_offsets(self._cluster, {self._topic: {0: EARLIEST}}, timeout_s=timeout_s)
            self.position = starts[self._topic, 0].offset
        changes: list[Change] = []
        reader = RangeReader(
            self._cluster, self._topic, 0, self.position, end, read_committed=False, patience_s=timeout_s
        )
        while (chunk := await reader.next()) is not None:
            for index, header in enumerate(chunk.headers):
                batch = chunk.records[chunk.bounds[index] : chunk.bounds[index + 1]]
                changes += [(r.key, r.value) for r in read_records(header, batch) if r.key is not None]
        self.position = max(self.position, end)
        return changes

    async def _ensure(self) -> None:
        if self._exists:
            return
        view = await self._cluster.refresh((self._topic,))
        if not _is_there(view.topics.get(self._topic)):
            try:
                await create_topic(
                    self._cluster,
                    self._topic,
                    partitions=1,
                    replication_factor=min(3, len(view.brokers)),
                    configs=INTERNAL,
                )
            except AdminError as exc:
                if exc.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
                await self._cluster.refresh((self._topic,))
        self._exists = True

    async def _append(self, batch: bytes, timeout_s: float) -> None:
        backoff = Backoff(*self._cluster.config.retry_backoff_s, self._cluster.rng)
        while True:
            try:
                code = await self._append_once(batch, timeout_s)
                if not code:
                    return
                if not is_retriable(code):
                    raise BrokerError(code, f"{self._topic}: {error_name(code)}")
            except ClusterUnavailable:
                pass  # tried again until the caller's time is over
            await asyncio.sleep(backoff.next())
            self._cluster.invalidate(self._topic)

    async def _append_once(self, batch: bytes, timeout_s: float) -> int:
        if self._cluster.leader(self._topic, 0) is None:
            await self._cluster.refresh((self._topic,), timeout_s)
        leader = self._cluster.leader(self._topic, 0)
        if leader is None:
            return ErrorCode.LEADER_NOT_AVAILABLE
        connection = await self._cluster.connection(leader, _LANE, timeout_s)
        version = connection.version(_PRODUCE, _MAX_PRODUCE)
        topics = {self._topic: [(0, batch)]}
        body = b"".join(build_request_body(version, None, _ALL_REPLICAS, int(timeout_s * 1000), topics))
        answer = await connection.exchange(connection.send, _PRODUCE, version, body, timeout_s)
        return scan_response(answer, version)[0].error_code


def _is_there(topic: TopicView | None) -> bool:
    return topic is not None and not topic.error and bool(topic.partitions)
