"""The API table: keys, names, versions, and from which version each API uses the flexible encoding (KIP-482).

`APIS` holds every API that a Kafka 4.3 broker serves on a client listener. `ADVERTISED` is what the gateway
offers at most; a broker's own ranges are intersected with it (see `protocol.api_versions`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple


class ApiKey(IntEnum):
    """API keys, under Kafka's names."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    DESCRIBE_QUORUM = 55
    UPDATE_FEATURES = 57
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


class ApiRange(NamedTuple):
    """One API. `flexible_from` is the first version with compact types and tagged fields, None if it has none."""

    key: int
    name: str
    min_version: int
    max_version: int
    flexible_from: int | None


_TABLE: tuple[ApiRange, ...] = (
    ApiRange(ApiKey.PRODUCE, "Produce", 3, 13, 9),
    ApiRange(ApiKey.FETCH, "Fetch", 4, 18, 12),
    ApiRange(ApiKey.LIST_OFFSETS, "ListOffsets", 1, 11, 6),
    ApiRange(ApiKey.METADATA, "Metadata", 0, 13, 9),
    ApiRange(ApiKey.OFFSET_COMMIT, "OffsetCommit", 2, 10, 8),
    ApiRange(ApiKey.OFFSET_FETCH, "OffsetFetch", 1, 10, 6),
    ApiRange(ApiKey.FIND_COORDINATOR, "FindCoordinator", 0, 6, 3),
    ApiRange(ApiKey.JOIN_GROUP, "JoinGroup", 0, 9, 6),
    ApiRange(ApiKey.HEARTBEAT, "Heartbeat", 0, 4, 4),
    ApiRange(ApiKey.LEAVE_GROUP, "LeaveGroup", 0, 5, 4),
    ApiRange(ApiKey.SYNC_GROUP, "SyncGroup", 0, 5, 4),
    ApiRange(ApiKey.DESCRIBE_GROUPS, "DescribeGroups", 0, 6, 5),
    ApiRange(ApiKey.LIST_GROUPS, "ListGroups", 0, 5, 3),
    ApiRange(ApiKey.SASL_HANDSHAKE, "SaslHandshake", 0, 1, None),
    ApiRange(ApiKey.API_VERSIONS, "ApiVersions", 0, 4, 3),
    ApiRange(ApiKey.CREATE_TOPICS, "CreateTopics", 2, 7, 5),
    ApiRange(ApiKey.DELETE_TOPICS, "DeleteTopics", 1, 6, 4),
    ApiRange(ApiKey.DELETE_RECORDS, "DeleteRecords", 0, 2, 2),
    ApiRange(ApiKey.INIT_PRODUCER_ID, "InitProducerId", 0, 6, 2),
    ApiRange(ApiKey.OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderEpoch", 2, 4, 4),
    ApiRange(ApiKey.ADD_PARTITIONS_TO_TXN, "AddPartitionsToTxn", 0, 5, 3),
    ApiRange(ApiKey.ADD_OFFSETS_TO_TXN, "AddOffsetsToTxn", 0, 4, 3),
    ApiRange(ApiKey.END_TXN, "EndTxn", 0, 5, 3),
    ApiRange(ApiKey.WRITE_TXN_MARKERS, "WriteTxnMarkers", 1, 2, 1),
    ApiRange(ApiKey.TXN_OFFSET_COMMIT, "TxnOffsetCommit", 0, 5, 3),
    ApiRange(ApiKey.DESCRIBE_ACLS, "DescribeAcls", 1, 3, 2),
    ApiRange(ApiKey.CREATE_ACLS, "CreateAcls", 1, 3, 2),
    ApiRange(ApiKey.DELETE_ACLS, "DeleteAcls", 1, 3, 2),
    ApiRange(ApiKey.DESCRIBE_CONFIGS, "DescribeConfigs", 1, 4, 4),
    ApiRange(ApiKey.ALTER_CONFIGS, "AlterConfigs", 0, 2, 2),
    ApiRange(ApiKey.ALTER_REPLICA_LOG_DIRS, "AlterReplicaLogDirs", 1, 2, 2),
    ApiRange(ApiKey.DESCRIBE_LOG_DIRS, "DescribeLogDirs", 1, 5, 2),
    ApiRange(ApiKey.SASL_AUTHENTICATE, "SaslAuthenticate", 0, 2, 2),
    ApiRange(ApiKey.CREATE_PARTITIONS, "CreatePartitions", 0, 3, 2),
    ApiRange(ApiKey.CREATE_DELEGATION_TOKEN, "CreateDelegationToken", 1, 3, 2),
    ApiRange(ApiKey.RENEW_DELEGATION_TOKEN, "RenewDelegationToken", 1, 2, 2),
    ApiRange(ApiKey.EXPIRE_DELEGATION_TOKEN, "ExpireDelegationToken", 1, 2, 2),
    ApiRange(ApiKey.DESCRIBE_DELEGATION_TOKEN, "DescribeDelegationToken", 1, 3, 2),
    ApiRange(ApiKey.DELETE_GROUPS, "DeleteGroups", 0, 2, 2),
    ApiRange(ApiKey.ELECT_LEADERS, "ElectLeaders", 0, 2, 2),
    ApiRange(ApiKey.INCREMENTAL_ALTER_CONFIGS, "IncrementalAlterConfigs", 0, 1, 1),
    ApiRange(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "AlterPartitionReassignments", 0, 1, 0),
    ApiRange(ApiKey.LIST_PARTITION_REASSIGNMENTS, "ListPartitionReassignments", 0, 0, 0),
    ApiRange(ApiKey.OFFSET_DELETE, "OffsetDelete", 0, 0, None),
    ApiRange(ApiKey.DESCRIBE_CLIENT_QUOTAS, "DescribeClientQuotas", 0, 1, 1),
    ApiRange(ApiKey.ALTER_CLIENT_QUOTAS, "AlterClientQuotas", 0, 1, 1),
    ApiRange(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "DescribeUserScramCredentials", 0, 0, 0),
    ApiRange(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "AlterUserScramCredentials", 0, 0, 0),
    ApiRange(ApiKey.DESCRIBE_QUORUM, "DescribeQuorum", 0, 2, 0),
    ApiRange(ApiKey.UPDATE_FEATURES, "UpdateFeatures", 0, 2, 0),
    ApiRange(ApiKey.DESCRIBE_CLUSTER, "DescribeCluster", 0, 2, 0),
    ApiRange(ApiKey.DESCRIBE_PRODUCERS, "DescribeProducers", 0, 0, 0),
    ApiRange(ApiKey.UNREGISTER_BROKER, "UnregisterBroker", 0, 0, 0),
    ApiRange(ApiKey.DESCRIBE_TRANSACTIONS, "DescribeTransactions", 0, 0, 0),
    ApiRange(ApiKey.LIST_TRANSACTIONS, "ListTransactions", 0, 2, 0),
    ApiRange(ApiKey.CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat", 0, 1, 0),
    ApiRange(ApiKey.CONSUMER_GROUP_DESCRIBE, "ConsumerGroupDescribe", 0, 1, 0),
    ApiRange(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, "GetTelemetrySubscriptions", 0, 0, 0),
    ApiRange(ApiKey.PUSH_TELEMETRY, "PushTelemetry", 0, 0, 0),
    ApiRange(ApiKey.LIST_CONFIG_RESOURCES, "ListConfigResources", 0, 1, 0),
    ApiRange(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "DescribeTopicPartitions", 0, 0, 0),
    ApiRange(ApiKey.SHARE_GROUP_HEARTBEAT, "ShareGroupHeartbeat", 1, 1, 1),
    ApiRange(ApiKey.SHARE_GROUP_DESCRIBE, "ShareGroupDescribe", 1, 1, 1),
    ApiRange(ApiKey.SHARE_FETCH, "ShareFetch", 1, 2, 1),
    ApiRange(ApiKey.SHARE_ACKNOWLEDGE, "ShareAcknowledge", 1, 2, 1),
    ApiRange(ApiKey.ADD_RAFT_VOTER, "AddRaftVoter", 0, 1, 0),
    ApiRange(ApiKey.REMOVE_RAFT_VOTER, "RemoveRaftVoter", 0, 0, 0),
    ApiRange(ApiKey.INITIALIZE_SHARE_GROUP_STATE, "InitializeShareGroupState", 0, 0, 0),
    ApiRange(ApiKey.READ_SHARE_GROUP_STATE, "ReadShareGroupState", 0, 0, 0),
    ApiRange(ApiKey.WRITE_SHARE_GROUP_STATE, "WriteShareGroupState", 0, 1, 0),
    ApiRange(ApiKey.DELETE_SHARE_GROUP_STATE, "DeleteShareGroupState", 0, 0, 0),
    ApiRange(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, "ReadShareGroupStateSummary", 0, 1, 0),
    ApiRange(ApiKey.STREAMS_GROUP_HEARTBEAT, "StreamsGroupHeartbeat", 0, 0, 0),
    ApiRange(ApiKey.STREAMS_GROUP_DESCRIBE, "StreamsGroupDescribe", 0, 0, 0),
    ApiRange(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, "DescribeShareGroupOffsets", 0, 1, 0),
    ApiRange(ApiKey.ALTER_SHARE_GROUP_OFFSETS, "AlterShareGroupOffsets", 0, 0, 0),
    ApiRange(ApiKey.DELETE_SHARE_GROUP_OFFSETS, "DeleteShareGroupOffsets", 0, 0, 0),
)

APIS: Mapping[int, ApiRange] = MappingProxyType({api.key: api for api in _TABLE})

# Not offered: client telemetry, and what only brokers and controllers ask one another.
_HIDDEN = frozenset(
    {
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        ApiKey.PUSH_TELEMETRY,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
        ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE,
        ApiKey.WRITE_SHARE_GROUP_STATE,
        ApiKey.DELETE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    }
)

# Ranges narrower than Kafka 4.3's, each with its reason.
_CAPS: Mapping[int, tuple[int, int]] = {
    # librdkafka decides on its feature set by Produce's *minimum* version, so 0 is advertised (a broker's own
    # answer does the same) though versions below 3 are refused. From v10 on an error's response may carry brokers'
    # addresses (KIP-951); v9 says all else that they do, and lets responses pass unread.
    ApiKey.PRODUCE: (0, 9),
    ApiKey.FETCH: (4, 15),  # v16 adds broker addresses to the response
    ApiKey.OFFSET_COMMIT: (2, 9),  # v10 names topics by id
    ApiKey.OFFSET_FETCH: (1, 9),  # v10 names topics by id
    ApiKey.SASL_HANDSHAKE: (1, 1),  # after v0 come tokens without headers
    ApiKey.API_VERSIONS: (0, 4),  # v5 carries the broker's node id and cluster id
    ApiKey.INIT_PRODUCER_ID: (0, 5),  # v6 is not stable in Kafka 4.3
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 3),  # v4 on is between brokers
    ApiKey.END_TXN: (0, 4),  # v5 is transactions v2 (KIP-890)
    ApiKey.TXN_OFFSET_COMMIT: (0, 4),  # v5 is transactions v2
    ApiKey.DESCRIBE_QUORUM: (0, 1),  # v2 adds the controllers' addresses
}

ADVERTISED: Mapping[int, tuple[int, int]] = MappingProxyType(
    {api.key: _CAPS.get(api.key, (api.min_version, api.max_version)) for api in _TABLE if api.key not in _HIDDEN}
)

_NEVER = 1 << 15
FLEXIBLE_FROM: Mapping[int, int] = {
    int(api.key): _NEVER if api.flexible_from is None else api.flexible_from for api in _TABLE
}
"""First flexible version by API key, larger than any version where there is none. A dict, for speed."""

_TAGGED_RESPONSE_FROM: Mapping[int, int] = {**FLEXIBLE_FROM, int(ApiKey.API_VERSIONS): _NEVER}


def is_flexible(key: int, version: int) -> bool:
    """True when this version of the API uses compact types and tagged fields. False for an unknown key."""
    return version >= FLEXIBLE_FROM.get(key, _NEVER)


def is_supported(key: int, version: int) -> bool:
    """True when the gateway can serve this version: within `ADVERTISED` and within what Kafka 4.3 has."""
    offered = ADVERTISED.get(key)
    if offered is None:
        return False
    return max(offered[0], APIS[key].min_version) <= version <= offered[1]


def request_header_version(key: int, version: int) -> int:
    """2 for flexible versions (with tagged fields), otherwise 1."""
    return 2 if is_flexible(key, version) else 1


def response_header_version(key: int, version: int) -> int:
    """1 for flexible versions, otherwise 0. ApiVersions is always 0, so that any client can read it (KIP-511)."""
    return 1 if version >= _TAGGED_RESPONSE_FROM.get(key, _NEVER) else 0


def api_name(key: int) -> str:
    """Kafka's name of the API, or `ApiRange<key>` for one this table does not have."""
    api = APIS.get(key)
    return api.name if api is not None else f"Api{key}"
