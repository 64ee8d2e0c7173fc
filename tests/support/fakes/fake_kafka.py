"""A cluster in memory, as the control plane reaches it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gateway.errors import SourceUnreachable
from gateway.kafka.acts import current_permit, require_permit
from gateway.kafka.admin import TOPICS_IN_A_REQUEST, TopicConfigChange
from gateway.kafka.commits import Committed
from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.connection.errors import BrokerError, ClusterUnavailable, NetError
from gateway.kafka.groups import DEAD, GroupView, MemberView
from gateway.kafka.logs.log_excerpt import LogExcerpt, RecordExcerpt
from gateway.kafka.rules.acl import Acl, ResourceType
from gateway.kafka.rules.quota import QuotaKey
from gateway.kafka.rules.scram import ScramCredential, ScramKey
from gateway.kafka.view import ListedTopic
from gateway.mirror.partition.rules.last_batch import LastBatch
from gateway.mirror.partition.rules.log_tail import LogTail
from gateway.operations.cluster_access import TopicInfo
from gateway.operations.origin_ends import Asked, LogEnds
from gateway.operations.rules.topology import FleetView
from gateway.state.records import LinkRecord, PartitionStart
from protocol.errors import ErrorCode

# What a broker of 4.3 and one of 3.9 say of a topic nobody configured.
TARGET_CONFIGS = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.after.max.ms": "3600000",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "delete.retention.ms": "86400000",
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": "9223372036854775807",
    "segment.bytes": "1073741824",
}
SOURCE_CONFIGS = TARGET_CONFIGS | {
    "message.timestamp.after.max.ms": "9223372036854775807",
    "message.timestamp.difference.max.ms": "9223372036854775807",
    "retention.ms": "86400000",
}


@dataclass
class FakeTopic:
    info: TopicInfo
    configs: dict[str, str]
    ranges: list[tuple[int, int]]


@dataclass
class FakeKafka:
    """A `ClusterAccess`. `down`: every call fails as when nobody answers. `refuse`: call name -> error."""

    id: str
    brokers: int = 3
    authorizes: bool = True
    defaults: Mapping[str, str] = field(default_factory=lambda: dict(TARGET_CONFIGS))
    existing: dict[str, FakeTopic] = field(default_factory=dict)
    groups: dict[str, GroupView] = field(default_factory=dict)
    sticky_members: set[str] = field(default_factory=set)  # that cannot be removed
    offsets: dict[str, dict[tuple[str, int], Committed]] = field(default_factory=dict)
    down: bool = False
    refuse: dict[str, NetError] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    closed: int = 0
    ids: int = 0
    configs: list[ClusterConfig] = field(default_factory=list)  # what it was reconfigured with
    before: dict[str, Any] = field(default_factory=dict)
    batches_of: dict[tuple[str, int], LastBatch] = field(default_factory=dict)  # the last one of a partition
    schema_ids_of: dict[tuple[str, int, int], frozenset[int]] = field(default_factory=dict)  # by offset
    records: dict[tuple[str, int], list[RecordExcerpt]] = field(default_factory=dict)  # of a partition, in order
    writers: dict[tuple[str, int], int] = field(default_factory=dict)  # of the last batch of a partition
    writer: int = -1  # of every other batch
    tails: dict[tuple[str, int], list[LogTail]] = field(default_factory=dict)  # the batches of a partition, in order
    fleet: FleetView | None = None  # what another fleet's state topic says, if it is a target, too
    unreadable: set[str] = field(default_factory=set)
    mirrors_there: frozenset[str] | None = frozenset()
    alter_requests: list[tuple[str, ...]] = field(default_factory=list)  # topics of each AlterConfigs
    refused_configs: dict[str, BrokerError] = field(default_factory=dict)  # topics whose configs may not be altered
    leaders_tell: dict[str, dict[str, str]] = field(default_factory=dict)  # what a leader that lags has yet, by topic
    acls_there: set[Acl] = field(default_factory=set)
    refused_acls: dict[Acl, BrokerError] = field(default_factory=dict)  # may neither be made nor deleted
    acl_requests: list[tuple[str, tuple[Acl, ...]]] = field(default_factory=list)
    scram: dict[ScramKey, ScramCredential] = field(default_factory=dict)
    scram_requests: list[tuple[ScramKey, ...]] = field(default_factory=list)
    refused_users: set[str] = field(default_factory=set)  # get neither a credential nor a quota
    quotas_there: dict[QuotaKey, float] = field(default_factory=dict)
    quota_requests: list[dict[QuotaKey, float]] = field(default_factory=list)
    owners: dict[str, int] = field(default_factory=dict)  # of delegation tokens
    features: dict[str, int] = field(default_factory=dict)
    broker_defaults: dict[str, str] = field(default_factory=dict)
    login: str = ""

    @property
    def cluster(self) -> Any:
        return self

    def add(self, name: str, partitions: int = 3, ends: int = 0, **configs: str) -> FakeTopic:
        self.ids += 1
        info = TopicInfo(name, f"{self.id}{self.ids:021d}"[-22:], partitions, min(3, self.brokers))
        values = {key.replace("_", "."): value for key, value in configs.items()}
        topic = FakeTopic(info, {**self.defaults, **values}, [(0, ends)] * partitions)
        self.existing[name] = topic
        return topic

    async def require_tokens(self) -> None:
        await self._called("require_tokens")

    async def has_authorizer(self) -> bool:
        await self._called("has_authorizer")
        return self.authorizes

    async def _called(self, name: str) -> None:
        self.calls.append(name)
        if name in self.before:
            await self.before[name]()
        if self.down:
            raise ClusterUnavailable("connection refused")
        if name in self.refuse:
            raise self.refuse[name]

    async def _changed(self, name: str) -> None:
        """As `_called`, for what changes the cluster: the door for acts is asked last, as right before a request."""
        await self._called(name)
        assert current_permit() is not None, f"{name} beside the door for acts: gateway/kafka/acts.py"
        require_permit(name)

    async def start(self, timeout_s: float | None = None) -> None:
        await self._called("start")

    async def close(self) -> None:
        self.closed += 1

    def reconfigure(self, config: ClusterConfig) -> None:
        self.configs.append(config)

    async def try_brokers(self) -> None:
        await self._called("try_brokers")

    def cluster_id(self) -> str:
        return self.id

    def broker_count(self) -> int:
        return self.brokers

    def trouble(self) -> str:
        return "connection refused" if self.down else ""

    async def fleet_state(self) -> FleetView | None:
        await self._called("fleet_state")
        return self.fleet

    async def topics(self, names: Iterable[str]) -> Mapping[str, TopicInfo]:
        await self._called("topics")
        return {name: self.existing[name].info for name in names if name in self.existing}

    async def list_topics(self) -> Sequence[ListedTopic]:
        await self._called("list_topics")
        return [
            ListedTopic(name, topic.info.topic_id, topic.info.internal, name not in self.unreadable)
            for name, topic in sorted(self.existing.items())
        ]

    async def mirror_topics(self) -> frozenset[str] | None:
        await self._called("mirror_topics")
        return self.mirrors_there

    async def topic_configs(
        self, names: Iterable[str], only: Collection[str] | None = None
    ) -> Mapping[str, Mapping[str, str]]:
        await self._called("topic_configs")
        found = {name: self.existing[name].configs for name in names}
        return {
            name: {key: value for key, value in configs.items() if only is None or key in only}
            for name, configs in found.items()
        }

    async def create_topic(
        self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]
    ) -> None:
        await self._changed("create_topic")
        topic = self.add(name, partitions)
        topic.info = replace(topic.info, replication_factor=replication_factor)
        topic.configs.update(configs)

    async def check_topic(
        self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]
    ) -> None:
        await self._called("check_topic")
        if name in self.existing:
            raise BrokerError(ErrorCode.TOPIC_ALREADY_EXISTS, f"create topic {name}: TOPIC_ALREADY_EXISTS")

    async def is_absent(self, name: str) -> bool:
        await self._called("is_absent")
        return name not in self.existing

    async def delete_topic(self, name: str, topic_id: str) -> None:
        await self._changed("delete_topic")
        self.deletes(name, topic_id)

    def deletes(self, name: str, topic_id: str) -> None:
        """What the cluster does with a deletion, whenever it lands."""
        if name not in self.existing:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_ID, f"delete topic {name}: UNKNOWN_TOPIC_ID")
        if topic_id and self.existing[name].info.topic_id != topic_id:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_ID, f"delete topic {name}: UNKNOWN_TOPIC_ID")
        del self.existing[name]

    async def alter_topic_configs(self, changes: Mapping[str, TopicConfigChange]) -> Mapping[str, BrokerError]:
        assert 0 < len(changes) <= TOPICS_IN_A_REQUEST
        self.alter_requests.append(tuple(changes))
        await self._changed("alter_topic_configs")
        refused = {name: self.refused_configs[name] for name in changes if name in self.refused_configs}
        for name, change in changes.items():
            if name not in refused:
                defaults = {config: self.defaults[config] for config in change.reset}
                self.existing[name].configs.update({**defaults, **change.values})
        return refused

    async def configs_at_leaders(
        self, name: str, partitions: int, only: Collection[str]
    ) -> Mapping[int, Mapping[str, str]]:
        await self._called("configs_at_leaders")
        values = self.existing[name].configs
        old = self.leaders_tell.get(name, {})
        return {1: {config: values[config] for config in only}, 2: {**{c: values[c] for c in only}, **old}}

    async def add_partitions(self, name: str, total: int) -> None:
        await self._changed("add_partitions")
        self.grow(name, total)

    def grow(self, name: str, total: int) -> None:
        """Somebody adds partitions to a topic."""
        topic = self.existing[name]
        topic.info = replace(topic.info, partitions=total)
        topic.ranges += [(0, 0)] * (total - len(topic.ranges))

    async def log_ranges(self, name: str, partitions: int) -> Sequence[tuple[int, int]]:
        await self._called("log_ranges")
        return self.existing[name].ranges[:partitions]

    async def topic_overrides(self, name: str) -> Mapping[str, str]:
        await self._called("topic_overrides")
        configs = self.existing[name].configs
        return {key: value for key, value in configs.items() if self.defaults.get(key) != value}

    async def starts(self, name: str, partitions: int) -> Sequence[PartitionStart]:
        await self._called("starts")
        return [PartitionStart(start, start) for start, _ in self.existing[name].ranges[:partitions]]

    async def starts_at(self, name: str, offsets: Mapping[int, int]) -> Mapping[int, PartitionStart]:
        await self._called("starts_at")
        return {index: PartitionStart(offset, offset) for index, offset in offsets.items()}

    async def last_writer(self, name: str, partition: int, log_end: int) -> int:
        await self._called("last_writer")
        return self.writers.get((name, partition), -1)

    async def writer_at(self, name: str, partition: int, offset: int) -> LogTail | None:
        await self._called("writer_at")
        if (tails := self.tails.get((name, partition))) is not None:
            return next((tail for tail in tails if tail.following > offset), None)
        return LogTail(offset, offset + 1, self.writers.get((name, partition), self.writer), offset, None)

    async def batches(self, name: str, partition: int, first: int, last: int) -> LastBatch | None:
        await self._called("batches")
        found = self.batches_of.get((name, partition))
        return found if found is not None and first <= found.last and found.base <= last <= found.last else None

    async def schema_ids(self, name: str, partition: int, offset: int) -> frozenset[int]:
        await self._called("schema_ids")
        return self.schema_ids_of.get((name, partition, offset), frozenset())

    async def excerpt(self, name: str, partition: int, first: int | None, count: int, most_bytes: int) -> LogExcerpt:
        await self._called("excerpt")
        start, end = self.existing[name].ranges[partition]
        at = max(start, end - count if first is None else first)
        found = [one for one in self.records.get((name, partition), ()) if at <= one.offset < end]
        return LogExcerpt(start, end, found[:count])

    async def log_starts(self, partitions: Mapping[str, int]) -> Mapping[str, Sequence[int]]:
        await self._called("log_starts")
        return {name: [start for start, _ in self.existing[name].ranges[:count]] for name, count in partitions.items()}

    async def delete_records(self, name: str, before: Mapping[int, int]) -> None:
        await self._changed("delete_records")
        ranges = self.existing[name].ranges
        for index, offset in before.items():
            ranges[index] = (offset, ranges[index][1])

    async def group_ids(self) -> Sequence[str]:
        await self._called("group_ids")
        return sorted(self.groups)

    async def describe_group(self, group: str) -> GroupView:
        await self._called("describe_group")
        return self.groups.get(group) or GroupView(group=group, state=DEAD, type="", protocol_type="")

    async def remove_members(self, group: str, members: Sequence[MemberView]) -> Mapping[str, int]:
        await self._changed("remove_members")
        found, gone = self.groups[group], {one.member_id for one in members} - self.sticky_members
        self.groups[group] = replace(found, members=tuple(m for m in found.members if m.member_id not in gone))
        return {one.member_id: 0 if one.member_id in gone else int(ErrorCode.UNKNOWN_SERVER_ERROR) for one in members}

    async def acls(self, kinds: Collection[ResourceType]) -> frozenset[Acl]:
        await self._called("acls")
        if not self.authorizes:
            raise BrokerError(ErrorCode.SECURITY_DISABLED, "describe ACLs: SECURITY_DISABLED")
        return frozenset(acl for acl in self.acls_there if acl.resource_type in kinds)

    async def create_acls(self, wanted: Sequence[Acl]) -> Mapping[Acl, BrokerError]:
        self.acl_requests.append(("create", tuple(wanted)))
        await self._changed("create_acls")
        self.acls_there.update(acl for acl in wanted if acl not in self.refused_acls)
        return {acl: self.refused_acls[acl] for acl in wanted if acl in self.refused_acls}

    async def delete_acls(self, gone: Sequence[Acl]) -> Mapping[Acl, BrokerError]:
        self.acl_requests.append(("delete", tuple(gone)))
        await self._changed("delete_acls")
        self.acls_there.difference_update(acl for acl in gone if acl not in self.refused_acls)
        return {acl: self.refused_acls[acl] for acl in gone if acl in self.refused_acls}

    async def scram_users(self) -> Mapping[ScramKey, int]:
        await self._called("scram_users")
        return {key: one.iterations for key, one in self.scram.items()}

    async def create_scram_users(self, wanted: Sequence[ScramCredential]) -> Mapping[ScramKey, BrokerError]:
        assert len({one.key.user for one in wanted}) == len(wanted)  # as a broker asks
        self.scram_requests.append(tuple(one.key for one in wanted))
        await self._changed("create_scram_users")
        self.scram.update((one.key, one) for one in wanted if one.key.user not in self.refused_users)
        error = BrokerError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "no")
        return {one.key: error for one in wanted if one.key.user in self.refused_users}

    async def quotas(self) -> Mapping[QuotaKey, float]:
        await self._called("quotas")
        return dict(self.quotas_there)

    async def set_quotas(self, wanted: Mapping[QuotaKey, float]) -> Mapping[QuotaKey, BrokerError]:
        self.quota_requests.append(dict(wanted))
        await self._changed("set_quotas")
        refused = {key for key in wanted if any(part.name in self.refused_users for part in key.entity)}
        self.quotas_there.update((key, value) for key, value in wanted.items() if key not in refused)
        return {key: BrokerError(ErrorCode.INVALID_REQUEST, "no") for key in refused}

    async def token_owners(self) -> Mapping[str, int]:
        await self._called("token_owners")
        return self.owners

    async def feature_levels(self) -> Mapping[str, int]:
        await self._called("feature_levels")
        return self.features

    async def broker_configs(self) -> Mapping[str, str]:
        await self._called("broker_configs")
        return self.broker_defaults

    def login_name(self) -> str:
        return self.login

    async def committed_offsets(self, group: str) -> Mapping[tuple[str, int], Committed]:
        await self._called("committed_offsets")
        return self.offsets.get(group, {})


@dataclass
class RangeEnds:
    """`control.source_ends.SourceEnds` of a cluster in memory."""

    kafka: FakeKafka

    async def read(
        self,
        link: LinkRecord,
        topics: Mapping[str, int],
        timeout_s: float,
        asked: Asked = Asked.STABLE,
    ) -> Mapping[str, LogEnds]:
        if self.kafka.down:
            raise SourceUnreachable(f"the source of link '{link.name}': connection refused")
        found = {name: tuple(end for _, end in self.kafka.existing[name].ranges[:n]) for name, n in topics.items()}
        existing = self.kafka.existing
        return {name: LogEnds(ends, ends, existing[name].info.partitions, ends) for name, ends in found.items()}
