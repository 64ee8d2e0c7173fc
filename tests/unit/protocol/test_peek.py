"""Fields at the start of a body (acks are tested with Produce)."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.apis import ApiKey, is_flexible
from protocol.codec import decode_request, encode_body
from protocol.errors import IncompleteFrame, MalformedFrame
from protocol.fetch import FetchPartition
from protocol.fetch import build_request_body as build_fetch
from protocol.header import frame_request
from protocol.messages import ConsumerGroupHeartbeatRequest, HeartbeatRequest, JoinGroupRequest, OffsetCommitRequest
from protocol.peek import acks_without, fetches_others, first_string, plain_topic
from protocol.produce import build_request_body, scan_request
from tests.unit.protocol import oracle


@pytest.mark.parametrize(
    "message",
    [
        JoinGroupRequest(group_id="my group", session_timeout_ms=1, member_id="m", protocol_type="consumer"),
        HeartbeatRequest(group_id="my group", generation_id=1, member_id="m"),
        OffsetCommitRequest(group_id="my group", topics=[]),
        ConsumerGroupHeartbeatRequest(group_id="my group", member_id="m", member_epoch=0),
    ],
    ids=lambda message: type(message).__name__,
)
def test_the_group_is_the_first_string(message: object) -> None:
    key = ApiKey(message.API_KEY)  # type: ignore[attr-defined]
    for version in oracle.versions(key):
        flexible = is_flexible(key, version)
        assert first_string(encode_body(message, version), flexible) == "my group"
        with pytest.raises(IncompleteFrame):
            first_string(encode_body(message, version)[:5], flexible)


def test_null() -> None:
    assert first_string(b"\xff\xff", flexible=False) is None
    assert first_string(b"\x00", flexible=True) is None


@pytest.mark.parametrize("version", [3, 8, 9, 11])
@pytest.mark.parametrize("topic", ["t", "a-topic-" * 30, "größe"])
@pytest.mark.parametrize("client_id", ["", None, "a client"])
def test_the_topic_of_a_plain_produce(version: int, topic: str, client_id: str | None) -> None:
    body = b"".join(build_request_body(version, None, -1, 1000, {topic: [(3, b"records" * 9)]}))
    frame = frame_request(ApiKey.PRODUCE, version, 7, client_id, body)
    assert plain_topic(frame, version) == topic
    assert plain_topic(frame[4:], version, 8) == topic
    for cut in range(len(frame)):
        assert plain_topic(frame[:cut], version) in (None, topic)


@pytest.mark.parametrize("version", [3, 8, 9, 11])
def test_a_produce_that_is_not_plain(version: int) -> None:
    two = b"".join(build_request_body(version, None, 1, 1000, {"a": [(0, b"r")], "b": [(0, b"r")]}))
    none = b"".join(build_request_body(version, None, 1, 1000, {}))
    unanswered = b"".join(build_request_body(version, None, 0, 1000, {"a": [(0, b"r")]}))
    transactional = b"".join(build_request_body(version, "tx", -1, 1000, {"a": [(0, b"r")]}))
    nameless = b"".join(build_request_body(version, None, 1, 1000, {"": [(0, b"r")]}))
    for body in (two, none, unanswered, transactional, nameless):
        assert plain_topic(frame_request(ApiKey.PRODUCE, version, 7, "me", body), version) is None


OWN = b"__own"
NAMES = st.sampled_from(["t", "__own", "__own-more", "a__own", "__ow", "n" * 200])
PARTS = st.lists(st.tuples(st.integers(0, 9), st.sampled_from([b"", b"r" * 60, b"r" * 200, b"r" * 20_000])), max_size=3)


@given(
    st.sampled_from([3, 8, 9, 11]),
    st.sampled_from([None, "", "tx", "__own-tx", "t" * 200]),
    st.dictionaries(NAMES, PARTS, max_size=4),
    st.sampled_from([None, "", "me", "m" * 200]),
    st.booleans(),
)
def test_a_produce_that_names_nothing_with_a_prefix(
    version: int,
    transactional_id: str | None,
    topics: dict[str, list[tuple[int, bytes]]],
    client_id: str | None,
    far: bool,
) -> None:
    body = b"".join(build_request_body(version, transactional_id, 1, 1000, topics))
    frame = memoryview(frame_request(ApiKey.PRODUCE, version, 7, client_id, body))[4:]
    whole = len(frame) + (1 << 20 if far else 0)  # as if more of it were to come: then every name is visited
    named = any(name.startswith("__own") for name in (transactional_id or "", *topics))
    found = acks_without(OWN, frame, whole, version, 8)
    assert found in ((None,) if named else (1,) if far or "a__own" not in topics else (None, 1))
    for cut in range(0, len(frame), max(1, len(frame) // 50)):
        assert acks_without(OWN, frame[:cut], len(frame), version, 8) in (None, 1)


@pytest.mark.parametrize("version", [3, 9])
def test_a_produce_that_is_cut_off_within_its_names_takes_a_closer_look(version: int) -> None:
    body = b"".join(build_request_body(version, None, 1, 1000, {"a": [(0, b"r" * 90)], "__own": [(0, b"r" * 90)]}))
    frame = frame_request(ApiKey.PRODUCE, version, 7, "me", body)[4:]
    for cut in range(len(frame) + 1):
        assert acks_without(OWN, frame[:cut], 1 << 20, version, 8) is None


@given(st.sampled_from([3, 9]), st.data())
def test_bytes_from_anybody_name_nothing_with_the_prefix(version: int, data: st.DataObject) -> None:
    """What passes, a broker reads as this package does: and finds no such name."""
    topics = {"t": [(0, b"r" * 30)], "__own": [(1, b"r" * 70)], "__own-more": [(1, b"")]}
    chosen = data.draw(st.lists(st.sampled_from(sorted(topics)), max_size=3, unique=True))
    valid = b"".join(build_request_body(version, None, 1, 1000, {name: topics[name] for name in chosen}))
    body = data.draw(st.one_of(st.binary(max_size=100), oracle.mutations(valid)))
    frame = frame_request(ApiKey.PRODUCE, version, 7, "me", body)[4:]
    for whole in (len(frame), 1 << 20):
        if acks_without(OWN, frame, whole, version, 8) is not None:
            with suppress(MalformedFrame):
                assert not any(part[0].startswith("__own") for part in scan_request(body, version).parts)


IDS = [bytes([n]) * 16 for n in range(4)]


@given(
    st.sampled_from([4, 11, 12, 13, 15]),
    st.dictionaries(st.integers(0, 3), st.integers(1, 200), max_size=4),
    st.sampled_from(["", None, "a client"]),
)
def test_a_fetch_of_other_topics(version: int, topics: dict[int, int], client_id: str | None) -> None:
    names = IDS if version >= 13 else ["a", "b", "c", "__own-d"]
    asked = {names[n]: [FetchPartition(index, 5) for index in range(count)] for n, count in topics.items()}
    body = build_fetch(version, asked, forgotten={names[0]: [1]})
    frame = frame_request(ApiKey.FETCH, version, 7, client_id, body)[4:]
    assert fetches_others(OWN, {IDS[3]}, frame, len(frame), version, 8) is (3 not in topics)
    assert not fetches_others(OWN, {IDS[3]}, frame[:-1], len(frame), version, 8)


@given(st.sampled_from([12, 15]), st.data())
def test_a_fetch_from_anybody_reads_nothing_of_ours(version: int, data: st.DataObject) -> None:
    names = IDS if version >= 13 else ["a", "b", "c", "__own-d"]
    chosen = data.draw(st.lists(st.integers(0, 3), max_size=3, unique=True))
    valid = build_fetch(version, {names[n]: [FetchPartition(0, 5), FetchPartition(1, 5)] for n in chosen})
    body = data.draw(st.one_of(st.binary(max_size=100), oracle.mutations(valid)))
    frame = frame_request(ApiKey.FETCH, version, 7, "me", body)[4:]
    if fetches_others(OWN, {IDS[3]}, frame, len(frame), version, 8):
        with suppress(MalformedFrame):
            request = decode_request(ApiKey.FETCH, version, body)
            assert not any(t.topic.startswith("__own") for t in request.topics if version < 13)
            assert not any(t.topic_id and t.topic_id.bytes == IDS[3] for t in request.topics if version >= 13)
