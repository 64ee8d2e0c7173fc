import struct
from functools import partial

import pytest

from gateway.kafka.connection.pipeline import Pipeline
from protocol.apis import ApiKey
from protocol.errors import MalformedFrame
from protocol.header import encode_request_header

FLEXIBLE, CLASSIC = 9, 8


def response(correlation_id: int, rest: bytes = b"") -> memoryview:
    return memoryview(struct.pack(">i", correlation_id) + rest)


def ignore(_: memoryview | None) -> None:
    pass


@pytest.mark.parametrize("version", [CLASSIC, FLEXIBLE])
def test_heads_are_those_of_the_protocol_package(version: int) -> None:
    pipeline = Pipeline("me")
    for correlation_id in range(3):
        header = encode_request_header(ApiKey.METADATA, version, correlation_id, "me")

        head = pipeline.head(ApiKey.METADATA, version, 100, ignore, 0.0)

        assert head == struct.pack(">i", len(header) + 100) + header


def test_responses_go_to_their_requests_in_order() -> None:
    pipeline, got = Pipeline("me"), list[tuple[str, bytes]]()

    def note(name: str, body: memoryview | None) -> None:
        got.append((name, bytes(body or b"")))

    for name in "abc":
        pipeline.head(ApiKey.PRODUCE, CLASSIC, 0, partial(note, name), 0.0)

    for correlation_id in range(3):
        on_response, body = pipeline.take(response(correlation_id, b"body %d" % correlation_id))
        on_response(body)

    assert got == [("a", b"body 0"), ("b", b"body 1"), ("c", b"body 2")]
    assert not pipeline.in_flight


def test_a_request_without_response_takes_a_number_and_waits_for_nothing() -> None:
    pipeline = Pipeline("me")
    pipeline.head(ApiKey.PRODUCE, CLASSIC, 0, None, 0.0)
    pipeline.head(ApiKey.PRODUCE, CLASSIC, 0, ignore, 0.0)

    assert [entry.correlation_id for entry in pipeline.in_flight] == [1]


@pytest.mark.parametrize("tags", [b"\0", b"\x01\x05\x02xy", b"\x02\x00\x00\x7f\x01z"])
def test_tagged_fields_of_the_response_header_are_not_body(tags: bytes) -> None:
    pipeline = Pipeline("me")
    pipeline.head(ApiKey.METADATA, FLEXIBLE, 0, ignore, 0.0)

    assert bytes(pipeline.take(response(0, tags + b"body"))[1]) == b"body"


def test_an_api_versions_response_has_no_tagged_header() -> None:
    pipeline = Pipeline("me")
    pipeline.head(ApiKey.API_VERSIONS, 4, 0, ignore, 0.0)

    assert bytes(pipeline.take(response(0, b"\0\0"))[1]) == b"\0\0"


@pytest.mark.parametrize("frame", [response(7), response(1), response(-1)])
def test_another_correlation_id_is_refused(frame: memoryview) -> None:
    pipeline = Pipeline("me")
    pipeline.head(ApiKey.METADATA, CLASSIC, 0, ignore, 0.0)

    with pytest.raises(MalformedFrame, match="in place of 0"):
        pipeline.take(frame)


def test_a_response_to_nothing_is_refused() -> None:
    with pytest.raises(MalformedFrame, match="nobody waits"):
        Pipeline("me").take(response(0))


@pytest.mark.parametrize("tags", [b"", b"\x01", b"\x01\x00\x09x", b"\xff\xff\xff\xff\xff\xff"])
def test_a_broken_response_header_is_refused(tags: bytes) -> None:
    pipeline = Pipeline("me")
    pipeline.head(ApiKey.METADATA, FLEXIBLE, 0, ignore, 0.0)

    with pytest.raises(MalformedFrame):
        pipeline.take(response(0, tags))


def test_correlation_ids_start_again_after_the_last() -> None:
    pipeline = Pipeline("me")
    pipeline._correlation_id = 0x7FFFFFFF
    pipeline.head(ApiKey.METADATA, CLASSIC, 0, ignore, 0.0)
    pipeline.head(ApiKey.METADATA, CLASSIC, 0, ignore, 0.0)

    assert [entry.correlation_id for entry in pipeline.in_flight] == [0x7FFFFFFF, 0]
