"""Which errors tell that clients fail."""

from __future__ import annotations

import pytest

from gateway.migration.rules.error_codes import NOT_COUNTED, counts
from protocol.errors import ErrorCode, is_retriable

FAILS = (
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.OFFSET_OUT_OF_RANGE,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.INVALID_RECORD,
    ErrorCode.POLICY_VIOLATION,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.OFFSET_METADATA_TOO_LARGE,
)
BY_DESIGN = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,  # a leader that moves; a source that cannot be reached at a cutover
    ErrorCode.NOT_ENOUGH_REPLICAS,  # a write pause
    ErrorCode.REQUEST_TIMED_OUT,  # ack: both
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,  # a closed gate
    ErrorCode.UNKNOWN_MEMBER_ID,  # likewise
    ErrorCode.CONCURRENT_TRANSACTIONS,  # a write pause of a transaction
    ErrorCode.OFFSET_NOT_AVAILABLE,  # a mirror that is not readable yet
)


@pytest.mark.parametrize("code", FAILS)
def test_what_no_retry_mends_counts(code: ErrorCode) -> None:
    assert counts(code)


@pytest.mark.parametrize("code", BY_DESIGN)
def test_what_a_cutover_causes_by_design_does_not(code: ErrorCode) -> None:
    assert not counts(code)


def test_no_error_is_none() -> None:
    assert not counts(0)


def test_what_a_later_broker_says_counts() -> None:
    assert counts(9_999)


def test_of_what_clients_retry_only_a_corrupt_batch_counts() -> None:
    assert {code for code in ErrorCode if is_retriable(code) and counts(code)} == {ErrorCode.CORRUPT_MESSAGE}


def test_each_entry_has_its_reason() -> None:
    assert all(NOT_COUNTED.values())
