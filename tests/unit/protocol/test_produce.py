"""Produce: what is scanned and built is what kio decodes and encodes, in every version."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.codec import decode_request, decode_response, encode_body
from protocol.errors import IncompleteFrame, MalformedFrame
from protocol.messages import ProduceRequest, ProduceResponse
from protocol.produce import (
    MAX_PARTS,
    PartitionResult,
    build_request_body,
    build_response_body,
    scan_answer,
    scan_request,
    scan_response,
    set_acks,
)
from protocol.wire import uvarint
from tests.unit.protocol import oracle

VERSIONS = range(3, 12)
KEY = 0
VERSION = st.sampled_from(VERSIONS)
INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
NAME = st.text(max_size=20)
TOPICS = st.dictionaries(NAME, st.lists(st.tuples(INT32, st.binary(max_size=100)), max_size=4), max_size=4)


@given(VERSION, st.data())
def test_requests_are_scanned_as_kio_encodes_them(version: int, data: st.DataObject) -> None:
    theirs = data.draw(oracle.instances(KEY, version, "request"))
    body = oracle.encode(theirs)
    view = scan_request(body, version)
    assert view[:3] == (
        theirs.transactional_id,
        theirs.acks,
        round(theirs.timeout.total_seconds() * 1000),
    )
    expected = [(t.name, p.index, p.records or b"") for t in theirs.topic_data for p in t.partition_data]
    assert [(t, p, body[start:end]) for t, p, start, end in view.parts] == expected
    assert scan_request(memoryview(body), version) == view


@given(VERSION, st.one_of(st.none(), NAME), INT16, INT32, TOPICS)
def test_requests_are_built_as_kio_reads_them(
    version: int, transactional_id: str | None, acks: int, timeout_ms: int, topics: dict[str, list[tuple[int, bytes]]]
) -> None:
    pieces = build_request_body(version, transactional_id, acks, timeout_ms, topics)
    body = b"".join(pieces)
    read = decode_request(KEY, version, body)
    assert encode_body(read, version) == body
    assert (read.transactional_id, read.acks, read.timeout_ms) == (transactional_id, acks, timeout_ms)
    assert {t.name: [(p.index, p.records) for p in t.partition_data] for t in read.topic_data} == topics
    theirs = oracle.decode(oracle.entity(KEY, version, "request"), body)
    assert [(p.index, p.records or b"") for t in theirs.topic_data for p in t.partition_data] == [
        part for parts in topics.values() for part in parts
    ]
    assert oracle.encode(theirs) == body
    flat = [(topic, index, records) for topic, parts in topics.items() for index, records in parts]
    assert [(t, p, body[start:end]) for t, p, start, end in scan_request(body, version).parts] == flat


def test_record_buffers_are_not_copied() -> None:
    records = memoryview(bytes(100))
    pieces = build_request_body(9, None, -1, 1000, {"t": [(0, records), (1, records)]})
    assert sum(piece is records for piece in pieces) == 2


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("transactional_id", [None, "", "t" * 200])
def test_acks_are_set_in_place(version: int, transactional_id: str | None) -> None:
    message = ProduceRequest(transactional_id=transactional_id, acks=0, timeout_ms=5, topic_data=[])
    body = bytearray(encode_body(message, version))
    set_acks(body, version, 1)
    read = decode_request(KEY, version, body)
    assert (read.transactional_id, read.acks, read.timeout_ms) == (transactional_id, 1, 5)
    framed = bytearray(b"head" + body)
    set_acks(memoryview(framed)[4:], version, -1)
    assert decode_request(KEY, version, framed[4:]).acks == -1


@pytest.mark.parametrize("version", VERSIONS)
def test_acks_of_a_cut_off_body_are_not_set(version: int) -> None:
    body = encode_body(ProduceRequest(transactional_id="x" * 200, acks=1, timeout_ms=5, topic_data=[]), version)
    with pytest.raises(IncompleteFrame):
        set_acks(bytearray(body[:100]), version, 1)


RESULT = st.builds(
    PartitionResult,
    NAME,
    INT32,
    INT16,
    INT64,
    INT64,
    INT64,
    st.one_of(st.none(), NAME),
    st.lists(st.tuples(INT32, st.one_of(st.none(), NAME)), max_size=3).map(tuple),
)


def _in_version(result: PartitionResult, version: int) -> PartitionResult:
    if version < 8:
        result = result._replace(error_message=None, record_errors=())
    return result._replace(log_start_offset=-1) if version < 5 else result


@given(VERSION, st.lists(RESULT, max_size=6), INT32)
def test_responses(version: int, results: list[PartitionResult], throttle_ms: int) -> None:
    body = build_response_body(version, results, throttle_ms)
    read = decode_response(KEY, version, body)
    assert encode_body(read, version) == body
    assert read.throttle_time_ms == throttle_ms
    topics = list(dict.fromkeys(result.topic for result in results))
    assert [topic.name for topic in read.responses] == topics  # one entry per topic
    expected = [_in_version(r, version) for topic in topics for r in results if r.topic == topic]
    assert scan_response(body, version) == expected
    assert scan_response(memoryview(body), version) == expected


@given(VERSION, st.data())
def test_responses_are_scanned_as_kio_encodes_them(version: int, data: st.DataObject) -> None:
    theirs = data.draw(oracle.instances(KEY, version, "response"))
    scanned = scan_response(oracle.encode(theirs), version)
    throttle_ms = int(theirs.throttle_time.total_seconds() * 1000)
    assert abs(scan_answer(oracle.encode(theirs), version)[1] - throttle_ms) <= 1
    assert [r[:4] for r in scanned] == [
        (t.name, p.index, int(p.error_code), p.base_offset) for t in theirs.responses for p in t.partition_responses
    ]
    # What is built again says the same, without the tagged fields.
    again = oracle.decode(oracle.entity(KEY, version, "response"), build_response_body(version, scanned))
    assert not getattr(again, "node_endpoints", ())
    assert scan_response(oracle.encode(again), version) == [
        r for t in dict.fromkeys(r.topic for r in scanned) for r in scanned if r.topic == t
    ]


def test_node_endpoints_do_not_survive_a_rebuild() -> None:
    topic = ProduceResponse.TopicProduceResponse
    part = topic.PartitionProduceResponse
    response = ProduceResponse(
        responses=[
            topic(
                name="t",
                partition_responses=[part(index=0, error_code=6, current_leader=part.LeaderIdAndEpoch(leader_id=3))],
            )
        ],
        node_endpoints=[ProduceResponse.NodeEndpoint(node_id=3, host="secret", port=1)],
    )
    body = encode_body(response, 11)
    assert b"secret" in body
    assert b"secret" not in build_response_body(11, scan_response(body, 11))


def _valid(version: int) -> bytes:
    return b"".join(build_request_body(version, "tx", -1, 100, {"one": [(0, b"a" * 70), (1, b"")], "two": [(5, b"b")]}))


@pytest.mark.parametrize("version", VERSIONS)
def test_truncated_bodies_are_malformed(version: int) -> None:
    request = _valid(version)
    for end in range(len(request)):
        with pytest.raises(MalformedFrame):
            scan_request(request[:end], version)
    response = build_response_body(version, [PartitionResult("t", 0, 0, 1, 2, 3, "m", ((1, "x"),))])
    for end in range(len(response) - 1):  # after that only the tagged fields are missing
        with pytest.raises(MalformedFrame):
            scan_response(response[:end], version)


@given(VERSION, st.data())
def test_broken_bodies_raise_nothing_else(version: int, data: st.DataObject) -> None:
    body = data.draw(st.one_of(st.binary(max_size=300), oracle.mutations(_valid(version))))
    for parse in (scan_request, scan_response):
        oracle.only_malformed(parse, body, version)


@pytest.mark.parametrize("count", [2**31 - 1, -2, 1_000_000])
def test_counts_that_cannot_be_are_refused_without_allocating(count: int) -> None:
    classic = b"\xff\xff" + b"\xff\xff\0\0\0\1" + count.to_bytes(4, "big", signed=True) + b"x" * 20
    with pytest.raises(MalformedFrame):
        scan_request(classic, 3)
    with pytest.raises(MalformedFrame):
        scan_request(b"\x00" + b"\xff\xff\0\0\0\1" + uvarint(count & 0xFFFFFFFF) + b"x" * 20, 9)


@pytest.mark.parametrize("version", [3, 9])
def test_the_number_of_partitions_is_bounded(version: int) -> None:
    parts: Any = [(0, b"")] * (MAX_PARTS + 1)
    with pytest.raises(MalformedFrame, match="partitions"):
        scan_request(b"".join(build_request_body(version, None, 1, 1, {"t": parts})), version)
    assert (
        len(scan_request(b"".join(build_request_body(version, None, 1, 1, {"t": parts[1:]})), version).parts)
        == MAX_PARTS
    )


@pytest.mark.parametrize("version", [3, 9])
def test_a_null_topic_is_malformed(version: int) -> None:
    body = b"".join(build_request_body(version, None, 1, 1, {"": [(0, b"x")]}))
    null = (
        body.replace(b"\x02\x01\x02", b"\x02\x00\x02")
        if version == 9
        else body.replace(b"\1\0\0\0\0\0\1", b"\1\xff\xff\0\0\0\1")
    )
    assert null != body
    with pytest.raises(MalformedFrame, match="null"):
        scan_request(null, version)


@pytest.mark.parametrize("version", [3, 9])
def test_the_number_of_topics_is_bounded(version: int) -> None:
    names: Any = {f"{number}": [] for number in range(MAX_PARTS + 1)}
    with pytest.raises(MalformedFrame, match="topics"):
        scan_request(b"".join(build_request_body(version, None, 1, 1, names)), version)
