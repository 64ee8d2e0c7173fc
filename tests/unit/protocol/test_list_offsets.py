"""ListOffsets by position says what the classes of the schema say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.apis import ApiKey
from protocol.codec import decode_request, encode_body
from protocol.errors import MalformedFrame
from protocol.list_offsets import LatestOffsets, ListOffsets, OffsetFound, latest_found, offsets_found
from protocol.messages import ListOffsetsResponse

VERSIONS = range(1, ListOffsets.max_version + 1)
names = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=20)
int64 = st.integers(-(2**63), 2**63 - 1)
asked = st.dictionaries(names, st.lists(st.tuples(st.integers(0, 2**31 - 1), int64), max_size=4), max_size=4)
told = st.builds(
    OffsetFound, names, st.integers(0, 2**31 - 1), st.integers(-1, 99), int64, int64, st.integers(-1, 2**31 - 1)
)


@given(asked, st.sampled_from(VERSIONS), st.sampled_from([-1, -2]), st.booleans())
def test_a_question_is_read_as_it_was_meant(
    topics: dict[str, list[tuple[int, int]]], version: int, replica: int, committed: bool
) -> None:
    committed = committed and version > 1
    body = ListOffsets(topics, replica_id=replica, read_committed=committed).encode(version)
    message = decode_request(ApiKey.LIST_OFFSETS, version, body)
    assert {
        topic.name: [(part.partition_index, part.timestamp) for part in topic.partitions] for topic in message.topics
    } == topics
    assert message.replica_id == replica
    assert version < 2 or message.isolation_level == int(committed)
    assert version < 4 or all(part.current_leader_epoch == -1 for topic in message.topics for part in topic.partitions)
    assert encode_body(message, version) == body


@pytest.mark.parametrize("version", [3, 4, 6, 7])
def test_the_leaders_epoch_is_said_where_a_version_can(version: int) -> None:
    topics = {"t": [(0, -1), (1, -1)], "u": [(0, -1)]}
    body = ListOffsets(topics, replica_id=-2, epochs={"t": {1: 7}}).encode(version)
    message = decode_request(ApiKey.LIST_OFFSETS, version, body)
    found = [part.current_leader_epoch for topic in message.topics for part in topic.partitions]
    assert version < 4 or found == [-1, 7, -1]
    assert encode_body(message, version) == body


def test_what_a_version_cannot_say_is_refused() -> None:
    with pytest.raises(ValueError, match="v1 knows no isolation level"):
        ListOffsets({}, read_committed=True).encode(1)


def answer(found: list[OffsetFound], version: int) -> bytes:
    kind = ListOffsetsResponse.ListOffsetsTopicResponse
    topics = [
        kind(
            name=one.topic,
            partitions=[
                kind.ListOffsetsPartitionResponse(
                    partition_index=one.partition,
                    error_code=one.error_code,
                    timestamp=one.timestamp,
                    offset=one.offset,
                    leader_epoch=one.leader_epoch,
                    old_style_offsets=[],
                )
            ]
            * 2,
        )
        for one in found
    ]
    return encode_body(ListOffsetsResponse(throttle_time_ms=7, topics=topics), version)


@given(st.lists(told, max_size=5), st.sampled_from(VERSIONS))
def test_an_answer_is_read_as_it_was_meant(found: list[OffsetFound], version: int) -> None:
    expected = [one if version >= 4 else one._replace(leader_epoch=-1) for one in found for _ in range(2)]
    assert offsets_found(answer(found, version), version) == expected
    assert ListOffsets({}).decode(memoryview(answer(found, version)), version) == expected


@given(st.lists(told, max_size=5), st.sampled_from(VERSIONS))
def test_an_answer_is_read_for_its_offsets_alone(found: list[OffsetFound], version: int) -> None:
    body, expected = answer(found, version), dict[str, dict[int, int]]()
    for one in found:
        expected.setdefault(one.topic, {})[one.partition] = one.offset
    refused = any(one.error_code for one in found)
    assert LatestOffsets({}).decode(memoryview(body), version) == (None if refused else expected)


def test_tags_of_a_later_version_are_passed_over() -> None:
    one = OffsetFound("t", 1, 0, -1, 5, 3)
    plain = answer([one], 7)
    tagged = plain[:-3] + b"\1\x09\2ab" + b"\0\0"  # of the last partition: tag 9, two bytes
    assert offsets_found(tagged, 7) == [one, one]
    assert latest_found(tagged, 7) == {"t": {1: 5}}


@given(st.lists(told, min_size=1, max_size=3), st.sampled_from(VERSIONS), st.data())
def test_a_torn_answer_is_refused(found: list[OffsetFound], version: int, data: st.DataObject) -> None:
    whole = answer(found, version)
    tags = 2 if version >= 6 else 1  # sections at the end: what is missing of them is not looked for
    with pytest.raises(MalformedFrame):
        offsets_found(whole[: data.draw(st.integers(0, len(whole) - tags))], version)
