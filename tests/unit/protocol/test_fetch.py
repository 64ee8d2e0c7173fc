"""Fetch: what is scanned and built is what kio encodes and decodes, in every version."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.codec import decode_request, encode_body
from protocol.errors import MalformedFrame
from protocol.fetch import (
    MAX_PARTS,
    FetchPartition,
    FetchSessionId,
    Topic,
    build_request_body,
    peek_errors,
    scan_response,
)
from protocol.messages import FetchResponse
from protocol.wire import uvarint
from tests.unit.protocol import oracle

KEY = 1
VERSIONS = range(4, 16)
VERSION = st.sampled_from(VERSIONS)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
PARTITION = st.builds(FetchPartition, INT32, INT64, INT32, INT32, INT32)
NAME = st.text(max_size=20)
TOPIC_ID = st.uuids().map(lambda topic_id: topic_id.bytes)


def _topic(topic: Any, version: int) -> str | bytes:
    return topic.topic if version < 13 else (topic.topic_id.bytes if topic.topic_id else bytes(16))


@given(VERSION, st.data(), INT32, INT32, INT32, st.booleans(), st.builds(FetchSessionId, INT32, INT32), NAME)
def test_requests_are_built_as_kio_reads_them(
    version: int,
    data: st.DataObject,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    read_committed: bool,
    session: FetchSessionId,
    rack_id: str,
) -> None:
    names: st.SearchStrategy[Topic] = NAME if version < 13 else TOPIC_ID
    topics = data.draw(st.dictionaries(names, st.lists(PARTITION, max_size=3), max_size=3))
    forgotten = data.draw(st.dictionaries(names, st.lists(INT32, max_size=3), max_size=3))
    body = build_request_body(
        version,
        topics,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        read_committed=read_committed,
        session=session,
        forgotten=forgotten,
        rack_id=rack_id,
    )
    assert oracle.encode(oracle.decode(oracle.entity(KEY, version, "request"), body)) == body
    read = decode_request(KEY, version, body)
    assert encode_body(read, version) == body
    assert (read.max_wait_ms, read.min_bytes, read.max_bytes) == (max_wait_ms, min_bytes, max_bytes)
    assert (read.replica_id, read.isolation_level) == (-1, int(read_committed))
    assert (read.session_id, read.session_epoch) == (session if version >= 7 else (0, -1))
    assert read.rack_id == (rack_id if version >= 11 else "")
    expected = [(topic, _sent(part, version)) for topic, parts in topics.items() for part in parts]
    assert [(_topic(t, version), _read(p)) for t in read.topics for p in t.partitions] == expected
    if version >= 7:
        assert {_topic(t, version): t.partitions for t in read.forgotten_topics_data} == forgotten


def _sent(part: FetchPartition, version: int) -> tuple[int, ...]:
    leader_epoch = part.leader_epoch if version >= 9 else -1
    last_epoch = part.last_epoch if version >= 12 else -1
    return part.partition, leader_epoch, part.offset, last_epoch, -1, part.max_bytes


def _read(p: Any) -> tuple[int, ...]:
    return (
        p.partition, p.current_leader_epoch, p.fetch_offset, p.last_fetched_epoch, p.log_start_offset,
        p.partition_max_bytes,
    )  # fmt: skip


def test_topics_are_named_as_the_version_does() -> None:
    with pytest.raises(ValueError, match="16-byte id"):
        build_request_body(13, {"name": [FetchPartition(0, 0)]})
    with pytest.raises(ValueError, match="by name"):
        build_request_body(12, {bytes(16): [FetchPartition(0, 0)]})


def test_session_epochs_wrap_past_zero() -> None:
    assert FetchSessionId(5, 0).following == FetchSessionId(5, 1)
    assert FetchSessionId(5, 2**31 - 1).following == FetchSessionId(5, 1)


@given(VERSION, st.data())
def test_responses_are_scanned_as_kio_encodes_them(version: int, data: st.DataObject) -> None:
    theirs = data.draw(oracle.instances(KEY, version, "response"))
    body = oracle.encode(theirs)
    view = scan_response(body, version)
    assert view.throttle_ms == round(theirs.throttle_time.total_seconds() * 1000)
    assert view.error_code == getattr(theirs, "error_code", 0)
    assert view.session_id == getattr(theirs, "session_id", 0)
    expected = [(topic, part) for topic in theirs.responses for part in topic.partitions]
    assert len(view.parts) == len(expected)
    for ours, (topic, part) in zip(view.parts, expected, strict=True):
        assert ours.topic == _topic(topic, version)
        assert (ours.partition, ours.error_code) == (part.partition_index, part.error_code)
        assert (ours.high_watermark, ours.last_stable_offset) == (part.high_watermark, part.last_stable_offset)
        assert ours.log_start_offset == getattr(part, "log_start_offset", -1)
        assert ours.preferred_read_replica == getattr(part, "preferred_read_replica", -1)
        assert ours.aborted == tuple((a.producer_id, a.first_offset) for a in part.aborted_transactions or ())
        assert bytes(ours.records) == bytes(part.records or b"")
        _check_tags(ours, part)


def _check_tags(ours: Any, part: Any) -> None:
    """kio leaves out a tagged field that equals its default, so that None and the default are the same."""
    diverging = getattr(part, "diverging_epoch", None)
    given = None if diverging is None else (diverging.epoch, diverging.end_offset)
    assert (ours.diverging or (-1, -1)) == (given or (-1, -1))
    leader = getattr(part, "current_leader", None)
    given = None if leader is None else (leader.leader_id, leader.leader_epoch)
    assert (ours.current_leader or (-1, -1)) == (given or (-1, -1))


def test_records_are_slices_of_the_response() -> None:
    part = FetchResponse.FetchableTopicResponse.PartitionData
    topic = FetchResponse.FetchableTopicResponse(topic="t", partitions=[part(partition_index=1, records=b"r" * 90)])
    body = encode_body(FetchResponse(responses=[topic], session_id=4), 12)
    view = scan_response(body, 12)
    assert view.session_id == 4
    assert view.parts[0].records.obj is body
    assert bytes(view.parts[0].records) == b"r" * 90
    buffer = bytearray(body)
    assert scan_response(memoryview(buffer), 12).parts[0].records.obj is buffer


@pytest.mark.parametrize("version", VERSIONS)
@oracle.PER_VERSION
@given(data=st.data())
def test_truncated_responses_are_malformed(version: int, data: st.DataObject) -> None:
    body = oracle.encode(data.draw(oracle.instances(KEY, version, "response")))
    tags = 1 if version >= 12 else 0  # the last section of tags is not read
    end = data.draw(st.integers(0, max(len(body) - 1 - tags, 0)))
    with pytest.raises(MalformedFrame):
        scan_response(body[:end], version)


@given(VERSION, st.data())
def test_errors_are_those_that_a_scan_finds_as_far_as_the_response_is_there(version: int, data: st.DataObject) -> None:
    body = oracle.encode(data.draw(oracle.instances(KEY, version, "response")))
    expected = [(part.topic, part.error_code) for part in scan_response(body, version).parts]
    assert peek_errors(body, version, 1_000) == expected
    assert peek_errors(body, version, 1) == expected[:1]
    cut = peek_errors(body[: data.draw(st.integers(0, len(body)))], version, 1_000)
    assert cut == expected[: len(cut)]
    peek_errors(data.draw(oracle.mutations(body)), version, 1_000)  # raises nothing
    peek_errors(data.draw(st.binary(max_size=200)), version, 1_000)


@given(VERSION, st.data())
def test_broken_responses_raise_nothing_else(version: int, data: st.DataObject) -> None:
    body = oracle.encode(data.draw(oracle.instances(KEY, version, "response")))
    oracle.only_malformed(scan_response, data.draw(oracle.mutations(body)), version)
    oracle.only_malformed(scan_response, data.draw(st.binary(max_size=200)), version)


@pytest.mark.parametrize("version", [4, 12])
def test_absurd_counts_are_refused(version: int) -> None:
    head = bytes(4 if version < 7 else 10)
    size = b"\x7f\xff\xff\xff" if version < 12 else b"\xff\xff\xff\xff\x07"
    with pytest.raises(MalformedFrame):
        scan_response(head + size + bytes(100), version)
    one_topic = b"\0\0\0\1\0\1t" if version < 12 else b"\x02\x02t"
    with pytest.raises(MalformedFrame):
        scan_response(head + one_topic + size + bytes(100), version)
    count = (MAX_PARTS + 1).to_bytes(4, "big") if version < 12 else uvarint(MAX_PARTS + 2)
    with pytest.raises(MalformedFrame, match="partitions"):
        scan_response(head + one_topic + count + bytes(MAX_PARTS + 1), version)
