"""Fields at the start of a body (acks are tested with Produce)."""

import pytest

from protocol.apis import ApiKey, is_flexible
from protocol.codec import encode_body
from protocol.errors import IncompleteFrame
from protocol.messages import ConsumerGroupHeartbeatRequest, HeartbeatRequest, JoinGroupRequest, OffsetCommitRequest
from protocol.peek import first_string
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
