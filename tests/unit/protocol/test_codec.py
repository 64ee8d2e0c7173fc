"""The codec against kio over every API and version, and against broken bytes."""

from __future__ import annotations

import time
import uuid

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka.protocol.api_message import ApiMessage

from protocol.apis import APIS, ApiKey
from protocol.codec import (
    MAX_REQUEST_BYTES,
    OLD_FORMS,
    consumer_group_heartbeat_error,
    decode_request,
    decode_response,
    encode_body,
    encode_request,
    encode_response,
)
from protocol.errors import ErrorCode, MalformedFrame, UnknownApi
from protocol.header import peek_request_header, response_body_offset
from protocol.messages import (
    REQUESTS,
    RESPONSES,
    ApiVersionsResponse,
    ConsumerGroupHeartbeatRequest,
    FetchResponse,
    JoinGroupRequest,
    MetadataRequest,
    MetadataResponse,
    OffsetFetchResponse,
    SaslAuthenticateRequest,
)
from protocol.wire import uvarint
from tests.unit.protocol import oracle

KEYS = sorted(REQUESTS)
MANY_VERSIONS = settings(max_examples=oracle.examples(15), suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("key", KEYS, ids=lambda key: APIS[key].name)
@MANY_VERSIONS
@given(data=st.data())
def test_requests_go_there_and_back_as_kio_encodes_them(key: int, data: st.DataObject) -> None:
    for version in oracle.versions(key, "request"):
        theirs = oracle.encode(data.draw(oracle.instances(key, version, "request")))
        assert encode_body(decode_request(key, version, theirs), version) == theirs
        assert encode_body(decode_request(key, version, memoryview(theirs)), version) == theirs


@pytest.mark.parametrize("key", KEYS, ids=lambda key: APIS[key].name)
@MANY_VERSIONS
@given(data=st.data())
def test_responses_go_there_and_back_as_kio_encodes_them(key: int, data: st.DataObject) -> None:
    for version in oracle.versions(key, "response"):
        theirs = data.draw(oracle.instances(key, version, "response"))
        if key == ApiKey.API_VERSIONS and theirs.error_code == ErrorCode.UNSUPPORTED_VERSION:
            continue  # always read as version 0
        encoded = oracle.encode(theirs)
        assert encode_body(decode_response(key, version, encoded), version) == encoded


@pytest.mark.parametrize("key", KEYS, ids=lambda key: APIS[key].name)
@MANY_VERSIONS
@given(data=st.data())
def test_broken_bytes_raise_nothing_but_malformed_frame(key: int, data: st.DataObject) -> None:
    for version in oracle.versions(key, "request"):
        request = oracle.encode(data.draw(oracle.instances(key, version, "request")))
        oracle.only_malformed(decode_request, key, version, data.draw(oracle.mutations(request)))
        oracle.only_malformed(decode_request, key, version, data.draw(st.binary(max_size=40)))
        response = oracle.encode(data.draw(oracle.instances(key, version, "response")))
        oracle.only_malformed(decode_response, key, version, data.draw(oracle.mutations(response)))


@pytest.mark.parametrize("key", KEYS, ids=lambda key: APIS[key].name)
@MANY_VERSIONS
@given(data=st.data())
def test_truncated_requests_are_malformed(key: int, data: st.DataObject) -> None:
    version = oracle.versions(key, "request")[-1]
    request = oracle.encode(data.draw(oracle.instances(key, version, "request")))
    if request:
        with pytest.raises(MalformedFrame):
            decode_request(key, version, request[: data.draw(st.integers(0, len(request) - 1))])


def test_bytes_after_the_message_are_ignored() -> None:
    body = encode_body(MetadataRequest(topics=None), 12)
    assert decode_request(ApiKey.METADATA, 12, body + b"more").topics is None


@pytest.mark.parametrize(
    ("key", "version", "body"),
    [
        (ApiKey.METADATA, 1, b"\x7f\xff\xff\xff"),
        (ApiKey.METADATA, 9, uvarint(2**32 - 1)),
        (ApiKey.METADATA, 9, b"\xff" * MAX_REQUEST_BYTES),
        (ApiKey.METADATA, 9, b"\xff\xff\xff\xff\x0f" + b"\x01\x00" * 1_000_000),
        (ApiKey.JOIN_GROUP, 9, uvarint(2**32 - 1) + b"x" * 100),
        (ApiKey.SASL_AUTHENTICATE, 0, b"\x7f\xff\xff\xff"),
        (ApiKey.OFFSET_FETCH, 8, b"\x02" + b"\x02g" + b"\xff\xff\xff\xff\x07"),
        (ApiKey.API_VERSIONS, 3, b"\x01\x01" + uvarint(2**32 - 1)),
        # A count of tags, each with a size of its own, to the end of a large body.
        (ApiKey.METADATA, 12, b"\x80\x80\x80\x02" + (bytes(16) + b"\x02t\x01\x00\x00") * 190_000),
    ],
)
def test_absurd_claims_are_refused_quickly(key: int, version: int, body: bytes) -> None:
    started = time.monotonic()
    with pytest.raises(MalformedFrame):
        decode_request(key, version, body)
    assert time.monotonic() - started < 3


def test_a_request_too_large_to_decode_is_refused() -> None:
    body = encode_body(SaslAuthenticateRequest(auth_bytes=bytes(1000)), 2)
    assert decode_request(ApiKey.SASL_AUTHENTICATE, 2, body, max_bytes=2000).auth_bytes == bytes(1000)
    with pytest.raises(MalformedFrame, match="at most 999"):
        decode_request(ApiKey.SASL_AUTHENTICATE, 2, body, max_bytes=999)


def test_the_number_of_elements_is_bounded_over_all_arrays() -> None:
    group = b"\x02g" + uvarint(100_001) + b"\x01\x01\x00" * 100_000 + b"\x00"
    assert len(decode_request(9, 8, b"\x02" + group + b"\x00\x00").groups[0].topics) == 100_000
    with pytest.raises(MalformedFrame, match="elements"):
        decode_request(9, 8, b"\x03" + group + group + b"\x00\x00")
    assert decode_request(9, 8, b"\x02" + group + b"\x00\x00").groups


@pytest.mark.parametrize(("key", "version"), [(999, 0), (ApiKey.METADATA, 14), (ApiKey.METADATA, -1), (82, 0)])
def test_unknown_apis(key: int, version: int) -> None:
    with pytest.raises(UnknownApi):
        decode_request(key, version, b"")
    with pytest.raises(UnknownApi):
        decode_response(key, version, b"")


def test_null_where_the_protocol_has_none_is_malformed() -> None:
    with pytest.raises(MalformedFrame, match="group_id is null"):
        decode_request(ApiKey.JOIN_GROUP, 0, b"\xff\xff" + bytes(50))
    with pytest.raises(MalformedFrame, match="topics is null"):
        decode_request(ApiKey.METADATA, 0, b"\xff\xff\xff\xff")


def test_text_that_is_no_utf8_is_malformed() -> None:
    with pytest.raises(MalformedFrame, match="UTF-8"):
        decode_request(ApiKey.METADATA, 1, b"\0\0\0\1\0\1\xff")


def test_unknown_tags_are_stepped_over_and_known_ones_read() -> None:
    body = encode_body(MetadataRequest(topics=[]), 12)
    tagged = body[:-1] + b"\x01\x63\x03abc"
    assert decode_request(ApiKey.METADATA, 12, tagged).topics == []
    part = FetchResponse.FetchableTopicResponse.PartitionData
    epoch = part.EpochEndOffset(epoch=3, end_offset=70)
    topic = FetchResponse.FetchableTopicResponse(topic="t", partitions=[part(diverging_epoch=epoch, records=None)])
    read = decode_response(ApiKey.FETCH, 12, encode_body(FetchResponse(responses=[topic]), 12))
    assert read.responses[0].partitions[0].diverging_epoch.end_offset == 70
    assert read.responses[0].partitions[0].records is None


@pytest.mark.parametrize("version", range(10))
def test_framed_requests(version: int) -> None:
    message = JoinGroupRequest(group_id="g", session_timeout_ms=1, member_id="", protocol_type="consumer", protocols=[])
    framed = encode_request(message, version, 77, "client")
    assert int.from_bytes(framed[:4], "big") == len(framed) - 4
    header = peek_request_header(framed, 4)
    assert header[:4] == (ApiKey.JOIN_GROUP, version, 77, "client")
    assert decode_request(header.api_key, header.api_version, framed[header.body_offset :]).group_id == "g"


@pytest.mark.parametrize("version", range(1, 11))
def test_framed_responses(version: int) -> None:
    framed = encode_response(OffsetFetchResponse(topics=[], groups=[], error_code=14), 9, version, 77)
    assert framed[:8] == (len(framed) - 4).to_bytes(4, "big") + (77).to_bytes(4, "big")
    body = framed[4:][response_body_offset(9, version, framed[4:]) :]
    assert decode_response(9, version, body).error_code == (14 if 2 <= version <= 7 else 0)


@pytest.mark.parametrize("version", range(5))
def test_an_api_versions_response_has_the_old_header_and_a_refusal_is_version_0(version: int) -> None:
    framed = encode_response(ApiVersionsResponse(error_code=0, api_keys=[]), ApiKey.API_VERSIONS, version, 7)
    assert response_body_offset(ApiKey.API_VERSIONS, version, framed[4:]) == 4
    own = ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=2)
    refusal = encode_body(ApiVersionsResponse(error_code=35, api_keys=[own]), 0)
    assert decode_response(ApiKey.API_VERSIONS, version, refusal).api_keys[0].max_version == 2


@pytest.mark.parametrize("version", [0, 1])
def test_a_heartbeat_error(version: int) -> None:
    framed = consumer_group_heartbeat_error(version, 9, 14)
    theirs = oracle.decode(oracle.entity(68, version, "response"), framed[9:])
    assert theirs.error_code == 14
    assert theirs.assignment is None
    assert framed[:9] == (len(framed) - 4).to_bytes(4, "big") + b"\0\0\0\x09\0"


def test_a_heartbeat_that_changes_nothing_has_nulls() -> None:
    message = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=4)
    theirs = oracle.decode(oracle.entity(68, 1, "request"), encode_body(message, 1))
    assert (theirs.subscribed_topic_names, theirs.topic_partitions, theirs.rack_id) == (None, None, None)


def test_authorized_operations_are_the_protocols_own_field() -> None:
    topic = MetadataResponse.MetadataResponseTopic(name="t", topic_id=uuid.UUID(int=5), topic_authorized_operations=16)
    read = decode_response(3, 12, encode_body(MetadataResponse(topics=[topic], brokers=[]), 12))
    assert read.topics[0].topic_authorized_operations == 16


def test_every_class_is_found_by_its_key() -> None:
    assert set(REQUESTS) == set(RESPONSES)
    assert set(REQUESTS) <= set(APIS)
    for key in REQUESTS:
        assert REQUESTS[key].__name__ == APIS[key].name + "Request"
        assert RESPONSES[key].__name__ == APIS[key].name + "Response"
        assert REQUESTS[key].max_version == APIS[key].max_version


@pytest.mark.parametrize("key", KEYS, ids=lambda key: APIS[key].name)
@MANY_VERSIONS
@given(data=st.data())
def test_bodies_are_those_that_the_messages_own_encoders_write(key: int, data: st.DataObject) -> None:
    for kind, decode in (("request", decode_request), ("response", decode_response)):
        for version in oracle.versions(key, kind):
            theirs = data.draw(oracle.instances(key, version, kind))
            if kind == "response" and key == ApiKey.API_VERSIONS and theirs.error_code == ErrorCode.UNSUPPORTED_VERSION:
                continue  # told in version 0, whatever was asked
            message = decode(key, version, oracle.encode(theirs))
            wanted = bytes(message.encode(version=message.API_VERSION))
            assert encode_body(message, message.API_VERSION) == wanted


@pytest.mark.parametrize("key", KEYS, ids=lambda key: APIS[key].name)
def test_messages_that_say_nothing_are_written_with_the_defaults_of_the_schema(key: int) -> None:
    for kind, classes in (("request", REQUESTS), ("response", RESPONSES)):
        for version in oracle.versions(key, kind):
            message = classes[key](version=version)
            assert encode_body(message, version) == bytes(message.encode(version=version))


def test_classes_with_encoders_of_their_own_are_known() -> None:
    own = {each for each in (*REQUESTS.values(), *RESPONSES.values()) if each.encode is not ApiMessage.encode}
    assert own == set(OLD_FORMS)
