"""Patches: a patched body says what a re-encoded one would, and differs from the original nowhere else."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.apis import ApiKey
from protocol.codec import decode_request, decode_response, encode_body
from protocol.errors import MalformedFrame
from protocol.messages import FindCoordinatorResponse, MetadataRequest, MetadataResponse
from protocol.patch import (
    patch_brokers,
    patch_init_producer_id_response,
    patch_metadata_request_auto_create,
    strip_node_endpoints,
)
from tests.unit.protocol import oracle

METADATA, COORDINATOR, CLUSTER = ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_CLUSTER
LISTS = [(key, v) for key in (METADATA, COORDINATOR, CLUSTER) for v in oracle.versions(key, "response")]


def gateway(node_id: int, host: str, port: int) -> tuple[str, int]:
    return f"gateway-for-{host}", (node_id ^ port) & 0xFFFF


def _nodes(key: int, version: int, message: Any) -> list[Any]:
    if key == COORDINATOR:
        return list(message.coordinators) if version >= 4 else [message]
    return list(message.brokers)


@pytest.mark.parametrize(("key", "version"), LISTS)
@oracle.PER_VERSION
@given(data=st.data())
def test_only_the_brokers_change(key: int, version: int, data: st.DataObject) -> None:
    body = oracle.encode(data.draw(oracle.instances(key, version, "response")))
    expected = decode_response(key, version, body)
    for node in _nodes(key, version, expected):
        node_id = node.broker_id if key == CLUSTER else node.node_id
        if node_id >= 0 and node.host:
            node.host, node.port = gateway(node_id, node.host, node.port)
    assert patch_brokers(key, version, body, gateway) == encode_body(expected, version)
    assert patch_brokers(key, version, memoryview(body), gateway) == encode_body(expected, version)
    assert patch_brokers(key, version, body, lambda _, host, port: (host, port)) == body


@pytest.mark.parametrize("length", [1, 125, 126, 127, 128, 20_000])
def test_coordinators_of_any_length(length: int) -> None:
    kind = FindCoordinatorResponse.Coordinator
    found = [
        kind(key="k" * length, node_id=1, host="h" * min(length, 200), port=9, error_code=0, error_message=None),
        kind(key="", node_id=-1, host="", port=-1, error_code=15, error_message="m" * length),
        kind(key="k", node_id=1, host="h" * min(length, 200), port=9, error_code=0, error_message=""),
    ]
    body = encode_body(FindCoordinatorResponse(coordinators=found), 6)
    for node in (found[0], found[2]):
        node.host, node.port = gateway(node.node_id, node.host, node.port)
    expected = encode_body(FindCoordinatorResponse(coordinators=found), 6)
    assert patch_brokers(COORDINATOR, 6, body, gateway) == expected


@pytest.mark.parametrize(("key", "version"), LISTS)
@oracle.PER_VERSION
@given(data=st.data())
def test_broken_bodies_raise_nothing_else(key: int, version: int, data: st.DataObject) -> None:
    body = oracle.encode(data.draw(oracle.instances(key, version, "response")))
    oracle.only_malformed(patch_brokers, key, version, data.draw(oracle.mutations(body)), gateway)
    oracle.only_malformed(patch_brokers, key, version, data.draw(st.binary(max_size=60)), gateway)


def test_other_apis_have_no_broker_list() -> None:
    with pytest.raises(ValueError, match="no broker list"):
        patch_brokers(ApiKey.HEARTBEAT, 0, b"", gateway)


def test_ten_thousand_partitions_cost_less_than_a_millisecond() -> None:
    topic = MetadataResponse.MetadataResponseTopic
    part = topic.MetadataResponsePartition
    parts = [
        part(partition_index=i, replica_nodes=[1, 2, 3], isr_nodes=[1, 2, 3], offline_replicas=[]) for i in range(100)
    ]
    broker = MetadataResponse.MetadataResponseBroker
    brokers = [broker(node_id=i, host=f"broker-{i}.example.com", port=9092) for i in range(6)]
    topics = [topic(name=f"topic-{i}", partitions=parts) for i in range(100)]
    body = encode_body(MetadataResponse(brokers=brokers, topics=topics, cluster_id="c"), 9)

    def seconds() -> float:
        started = time.perf_counter()
        patch_brokers(METADATA, 9, body, gateway)
        return time.perf_counter() - started

    assert min(seconds() for _ in range(20)) < 0.001


@given(st.sampled_from(oracle.versions(ApiKey.INIT_PRODUCER_ID, "response")), st.data())
def test_producer_ids_are_shifted_unless_there_is_none(version: int, data: st.DataObject) -> None:
    body = oracle.encode(data.draw(oracle.instances(ApiKey.INIT_PRODUCER_ID, version, "response")))
    before = decode_response(ApiKey.INIT_PRODUCER_ID, version, body)
    if before.producer_id >= 2**62:
        return
    after = decode_response(ApiKey.INIT_PRODUCER_ID, version, patch_init_producer_id_response(body, version, 2**49))
    if before.error_code or before.producer_id < 0:
        assert after == before
    else:
        assert after.producer_id == before.producer_id + 2**49
        after.producer_id = before.producer_id
        assert after == before
    with pytest.raises(MalformedFrame):
        patch_init_producer_id_response(body[:13], version, 1)


@pytest.mark.parametrize("version", range(4, 14))
@oracle.PER_VERSION
@given(data=st.data(), allow=st.booleans())
def test_auto_creation_is_set_and_nothing_else(version: int, data: st.DataObject, allow: bool) -> None:
    body = oracle.encode(data.draw(oracle.instances(METADATA, version, "request")))
    expected = decode_request(METADATA, version, body)
    expected.allow_auto_topic_creation = allow
    assert patch_metadata_request_auto_create(body, version, allow) == encode_body(expected, version)


@pytest.mark.parametrize("version", range(4))
def test_old_metadata_requests_cannot_forbid_auto_creation(version: int) -> None:
    body = encode_body(MetadataRequest(topics=[]), version)
    with pytest.raises(ValueError, match="auto-creation"):
        patch_metadata_request_auto_create(body, version, allow=False)


ENDPOINTS = [(ApiKey.PRODUCE, v) for v in range(3, 14)] + [(ApiKey.FETCH, v) for v in range(4, 19)]


@pytest.mark.parametrize(("key", "version"), ENDPOINTS)
@oracle.PER_VERSION
@given(data=st.data())
def test_node_endpoints_are_taken_out_and_nothing_else(key: int, version: int, data: st.DataObject) -> None:
    body = oracle.encode(data.draw(oracle.instances(key, version, "response")))
    expected = decode_response(key, version, body)
    had = bool(expected.node_endpoints)
    expected.node_endpoints = []
    stripped = strip_node_endpoints(key, version, body)
    assert bytes(stripped) == encode_body(expected, version)
    if not had:
        assert stripped is body


def test_other_tags_of_a_response_stay() -> None:
    # No topics, throttle time 0, two tags: node endpoints (an empty list) and an unknown one.
    body = b"\x01" + bytes(4) + b"\x02" + b"\x00\x01\x01" + b"\x07\x02hi"
    assert strip_node_endpoints(ApiKey.PRODUCE, 10, body) == b"\x01" + bytes(4) + b"\x01\x07\x02hi"


@pytest.mark.parametrize(("key", "version"), ENDPOINTS)
@oracle.PER_VERSION
@given(data=st.data())
def test_stripping_broken_bodies_raises_nothing_else(key: int, version: int, data: st.DataObject) -> None:
    body = oracle.encode(data.draw(oracle.instances(key, version, "response")))
    oracle.only_malformed(strip_node_endpoints, key, version, data.draw(oracle.mutations(body)))
