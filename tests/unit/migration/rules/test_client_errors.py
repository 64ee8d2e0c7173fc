"""Counts of answers: which names are watched, sums, and what goes between gateways.

Which errors tell that clients fail.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gateway.migration.rules.client_errors import (
    GROUP,
    NOT_COUNTED,
    TOPIC,
    WATCHED,
    AnswerCount,
    ClientErrors,
    Failure,
    Name,
    counts,
    decode_counts,
    decode_names,
    encode_counts,
    encode_names,
    promoted_names,
    summed,
)
from gateway.migration.rules.file import parsed
from gateway.state.records import (
    GroupRecord,
    GroupState,
    MirrorCutover,
    MirrorDirection,
    MirrorRecord,
    MirrorState,
    Undo,
)
from protocol.errors import ErrorCode, is_retriable
from tests.support.control.mirror_records import changed

X, G = Name(TOPIC, "x"), Name(GROUP, "g")
COUNT = AnswerCount(40, 10, 4, 1, (Failure(29, 10, "ann"),))


def mirror(topic: str, state: MirrorState, *, link: str = "l", name: str = "", at_ms: int = 1) -> MirrorRecord:
    made = MirrorRecord(link=link, mirror_topic=name or topic, source_topic=topic, mirror_id=1, state=state)
    return replace(made, cutover=MirrorCutover(at_ms=at_ms))


def test_what_the_file_names_and_is_promoted_is_watched_as_clients_name_it() -> None:
    file = parsed(
        {"migration": "m", "link": "l", "applications": [{"name": "a", "topics": ["orders", "b-*"], "groups": ["g*"]}]}
    )
    stopped, active = MirrorState.STOPPED, MirrorState.ACTIVE
    kept = changed(mirror("b-kept", active), direction=MirrorDirection.REVERSE, undo=Undo.OPEN)
    mirrors = [
        mirror("orders", stopped, name="west.orders"),
        mirror("b-one", stopped),
        mirror("b-two", active),
        mirror("b-three", stopped, link="other"),
        mirror("others", stopped),
        kept,
    ]
    groups = [
        GroupRecord(link="l", group="west.g1", source_group="g1", state=GroupState.PROMOTED),
        GroupRecord(link="l", group="g2", state=GroupState.ACTIVE),
        GroupRecord(link="l", group="h", state=GroupState.PROMOTED),
    ]
    assert promoted_names(file, mirrors, groups) == {
        Name(TOPIC, "west.orders"),
        Name(TOPIC, "b-one"),
        Name(TOPIC, "b-kept"),
        Name(GROUP, "west.g1"),
    }


def test_of_too_many_those_that_were_promoted_last_are_watched() -> None:
    file = parsed({"migration": "m", "link": "l", "applications": [{"name": "a", "topics": ["t*"]}]})
    mirrors = [mirror(f"t{index}", MirrorState.STOPPED, at_ms=index) for index in range(WATCHED + 5)]
    found = promoted_names(file, mirrors, [])
    assert len(found) == WATCHED
    assert Name(TOPIC, "t4") not in found
    assert Name(TOPIC, "t5") in found


def test_counts_and_names_are_the_same_behind_the_channel() -> None:
    counts = {X: COUNT, G: AnswerCount()}
    assert decode_counts(json.loads(json.dumps(encode_counts(counts)))) == counts
    assert decode_names(json.loads(json.dumps(encode_names({X, G})))) == {X, G}


def test_gateways_are_summed() -> None:
    other = AnswerCount(60, 20, 6, 2, (Failure(10, 15, ""), Failure(29, 5, "")))
    found = summed([{X: COUNT}, {X: other, G: COUNT}], ["c"])
    assert found.counts == {X: AnswerCount(100, 30, 10, 3, (Failure(10, 15, ""), Failure(29, 15, "ann"))), G: COUNT}
    assert (found.gateways, found.unheard) == (2, ("c",))
    assert (found.total.answers, found.total.failed) == (140, 40)
    assert [name for name, _ in found.failing] == [X, G]


def test_of_too_few_answers_there_is_no_share() -> None:
    assert COUNT.percent is None
    assert AnswerCount(40, 10, 20, 5).percent == 25.0
    assert ClientErrors().worst is None


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
