"""Subscriptions and assignments as kafka-python's own consumer encodes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.consumer_protocol import (
    Assignment,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    Subscription,
    decode_assignment,
    decode_subscription,
)
from protocol.errors import MalformedFrame
from tests.unit.protocol import oracle

VERSIONS = range(4)
NAMES = st.lists(st.text(max_size=20), max_size=4, unique=True)
PARTITIONS = st.dictionaries(st.text(max_size=20), st.lists(st.integers(0, 2**31 - 1), max_size=4), max_size=4)
USER_DATA = st.one_of(st.none(), st.binary(max_size=20))


@pytest.mark.parametrize("version", VERSIONS)
@oracle.PER_VERSION
@given(NAMES, PARTITIONS, USER_DATA)
def test_subscriptions(version: int, topics: list[str], owned: dict[str, list[int]], user_data: bytes | None) -> None:
    part = ConsumerProtocolSubscription.TopicPartition
    message = ConsumerProtocolSubscription(
        version,
        topics=topics,
        user_data=user_data,
        owned_partitions=[part(topic=topic, partitions=parts) for topic, parts in owned.items()],
        generation_id=5,
        rack_id="r",
    )
    data = message.encode()
    assert decode_subscription(data) == Subscription(version, tuple(topics), user_data or b"")
    with pytest.raises(MalformedFrame):
        decode_subscription(data[:3])


@pytest.mark.parametrize("version", VERSIONS)
@oracle.PER_VERSION
@given(PARTITIONS, USER_DATA)
def test_assignments(version: int, partitions: dict[str, list[int]], user_data: bytes | None) -> None:
    part = ConsumerProtocolAssignment.TopicPartition
    assigned = [part(topic=topic, partitions=parts) for topic, parts in partitions.items()]
    data = ConsumerProtocolAssignment(version, assigned_partitions=assigned, user_data=user_data).encode()
    expected = {topic: tuple(parts) for topic, parts in partitions.items()}
    assert decode_assignment(data) == Assignment(version, expected, user_data or b"")
    assert decode_assignment(memoryview(data)).partitions == expected


def test_a_later_version_is_read_as_far_as_it_is_known() -> None:
    assert decode_subscription(b"\0\x09\0\0\0\1\0\1t\xff\xff\xff\xffnew fields") == Subscription(9, ("t",), b"")


def test_nothing_and_no_user_data() -> None:
    assert decode_subscription(b"").topics == ()
    assert decode_assignment(b"").partitions == {}
    assert decode_subscription(b"\0\0\0\0\0\1\0\1t").topics == ("t",)


@given(st.binary(max_size=100))
def test_any_bytes_raise_nothing_else(data: bytes) -> None:
    oracle.only_malformed(decode_subscription, data)
    oracle.only_malformed(decode_assignment, data)


def test_absurd_counts_are_refused() -> None:
    for decode in (decode_subscription, decode_assignment):
        with pytest.raises(MalformedFrame):
            decode(b"\0\0\x7f\xff\xff\xff" + bytes(50))
