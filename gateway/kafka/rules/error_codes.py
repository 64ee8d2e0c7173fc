"""What the mirror makes of each Kafka error code: one table for Fetch (source), one for Produce (target).

A code that stands in no table is retried with backoff and shown as `last_error`: an unknown error of a broker
is no proof that the copy went wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType
from typing import Final

from protocol.errors import ErrorCode


class FetchAction(Enum):
    """What to do about a partition's error in a Fetch answer."""

    CHECK_BOUNDS = auto()  # compare our position with the source's log start and end
    REFRESH = auto()  # metadata is stale or tells more: refresh it, then go on
    BACK_OFF = auto()  # the broker cannot serve it now
    SLOW = auto()  # only an operator can help: retry slowly
    UNREADABLE = auto()  # this log cannot be read at all


FETCH_ACTIONS: Final[Mapping[int, FetchAction]] = MappingProxyType(
    {
        ErrorCode.OFFSET_OUT_OF_RANGE: FetchAction.CHECK_BOUNDS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: FetchAction.REFRESH,
        ErrorCode.UNKNOWN_TOPIC_ID: FetchAction.REFRESH,
        ErrorCode.INCONSISTENT_TOPIC_ID: FetchAction.REFRESH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER: FetchAction.REFRESH,
        ErrorCode.LEADER_NOT_AVAILABLE: FetchAction.REFRESH,
        ErrorCode.REPLICA_NOT_AVAILABLE: FetchAction.REFRESH,
        ErrorCode.FENCED_LEADER_EPOCH: FetchAction.REFRESH,
        ErrorCode.UNKNOWN_LEADER_EPOCH: FetchAction.REFRESH,
        ErrorCode.KAFKA_STORAGE_ERROR: FetchAction.REFRESH,  # the disk is offline: another replica will lead
        ErrorCode.OFFSET_NOT_AVAILABLE: FetchAction.BACK_OFF,  # a new leader, KIP-207
        ErrorCode.UNKNOWN_SERVER_ERROR: FetchAction.BACK_OFF,
        ErrorCode.CORRUPT_MESSAGE: FetchAction.BACK_OFF,  # a broken segment; another leader may have it whole
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: FetchAction.SLOW,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: FetchAction.UNREADABLE,
    }
)

SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,  # evicted, or the broker was restarted
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
"""Whole-response Fetch errors after which a new session is opened (KIP-227)."""


class AppendAction(Enum):
    """What to do about a partition's error in a Produce answer."""

    OUTCOME_UNKNOWN = auto()  # nothing in flight can be relied on: read the target's log end and go on from there
    SLOW = auto()  # as OUTCOME_UNKNOWN, but only an operator can help: retry slowly
    REJECTED = auto()  # the target will never take this batch


APPEND_ACTIONS: Final[Mapping[int, AppendAction]] = MappingProxyType(
    {
        # Somebody else appended first, with the same or with other boundaries.
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: AppendAction.OUTCOME_UNKNOWN,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER: AppendAction.OUTCOME_UNKNOWN,
        # Appended or not, depending on when it struck.
        ErrorCode.REQUEST_TIMED_OUT: AppendAction.OUTCOME_UNKNOWN,
        ErrorCode.NOT_ENOUGH_REPLICAS: AppendAction.OUTCOME_UNKNOWN,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: AppendAction.OUTCOME_UNKNOWN,
        ErrorCode.NETWORK_EXCEPTION: AppendAction.OUTCOME_UNKNOWN,
        ErrorCode.UNKNOWN_SERVER_ERROR: AppendAction.OUTCOME_UNKNOWN,
        ErrorCode.KAFKA_STORAGE_ERROR: AppendAction.OUTCOME_UNKNOWN,
        # Leadership moved, or the broker has not heard of the topic yet.
        ErrorCode.NOT_LEADER_OR_FOLLOWER: AppendAction.OUTCOME_UNKNOWN,
        ErrorCode.LEADER_NOT_AVAILABLE: AppendAction.OUTCOME_UNKNOWN,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: AppendAction.OUTCOME_UNKNOWN,
        ErrorCode.FENCED_LEADER_EPOCH: AppendAction.OUTCOME_UNKNOWN,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: AppendAction.SLOW,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED: AppendAction.SLOW,
        ErrorCode.CORRUPT_MESSAGE: AppendAction.REJECTED,
        ErrorCode.MESSAGE_TOO_LARGE: AppendAction.REJECTED,
        ErrorCode.RECORD_LIST_TOO_LARGE: AppendAction.REJECTED,
        ErrorCode.INVALID_RECORD: AppendAction.REJECTED,
        ErrorCode.INVALID_TIMESTAMP: AppendAction.REJECTED,
        ErrorCode.INVALID_TOPIC_EXCEPTION: AppendAction.REJECTED,
        ErrorCode.INVALID_REQUEST: AppendAction.REJECTED,
        ErrorCode.INVALID_REQUIRED_ACKS: AppendAction.REJECTED,
        ErrorCode.INVALID_PRODUCER_EPOCH: AppendAction.REJECTED,  # somebody uses our producer id with epoch > 0
        ErrorCode.INVALID_TXN_STATE: AppendAction.REJECTED,
        ErrorCode.UNKNOWN_PRODUCER_ID: AppendAction.REJECTED,  # a broker before 2.5: no start in mid-sequence
        ErrorCode.UNSUPPORTED_VERSION: AppendAction.REJECTED,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: AppendAction.REJECTED,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: AppendAction.REJECTED,
        ErrorCode.POLICY_VIOLATION: AppendAction.REJECTED,
    }
)
