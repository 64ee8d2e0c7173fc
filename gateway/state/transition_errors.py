"""Transition errors: what kept a mirror topic from a state that it was to go to, under Confluent's codes. Pure.

They are kept in the mirror's record, so that they outlive whoever led, and there are only so many of them: an error
that comes again and again is one, with the time at which it was seen last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Final

from gateway.errors import ControlError, SourceUnreachable, TargetUnreachable
from gateway.kafka.connection.errors import AuthenticationFailed, BrokerError, PartitionErrors
from gateway.state.errors import StoreError
from gateway.state.mirror_transitions import MirrorOperation
from gateway.state.records import MirrorRecord, TransitionError
from protocol.errors import ErrorCode

KEPT: Final = 8
MESSAGE_AT_MOST: Final = 500


class TransitionErrorCode(StrEnum):
    """Confluent's names, ours (the last two) where it has none."""

    AUTHENTICATION_ERROR = "AUTHENTICATION_ERROR"
    AUTHORIZATION_ERROR = "AUTHORIZATION_ERROR"
    CONSUMER_GROUP_IN_USE_ERROR = "CONSUMER_GROUP_IN_USE_ERROR"
    UNKNOWN_TOPIC_OR_PARTITION_ERROR = "UNKNOWN_TOPIC_OR_PARTITION_ERROR"
    TOPIC_EXISTS_ERROR = "TOPIC_EXISTS_ERROR"
    POLICY_VIOLATION_ERROR = "POLICY_VIOLATION_ERROR"
    INVALID_REQUEST_ERROR = "INVALID_REQUEST_ERROR"
    INTERNAL_ERROR = "INTERNAL_ERROR"
    CLUSTER_UNAVAILABLE_ERROR = "CLUSTER_UNAVAILABLE_ERROR"
    STATE_ERROR = "STATE_ERROR"


_C = TransitionErrorCode
_OF_BROKERS: Final[Mapping[int, TransitionErrorCode]] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: _C.AUTHORIZATION_ERROR,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: _C.AUTHORIZATION_ERROR,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: _C.AUTHORIZATION_ERROR,
    ErrorCode.SASL_AUTHENTICATION_FAILED: _C.AUTHENTICATION_ERROR,
    ErrorCode.NETWORK_EXCEPTION: _C.CLUSTER_UNAVAILABLE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: _C.UNKNOWN_TOPIC_OR_PARTITION_ERROR,
    ErrorCode.UNKNOWN_TOPIC_ID: _C.UNKNOWN_TOPIC_OR_PARTITION_ERROR,
    ErrorCode.TOPIC_ALREADY_EXISTS: _C.TOPIC_EXISTS_ERROR,
    ErrorCode.POLICY_VIOLATION: _C.POLICY_VIOLATION_ERROR,
    ErrorCode.INVALID_CONFIG: _C.INVALID_REQUEST_ERROR,
    ErrorCode.INVALID_REQUEST: _C.INVALID_REQUEST_ERROR,
}


def code_of(error: BaseException) -> TransitionErrorCode:
    """What kind of error this is: by the answer of a cluster behind it, where there is one."""
    seen: BaseException | None = error
    while seen is not None:
        match seen:
            case AuthenticationFailed():
                return _C.AUTHENTICATION_ERROR
            case PartitionErrors() if seen.errors:
                return _of_broker(next(iter(seen.errors.values())))
            case BrokerError():
                return _of_broker(seen.code)
        seen = seen.__cause__
    match error:
        case SourceUnreachable() | TargetUnreachable() | TimeoutError() | OSError():
            return _C.CLUSTER_UNAVAILABLE_ERROR
        case ControlError() | StoreError():
            return _C.STATE_ERROR
        case _:
            return _C.INTERNAL_ERROR


def _of_broker(code: int) -> TransitionErrorCode:
    return _OF_BROKERS.get(code, _C.INTERNAL_ERROR)


def with_error(
    record: MirrorRecord,
    operation: MirrorOperation | str,
    message: str,
    now_ms: int,
    code: TransitionErrorCode = TransitionErrorCode.STATE_ERROR,
) -> MirrorRecord:
    """The record with one more error, at most `KEPT`. One that it has already becomes the youngest."""
    text = " ".join(message.split())[:MESSAGE_AT_MOST]
    new = TransitionError(code.value, text, str(operation), now_ms)
    others = [error for error in record.transition_errors if replace(error, time_ms=now_ms) != new]
    return replace(record, transition_errors=(*others, new)[-KEPT:])
