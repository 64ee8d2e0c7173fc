"""The classic consumer protocol: member metadata and assignments inside JoinGroup, SyncGroup and DescribeGroups.

Versions 0-3 begin alike, and a reader of an older version ignores what a newer one appends, so only the common
part is read.
"""

from __future__ import annotations

from typing import NamedTuple

from kafka.protocol.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from protocol.errors import MalformedFrame
from protocol.wire import INT16, INT32, Buffer, parser, read_array_size, read_bytes_range, read_string

__all__ = [
    "Assignment",
    "ConsumerProtocolAssignment",
    "ConsumerProtocolSubscription",
    "Subscription",
    "decode_assignment",
    "decode_subscription",
]

PROTOCOL_TYPE = "consumer"


class Subscription(NamedTuple):
    """What a member of a consumer group subscribes to."""

    version: int
    topics: tuple[str, ...]
    user_data: bytes


class Assignment(NamedTuple):
    """What a member of a consumer group was given: partitions by topic."""

    version: int
    partitions: dict[str, tuple[int, ...]]
    user_data: bytes


@parser
def decode_subscription(data: Buffer) -> Subscription:
    """Decode a member's protocol metadata. No bytes at all are an empty subscription.

    Raises:
        MalformedFrame: not such bytes.
    """
    if not data:
        return Subscription(0, (), b"")
    (version,) = INT16.unpack_from(data, 0)
    count, at = read_array_size(data, 2)
    topics = []
    for _ in range(count):
        topic, at = _topic(data, at)
        topics.append(topic)
    return Subscription(version, tuple(topics), _user_data(data, at))


@parser
def decode_assignment(data: Buffer) -> Assignment:
    """Decode a member's assignment. No bytes at all (no assignment yet) are an empty one.

    Raises:
        MalformedFrame: not such bytes.
    """
    if not data:
        return Assignment(0, {}, b"")
    (version,) = INT16.unpack_from(data, 0)
    count, at = read_array_size(data, 2)
    partitions: dict[str, tuple[int, ...]] = {}
    for _ in range(count):
        topic, at = _topic(data, at)
        size, at = read_array_size(data, at)
        partitions[topic] = tuple(INT32.unpack_from(data, at + 4 * index)[0] for index in range(size))
        at += 4 * max(size, 0)
    return Assignment(version, partitions, _user_data(data, at))


def _topic(data: Buffer, at: int) -> tuple[str, int]:
    topic, at = read_string(data, at)
    if topic is None:
        raise MalformedFrame("a topic name is null")
    return topic, at


def _user_data(data: Buffer, at: int) -> bytes:
    if at == len(data):  # some clients leave it out
        return b""
    start, end = read_bytes_range(data, at)
    return bytes(data[start:end])
