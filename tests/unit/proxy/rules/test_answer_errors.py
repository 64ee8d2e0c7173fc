"""The errors in an answer, by topic."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from gateway.proxy.rules.answer_errors import LOOKED_AT, MOST_BYTES, errors_by_topic
from protocol.apis import APIS, ApiKey, is_supported
from protocol.codec import encode_response
from protocol.errors import ErrorCode
from protocol.header import frame_response
from protocol.messages import ListOffsetsResponse, OffsetCommitResponse
from protocol.produce import PartitionResult, build_response_body

DENIED, LARGE = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED), int(ErrorCode.MESSAGE_TOO_LARGE)
MOVED = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def versions(key: ApiKey) -> list[int]:
    return [
        version for version in range(APIS[key].min_version, APIS[key].max_version + 1) if is_supported(key, version)
    ]


def produced(version: int, *results: tuple[str, int]) -> bytes:
    body = build_response_body(version, [PartitionResult(topic, 0, code, -1) for topic, code in results])
    return frame_response(ApiKey.PRODUCE, version, 1, body)


@pytest.mark.parametrize("version", versions(ApiKey.PRODUCE))
def test_the_first_error_of_a_topic_that_counts(version: int) -> None:
    answer = produced(version, ("a", 0), ("a", MOVED), ("b", MOVED), ("b", LARGE), ("b", DENIED), ("c", 0))
    assert errors_by_topic(ApiKey.PRODUCE, version, answer) == {"a": 0, "b": LARGE, "c": 0}


@pytest.mark.parametrize("version", versions(ApiKey.LIST_OFFSETS))
def test_list_offsets(version: int) -> None:
    kind = ListOffsetsResponse.ListOffsetsTopicResponse
    part: Any = kind.ListOffsetsPartitionResponse
    partitions = [part(partition_index=0, error_code=DENIED, timestamp=-1, offset=-1, leader_epoch=-1)]
    answer = ListOffsetsResponse(throttle_time_ms=0, topics=[kind(name="a", partitions=partitions)])
    assert errors_by_topic(ApiKey.LIST_OFFSETS, version, encode_response(answer, ApiKey.LIST_OFFSETS, version, 1)) == {
        "a": DENIED
    }


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_COMMIT))
def test_commits(version: int) -> None:
    kind = OffsetCommitResponse.OffsetCommitResponseTopic
    partitions = [kind.OffsetCommitResponsePartition(partition_index=0, error_code=DENIED)]
    answer = OffsetCommitResponse(throttle_time_ms=0, topics=[kind(name="a", partitions=partitions)])
    assert errors_by_topic(
        ApiKey.OFFSET_COMMIT, version, encode_response(answer, ApiKey.OFFSET_COMMIT, version, 1)
    ) == {"a": DENIED}


def test_what_is_cut_off_or_too_large_or_broken_tells_nothing() -> None:
    answer = produced(9, ("a", DENIED))
    for end in range(len(answer)):
        assert errors_by_topic(ApiKey.PRODUCE, 9, answer[:end]) == {}
    many = produced(9, *((f"t{index}", DENIED) for index in range(1_000)))
    assert len(many) > MOST_BYTES
    assert errors_by_topic(ApiKey.PRODUCE, 9, many) == {}
    for key in LOOKED_AT:
        broken = struct.pack(">ii", 40, 1) + b"\xff" * 36
        assert errors_by_topic(key, APIS[ApiKey(key)].max_version, broken) == {}
