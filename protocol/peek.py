"""Single fields near the start of a request body, read without decoding the rest.

The body may be cut off (a stream that is still arriving): then the answer is None or `IncompleteFrame`, as each
function says.
"""

from __future__ import annotations

from collections.abc import Container
from struct import Struct
from struct import error as StructError

from protocol.apis import FLEXIBLE_FROM, ApiKey, is_flexible
from protocol.errors import MalformedFrame
from protocol.wire import INT16, INT32, Buffer, array_reader, parser, read_uvarint, skip_tags, string_reader

_FLEXIBLE = FLEXIBLE_FROM[ApiKey.PRODUCE]
_FLEXIBLE_PLAIN = Struct(">BBhiBB").unpack_from
"""Behind the client id: tagged fields and transactional id, both empty; acks, timeout; topics, length of the first."""
_CLASSIC_PLAIN = Struct(">hhiih").unpack_from
"""Behind the client id: transactional id, null; acks, timeout; topics, length of the first."""
_ANSWERED = (-1, 1)  # acks
_INT16 = INT16.unpack_from
_TOPIC_ID = Struct("16s").unpack_from
_TWO_BYTES = Struct("BB").unpack_from
_SEARCHED_BYTES = 2_048  # visiting a topic takes 0.5 us, as long as searching this many bytes
_FETCH_BY_ID = 13
_FETCH_PARTITION = 33  # bytes of a partition in a Fetch request from v12 on, when its tagged fields are empty


@parser
def first_string(body: Buffer, flexible: bool) -> str | None:
    """The string a body begins with; None when it is null. The group APIs and FindCoordinator begin with theirs.

    Raises:
        MalformedFrame: no such string.
    """
    return string_reader(flexible)(body, 0)[0]


@parser
def first_array_size(body: Buffer, flexible: bool) -> int:
    """How many elements the array has that a body begins with; -1 when it is null.

    Raises:
        MalformedFrame: no such array, or more elements than bytes are left.
    """
    return array_reader(flexible)(body, 0)[0]


@parser
def transactional_id_end(body: Buffer, version: int) -> int:
    """Where the transactional id of a Produce request body (v3 on) ends, which is where `acks` is."""
    if is_flexible(ApiKey.PRODUCE, version):
        size, at = read_uvarint(body, 0)
        return at + max(size - 1, 0)
    (size,) = INT16.unpack_from(body)
    return 2 + max(int(size), 0)


def plain_topic(frame: Buffer, version: int, at: int = 12) -> str | None:
    """The topic of a Produce request with acks, one topic, and no transaction; None when it needs a closer look, or is
    cut off.

    Args:
        frame: the request, may be cut off.
        at: where the length of its client id is: 12 with the 4-byte size before it, 8 without.
    """
    try:
        (size,) = _INT16(frame, at)
        if size < -1:
            return None
        at += 2 + size if size > 0 else 2
        if version >= _FLEXIBLE:
            tags, transactional_id, acks, _, topics, length = _FLEXIBLE_PLAIN(frame, at)
            at += 10
            if length >= 0x80:
                length, at = read_uvarint(frame, at - 1)
            length, is_plain = length - 1, topics == 2 and not (tags or transactional_id)
        else:
            transactional_id, acks, _, topics, length = _CLASSIC_PLAIN(frame, at)
            at += 14
            is_plain = topics == 1 and transactional_id == -1
        end = at + length
        if not is_plain or acks not in _ANSWERED or length <= 0 or end > len(frame):
            return None
        return str(frame[at:end], "utf-8")
    except (IndexError, StructError, UnicodeDecodeError, MalformedFrame):
        return None


def acks_without(prefix: bytes, frame: Buffer, whole: int, version: int, at: int) -> int | None:
    """`acks` of a Produce request without a topic or transactional id that begins with `prefix`.

    None when it needs a closer look. Skips from name to name by lengths. All names must be there; the frame may be cut
    off after the last one.

    Args:
        whole: bytes that the frame has when it is not cut off.
        at: where the length of its client id is: 12 with the 4-byte size before it, 8 without.
    """
    try:
        (size,) = _INT16(frame, at)
        at += 2 + size if size > 0 else 2
        if size < -1:
            return None
        if version >= _FLEXIBLE:
            if frame[at]:  # tagged fields of the header
                return None
            size, at = frame[at + 1], at + 2
            if size:
                size, at = read_uvarint(frame, at - 1)
                size -= 1
        else:
            (size,) = _INT16(frame, at)
            at += 2
        if size > 0:
            if frame[at : at + len(prefix)] == prefix:
                return None
            at += size
        acks: int = _INT16(frame, at)[0]
        others = _others_flexible if version >= _FLEXIBLE else _others
        return acks if others(frame, whole, at + 6, prefix) else None
    except (IndexError, StructError, MalformedFrame):
        return None


def _others_flexible(frame: Buffer, size: int, at: int, prefix: bytes) -> bool:
    """Whether no topic of a Produce, whose array begins at `at`, begins with `prefix`."""
    topics = frame[at]
    if topics == 2:
        at += 1
    else:
        topics, at = read_uvarint(frame, at)
        if size < _SEARCHED_BYTES * (topics - 1) and len(frame) >= size:
            return prefix not in bytes(frame)
    length, first = len(prefix), prefix[0]
    for left in range(topics - 2, -1, -1):
        size = frame[at]
        if 0 < size < 0x80:
            at += 1
        else:
            size, at = read_uvarint(frame, at)
        if not size or (frame[at] == first and frame[at : at + length] == prefix):
            return False
        at += size - 1
        if not left:
            return at <= len(frame)
        partitions, at = read_uvarint(frame, at)
        while partitions > 1:
            partitions -= 1
            low, high = _TWO_BYTES(frame, at + 4)  # of the varint: a call less for most batches
            if low < 0x80:
                at += 4 + (low or 1)
            elif high < 0x80:
                at += 5 + (low & 0x7F | high << 7)
            else:
                size, at = read_uvarint(frame, at + 4)
                at += size - 1
            at = skip_tags(frame, at) if frame[at] else at + 1
        at = skip_tags(frame, at) if frame[at] else at + 1
    return topics == 1


def _others(frame: Buffer, size: int, at: int, prefix: bytes) -> bool:
    """Same as `_others_flexible`, for an array in classic encoding."""
    (topics,) = INT32.unpack_from(frame, at)
    if topics > 1 and size < _SEARCHED_BYTES * topics and len(frame) >= size:
        return prefix not in bytes(frame)
    at += 4
    for left in range(topics - 1, -1, -1):
        (size,) = INT16.unpack_from(frame, at)
        at += 2
        if size < 0 or frame[at : at + len(prefix)] == prefix:
            return False
        at += size
        if not left:
            return at <= len(frame)
        (partitions,) = INT32.unpack_from(frame, at)
        at += 4
        for _ in range(partitions):
            (size,) = INT32.unpack_from(frame, at + 4)
            at += 8 + max(size, 0)
    return not topics


def fetches_others(prefix: bytes, ids: Container[bytes], frame: Buffer, whole: int, version: int, at: int) -> bool:
    """Whether a Fetch request reads no topic that begins with `prefix` or has one of `ids`. False: look closer.

    Args:
        whole: bytes that the frame has when it is not cut off.
        at: where the length of its client id is: 12 with the 4-byte size before it, 8 without.
    """
    if len(frame) < whole:
        return False
    if version < _FETCH_BY_ID:
        return prefix not in bytes(frame)
    try:
        (size,) = _INT16(frame, at)
        at += 2 + size if size > 0 else 2
        if frame[at] or size < -1:  # tagged fields of the header
            return False
        at += 26 if version < 15 else 22  # the replica's id, until v14; sizes and times, the session
        topics = frame[at]
        if topics == 1:  # an empty array: the session goes on unchanged
            return True
        if topics == 2:
            return _TOPIC_ID(frame, at + 1)[0] not in ids
        topics, at = read_uvarint(frame, at)
        for _ in range(topics - 1):
            topic = bytes(frame[at : at + 16])
            partitions, at = read_uvarint(frame, at + 16)
            end = at + _FETCH_PARTITION * (partitions - 1)
            tags = bytes(frame[at + _FETCH_PARTITION - 1 : end : _FETCH_PARTITION])
            if topic in ids or tags.count(0) != partitions - 1 or frame[end]:
                return False
            at = end + 1
    except (IndexError, StructError, MalformedFrame):
        return False
    return topics > 0
