"""The message classes: kafka-python's, and those it lacks, made from this package's own schemas.

A message is built with keyword arguments and is the same class for all versions; `protocol.codec` encodes and
decodes it for one. Attribute names are the protocol's in snake case (`throttle_time_ms`, `error_code`); nested
structures are attributes of the class (`MetadataRequest.MetadataRequestTopic(name="t")`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kafka.protocol.admin import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    CreateAclsRequest,
    CreateAclsResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeGroupsRequest,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from kafka.protocol.api_header import ResponseClassRegistry
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    FetchRequest,
    FetchResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
)
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from protocol import schemas

# kafka-python's own client finds response classes in a registry that every new class enters. Ours stay out.
_registered = dict(ResponseClassRegistry._response_class_registry)


class ConsumerGroupDescribeRequest(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """Asks for KIP-848 groups (69)."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """State and members of KIP-848 groups (69)."""


class ConsumerGroupHeartbeatRequest(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """A member joins, stays in or leaves a KIP-848 group (68)."""


class ConsumerGroupHeartbeatResponse(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """The coordinator's answer to a KIP-848 heartbeat (68)."""


class CreateDelegationTokenRequest(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """Asks for a token (38); from version 3 on for another principal (KIP-373)."""


class CreateDelegationTokenResponse(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """The token, whose it is and who asked for it (38)."""


class DescribeDelegationTokenRequest(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """Asks a broker for the tokens that it knows (41)."""


class DescribeDelegationTokenResponse(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """Tokens, as far as the asker may see them (41)."""


class ExpireDelegationTokenRequest(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """Ends a token at once, or sets its end anew (40)."""


class ExpireDelegationTokenResponse(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """When it ends (40)."""


class ShareGroupHeartbeatRequest(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """A member joins, stays in or leaves a share group (76; KIP-932)."""


class ShareGroupHeartbeatResponse(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """The coordinator's answer to a share group's heartbeat (76)."""


class ShareGroupDescribeRequest(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """Asks for share groups (77)."""


class ShareGroupDescribeResponse(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """State and members of share groups (77)."""


class ShareFetchRequest(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """A share group's member takes records, and says what became of others (78)."""


class ShareFetchResponse(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """Records that were acquired (78)."""


class ShareAcknowledgeRequest(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """What became of records of a share group (79)."""


class ShareAcknowledgeResponse(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """Whether that was taken (79)."""


class StreamsGroupHeartbeatRequest(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """A member of a streams group says that it is there, with its topology (88; KIP-1071)."""


class StreamsGroupHeartbeatResponse(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """Its tasks (88)."""


class StreamsGroupDescribeRequest(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """Asks for streams groups (89)."""


class StreamsGroupDescribeResponse(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """State, topology and members of streams groups (89)."""


class DescribeShareGroupOffsetsRequest(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """Asks where share groups begin (90)."""


class DescribeShareGroupOffsetsResponse(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """Start offsets of share groups; from version 1 on with their lag (90; KIP-1226)."""


class AlterShareGroupOffsetsRequest(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """Sets where a share group without members begins (91)."""


class AlterShareGroupOffsetsResponse(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """Whether that was done (91)."""


class DeleteShareGroupOffsetsRequest(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """Forgets topics of a share group without members (92)."""


class DeleteShareGroupOffsetsResponse(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """Whether that was done (92)."""


# kafka-python renames the authorized operations of these three and turns them into sets. Here every field has
# the protocol's own name and type: an int32 with a bit per AclOperation code, -2147483648 when not asked for.


class DescribeClusterResponse(ApiMessage):  # type: ignore[misc]
    """Brokers and controller of the cluster (60)."""


class DescribeGroupsResponse(ApiMessage):  # type: ignore[misc]
    """State and members of classic groups (15)."""


class MetadataResponse(ApiMessage):  # type: ignore[misc]
    """Brokers, topics and partition leaders (3)."""


ResponseClassRegistry._response_class_registry.clear()
ResponseClassRegistry._response_class_registry.update(_registered)

__all__ = [
    "REQUESTS",
    "RESPONSES",
    "AddOffsetsToTxnRequest",
    "AddOffsetsToTxnResponse",
    "AddPartitionsToTxnRequest",
    "AddPartitionsToTxnResponse",
    "AlterClientQuotasRequest",
    "AlterClientQuotasResponse",
    "AlterConfigsRequest",
    "AlterConfigsResponse",
    "AlterPartitionReassignmentsRequest",
    "AlterPartitionReassignmentsResponse",
    "AlterReplicaLogDirsRequest",
    "AlterReplicaLogDirsResponse",
    "AlterShareGroupOffsetsRequest",
    "AlterShareGroupOffsetsResponse",
    "AlterUserScramCredentialsRequest",
    "AlterUserScramCredentialsResponse",
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "ConsumerGroupDescribeRequest",
    "ConsumerGroupDescribeResponse",
    "ConsumerGroupHeartbeatRequest",
    "ConsumerGroupHeartbeatResponse",
    "ConsumerProtocolAssignment",
    "ConsumerProtocolSubscription",
    "CreateAclsRequest",
    "CreateAclsResponse",
    "CreateDelegationTokenRequest",
    "CreateDelegationTokenResponse",
    "CreatePartitionsRequest",
    "CreatePartitionsResponse",
    "CreateTopicsRequest",
    "CreateTopicsResponse",
    "DeleteAclsRequest",
    "DeleteAclsResponse",
    "DeleteGroupsRequest",
    "DeleteGroupsResponse",
    "DeleteRecordsRequest",
    "DeleteRecordsResponse",
    "DeleteShareGroupOffsetsRequest",
    "DeleteShareGroupOffsetsResponse",
    "DeleteTopicsRequest",
    "DeleteTopicsResponse",
    "DescribeAclsRequest",
    "DescribeAclsResponse",
    "DescribeClientQuotasRequest",
    "DescribeClientQuotasResponse",
    "DescribeClusterRequest",
    "DescribeClusterResponse",
    "DescribeConfigsRequest",
    "DescribeConfigsResponse",
    "DescribeDelegationTokenRequest",
    "DescribeDelegationTokenResponse",
    "DescribeGroupsRequest",
    "DescribeGroupsResponse",
    "DescribeLogDirsRequest",
    "DescribeLogDirsResponse",
    "DescribeProducersRequest",
    "DescribeProducersResponse",
    "DescribeQuorumRequest",
    "DescribeQuorumResponse",
    "DescribeShareGroupOffsetsRequest",
    "DescribeShareGroupOffsetsResponse",
    "DescribeTopicPartitionsRequest",
    "DescribeTopicPartitionsResponse",
    "DescribeTransactionsRequest",
    "DescribeTransactionsResponse",
    "DescribeUserScramCredentialsRequest",
    "DescribeUserScramCredentialsResponse",
    "ElectLeadersRequest",
    "ElectLeadersResponse",
    "EndTxnRequest",
    "EndTxnResponse",
    "ExpireDelegationTokenRequest",
    "ExpireDelegationTokenResponse",
    "FetchRequest",
    "FetchResponse",
    "FindCoordinatorRequest",
    "FindCoordinatorResponse",
    "HeartbeatRequest",
    "HeartbeatResponse",
    "IncrementalAlterConfigsRequest",
    "IncrementalAlterConfigsResponse",
    "InitProducerIdRequest",
    "InitProducerIdResponse",
    "JoinGroupRequest",
    "JoinGroupResponse",
    "LeaveGroupRequest",
    "LeaveGroupResponse",
    "ListConfigResourcesRequest",
    "ListConfigResourcesResponse",
    "ListGroupsRequest",
    "ListGroupsResponse",
    "ListOffsetsRequest",
    "ListOffsetsResponse",
    "ListPartitionReassignmentsRequest",
    "ListPartitionReassignmentsResponse",
    "ListTransactionsRequest",
    "ListTransactionsResponse",
    "MetadataRequest",
    "MetadataResponse",
    "OffsetCommitRequest",
    "OffsetCommitResponse",
    "OffsetDeleteRequest",
    "OffsetDeleteResponse",
    "OffsetFetchRequest",
    "OffsetFetchResponse",
    "OffsetForLeaderEpochRequest",
    "OffsetForLeaderEpochResponse",
    "ProduceRequest",
    "ProduceResponse",
    "SaslAuthenticateRequest",
    "SaslAuthenticateResponse",
    "SaslHandshakeRequest",
    "SaslHandshakeResponse",
    "ShareAcknowledgeRequest",
    "ShareAcknowledgeResponse",
    "ShareFetchRequest",
    "ShareFetchResponse",
    "ShareGroupDescribeRequest",
    "ShareGroupDescribeResponse",
    "ShareGroupHeartbeatRequest",
    "ShareGroupHeartbeatResponse",
    "StreamsGroupDescribeRequest",
    "StreamsGroupDescribeResponse",
    "StreamsGroupHeartbeatRequest",
    "StreamsGroupHeartbeatResponse",
    "SyncGroupRequest",
    "SyncGroupResponse",
    "TxnOffsetCommitRequest",
    "TxnOffsetCommitResponse",
    "UpdateFeaturesRequest",
    "UpdateFeaturesResponse",
    "WriteTxnMarkersRequest",
    "WriteTxnMarkersResponse",
]


def _by_key(kind: str) -> Mapping[int, Any]:
    classes = [globals()[name] for name in __all__ if name.endswith(("Request", "Response"))]
    return MappingProxyType({cls.API_KEY: cls for cls in classes if cls.type == kind})


REQUESTS: Mapping[int, Any] = _by_key("request")
"""Request class by API key."""
RESPONSES: Mapping[int, Any] = _by_key("response")
"""Response class by API key."""
