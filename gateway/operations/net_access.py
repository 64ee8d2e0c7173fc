"""`ClusterAccess` over the gateway's own Kafka client."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise

from gateway.kafka import admin, groups
from gateway.kafka.access import acls, quotas, scram_users
from gateway.kafka.access.delegation_tokens import require_tokens, token_owners
from gateway.kafka.cluster import CONTROL_LANE, Cluster
from gateway.kafka.commits import NO_EPOCH, Committed, committed_offsets
from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.connection.errors import AuthenticationFailed, BrokerError, ClusterUnavailable
from gateway.kafka.logs.log_excerpt import LogExcerpt, read_excerpt
from gateway.kafka.logs.range_reader import RangeReader
from gateway.kafka.offsets import EARLIEST, LATEST, delete_records, list_offsets
from gateway.kafka.rules.acl import Acl, ResourceType
from gateway.kafka.rules.names import topic_id_bytes
from gateway.kafka.rules.quota import QuotaKey
from gateway.kafka.rules.scram import ScramCredential, ScramKey
from gateway.kafka.share_groups import share_offsets
from gateway.kafka.topic_partition import TopicPartition
from gateway.kafka.topics import TopicConfigs, list_topics
from gateway.kafka.view import ListedTopic, TopicView
from gateway.mirror.partition.beside import last_batch
from gateway.mirror.partition.log_start import batch_at, plan_start, start_at
from gateway.mirror.partition.rules.append_window import MERGED_BYTES
from gateway.mirror.partition.rules.last_batch import LastBatch
from gateway.mirror.partition.rules.log_tail import LogTail
from gateway.operations.cluster_access import TopicInfo
from gateway.operations.fleet_state import FleetState
from gateway.operations.rules.topology import FleetView
from gateway.state.records import PartitionStart
from gateway.transport.host import MACHINE, Host
from protocol.batch.header import OldFormat, read_batch_header
from protocol.batch.schema_ids import sampled_ids
from protocol.errors import ErrorCode, MalformedFrame, error_name

_VISIBLE_S = 15.0
_LOOK_AGAIN_S = 0.05
_AT_ONCE = 32
_CONSUMING = ("", "consumer", groups.SHARE, groups.STREAMS)
_TOPICS_AT_ONCE = 1000  # asked for in one Metadata request


class NetAccess:
    """One cluster; implements `ClusterAccess`."""

    def __init__(self, config: ClusterConfig, host: Host = MACHINE) -> None:
        self._cluster = Cluster(config, host=host)
        self._fleet_state = FleetState(self._cluster)
        self._configs = TopicConfigs(self._cluster)

    @property
    def cluster(self) -> Cluster:
        """The client, to be shared with the other planes."""
        return self._cluster

    async def start(self, timeout_s: float | None = None) -> None:
        """Connect; see `Cluster.start`. `timeout_s` shortens the client's own limit."""
        limit_s = self._cluster.config.api_timeout_s
        await self._cluster.start(limit_s if timeout_s is None else min(timeout_s, limit_s))

    async def close(self) -> None:
        """Close all connections."""
        await self._cluster.close()

    def reconfigure(self, config: ClusterConfig) -> None:
        """See `ClusterAccess.reconfigure`."""
        self._cluster.reconfigure(config)

    async def try_brokers(self) -> None:
        """See `ClusterAccess.try_brokers`."""
        limit_s = self._cluster.config.connect_timeout_s
        tries = (self._cluster.connection(node, CONTROL_LANE, limit_s) for node in self._cluster.view.brokers)
        for outcome in await asyncio.gather(*tries, return_exceptions=True):
            if isinstance(outcome, AuthenticationFailed):
                raise outcome

    def cluster_id(self) -> str:
        """The cluster's id, '' while it was never reached."""
        return self._cluster.view.cluster_id

    def broker_count(self) -> int:
        """Brokers alive at the last look."""
        return len(self._cluster.view.brokers)

    def trouble(self) -> str:
        """See `ClusterAccess.trouble`."""
        return "" if self._cluster.available else self._cluster.last_error

    async def require_tokens(self) -> None:
        """See `ClusterAccess.require_tokens`."""
        await require_tokens(self._cluster)

    async def has_authorizer(self) -> bool:
        """See `ClusterAccess.has_authorizer`."""
        return await acls.has_authorizer(self._cluster)

    async def fleet_state(self) -> FleetView | None:
        """See `ClusterAccess.fleet_state`."""
        return await self._fleet_state.now()

    async def topics(self, names: Iterable[str]) -> Mapping[str, TopicInfo]:
        """See `ClusterAccess.topics`."""
        wanted = tuple(dict.fromkeys(names))
        seen: dict[str, TopicView] = {}
        for at in range(0, len(wanted), _TOPICS_AT_ONCE):
            some = wanted[at : at + _TOPICS_AT_ONCE]
            view = await self._cluster.refresh(some)
            seen.update((name, view.topics[name]) for name in some if name in view.topics)
        found = {}
        for name in wanted:
            topic = seen.get(name)
            if topic is None:
                continue
            if topic.error and not topic.partitions:
                raise BrokerError(topic.error, f"topic {name}: {error_name(topic.error)}")
            found[name] = _info(name, topic)
        return found

    async def list_topics(self) -> Sequence[ListedTopic]:
        """See `ClusterAccess.list_topics`."""
        return await list_topics(self._cluster)

    async def mirror_topics(self) -> frozenset[str] | None:
        """See `ClusterAccess.mirror_topics`."""
        return await self._fleet_state.mirror_topics()

    async def topic_configs(
        self, names: Iterable[str], only: Collection[str] | None = None
    ) -> Mapping[str, Mapping[str, str]]:
        """See `ClusterAccess.topic_configs`; sensitive ones, which topics have none of, are left out."""
        if only is not None:
            return await self._configs.read(names, only)
        described = await admin.describe_topic_configs(self._cluster, tuple(names))
        return {
            topic: {name: entry.value for name, entry in configs.items() if entry.value is not None}
            for topic, configs in described.items()
        }

    async def create_topic(
        self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]
    ) -> None:
        """See `ClusterAccess.create_topic`."""
        await admin.create_topic(
            self._cluster, name, partitions=partitions, replication_factor=replication_factor, configs=configs
        )
        await self._until_led(name, partitions)

    async def check_topic(
        self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]
    ) -> None:
        """See `ClusterAccess.check_topic`."""
        await admin.check_topic(
            self._cluster, name, partitions=partitions, replication_factor=replication_factor, configs=configs
        )

    async def configs_at_leaders(
        self, name: str, partitions: int, only: Collection[str]
    ) -> Mapping[int, Mapping[str, str]]:
        """See `ClusterAccess.configs_at_leaders`."""
        await self._cluster.refresh((name,))
        leaders = {self._cluster.leader(name, index) for index in range(partitions)}
        nodes = sorted(node for node in leaders if node is not None)
        if len(nodes) < len(leaders):
            raise ClusterUnavailable(f"not every partition of topic {name} has a leader")
        told = await asyncio.gather(
            *(admin.describe_topic_configs(self._cluster, (name,), only=only, node_id=node) for node in nodes)
        )
        return {
            node: {config: entry.value for config, entry in found[name].items() if entry.value is not None}
            for node, found in zip(nodes, told, strict=True)
        }

    async def is_absent(self, name: str) -> bool:
        """See `ClusterAccess.is_absent`."""
        return await admin.is_absent(self._cluster, name)

    async def delete_topic(self, name: str, topic_id: str) -> None:
        """See `ClusterAccess.delete_topic`."""
        await admin.delete_topic(self._cluster, name, topic_id=topic_id_bytes(topic_id))

    async def alter_topic_configs(self, changes: Mapping[str, admin.TopicConfigChange]) -> Mapping[str, BrokerError]:
        """See `ClusterAccess.alter_topic_configs`."""
        return await admin.alter_topic_configs(self._cluster, changes)

    async def add_partitions(self, name: str, total: int) -> None:
        """Grow a topic to `total` partitions, and wait for their leaders."""
        await admin.create_partitions(self._cluster, name, total)
        await self._until_led(name, total)

    async def log_ranges(self, name: str, partitions: int) -> Sequence[tuple[int, int]]:
        """(log start, log end) of each partition."""
        starts = await list_offsets(self._cluster, {name: dict.fromkeys(range(partitions), EARLIEST)})
        ends = await list_offsets(self._cluster, {name: dict.fromkeys(range(partitions), LATEST)})
        return [(starts[name, index].offset, ends[name, index].offset) for index in range(partitions)]

    async def topic_overrides(self, name: str) -> Mapping[str, str]:
        """See `ClusterAccess.topic_overrides`; sensitive ones, which topics have none of, are left out."""
        described = (await admin.describe_topic_configs(self._cluster, (name,)))[name]
        return {
            key: entry.value
            for key, entry in described.items()
            if entry.source == admin.SET_ON_TOPIC and entry.value is not None
        }

    async def starts(self, name: str, partitions: int) -> Sequence[PartitionStart]:
        """See `ClusterAccess.starts`."""
        return await plan_start(self._cluster, name, EARLIEST, partitions=range(partitions))

    async def starts_at(self, name: str, offsets: Mapping[int, int]) -> Mapping[int, PartitionStart]:
        """See `ClusterAccess.starts_at`."""
        ends = await list_offsets(self._cluster, {name: dict.fromkeys(offsets, LATEST)})
        slots = asyncio.Semaphore(_AT_ONCE)

        async def start_of(index: int, offset: int) -> PartitionStart:
            if offset >= ends[name, index].offset:
                return PartitionStart(offset, offset)
            async with slots:
                return await start_at(self._cluster, name, index, offset)

        return dict(zip(offsets, await asyncio.gather(*(start_of(*one) for one in offsets.items())), strict=True))

    async def last_writer(self, name: str, partition: int, log_end: int) -> int:
        """See `ClusterAccess.last_writer`."""
        header = await batch_at(self._cluster, name, partition, log_end - 1)
        return -1 if header is None else header.producer_id

    async def writer_at(self, name: str, partition: int, offset: int) -> LogTail | None:
        """See `ClusterAccess.writer_at`."""
        try:
            header = await batch_at(self._cluster, name, partition, offset)
        except OldFormat:
            return LogTail(offset, offset + 1, -1, -1, None)
        except BrokerError as exc:
            if exc.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            start = (await list_offsets(self._cluster, {name: {partition: EARLIEST}}))[name, partition].offset
            if start <= offset:  # beyond the end: what was read there is gone
                return None
            return await self.writer_at(name, partition, start)
        return None if header is None else LogTail.of(header)

    async def batches(self, name: str, partition: int, first: int, last: int) -> LastBatch | None:
        """See `ClusterAccess.batches`."""
        try:
            found = await self._read(name, partition, first, last)
        except OldFormat:
            return None
        except BrokerError as exc:
            if exc.code != ErrorCode.OFFSET_OUT_OF_RANGE:  # retention was there
                raise
            start = (await list_offsets(self._cluster, {name: {partition: EARLIEST}}))[name, partition].offset
            if start > last:
                return None
            found = await self._read(name, partition, max(first, start), last)
        if not found or read_batch_header(found[-1]).last_offset < last:
            return None
        return await last_batch(found)

    async def schema_ids(self, name: str, partition: int, offset: int) -> frozenset[int]:
        """See `ClusterAccess.schema_ids`."""
        try:
            found = await self._read(name, partition, offset, offset)
            return frozenset(one for batch in found for one in sampled_ids(batch))
        except (OldFormat, MalformedFrame):
            return frozenset()
        except BrokerError as exc:
            if exc.code != ErrorCode.OFFSET_OUT_OF_RANGE:  # retention was there
                raise
            return frozenset()

    async def excerpt(self, name: str, partition: int, first: int | None, count: int, most_bytes: int) -> LogExcerpt:
        """See `ClusterAccess.excerpt`."""
        return await read_excerpt(self._cluster, name, partition, first, count, most_bytes)

    async def _read(self, name: str, partition: int, first: int, last: int) -> list[memoryview]:
        reader = RangeReader(
            self._cluster,
            name,
            partition,
            first,
            last + 1,
            read_committed=False,
            with_last=True,
            fetch_bytes=MERGED_BYTES,
            patience_s=self._cluster.config.api_timeout_s,
        )
        found: list[memoryview] = []
        while (chunk := await reader.next()) is not None:
            found += (chunk.records[at:end] for at, end in pairwise(chunk.bounds))
        return found

    async def acls(self, kinds: Collection[ResourceType]) -> frozenset[Acl]:
        """See `ClusterAccess.acls`."""
        return await acls.describe_acls(self._cluster, kinds)

    async def create_acls(self, wanted: Sequence[Acl]) -> Mapping[Acl, BrokerError]:
        """See `ClusterAccess.create_acls`."""
        return await acls.create_acls(self._cluster, wanted)

    async def delete_acls(self, gone: Sequence[Acl]) -> Mapping[Acl, BrokerError]:
        """See `ClusterAccess.delete_acls`."""
        return await acls.delete_acls(self._cluster, gone)

    async def scram_users(self) -> Mapping[ScramKey, int]:
        """See `ClusterAccess.scram_users`."""
        return await scram_users.describe_scram_users(self._cluster)

    async def create_scram_users(self, wanted: Sequence[ScramCredential]) -> Mapping[ScramKey, BrokerError]:
        """See `ClusterAccess.create_scram_users`."""
        return await scram_users.create_scram_users(self._cluster, wanted)

    async def quotas(self) -> Mapping[QuotaKey, float]:
        """See `ClusterAccess.quotas`."""
        return await quotas.describe_quotas(self._cluster)

    async def set_quotas(self, wanted: Mapping[QuotaKey, float]) -> Mapping[QuotaKey, BrokerError]:
        """See `ClusterAccess.set_quotas`."""
        return await quotas.set_quotas(self._cluster, wanted)

    async def token_owners(self) -> Mapping[str, int]:
        """See `ClusterAccess.token_owners`."""
        return await token_owners(self._cluster)

    async def feature_levels(self) -> Mapping[str, int]:
        """See `ClusterAccess.feature_levels`."""
        return await admin.feature_levels(self._cluster)

    async def broker_configs(self) -> Mapping[str, str]:
        """See `ClusterAccess.broker_configs`."""
        for node in self._cluster.view.brokers:
            found = await admin.describe_broker_configs(self._cluster, node)
            return {name: entry.value for name, entry in found.items() if entry.value is not None}
        raise ClusterUnavailable("no broker is known")

    def login_name(self) -> str:
        """See `ClusterAccess.login_name`."""
        return self._cluster.config.login()[0] if self._cluster.config.sasl_mechanism else ""

    async def log_starts(self, partitions: Mapping[str, int]) -> Mapping[str, Sequence[int]]:
        """See `ClusterAccess.log_starts`."""
        wanted = {name: dict.fromkeys(range(count), EARLIEST) for name, count in partitions.items()}
        found = await list_offsets(self._cluster, wanted)
        return {name: [found[name, index].offset for index in range(count)] for name, count in partitions.items()}

    async def delete_records(self, name: str, before: Mapping[int, int]) -> None:
        """See `ClusterAccess.delete_records`."""
        await delete_records(self._cluster, {(name, index): offset for index, offset in before.items()})

    async def group_ids(self) -> Sequence[str]:
        """The groups of the cluster that consume; of Connect and its like there is nothing to gate."""
        listed = await groups.list_groups(self._cluster)
        return [group.group for group in listed if group.protocol_type in _CONSUMING]

    async def describe_group(self, group: str) -> groups.GroupView:
        """State and members of a group."""
        return await groups.describe_group(self._cluster, group)

    async def remove_members(self, group: str, members: Sequence[groups.MemberView]) -> Mapping[str, int]:
        """See `ClusterAccess.remove_members`."""
        return await groups.remove_members(self._cluster, group, members)

    async def committed_offsets(self, group: str) -> Mapping[TopicPartition, Committed]:
        """See `ClusterAccess.committed_offsets`."""
        committed: Mapping[TopicPartition, Committed] = await committed_offsets(self._cluster, group)
        if committed:
            return committed
        starts = await share_offsets(self._cluster, group)
        return {key: Committed(start.offset, NO_EPOCH, "") for key, start in starts.items()}

    async def _until_led(self, name: str, partitions: int) -> None:
        """A created topic reaches the brokers one after the other; what comes next must find its leaders."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _VISIBLE_S
        while True:
            topic = self._cluster.view.topics.get(name)  # who has made the change has asked once, too
            if topic is not None and sum(part.leader >= 0 for part in topic.partitions.values()) >= partitions:
                return
            if loop.time() >= deadline:
                raise ClusterUnavailable(f"topic {name} has no leaders {_VISIBLE_S:g} s after it was created")
            await asyncio.sleep(_LOOK_AGAIN_S)
            await self._cluster.refresh((name,))


def _info(name: str, topic: TopicView) -> TopicInfo:
    replicas = max((len(partition.replicas) for partition in topic.partitions.values()), default=0)
    topic_id = topic.id_text
    in_sync = tuple(partition.in_sync for _, partition in sorted(topic.partitions.items()))
    return TopicInfo(name, topic_id, len(topic.partitions), replicas, topic.internal, in_sync)
