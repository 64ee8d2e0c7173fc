"""Metadata requests and responses read by position, against the codec and kio."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.apis import ApiKey
from protocol.codec import decode_request, decode_response, encode_body
from protocol.errors import MalformedFrame
from protocol.messages import MetadataRequest, MetadataResponse
from protocol.metadata import (
    MAX_TOPICS,
    answer_in_version,
    auto_create_offset,
    metadata_request_topics,
    unknown_topics,
    without_auto_create,
)
from tests.unit.protocol import oracle

KEY = ApiKey.METADATA
VERSIONS = range(14)


@pytest.mark.parametrize("version", VERSIONS)
@oracle.PER_VERSION
@given(data=st.data())
def test_names_and_flag_of_a_request(version: int, data: st.DataObject) -> None:
    body = oracle.encode(data.draw(oracle.instances(KEY, version, "request")))
    message = decode_request(KEY, version, body)
    names, allowed = metadata_request_topics(body, version)
    assert allowed is (message.allow_auto_topic_creation if version >= 4 else True)
    if message.topics is None or (version == 0 and not message.topics):
        assert names is None
    else:
        assert names == [topic.name for topic in message.topics if topic.name is not None]


@pytest.mark.parametrize("version", VERSIONS)
@oracle.PER_VERSION
@given(data=st.data())
def test_a_request_without_auto_creation_asks_the_same(version: int, data: st.DataObject) -> None:
    body = oracle.encode(data.draw(oracle.instances(KEY, version, "request")))
    names, _ = metadata_request_topics(body, version)
    asked, in_version = without_auto_create(body, version)
    assert in_version == max(version, 4)
    assert metadata_request_topics(asked, in_version) == (names, False)
    expected = decode_request(KEY, version, body)
    expected.allow_auto_topic_creation = False
    if names is None:
        expected.topics = None
    assert asked == encode_body(expected, in_version)


@pytest.mark.parametrize("version", VERSIONS)
@oracle.PER_VERSION
@given(data=st.data())
def test_unknown_topics_of_a_response(version: int, data: st.DataObject) -> None:
    body = oracle.encode(data.draw(oracle.instances(KEY, version, "response")))
    message = decode_response(KEY, version, body)
    for index, topic in enumerate(message.topics):
        topic.error_code = 3 if index % 2 else 5
    body = encode_body(message, version)
    expected = [t.name for t in message.topics if t.error_code == 3 and t.name is not None]
    assert unknown_topics(body, version) == expected
    assert unknown_topics(memoryview(body), version) == expected


@pytest.mark.parametrize("wanted", range(4))
@oracle.PER_VERSION
@given(data=st.data())
def test_an_answer_goes_back_to_an_old_version(wanted: int, data: st.DataObject) -> None:
    body = oracle.encode(data.draw(oracle.instances(KEY, 4, "response")))
    old = answer_in_version(body, 4, wanted)
    theirs = oracle.decode(oracle.entity(KEY, wanted, "response"), bytes(old))
    message = decode_response(KEY, 4, body)
    assert [(b.node_id, b.host, b.port) for b in theirs.brokers] == [
        (b.node_id, b.host, b.port) for b in message.brokers
    ]
    assert [(t.name, int(t.error_code), len(t.partitions)) for t in theirs.topics] == [
        (t.name, t.error_code, len(t.partitions)) for t in message.topics
    ]


def test_an_answer_of_the_version_wanted_is_left_alone() -> None:
    body = encode_body(MetadataResponse(brokers=[], topics=[]), 9)
    assert answer_in_version(body, 9, 9) is body


@pytest.mark.parametrize("version", VERSIONS)
@oracle.PER_VERSION
@given(data=st.data())
def test_broken_bodies_raise_nothing_else(version: int, data: st.DataObject) -> None:
    for kind, parsers in (
        ("request", (metadata_request_topics, auto_create_offset, without_auto_create)),
        ("response", (unknown_topics,)),
    ):
        body = oracle.encode(data.draw(oracle.instances(KEY, version, kind)))
        for parse in parsers:
            oracle.only_malformed(parse, data.draw(oracle.mutations(body)), version)


@pytest.mark.parametrize("version", [1, 9])
def test_a_request_for_too_many_topics_is_refused(version: int) -> None:
    topic = MetadataRequest.MetadataRequestTopic(name="")
    body = encode_body(MetadataRequest(topics=[topic] * (MAX_TOPICS + 1)), version)
    with pytest.raises(MalformedFrame, match="more than"):
        metadata_request_topics(body, version)


def test_a_request_cut_off_before_the_flag_is_malformed() -> None:
    with pytest.raises(MalformedFrame):
        metadata_request_topics(b"\xff\xff\xff\xff", 4)
    with pytest.raises(MalformedFrame):
        without_auto_create(b"\xff\xff\xff\xff", 4)
