"""OffsetFetch of several groups (v8 on), refused whole without being decoded: a tool may name thousands."""

from __future__ import annotations

from typing import Final

from protocol.errors import MalformedFrame
from protocol.wire import INT16, INT32, Buffer, array_size, parser, read_compact_array_size, read_uvarint, skip_tags

SEVERAL_FROM: Final = 8
_MEMBER_FROM: Final = 9
_MEMBER_EPOCH_BYTES: Final = 4
_INDEX_BYTES: Final = 4
_NO_TOPICS: Final = b"\x01"
_NO_TAGS: Final = b"\x00"


@parser
def refused(body: Buffer, version: int, error_code: int, most: int) -> bytes:
    """The answer's body: each group that the request names has this error, and no topics.

    Args:
        most: groups and topics that are looked at.

    Raises:
        MalformedFrame: it is no request of this version, or it has more.
    """
    count, at = read_compact_array_size(body, 0)
    left = most - count
    entry_end = _NO_TOPICS + INT16.pack(error_code) + _NO_TAGS
    answer = [INT32.pack(0), array_size(max(count, 0), flexible=True)]
    for _ in range(count):
        start = at
        at = _past_string(body, at)
        answer += (bytes(body[start:at]), entry_end)
        if version >= _MEMBER_FROM:
            at = _past_string(body, at) + _MEMBER_EPOCH_BYTES
        topics, at = read_compact_array_size(body, at)
        left -= max(topics, 0)
        if left < 0:
            raise MalformedFrame(f"more than {most} groups and topics")
        at = skip_tags(body, _past_topics(body, at, topics))
    answer.append(_NO_TAGS)
    return b"".join(answer)


def _past_string(body: Buffer, at: int) -> int:
    size, at = read_uvarint(body, at)
    end = at + max(size - 1, 0)
    if end > len(body):
        raise MalformedFrame(f"a string of {size - 1} bytes does not fit in the frame")
    return end


def _past_topics(body: Buffer, at: int, count: int) -> int:
    for _ in range(count):
        at = _past_string(body, at)
        partitions, at = read_compact_array_size(body, at)
        at = skip_tags(body, at + _INDEX_BYTES * max(partitions, 0))
    return at
