"""A compacted topic of one partition for lockgate's own use: creates it, reads its news, appends to it.

The last value of a key is in force; several processes may write. A sole writer of several records at once uses a
`LogProducer`, and follows with a `LogFollower`.

A connection whose answer is late stays open: the broker executes the requests of one connection in order, so an earlier
write cannot overtake a later one. A connection that does not answer at all is closed by its request timeout.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

from gateway.kafka.acts import own_act
from gateway.kafka.admin import (
    AdminError,
    TopicConfigChange,
    alter_topic_configs,
    create_topic,
    describe_topic_configs,
    is_absent,
)
from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.connection import Connection
from gateway.kafka.connection.errors import AuthenticationFailed, BrokerError, ClusterUnavailable, LogTruncated
from gateway.kafka.logs.range_reader import BatchChunk, RangeReader
from gateway.kafka.offsets import EARLIEST, LATEST, OffsetAt, list_offsets
from gateway.kafka.rules.topic_configs import INTERNAL, durable, not_durable
from gateway.transport.backoff import Backoff
from protocol.apis import ApiKey
from protocol.batch.keyed import KeyValue, keyed_batch
from protocol.batch.record_reader import Record, read_records
from protocol.errors import ErrorCode, error_name, is_retriable
from protocol.messages import OffsetForLeaderEpochRequest
from protocol.produce import PartitionResult, build_request_body, scan_response

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_REPLICAS: Final = 3
_ALL_REPLICAS: Final = -1
_EPOCH_CAP: Final = 4
_BY_NAME: Final = 11
"""The last Produce version that neither names topics by id (13) nor begins transactions by itself (12, KIP-890)."""


class NotDurable(BrokerError):
    """One of lockgate's own topics is less durable than its decisions require; the message has the remedy."""


class CompactedLog:
    """One process's view of the topic. Calls of `news` must not overlap: the caller needs a lock.

    Args:
        configs: for creating the topic.
        lane: of the connections for appends.

    Attributes:
        position: the offset after the last record read; -1 before the first reading.
    """

    def __init__(
        self, cluster: Cluster, topic: str, *, configs: Mapping[str, str] = INTERNAL, lane: str = "compacted log"
    ) -> None:
        self.topic = topic
        self.position = -1
        self._epoch = -1  # the leader epoch of the batch before `position`; -1 when it is not known
        self._led_in = -1  # the leader epoch in which that batch was last known to exist
        self._cluster = cluster
        self._configs = configs
        self._lane = lane
        self._exists = False
        self._is_durable = False

    async def exists(self, timeout_s: float) -> bool:
        """False when the topic certainly does not exist. A broker that does not know it proves nothing.

        Raises:
            ClusterUnavailable, BrokerError: unknown for now.
        """
        if not await self._is_seen(timeout_s) and not await is_absent(self._cluster, self.topic, timeout_s=timeout_s):
            raise ClusterUnavailable(f"topic {self.topic} is there, but the broker that was asked lacks it yet")
        return self._exists

    async def ensure(self, timeout_s: float) -> None:
        """Create the topic if it does not exist, with three replicas, or as many as there are brokers. An existing one
        is checked once per opening: it must not lose records with one disk.

        Raises:
            ClusterUnavailable: the topic is not known to exist.
            BrokerError: refused.
            NotDurable: the topic could lose acknowledged records, and this client may not change that.
        """
        if await self._is_seen(timeout_s):
            if not self._is_durable:
                await self._mend(timeout_s)
                self._is_durable = True
            return
        replicas = max(1, min(_REPLICAS, len(self._cluster.view.brokers)))
        try:
            with own_act():
                await create_topic(
                    self._cluster,
                    self.topic,
                    partitions=1,
                    replication_factor=replicas,
                    configs={**self._configs, **durable(replicas)},
                    timeout_s=timeout_s,
                )
            self._is_durable = True
        except AdminError as exc:
            if exc.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            await self._cluster.refresh((self.topic,), timeout_s)

    async def _mend(self, timeout_s: float) -> None:
        """Make an existing topic durable, which a person or an older gateway has created."""
        partitions = self._cluster.view.topics[self.topic].partitions.values()
        replicas = min((len(each.replicas) for each in partitions), default=1)
        found = (await describe_topic_configs(self._cluster, (self.topic,), timeout_s=timeout_s))[self.topic]
        lacking = not_durable({name: entry.value or "" for name, entry in found.items()}, replicas)
        if lacking:
            with own_act():
                refused = await alter_topic_configs(
                    self._cluster, {self.topic: TopicConfigChange(lacking)}, timeout_s=timeout_s
                )
            for error in refused.values():
                wanted = ",".join(f"{name}={value}" for name, value in lacking.items())
                raise NotDurable(
                    error.code,
                    f"topic {self.topic} on the target may lose what is acknowledged, and cannot be mended from here "
                    f"({error}): kafka-configs --alter --topic {self.topic} --add-config {wanted}",
                )
            _log.warning("topic %s would have lost what is acknowledged with one disk: set %s", self.topic, lacking)
        if replicas < min(_REPLICAS, len(self._cluster.view.brokers)):
            _log.warning(
                "topic %s has %d replica(s) on %d brokers: give it %d (kafka-reassign-partitions)",
                self.topic,
                replicas,
                len(self._cluster.view.brokers),
                min(_REPLICAS, len(self._cluster.view.brokers)),
            )

    async def _is_seen(self, timeout_s: float) -> bool:
        if not self._exists:
            topic = (await self._cluster.refresh((self.topic,), timeout_s)).topics.get(self.topic)
            self._exists = topic is not None and not topic.error and bool(topic.partitions)
        return self._exists

    async def is_well_formed(self, timeout_s: float) -> bool:
        """True when the topic, which exists, has one partition, and is compacted.

        Raises:
            ClusterUnavailable: the broker that was asked does not know the topic yet.
            BrokerError: as before, or refused.
        """
        topic = (await self._cluster.refresh((self.topic,), timeout_s)).topics.get(self.topic)
        if topic is None or not topic.partitions:
            raise ClusterUnavailable(f"topic {self.topic} is there, but the broker that was asked lacks it yet")
        found = await describe_topic_configs(self._cluster, (self.topic,), timeout_s=timeout_s)
        return len(topic.partitions) == 1 and found[self.topic]["cleanup.policy"].value == "compact"

    # -- reading -------------------------------------------------------------------------------------------------

    async def news(self, timeout_s: float) -> AsyncGenerator[list[Record], None]:
        """Every record with a key since the last call, in order, up to the present end; none while there is no topic.

        `position` advances when the next records are requested: a caller that gives up gets the last ones again.

        Raises:
            LogTruncated: the log has lost records that were read (KIP-320), from `end` on. The next call resumes there.
            ClusterUnavailable: no answer within the time.
            BrokerError: refused.
        """
        if not await self.exists(timeout_s):
            return
        latest = (await list_offsets(self._cluster, {self.topic: {0: LATEST}}, timeout_s=timeout_s))[self.topic, 0]
        await self._require_same_log(latest, timeout_s)
        end = latest.offset
        if self.position < 0:
            starts = await list_offsets(self._cluster, {self.topic: {0: EARLIEST}}, timeout_s=timeout_s)
            self.position = starts[self.topic, 0].offset
        reader = RangeReader(
            self._cluster,
            self.topic,
            0,
            self.position,
            end,
            read_committed=False,
            patience_s=timeout_s,
            last_epoch=self._epoch,
        )
        while (chunk := await self._next(reader)) is not None:
            records: list[Record] = []
            for index, header in enumerate(chunk.headers):
                batch = chunk.records[chunk.bounds[index] : chunk.bounds[index + 1]]
                found = read_records(header, batch)
                records += (each for each in found if each.key is not None and each.offset >= self.position)
            yield records
            self.position = max(self.position, chunk.headers[-1].next_offset)
            self._epoch = chunk.headers[-1].partition_leader_epoch
        self.position, self._led_in = max(self.position, end), latest.leader_epoch

    async def _next(self, reader: RangeReader) -> BatchChunk | None:
        try:
            return await reader.next()
        except LogTruncated as exc:
            raise self._went_back(exc.end) from exc

    def _went_back(self, end: int) -> LogTruncated:
        message = (
            f"{self.topic} has lost records that were acknowledged: it was read up to offset {self.position}, and is "
            f"another log from offset {end} on"
        )
        self.position, self._epoch, self._led_in = max(0, min(end, self.position)), -1, -1
        return LogTruncated(message, self.position)

    async def _require_same_log(self, latest: OffsetAt, timeout_s: float) -> None:
        """Check that the records read still exist. If the log ends earlier, or has another leader, ask where the two
        histories diverge; a Fetch beyond `position` detects that itself.

        Raises:
            LogTruncated: see `news`.
            ClusterUnavailable: no answer, or none from a leader.
        """
        if self._epoch < 0 or (latest.offset >= self.position and latest.leader_epoch == self._led_in):
            return
        kind = OffsetForLeaderEpochRequest
        part = kind.OffsetForLeaderTopic.OffsetForLeaderPartition(
            partition=0, current_leader_epoch=self._cluster.leader_epoch(self.topic, 0), leader_epoch=self._epoch
        )
        request = kind(replica_id=-1, topics=[kind.OffsetForLeaderTopic(topic=self.topic, partitions=[part])])
        connection = await leader_connection(self._cluster, self.topic, self._lane, timeout_s)
        answer = await connection.request(request, cap=_EPOCH_CAP, timeout_s=timeout_s)
        (found,) = answer.topics[0].partitions
        if found.error_code:
            self._cluster.invalidate(self.topic)
            raise ClusterUnavailable(f"{self.topic}: OffsetForLeaderEpoch: {error_name(found.error_code)}")
        end = found.end_offset if found.end_offset >= 0 else latest.offset  # -1: no epochs, or only later ones
        if end < self.position:
            raise self._went_back(end)

    # -- writing -------------------------------------------------------------------------------------------------

    async def put(self, changes: Sequence[KeyValue], timeout_s: float) -> None:
        """Append, with retries while they may help; on every in-sync replica when this returns. May append twice.

        Raises:
            ClusterUnavailable: not within the time; the records may be in the log.
            BrokerError: refused, for example TOPIC_AUTHORIZATION_FAILED (29).
        """

        async def once(left_s: float) -> None:
            await self.ensure(left_s)
            await self.append(changes, left_s)

        await until_answered(self._cluster, f"write {self.topic}", once, timeout_s)

    async def append(self, changes: Sequence[KeyValue], timeout_s: float) -> int:
        """Append once, as one batch; on every in-sync replica when this returns.

        Returns:
            The offset of the first record.

        Raises:
            ClusterUnavailable: the batch may be in the log.
            BrokerError: refused.
        """
        batch = keyed_batch(changes, self._cluster.host.wall_ms())
        result = await produce(self._cluster, self.topic, batch, lane=self._lane, timeout_s=timeout_s)
        if result.error_code:
            raise BrokerError(result.error_code, f"{self.topic}: Produce: {error_name(result.error_code)}")
        return result.base_offset


async def until_answered(cluster: Cluster, what: str, ask: Callable[[float], Awaitable[_T]], timeout_s: float) -> _T:
    """Repeat `ask` while that may help. It gets the seconds left.

    Raises:
        ClusterUnavailable: not within the time, with the last reason; immediately if the credentials are rejected.
        BrokerError: refused.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    backoff = Backoff(*cluster.config.retry_backoff_s, cluster.rng)
    while True:
        try:
            async with asyncio.timeout_at(deadline):
                return await ask(deadline - loop.time())
        except AuthenticationFailed:
            raise
        except (ClusterUnavailable, BrokerError, TimeoutError) as exc:
            wait_s = backoff.next()
            if isinstance(exc, BrokerError) and not is_retriable(exc.code):
                raise
            if loop.time() + wait_s >= deadline:
                why = str(exc) or "no answer"
                raise ClusterUnavailable(f"{what}: not within {timeout_s:g} s: {why}") from exc
        await asyncio.sleep(wait_s)


async def produce(
    cluster: Cluster, topic: str, batch: bytes, *, lane: str, timeout_s: float, transactional_id: str | None = None
) -> PartitionResult:
    """Append a batch to partition 0 with acks=all, once. A failure refreshes the view soon.

    Raises:
        ClusterUnavailable: no answer within the time; the batch may be in the log.
    """
    try:
        connection = await leader_connection(cluster, topic, lane, timeout_s)
        version = connection.version(ApiKey.PRODUCE, _BY_NAME)
        wait_ms = max(1, int(timeout_s * 1000))
        pieces = build_request_body(version, transactional_id, _ALL_REPLICAS, wait_ms, {topic: [(0, batch)]})
        answer = await connection.exchange(connection.send, ApiKey.PRODUCE, version, b"".join(pieces), timeout_s)
    except ClusterUnavailable:
        cluster.invalidate(topic)
        raise
    result = scan_response(answer, version)[0]
    if result.error_code:
        cluster.invalidate(topic)
    return result


async def leader_connection(cluster: Cluster, topic: str, lane: str, timeout_s: float) -> Connection:
    """A connection to the leader of partition 0.

    Raises:
        ClusterUnavailable: none within the time, or the partition has no leader.
    """
    leader = cluster.leader(topic, 0)
    if leader is None:
        await cluster.refresh((topic,), timeout_s)
        leader = cluster.leader(topic, 0)
    if leader is None:
        raise ClusterUnavailable(f"{topic} has no leader")
    return await cluster.connection(leader, lane, timeout_s)
