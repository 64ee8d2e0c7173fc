"""The records of MirrorMaker 2's internal topics, as bytes. Big-endian; a string is an int16 length and UTF-8.

Checkpoint (`<alias>.checkpoints.internal`, on the target): key = group, topic, partition int32; value = version int16
(0), upstream offset int64, downstream offset int64, metadata. The topic is the one on the target.
OffsetSync (`mm2-offset-syncs.<alias>.internal`): key = topic, partition int32; value = upstream offset int64,
downstream offset int64. The topic is the one on the source. (KIP-382, KIP-545.)
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from protocol.errors import MalformedFrame

CHECKPOINT_VERSION = 0

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_OFFSETS = Struct(">qq")


class Checkpoint(NamedTuple):
    """A group's position on both clusters, as MirrorMaker 2 translated it."""

    group: str
    topic: str
    partition: int
    upstream: int
    downstream: int
    metadata: str


class OffsetSync(NamedTuple):
    """Record `upstream` of the source was written to the target at `downstream`. Both are None in a tombstone."""

    topic: str
    partition: int
    upstream: int | None
    downstream: int | None


def decode_checkpoint(key: bytes | None, value: bytes | None) -> Checkpoint | None:
    """A record of a checkpoints topic; None for a tombstone.

    Raises:
        MalformedFrame: it is no checkpoint, or of a version that is not known.
    """
    if key is None or value is None:
        return None
    group, at = _string(key, 0)
    topic, at = _string(key, at)
    (partition,), at = _take(_INT32, key, at)
    _at_end(key, at)
    (version,), at = _take(_INT16, value, 0)
    if version != CHECKPOINT_VERSION:
        raise MalformedFrame(f"a checkpoint of version {version}; known is {CHECKPOINT_VERSION}")
    (upstream, downstream), at = _take(_OFFSETS, value, at)
    metadata, at = _string(value, at)
    _at_end(value, at)
    return Checkpoint(group, topic, partition, upstream, downstream, metadata)


def decode_offset_sync(key: bytes | None, value: bytes | None) -> OffsetSync | None:
    """A record of an offset-syncs topic; None for one without a key.

    Raises:
        MalformedFrame: it is no offset sync.
    """
    if key is None:
        return None
    topic, at = _string(key, 0)
    (partition,), at = _take(_INT32, key, at)
    _at_end(key, at)
    if value is None:
        return OffsetSync(topic, partition, None, None)
    (upstream, downstream), at = _take(_OFFSETS, value, 0)
    _at_end(value, at)
    return OffsetSync(topic, partition, upstream, downstream)


def _take(struct: Struct, data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    if at + struct.size > len(data):
        raise MalformedFrame("a record of MirrorMaker 2 that ends too early")
    return struct.unpack_from(data, at), at + struct.size


def _string(data: bytes, at: int) -> tuple[str, int]:
    (size,), at = _take(_INT16, data, at)
    if size < 0 or at + size > len(data):
        raise MalformedFrame("a record of MirrorMaker 2 that ends inside a string")
    try:
        return data[at : at + size].decode(), at + size
    except UnicodeDecodeError as exc:
        raise MalformedFrame("a record of MirrorMaker 2 with a string that is not UTF-8") from exc


def _at_end(data: bytes, at: int) -> None:
    if at != len(data):
        raise MalformedFrame(f"a record of MirrorMaker 2 with {len(data) - at} bytes too many")
