"""An answer that says what was known is not read; whatever else it says is."""

from __future__ import annotations

import pytest

from protocol.asked_again import AnswerDigest, DescribeConfigsAgain, MetadataAgain
from protocol.codec import encode_body
from protocol.errors import MalformedFrame
from protocol.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    MetadataRequest,
    MetadataResponse,
)


def configs(retention: str, throttle_ms: int = 0) -> bytes:
    result = DescribeConfigsResponse.DescribeConfigsResult
    entry = result.DescribeConfigsResourceResult(
        name="retention.ms", value=retention, read_only=False, config_source=1, is_sensitive=False, synonyms=[]
    )
    found = result(error_code=0, error_message=None, resource_type=2, resource_name="t", configs=[entry])
    return encode_body(DescribeConfigsResponse(throttle_time_ms=throttle_ms, results=[found]), 4)


def ask(known: bytes, body: bytes, version: int = 4) -> AnswerDigest:
    return DescribeConfigsAgain(DescribeConfigsRequest(resources=[]), known).decode(body, version)


def value(told: AnswerDigest) -> str:
    """Of the one config of the one topic."""
    assert told.message is not None
    return str(told.message.results[0].configs[0].value)


def test_what_is_known_is_not_read_again() -> None:
    first = ask(b"", configs("5"))
    assert value(first) == "5"
    assert ask(first.digest, configs("5")) == AnswerDigest(None, first.digest)
    assert ask(first.digest, configs("5", throttle_ms=7)).message is None, "how long a broker waits says nothing of it"
    other = ask(first.digest, configs("6"))
    assert value(other) == "6"
    assert ask(other.digest, configs("5")).message is not None


def test_the_same_bytes_are_another_answer_in_another_version() -> None:
    body = encode_body(DescribeConfigsResponse(throttle_time_ms=0, results=[]), 1)
    digest = ask(b"", body, 1).digest
    assert ask(digest, body, 1).message is None
    assert ask(digest, body, 2).message is not None


@pytest.mark.parametrize(("version", "is_throttled"), [(1, False), (2, False), (3, True), (9, True)])
def test_of_metadata_an_old_answer_begins_with_what_it_says(version: int, is_throttled: bool) -> None:
    broker = MetadataResponse.MetadataResponseBroker(node_id=1, host="h", port=1, rack=None)
    told = MetadataResponse(throttle_time_ms=0, brokers=[broker], cluster_id="c", controller_id=1, topics=[])
    body = encode_body(told, version)
    digest = MetadataAgain(MetadataRequest(topics=None), b"").decode(body, version).digest
    assert MetadataAgain(MetadataRequest(topics=None), digest).decode(body, version).message is None
    changed = b"\0\0\0\7" + body[4:]
    if is_throttled:
        assert MetadataAgain(MetadataRequest(topics=None), digest).decode(changed, version).message is None
    else:  # seven brokers, which it does not have
        with pytest.raises(MalformedFrame):
            MetadataAgain(MetadataRequest(topics=None), digest).decode(changed, version)


def test_it_asks_what_the_message_asks() -> None:
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    assert MetadataAgain(request, b"").encode(9) == encode_body(request, 9)
