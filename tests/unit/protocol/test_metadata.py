"""Metadata requests and responses read by position, against the codec and kio."""

from __future__ import annotations

import time
from uuid import UUID

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
    without_topics,
)
from tests.unit.protocol import oracle

KEY = ApiKey.METADATA
OWN = b"__own"
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


LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
NAMES = st.builds(
    lambda before, own, behind: (before + own + behind) or "t",
    st.text(LETTERS, max_size=3),
    st.sampled_from(["", "__own"]),
    st.text(LETTERS, max_size=240) | st.integers(0, 240).map("x".__mul__),
)
CODES = st.sampled_from([0, 3, 5, 17, 29, 38, -1])


def answer(version: int, topics: list[tuple[str, int]], topic_id: bytes = b"x" * 16) -> bytes:
    """Of a broker: each topic with a partition."""
    kind = MetadataResponse.MetadataResponseTopic
    partition = kind.MetadataResponsePartition(
        error_code=0,
        partition_index=0,
        leader_id=1,
        leader_epoch=0,
        replica_nodes=[1],
        isr_nodes=[1],
        offline_replicas=[],
    )
    broker = MetadataResponse.MetadataResponseBroker(node_id=1, host="__own.example", port=9, rack="__own")
    found = [
        kind(error_code=code, name=name, topic_id=UUID(bytes=topic_id), is_internal=False, partitions=[partition])
        for name, code in topics
    ]
    return encode_body(
        MetadataResponse(throttle_time_ms=0, brokers=[broker], cluster_id="__own", controller_id=1, topics=found),
        version,
    )


@pytest.mark.parametrize("version", VERSIONS)
@oracle.PER_VERSION
@given(topics=st.lists(st.tuples(NAMES, CODES), max_size=5), topic_id=st.binary(min_size=16, max_size=16))
def test_an_answer_without_some_topics(version: int, topics: list[tuple[str, int]], topic_id: bytes) -> None:
    left = [(name, code) for name, code in topics if not name.startswith("__own")]
    body = answer(version, topics, topic_id)
    assert bytes(without_topics(body, version, OWN)) == answer(version, left, topic_id)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("before", ["", *"-09Az_"])
def test_a_name_in_another_ones_is_none(version: int, before: str) -> None:
    """Of each length: its own may pass for a code, its first letter for a length."""
    topics = [(f"{before}__own".ljust(length, "x"), 0) for length in range(6, 250)]
    body = answer(version, topics)
    assert bytes(without_topics(body, version, OWN)) == answer(version, topics if before else [])


def test_ten_thousand_topics_are_no_turn() -> None:
    body = answer(12, [*((f"orders-{number}", 0) for number in range(10_000)), ("__own", 0)])
    began = time.thread_time()
    without_topics(body, 12, OWN)
    assert time.thread_time() - began < 0.05
