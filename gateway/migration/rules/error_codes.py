"""Which errors tell that clients fail: one table, for the stop rule `client_errors_percent`. Pure.

What is in the table does not count: the client goes on by itself, and it belongs to the life of a cluster, or a cutover
causes it by design. Every other error counts, those that this version does not know too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from protocol.errors import ErrorCode

_LEADER: Final = "a leader or a replica has moved: the client asks for metadata and sends again"
_BROKER: Final = "a broker is busy, behind or away for a moment: the client sends again"
_PAUSE: Final = "replicas are behind; the gateway says it too while writes are paused: the client sends again"
_NEW_TOPIC: Final = "not every broker knows a topic that was just created: the client asks again"
_COORDINATOR: Final = "a coordinator has moved or loads; a closed gate says it too: the client asks again"
_SESSION: Final = "a fetch session has ended: the client begins another one"
_MEMBER: Final = "a rebalance, or a member that was replaced; each restart and each promote brings them: it joins again"
_PRODUCER: Final = "another instance has taken the producer's place: a rolling restart does it"
_TRANSACTION: Final = "a transaction is to be aborted and begun again: a cutover asks for it, and clients do it"
_FORGOTTEN: Final = "a broker has forgotten an idle producer (KIP-360): the client goes on with a new epoch"
_THERE: Final = "the batch is in the log: the client takes it as written"
_QUOTA: Final = "a quota: the client slows down"

NOT_COUNTED: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: _NEW_TOPIC,
    ErrorCode.UNKNOWN_TOPIC_ID: _NEW_TOPIC,
    ErrorCode.INCONSISTENT_TOPIC_ID: _NEW_TOPIC,
    ErrorCode.LEADER_NOT_AVAILABLE: _LEADER,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: _LEADER,
    ErrorCode.REPLICA_NOT_AVAILABLE: _LEADER,
    ErrorCode.FENCED_LEADER_EPOCH: _LEADER,
    ErrorCode.UNKNOWN_LEADER_EPOCH: _LEADER,
    ErrorCode.OFFSET_NOT_AVAILABLE: _LEADER,
    ErrorCode.LISTENER_NOT_FOUND: _LEADER,
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: _LEADER,
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: _LEADER,
    ErrorCode.ELECTION_NOT_NEEDED: _LEADER,
    ErrorCode.NOT_CONTROLLER: _LEADER,
    ErrorCode.REQUEST_TIMED_OUT: _BROKER,
    ErrorCode.NETWORK_EXCEPTION: _BROKER,
    ErrorCode.KAFKA_STORAGE_ERROR: _BROKER,
    ErrorCode.NOT_ENOUGH_REPLICAS: _PAUSE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: _PAUSE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: _COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: _COORDINATOR,
    ErrorCode.NOT_COORDINATOR: _COORDINATOR,
    ErrorCode.UNSTABLE_OFFSET_COMMIT: _COORDINATOR,
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND: _SESSION,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH: _SESSION,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR: _SESSION,
    ErrorCode.SHARE_SESSION_NOT_FOUND: _SESSION,
    ErrorCode.INVALID_SHARE_SESSION_EPOCH: _SESSION,
    ErrorCode.SHARE_SESSION_LIMIT_REACHED: _SESSION,
    ErrorCode.ILLEGAL_GENERATION: _MEMBER,
    ErrorCode.UNKNOWN_MEMBER_ID: _MEMBER,
    ErrorCode.REBALANCE_IN_PROGRESS: _MEMBER,
    ErrorCode.MEMBER_ID_REQUIRED: _MEMBER,
    ErrorCode.FENCED_INSTANCE_ID: _MEMBER,
    ErrorCode.UNRELEASED_INSTANCE_ID: _MEMBER,
    ErrorCode.FENCED_MEMBER_EPOCH: _MEMBER,
    ErrorCode.STALE_MEMBER_EPOCH: _MEMBER,
    ErrorCode.INVALID_PRODUCER_EPOCH: _PRODUCER,
    ErrorCode.PRODUCER_FENCED: _PRODUCER,
    ErrorCode.CONCURRENT_TRANSACTIONS: _TRANSACTION,
    ErrorCode.TRANSACTION_ABORTABLE: _TRANSACTION,
    ErrorCode.UNKNOWN_PRODUCER_ID: _FORGOTTEN,
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: _THERE,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: _QUOTA,
}
"""Error -> why it does not count. Of those that clients retry, CORRUPT_MESSAGE alone counts: the same batch is refused
again and again."""


def counts(code: int) -> bool:
    """Whether an error tells that a client fails."""
    return code != ErrorCode.NONE and code not in NOT_COUNTED
