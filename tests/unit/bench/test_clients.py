"""The raw requests are what Kafka's codecs read, and pyperf's file is read right."""

from __future__ import annotations

from bench.clients import raw
from bench.micro_report import read_micro
from protocol.apis import ApiKey
from protocol.batch.header import crc_is_valid, iter_batches
from protocol.codec import decode_request
from protocol.header import peek_request_header
from protocol.produce import scan_request


def body_of(frame: bytes, key: ApiKey) -> tuple[int, bytes]:
    header = peek_request_header(frame, 4)
    assert header.api_key == key
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    return header.api_version, frame[header.body_offset :]


def test_a_produce_has_one_whole_batch() -> None:
    version, body = body_of(raw.produce("topic", 3, b"x" * 100), ApiKey.PRODUCE)
    view = scan_request(body, version)
    ((topic, partition, start, end),) = view.parts
    assert (topic, partition, view.acks) == ("topic", 3, -1)
    ((header, batch),) = iter_batches(memoryview(body)[start:end])
    assert header.count == 1
    assert crc_is_valid(batch, header)
    assert bytes(batch).endswith(b"x" * 100 + b"\x00")


def test_a_member_asks_to_join_with_its_subscription() -> None:
    version, body = body_of(raw.join_group("group", "topic"), ApiKey.JOIN_GROUP)
    request = decode_request(int(ApiKey.JOIN_GROUP), version, body)
    assert (request.group_id, request.member_id) == ("group", "")
    assert b"topic" in bytes(request.protocols[0].metadata)


def test_metadata_is_asked_for_all_topics() -> None:
    version, body = body_of(raw.all_metadata(), ApiKey.METADATA)
    assert decode_request(int(ApiKey.METADATA), version, body).topics is None


def test_the_medians_of_a_pyperf_suite() -> None:
    def benchmark(name: str, *values: float) -> dict[str, object]:
        return {"metadata": {"name": name}, "runs": [{"values": [value]} for value in values]}

    suite = {"benchmarks": [benchmark("framing x1", 1e-6, 3e-6, 2e-6), benchmark("framing x16", 32e-6)]}
    assert read_micro(suite) == {"framing": {1: 2000.0, 16: 32000.0}}
