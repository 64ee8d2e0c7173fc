"""Single fields near the start of a request body, read without decoding the rest.

The body may be cut off (a stream that is still arriving): then the answer is None or `IncompleteFrame`, as each
function says.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError

from protocol.apis import FLEXIBLE_FROM, ApiKey, is_flexible
from protocol.errors import IncompleteFrame, MalformedFrame
from protocol.wire import INT16, Buffer, parser, read_uvarint, string_reader

_FLEXIBLE = FLEXIBLE_FROM[ApiKey.PRODUCE]
_COUNT_LENGTH = Struct(">ih")


@parser
def first_string(body: Buffer, flexible: bool) -> str | None:
    """The string a body begins with; None when it is null. The group APIs and FindCoordinator begin with theirs.

    Raises:
        MalformedFrame: no such string.
    """
    return string_reader(flexible)(body, 0)[0]


@parser
def transactional_id_end(body: Buffer, version: int) -> int:
    """Where the transactional id of a Produce request body (v3 on) ends, which is where `acks` is."""
    if is_flexible(ApiKey.PRODUCE, version):
        size, at = read_uvarint(body, 0)
        return at + max(size - 1, 0)
    (size,) = INT16.unpack_from(body)
    return 2 + max(int(size), 0)


def produce_acks(body: Buffer, version: int) -> int | None:
    """`acks` of a Produce request body (v3 on): -1, 0 or 1; None when the body is cut off before it.

    Raises:
        MalformedFrame: the transactional id's length is no varint.
    """
    try:
        at = transactional_id_end(body, version)
    except IncompleteFrame:
        return None
    if at + 2 > len(body):
        return None
    acks: int = INT16.unpack_from(body, at)[0]
    return acks


def plain_acks(frame: Buffer, version: int, at: int = 12) -> int | None:
    """`acks` of a Produce request as a client sends it outside of a transaction; None when it takes a closer look.

    Args:
        frame: the request, may be cut off.
        at: where the length of its client id is: 12 with the 4-byte size before it, 8 without.
    """
    try:
        (size,) = INT16.unpack_from(frame, at)
        at += 2 + max(size, 0)
        if version >= _FLEXIBLE:
            if size < -1 or frame[at] or frame[at + 1]:  # tagged fields of the header, transactional id
                return None
        elif size < -1 or frame[at] != 0xFF:
            return None
        acks: int = INT16.unpack_from(frame, at + 2)[0]
    except (IndexError, StructError):
        return None
    return acks


def only_topic(frame: Buffer, version: int, at: int = 12) -> str | None:
    """The topic of a Produce request that has `plain_acks` and one topic; None when it has more, or is cut off."""
    try:
        (size,) = INT16.unpack_from(frame, at)
        at += 2 + max(size, 0) + 2 + 6  # tagged fields and transactional id, or the latter alone; acks, timeout
        if version >= _FLEXIBLE:
            count, at = read_uvarint(frame, at)
            length, at = read_uvarint(frame, at)
            count, length = count - 1, length - 1
        else:
            count, length = _COUNT_LENGTH.unpack_from(frame, at)
            at += _COUNT_LENGTH.size
        if count != 1 or length <= 0 or at + length > len(frame):
            return None
        return str(frame[at : at + length], "utf-8")
    except (IndexError, StructError, UnicodeDecodeError, MalformedFrame):
        return None
