"""What the control plane asks of a Kafka cluster, as a Protocol and plain values.

`net_access.py` answers it with the gateway's own Kafka client, tests with a cluster in memory. Every call may
raise an error of `gateway.kafka.connection.errors`: ClusterUnavailable when the cluster does not answer, BrokerError
when it refuses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gateway.kafka.admin import TopicConfigChange
from gateway.kafka.cluster import Cluster
from gateway.kafka.commits import Committed
from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.connection.errors import BrokerError
from gateway.kafka.groups import GroupView, MemberView
from gateway.kafka.logs.log_excerpt import LogExcerpt
from gateway.kafka.rules.acl import Acl, ResourceType
from gateway.kafka.rules.quota import QuotaKey
from gateway.kafka.rules.scram import ScramCredential, ScramKey
from gateway.kafka.topic_partition import TopicPartition
from gateway.kafka.view import ListedTopic
from gateway.mirror.partition.rules.last_batch import LastBatch
from gateway.mirror.partition.rules.log_tail import LogTail
from gateway.operations.rules.topology import FleetView
from gateway.state.records import PartitionStart


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic as Metadata tells it. `topic_id` in printed form, '' from a cluster that has none (before 2.8).

    `in_sync`: how many replicas are in sync, by partition; -1 where it is not told.
    """

    name: str
    topic_id: str
    partitions: int
    replication_factor: int
    internal: bool = False
    in_sync: tuple[int, ...] = ()


class ClusterAccess(Protocol):
    """One cluster."""

    @property
    def cluster(self) -> Cluster:
        """The underlying client, for the planes that need more than this."""

    async def start(self, timeout_s: float | None = None) -> None:
        """Connect. Raises ClusterUnavailable, and goes on trying in the background; may be called again."""

    async def close(self) -> None:
        """Close all connections."""

    def reconfigure(self, config: ClusterConfig) -> None:
        """Reach the same cluster in another way from now on; see `Cluster.reconfigure`."""

    async def try_brokers(self) -> None:
        """Log in at every broker that answers. Raises AuthenticationFailed when one of them refuses."""

    def cluster_id(self) -> str:
        """The cluster's id, '' while it was never reached."""

    def broker_count(self) -> int:
        """Brokers alive at the last look."""

    def trouble(self) -> str:
        """Why the cluster could not be asked the last time; '' when it could."""

    async def require_tokens(self) -> None:
        """Raises TokenRefused, with the reason, when it makes no delegation tokens for others."""

    async def has_authorizer(self) -> bool:
        """Whether its brokers ask anybody who may do what."""

    async def fleet_state(self) -> FleetView | None:
        """What another fleet's state topic on this cluster says of links and mirrors, up to its end now.

        None: the cluster is no target of a fleet, or this principal does not see the topic.

        Raises:
            StateFormatError: it was written by a newer version.
        """

    async def topics(self, names: Iterable[str]) -> Mapping[str, TopicInfo]:
        """Of the names, the topics that exist, asked now; never creates one.

        Raises:
            BrokerError: one of them may not be seen by this principal.
        """

    async def list_topics(self) -> Sequence[ListedTopic]:
        """Every topic that this principal may describe, by name, and whether it may read it; asked now."""

    async def mirror_topics(self) -> frozenset[str] | None:
        """The topics of the cluster that lockgate mirrors there: it is the target of other gateways.

        None when that cannot be known: this principal may not read those gateways' state, or it is of a newer version.
        """

    async def topic_configs(
        self, names: Iterable[str], only: Collection[str] | None = None
    ) -> Mapping[str, Mapping[str, str]]:
        """The effective configs of each topic, defaults included; these `only`, if some are named.

        A config that the cluster does not know is not among them. What is told again and again may be the same object.
        """

    async def configs_at_leaders(
        self, name: str, partitions: int, only: Collection[str]
    ) -> Mapping[int, Mapping[str, str]]:
        """By node id, these configs of a topic as each broker that leads one of its partitions has them itself.

        Raises NetError: a partition has no leader, or one does not answer.
        """

    async def create_topic(
        self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]
    ) -> None:
        """Create a topic and wait until its partitions have leaders; BrokerError when the cluster refuses."""

    async def check_topic(
        self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]
    ) -> None:
        """Would `create_topic` be accepted? Nothing is created; BrokerError when the cluster would refuse."""

    async def is_absent(self, name: str) -> bool:
        """True when there is certainly no topic of this name: its controller says so, not a broker that may lag."""

    async def delete_topic(self, name: str, topic_id: str) -> None:
        """Delete the topic with this id, and no other one of its name; '' on a cluster without ids: by name."""

    async def alter_topic_configs(self, changes: Mapping[str, TopicConfigChange]) -> Mapping[str, BrokerError]:
        """Change the configs of topics (IncrementalAlterConfigs), at most `kafka.admin.TOPICS_IN_A_REQUEST`; those that
        were refused, with the error of each."""

    async def add_partitions(self, name: str, total: int) -> None:
        """Grow a topic to `total` partitions."""

    async def log_ranges(self, name: str, partitions: int) -> Sequence[tuple[int, int]]:
        """(log start, log end) of each partition."""

    async def topic_overrides(self, name: str) -> Mapping[str, str]:
        """The configs that are set on the topic itself."""

    async def starts(self, name: str, partitions: int) -> Sequence[PartitionStart]:
        """Where a copy of each partition begins that holds all of it."""

    async def starts_at(self, name: str, offsets: Mapping[int, int]) -> Mapping[int, PartitionStart]:
        """Where a copy begins that shows these offsets first, by partition."""

    async def last_writer(self, name: str, partition: int, log_end: int) -> int:
        """The producer id of the last batch below `log_end`, -1 for one without."""

    async def writer_at(self, name: str, partition: int, offset: int) -> LogTail | None:
        """Who wrote the batch that holds an offset, or is the next after it; None where nothing follows.

        Below the log start: what is next after it. A batch of an old format (v0, v1) has no producer: -1.
        """

    async def batches(self, name: str, partition: int, first: int, last: int) -> LastBatch | None:
        """What the log has at these offsets, as it is compared between two logs: from the batch that holds `first`, or
        is the next after it, to the one that holds `last`; None when that is not there any more."""

    async def schema_ids(self, name: str, partition: int, offset: int) -> frozenset[int]:
        """What looks like schema ids in the first record of the batch that holds this offset; none where it is gone."""

    async def excerpt(self, name: str, partition: int, first: int | None, count: int, most_bytes: int) -> LogExcerpt:
        """A few records, shortened, for people to look at; see `kafka/logs/log_excerpt.py`."""

    async def log_starts(self, partitions: Mapping[str, int]) -> Mapping[str, Sequence[int]]:
        """The log start of every partition of the topics, each given with how many it has."""

    async def delete_records(self, name: str, before: Mapping[int, int]) -> None:
        """Delete what lies below an offset, per partition (DeleteRecords)."""

    async def group_ids(self) -> Sequence[str]:
        """The groups of the cluster that consume, of every type."""

    async def describe_group(self, group: str) -> GroupView:
        """State and members of a group; 'Dead' for one that does not exist."""

    async def remove_members(self, group: str, members: Sequence[MemberView]) -> Mapping[str, int]:
        """Remove members from a group; member id -> error code, 0 for one that is out of it. See `kafka/groups.py`."""

    async def committed_offsets(self, group: str) -> Mapping[TopicPartition, Committed]:
        """All committed offsets of a group, by topic and partition; of a share group (KIP-932) its start offsets."""

    async def acls(self, kinds: Collection[ResourceType]) -> frozenset[Acl]:
        """The ACLs on these kinds of resources; BrokerError SECURITY_DISABLED from a cluster without an authorizer."""

    async def create_acls(self, wanted: Sequence[Acl]) -> Mapping[Acl, BrokerError]:
        """Make ACLs, at most `kafka.acls.IN_A_REQUEST`; those that were refused, with the error of each."""

    async def delete_acls(self, gone: Sequence[Acl]) -> Mapping[Acl, BrokerError]:
        """Delete these very ACLs, as many; those that were not deleted, with the error of each."""

    async def scram_users(self) -> Mapping[ScramKey, int]:
        """Every SCRAM credential, with its iterations."""

    async def create_scram_users(self, wanted: Sequence[ScramCredential]) -> Mapping[ScramKey, BrokerError]:
        """Store credentials, at most `kafka.scram_users.IN_A_REQUEST` of as many users; those that were refused."""

    async def quotas(self) -> Mapping[QuotaKey, float]:
        """Every client quota."""

    async def set_quotas(self, wanted: Mapping[QuotaKey, float]) -> Mapping[QuotaKey, BrokerError]:
        """Set quotas, at most `kafka.quotas.IN_A_REQUEST`; those that were refused, with the error of each."""

    async def token_owners(self) -> Mapping[str, int]:
        """Principal -> delegation tokens of it, of those that this principal may see."""

    async def feature_levels(self) -> Mapping[str, int]:
        """The cluster's own levels of features."""

    async def broker_configs(self) -> Mapping[str, str]:
        """The configs in force of one of its brokers, without sensitive ones."""

    def login_name(self) -> str:
        """The name by which this gateway logs in there; '' where it does not, or comes by certificate."""
