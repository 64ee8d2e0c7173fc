"""Which error is of which of Confluent's codes, and that a record keeps only so many."""

from __future__ import annotations

import pytest

from gateway.errors import Conflict, SourceUnreachable
from gateway.kafka.connection.errors import AuthenticationFailed, BrokerError, LeadersUnreachable, PartitionErrors
from gateway.state.codec import decode, encode, key_of
from gateway.state.mirror_transitions import MirrorOperation
from gateway.state.transition_errors import KEPT, MESSAGE_AT_MOST, TransitionErrorCode, code_of, with_error
from protocol.errors import ErrorCode
from tests.support.control.mirror_records import mirror_record

C = TransitionErrorCode
MIRROR = mirror_record(link="l", source_topic="t", mirror_topic="t", mirror_id=1)


def caused(by: Exception) -> Exception:
    error = SourceUnreachable("the source of link 'l' refuses")
    error.__cause__ = by
    return error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (AuthenticationFailed("bad password"), C.AUTHENTICATION_ERROR),
        (caused(AuthenticationFailed("bad password")), C.AUTHENTICATION_ERROR),
        (caused(BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "x")), C.AUTHORIZATION_ERROR),
        (PartitionErrors("x", {("t", 0): ErrorCode.TOPIC_AUTHORIZATION_FAILED}, {}), C.AUTHORIZATION_ERROR),
        (LeadersUnreachable("x", {("t", 0): ErrorCode.NETWORK_EXCEPTION}, {}), C.CLUSTER_UNAVAILABLE_ERROR),
        (BrokerError(ErrorCode.POLICY_VIOLATION, "x"), C.POLICY_VIOLATION_ERROR),
        (BrokerError(9999, "x"), C.INTERNAL_ERROR),
        (SourceUnreachable("x"), C.CLUSTER_UNAVAILABLE_ERROR),
        (Conflict("x"), C.STATE_ERROR),
        (ValueError("a bug"), C.INTERNAL_ERROR),
    ],
)
def test_codes(error, code):
    assert code_of(error) is code


def test_only_the_last_few_are_kept():
    record = MIRROR
    for number in range(2 * KEPT):
        record = with_error(record, MirrorOperation.PROMOTE, f"reason {number}", number)
    assert [error.time_ms for error in record.transition_errors] == list(range(KEPT, 2 * KEPT))
    assert {error.operation for error in record.transition_errors} == {"promote"}


def test_one_that_comes_again_is_one():
    record = with_error(with_error(MIRROR, "reverse", "no\n answer", 1), "reverse", "no answer", 2)
    assert [(error.error_message, error.time_ms) for error in record.transition_errors] == [("no answer", 2)]


def test_a_message_is_bounded():
    record = with_error(MIRROR, "reverse", "x" * 10_000, 1)
    assert len(record.transition_errors[0].error_message) == MESSAGE_AT_MOST


def test_they_are_read_back():
    record = with_error(MIRROR, "reverse", "no answer", 1, C.AUTHENTICATION_ERROR)
    assert decode(key_of(record), encode(record)) == record
