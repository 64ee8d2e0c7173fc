"""Fields at the start of a body (acks are tested with Produce)."""

import pytest

from protocol.apis import ApiKey, is_flexible
from protocol.codec import encode_body
from protocol.errors import IncompleteFrame
from protocol.header import frame_request
from protocol.messages import ConsumerGroupHeartbeatRequest, HeartbeatRequest, JoinGroupRequest, OffsetCommitRequest
from protocol.peek import first_string, only_topic, plain_acks
from protocol.produce import build_request_body
from tests.unit.protocol import oracle


@pytest.mark.parametrize(
    "message",
    [
        JoinGroupRequest(group_id="my group", session_timeout_ms=1, member_id="m", protocol_type="consumer"),
        HeartbeatRequest(group_id="my group", generation_id=1, member_id="m"),
        OffsetCommitRequest(group_id="my group", topics=[]),
        ConsumerGroupHeartbeatRequest(group_id="my group", member_id="m", member_epoch=0),
    ],
    ids=lambda message: type(message).__name__,
)
def test_the_group_is_the_first_string(message: object) -> None:
    key = ApiKey(message.API_KEY)  # type: ignore[attr-defined]
    for version in oracle.versions(key):
        flexible = is_flexible(key, version)
        assert first_string(encode_body(message, version), flexible) == "my group"
        with pytest.raises(IncompleteFrame):
            first_string(encode_body(message, version)[:5], flexible)


def test_null() -> None:
    assert first_string(b"\xff\xff", flexible=False) is None
    assert first_string(b"\x00", flexible=True) is None


@pytest.mark.parametrize("version", [3, 8, 9, 11])
@pytest.mark.parametrize("topic", ["t", "a-topic-" * 30, "größe"])
@pytest.mark.parametrize("client_id", ["", None, "a client"])
def test_the_topic_of_a_plain_produce(version: int, topic: str, client_id: str | None) -> None:
    body = b"".join(build_request_body(version, None, -1, 1000, {topic: [(3, b"records" * 9)]}))
    frame = frame_request(ApiKey.PRODUCE, version, 7, client_id, body)
    assert (plain_acks(frame, version), only_topic(frame, version)) == (-1, topic)
    assert (plain_acks(frame[4:], version, 8), only_topic(frame[4:], version, 8)) == (-1, topic)
    for cut in range(14, len(frame)):
        assert plain_acks(frame[:cut], version) in (None, -1)
        assert only_topic(frame[:cut], version) in (None, topic)


@pytest.mark.parametrize("version", [3, 8, 9, 11])
def test_a_produce_that_is_not_plain(version: int) -> None:
    two = b"".join(build_request_body(version, None, 1, 1000, {"a": [(0, b"r")], "b": [(0, b"r")]}))
    none = b"".join(build_request_body(version, None, 1, 1000, {}))
    for body in (two, none):
        frame = frame_request(ApiKey.PRODUCE, version, 7, "me", body)
        assert (plain_acks(frame, version), only_topic(frame, version)) == (1, None)
    transactional = b"".join(build_request_body(version, "tx", -1, 1000, {"a": [(0, b"r")]}))
    assert plain_acks(frame_request(ApiKey.PRODUCE, version, 7, "me", transactional), version) is None
