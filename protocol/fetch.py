"""Fetch v4-15: requests of the mirror built, responses scanned for where each partition's records are.

Records are never decoded nor copied: they come out as slices of the response. From v13 on topics are named by
their 16-byte id. v12 is the first flexible version; the fields that only replicas use are left at their defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from struct import error as StructError
from typing import NamedTuple, TypeAlias

from protocol.apis import ApiKey, is_flexible
from protocol.errors import IncompleteFrame, MalformedFrame
from protocol.wire import (
    INT32,
    Buffer,
    array_reader,
    array_size,
    parser,
    read_bytes_range,
    read_compact_bytes_range,
    read_tags,
    read_uvarint,
    skip_tags,
    string,
    string_reader,
)

Topic: TypeAlias = str | bytes
"""A topic's name up to v12, its 16-byte id from v13 on."""

MAX_PARTS = 100_000
"""Limit for topics, and for partitions, in one response: each takes memory here, and no broker leads that many."""

NO_SESSION = 0
"""Session id of a request that opens a session or uses none."""
OPEN_SESSION = 0
"""Session epoch of a request that opens a session with all its partitions (KIP-227)."""
NO_SESSION_EPOCH = -1
"""Session epoch of a request that neither has nor wants a session."""

_BY_ID = 13
_TAGS = b"\x00"
_new = tuple.__new__


class FetchPartition(NamedTuple):
    """What to fetch of one partition. Fields that a version lacks are not sent.

    `leader_epoch`: the epoch the caller knows (v9+), -1 for "do not check". `last_epoch`: the epoch of the last
    batch read (v12+, divergence check of KIP-595), -1 for none.
    """

    partition: int
    offset: int
    max_bytes: int = 1024 * 1024
    leader_epoch: int = -1
    last_epoch: int = -1


class FetchSessionId(NamedTuple):
    """An incremental fetch session (KIP-227): the id the broker gave and the epoch of the next request."""

    id: int = NO_SESSION
    epoch: int = NO_SESSION_EPOCH

    @property
    def following(self) -> FetchSessionId:
        """The session after one answered request; epochs wrap from 2^31-1 to 1."""
        return FetchSessionId(self.id, 1 if self.epoch >= 0x7FFFFFFF else self.epoch + 1)


class FetchedPartition(NamedTuple):
    """One partition of a response. Offsets are -1 where the version or the broker gives none.

    `diverging`: (epoch, end offset) when the log read so far is not the leader's (v12+). `current_leader`:
    (node id, leader epoch), sent with some errors (v12+). `aborted`: (producer id, first offset) of aborted
    transactions in the records (read committed only). `records` is a slice of the response.
    """

    topic: Topic
    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    diverging: tuple[int, int] | None
    current_leader: tuple[int, int] | None
    aborted: tuple[tuple[int, int], ...]
    preferred_read_replica: int
    records: memoryview


class FetchResponseView(NamedTuple):
    """A Fetch response without copies. `session_id` is 0 when there is no session."""

    throttle_ms: int
    error_code: int
    session_id: int
    parts: list[FetchedPartition]


_MAIN = Struct(">iiib")  # max wait, min bytes, max bytes, isolation level


def build_request_body(
    version: int,
    topics: Mapping[Topic, Sequence[FetchPartition]],
    *,
    max_wait_ms: int = 500,
    min_bytes: int = 1,
    max_bytes: int = 50 * 1024 * 1024,
    read_committed: bool = False,
    session: FetchSessionId = FetchSessionId(),  # noqa: B008 - immutable
    forgotten: Mapping[Topic, Sequence[int]] | None = None,
    rack_id: str = "",
) -> bytes:
    """Build a Fetch request body of a consumer.

    Args:
        version: 4 to 15.
        topics: the partitions to fetch; in a session only new and changed ones.
        max_wait_ms: how long the broker may wait for `min_bytes`.
        min_bytes: the broker answers as soon as it has this many.
        max_bytes: of the whole response (the first batch comes whole, however large).
        read_committed: only up to the last stable offset, with the aborted transactions.
        session: v7+; the default uses none.
        forgotten: partitions to remove from the session.
        rack_id: v11+; lets the broker name a nearer replica.
    """
    flexible = is_flexible(ApiKey.FETCH, version)
    tags = _TAGS if flexible else b""
    pieces = [b"\xff\xff\xff\xff"] if version < 15 else []  # replica id: none
    pieces.append(_MAIN.pack(max_wait_ms, min_bytes, max_bytes, 1 if read_committed else 0))
    if version >= 7:
        pieces.append(_SESSION.pack(*session))
    pieces.append(array_size(len(topics), flexible))
    pack = _partition_packer(version)
    for topic, partitions in topics.items():
        pieces += (_topic(topic, version), array_size(len(partitions), flexible))
        for partition in partitions:
            pieces += (pack(partition), tags)
        pieces.append(tags)
    if version >= 7:
        pieces.append(array_size(len(forgotten or ()), flexible))
        for topic, indexes in (forgotten or {}).items():
            pieces += (_topic(topic, version), array_size(len(indexes), flexible))
            pieces += (INT32.pack(index) for index in indexes)
            pieces.append(tags)
    if version >= 11:
        pieces.append(string(rack_id, flexible))
    pieces.append(tags)
    return b"".join(pieces)


_SESSION = Struct(">ii")
_V4 = Struct(">iqi")  # partition, offset, max bytes
_V5 = Struct(">iqqi")  # log start offset of a replica before max bytes
_V9 = Struct(">iiqqi")  # leader epoch before the offset
_V12 = Struct(">iiqiqi")  # last epoch after the offset


def _partition_packer(version: int) -> Callable[[FetchPartition], bytes]:
    if version >= 12:
        return lambda p: _V12.pack(p.partition, p.leader_epoch, p.offset, p.last_epoch, -1, p.max_bytes)
    if version >= 9:
        return lambda p: _V9.pack(p.partition, p.leader_epoch, p.offset, -1, p.max_bytes)
    if version >= 5:
        return lambda p: _V5.pack(p.partition, p.offset, -1, p.max_bytes)
    return lambda p: _V4.pack(p.partition, p.offset, p.max_bytes)


def _topic(topic: Topic, version: int) -> bytes:
    if version >= _BY_ID:
        if not isinstance(topic, bytes) or len(topic) != 16:
            raise ValueError(f"Fetch v{version} names topics by their 16-byte id")
        return topic
    if not isinstance(topic, str):
        raise ValueError(f"Fetch v{version} names topics by name")
    return string(topic, is_flexible(ApiKey.FETCH, version))


_RESPONSE_HEAD = Struct(">ihi")  # throttle, error, session id
_PART_V4 = Struct(">ihqq")  # partition, error, high watermark, last stable offset
_PART_V5 = Struct(">ihqqq")  # and log start offset
_ABORTED = Struct(">qq")
_EPOCH_END = Struct(">iq")
_LEADER = Struct(">ii")
_DIVERGING_TAG, _LEADER_TAG = 0, 1


@parser
def scan_response(body: Buffer, version: int) -> FetchResponseView:
    """Read a Fetch response body; records are slices of it.

    Raises:
        MalformedFrame: not such a response, or more than `MAX_PARTS` topics or partitions.
    """
    view = body if isinstance(body, memoryview) else memoryview(body)
    if version >= 7:
        throttle_ms, error_code, session_id = _RESPONSE_HEAD.unpack_from(view)
        at = 10
    else:
        (throttle_ms,), error_code, session_id, at = INT32.unpack_from(view), 0, NO_SESSION, 4
    flexible = is_flexible(ApiKey.FETCH, version)
    read_size = array_reader(flexible)
    parts: list[FetchedPartition] = []
    topics, at = read_size(view, at)
    if topics > MAX_PARTS:
        raise MalformedFrame(f"more than {MAX_PARTS} topics in a response")
    scan = _scan_flexible if flexible else _scan_classic
    for _ in range(topics):
        topic, at = _scan_topic(view, at, version)
        partitions, at = read_size(view, at)
        if len(parts) + partitions > MAX_PARTS:
            raise MalformedFrame(f"more than {MAX_PARTS} partitions in a response")
        for _ in range(partitions):
            part, at = scan(view, at, version, topic)
            parts.append(part)
        if flexible:
            at = skip_tags(view, at)
    return FetchResponseView(throttle_ms, error_code, session_id, parts)


def _scan_topic(body: memoryview, at: int, version: int) -> tuple[Topic, int]:
    if version >= _BY_ID:
        if at + 16 > len(body):
            raise IncompleteFrame("the frame ends inside a topic id")
        return bytes(body[at : at + 16]), at + 16
    name, at = string_reader(version >= 12)(body, at)
    if name is None:
        raise MalformedFrame("a topic name is null")
    return name, at


def _scan_classic(body: memoryview, at: int, version: int, topic: Topic) -> tuple[FetchedPartition, int]:
    if version >= 5:
        index, code, high, stable, log_start = _PART_V5.unpack_from(body, at)
        at += _PART_V5.size
    else:
        index, code, high, stable = _PART_V4.unpack_from(body, at)
        log_start = -1
        at += _PART_V4.size
    aborted, at = _scan_aborted(body, at, flexible=False)
    replica = -1
    if version >= 11:
        (replica,) = INT32.unpack_from(body, at)
        at += 4
    start, at = read_bytes_range(body, at)
    fields = (topic, index, code, high, stable, log_start, None, None, aborted, replica, body[start:at])
    return _new(FetchedPartition, fields), at


def _scan_flexible(body: memoryview, at: int, _version: int, topic: Topic) -> tuple[FetchedPartition, int]:
    index, code, high, stable, log_start = _PART_V5.unpack_from(body, at)
    aborted, at = _scan_aborted(body, at + _PART_V5.size, flexible=True)
    (replica,) = INT32.unpack_from(body, at)
    start, end = read_compact_bytes_range(body, at + 4)
    diverging = leader = None
    if body[end]:
        tags, at = read_tags(body, end)
        if _DIVERGING_TAG in tags:
            diverging = _EPOCH_END.unpack_from(body, tags[_DIVERGING_TAG][0])
        if _LEADER_TAG in tags:
            leader = _LEADER.unpack_from(body, tags[_LEADER_TAG][0])
    else:
        at = end + 1
    fields = (topic, index, code, high, stable, log_start, diverging, leader, aborted, replica, body[start:end])
    return _new(FetchedPartition, fields), at


def _scan_aborted(body: memoryview, at: int, flexible: bool) -> tuple[tuple[tuple[int, int], ...], int]:
    count, at = array_reader(flexible)(body, at)
    if count <= 0:
        return (), at
    aborted = []
    for _ in range(count):
        aborted.append(_ABORTED.unpack_from(body, at))
        at += _ABORTED.size
        if flexible:
            at = skip_tags(body, at)
    return tuple(aborted), at


_CODE_V4 = Struct(">ih16x")  # partition, error; what follows is skipped
_CODE_V5 = Struct(">ih24x")


def peek_errors(body: Buffer, version: int, most: int) -> list[tuple[Topic, int]]:
    """(topic, error code) of the partitions of a response, up to where it is cut off.

    Skips from partition to partition by lengths; reads and copies no record.

    Args:
        most: how many partitions to read at most.
    """
    found: list[tuple[Topic, int]] = []
    try:
        _peek_errors(body if isinstance(body, memoryview) else memoryview(body), version, most, found)
    except (StructError, IndexError, UnicodeDecodeError, MalformedFrame):
        return found  # cut off there
    return found


def _peek_errors(body: memoryview, version: int, most: int, found: list[tuple[Topic, int]]) -> None:
    flexible = is_flexible(ApiKey.FETCH, version)
    fields = _CODE_V5 if version >= 5 else _CODE_V4
    read_size = array_reader(flexible)
    topics, at = read_size(body, 10 if version >= 7 else 4)
    for _ in range(topics):
        topic, at = _scan_topic(body, at, version)
        partitions, at = read_size(body, at)
        for _ in range(partitions):
            found.append((topic, fields.unpack_from(body, at)[1]))
            if len(found) >= most:
                return
            _, at = _scan_aborted(body, at + fields.size, flexible)
            if version >= 11:
                at += 4
            if flexible:
                size, at = read_uvarint(body, at)
                at = skip_tags(body, at + max(size - 1, 0))
            else:
                (size,) = INT32.unpack_from(body, at)
                at += 4 + max(size, 0)
        if flexible:
            at = skip_tags(body, at)
