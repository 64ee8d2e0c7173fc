"""Headers: peeked and written as kio writes them, for every API and version; cut off or broken ones refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.static.primitive import i16, i32

from protocol.apis import APIS, ApiKey, is_flexible, request_header_version, response_header_version
from protocol.errors import IncompleteFrame, MalformedFrame, UnknownApi
from protocol.header import (
    encode_request_header,
    frame_request,
    frame_response,
    peek_request_header,
    response_body_offset,
)
from tests.unit.protocol import oracle

API_VERSIONS = [(api.key, v) for api in APIS.values() for v in range(api.min_version, api.max_version + 1)]
INT32 = st.integers(-(2**31), 2**31 - 1)
CLIENT_ID = st.one_of(st.none(), st.text(max_size=100))


@given(st.sampled_from(API_VERSIONS), INT32, CLIENT_ID, st.binary(max_size=5), st.binary(max_size=5))
def test_request_headers_are_kios(
    api: tuple[int, int], correlation_id: int, client_id: str | None, before: bytes, after: bytes
) -> None:
    key, version = api
    schema = oracle.entity(key, version, "request").__header_schema__
    theirs = oracle.encode(
        schema(
            request_api_key=i16(key),
            request_api_version=i16(version),
            correlation_id=i32(correlation_id),
            client_id=client_id,
        )
    )
    ours = encode_request_header(key, version, correlation_id, client_id)
    assert ours == theirs
    peeked = peek_request_header(before + theirs + after, len(before))
    assert peeked == (key, version, correlation_id, client_id, len(before) + len(theirs))
    assert peek_request_header(memoryview(theirs)).body_offset == len(theirs)


@pytest.mark.parametrize(("key", "version"), API_VERSIONS)
def test_header_versions_are_kios(key: int, version: int) -> None:
    request = oracle.entity(key, version, "request")
    assert request_header_version(key, version) == request.__header_schema__.__version__
    assert is_flexible(key, version) == request.__flexible__
    response = oracle.entity(key, version, "response").__header_schema__
    assert response_header_version(key, version) == response.__version__
    body = b"body"
    framed = frame_response(key, version, 7, body)
    assert framed == len(framed[4:]).to_bytes(4, "big") + oracle.encode(response(correlation_id=i32(7))) + body
    assert framed[4 + response_body_offset(key, version, framed[4:]) :] == body
    assert int.from_bytes(framed[4:8], "big") == 7


def test_unknown_tagged_fields_of_a_header_are_stepped_over() -> None:
    header = encode_request_header(ApiKey.METADATA, 12, 1, "c")[:-1] + b"\x02\x00\x03abc\x85\x01\x00"
    assert peek_request_header(header + b"body").body_offset == len(header)
    assert response_body_offset(ApiKey.METADATA, 12, b"\0\0\0\1\x01\x05\x02xy!") == 9


@given(st.sampled_from(API_VERSIONS), CLIENT_ID)
def test_a_cut_off_header_is_incomplete(api: tuple[int, int], client_id: str | None) -> None:
    header = encode_request_header(*api, 1, client_id)
    for end in range(len(header)):
        with pytest.raises(IncompleteFrame):
            peek_request_header(header[:end])


@pytest.mark.parametrize(("key", "version"), [(4, 0), (999, 0), (-1, 0), (ApiKey.PRODUCE, -1), (52, 1), (58, 0)])
def test_keys_no_client_may_use_are_unknown(key: int, version: int) -> None:
    head = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True) + b"\0\0\0\1\xff\xff"
    with pytest.raises(UnknownApi):
        peek_request_header(head)


def test_a_version_from_the_future_can_be_peeked_at() -> None:
    header = encode_request_header(ApiKey.API_VERSIONS, 127, 5, "new")
    assert peek_request_header(header)[:4] == (18, 127, 5, "new")


def test_a_client_id_of_negative_length_is_malformed() -> None:
    with pytest.raises(MalformedFrame):
        peek_request_header(b"\0\x03\0\x01\0\0\0\1\xff\xfe")


def test_a_client_id_that_is_no_utf8_is_replaced_as_java_does() -> None:
    assert peek_request_header(b"\0\x03\0\x01\0\0\0\1\0\x02a\xff").client_id == "a\ufffd"


@pytest.mark.parametrize("other", [b"GET / HTTP/1.1\r\nHost: x\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"])
def test_other_protocols_are_refused(other: bytes) -> None:
    with pytest.raises(MalformedFrame):
        peek_request_header(other)


@given(st.binary(max_size=200))
def test_random_bytes_never_raise_anything_else(data: bytes) -> None:
    try:
        header = peek_request_header(data)
    except MalformedFrame:
        return
    assert 10 <= header.body_offset <= len(data)


def test_frame_request_has_the_size_of_header_and_body() -> None:
    framed = frame_request(ApiKey.HEARTBEAT, 4, 9, "me", b"body")
    assert int.from_bytes(framed[:4], "big") == len(framed) - 4
    assert framed[peek_request_header(framed, 4).body_offset :] == b"body"


def test_a_short_response_is_incomplete() -> None:
    with pytest.raises(IncompleteFrame):
        response_body_offset(ApiKey.PRODUCE, 3, b"\0\0")
    with pytest.raises(IncompleteFrame):
        response_body_offset(ApiKey.PRODUCE, 9, b"\0\0\0\1")
