"""ListOffsets v1-7 by position: a promote asks for thousands of partitions while writes are paused.

Layout: https://kafka.apache.org/protocol#The_Messages_ListOffsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from struct import Struct
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from protocol.apis import ApiKey, is_flexible
from protocol.errors import MalformedFrame
from protocol.raw import RawRequest
from protocol.wire import INT32, Buffer, array_reader, array_size, parser, skip_tags, string, string_reader

_ISOLATION_FROM: Final = 2
_EPOCH_FROM: Final = 4
_ASKED: Final = Struct(">iq")  # partition, timestamp
_ASKED_EPOCH: Final = Struct(">iiq")  # with the current leader epoch
_ASKED_FLEXIBLE: Final = Struct(">iiqB")  # with an empty section of tags
_TOLD: Final = Struct(">ihqq")  # partition, error, timestamp, offset
_TOLD_EPOCH: Final = Struct(">ihqqi")  # with the leader epoch
_TOLD_FLEXIBLE: Final = Struct(">ihqqiB")
_NO_EPOCH: Final = -1
_NO_EPOCH_OF: Final[Mapping[int, int]] = MappingProxyType({})
_NO_EPOCHS: Final[Mapping[str, Mapping[int, int]]] = MappingProxyType({})
_MAX_PARTS: Final = 1_000_000


class OffsetFound(NamedTuple):
    """The answer for one partition. Offset, timestamp and epoch are -1 where there is none."""

    topic: str
    partition: int
    error_code: int
    timestamp: int
    offset: int
    leader_epoch: int


class ListOffsets(RawRequest):
    """`topics`: name -> (partition, timestamp). `replica_id`: -1 for a consumer, -2 to see the log end.

    `epochs`: name -> partition -> the leader epoch that the caller knows (KIP-320): a broker with another one refuses
    (FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH). With replica id -2 followers answer, too; only the epoch excludes them.
    """

    API_KEY = ApiKey.LIST_OFFSETS
    max_version = 7
    throttled_from = 2

    def __init__(
        self,
        topics: Mapping[str, Sequence[tuple[int, int]]],
        *,
        replica_id: int = -1,
        read_committed: bool = False,
        epochs: Mapping[str, Mapping[int, int]] = _NO_EPOCHS,
    ) -> None:
        self._epochs = epochs
        self._topics = topics
        self._replica_id = replica_id
        self._read_committed = read_committed

    def encode(self, version: int) -> bytes:
        """See `RawRequest`. Raises ValueError for a version without an isolation level."""
        if self._read_committed and version < _ISOLATION_FROM:
            raise ValueError(f"ListOffsets v{version} knows no isolation level")
        flexible = is_flexible(ApiKey.LIST_OFFSETS, version)
        tags = b"\0" if flexible else b""
        pieces = [INT32.pack(self._replica_id)]
        if version >= _ISOLATION_FROM:
            pieces.append(b"\1" if self._read_committed else b"\0")
        pieces.append(array_size(len(self._topics), flexible))
        for topic, partitions in self._topics.items():
            pieces += (string(topic, flexible), array_size(len(partitions), flexible))
            epoch_of = self._epochs.get(topic, _NO_EPOCH_OF).get
            if flexible:
                pieces += [_ASKED_FLEXIBLE.pack(index, epoch_of(index, _NO_EPOCH), at, 0) for index, at in partitions]
            elif version >= _EPOCH_FROM:
                pieces += [_ASKED_EPOCH.pack(index, epoch_of(index, _NO_EPOCH), at) for index, at in partitions]
            else:
                pieces += [_ASKED.pack(index, at) for index, at in partitions]
            pieces.append(tags)
        pieces.append(tags)
        return b"".join(pieces)

    def decode(self, body: Buffer, version: int) -> Any:
        """See `RawRequest`: list[OffsetFound]."""
        return offsets_found(body, version)


class LatestOffsets(ListOffsets):
    """Same as `ListOffsets`, with only numbers as the answer: {topic: {partition: offset}}, or None when the broker
    refuses one of the partitions."""

    def decode(self, body: Buffer, version: int) -> Any:
        """See `RawRequest`."""
        return latest_found(body, version)


@parser
def offsets_found(body: Buffer, version: int) -> list[OffsetFound]:
    """Read an answer.

    Raises:
        MalformedFrame: not a ListOffsets answer.
    """
    found: list[OffsetFound] = []
    for topic, told in _told(body, version):
        if version >= _EPOCH_FROM:
            found += [OffsetFound(topic, p, c, ms, o, e) for p, c, ms, o, e, *_ in told]
        else:
            found += [OffsetFound(topic, p, c, ms, o, _NO_EPOCH) for p, c, ms, o in told]
    return found


@parser
def latest_found(body: Buffer, version: int) -> dict[str, dict[int, int]] | None:
    """Read only the offsets of an answer; None when a partition has an error.

    Raises:
        MalformedFrame: not a ListOffsets answer.
    """
    found: dict[str, dict[int, int]] = {}
    for topic, told in _told(body, version):
        if any(part[1] for part in told):
            return None
        found.setdefault(topic, {}).update((part[0], part[3]) for part in told)
    return found


def _told(body: Buffer, version: int) -> Iterator[tuple[str, list[tuple[int, ...]]]]:
    """Per topic, the numbers of its partitions: partition, error, timestamp, offset, from v4 the leader epoch, ..."""
    view = body if isinstance(body, memoryview) else memoryview(body)
    flexible = is_flexible(ApiKey.LIST_OFFSETS, version)
    read_size, read_name = array_reader(flexible), string_reader(flexible)
    topics, at = read_size(view, 4 if version >= _ISOLATION_FROM else 0)
    for _ in range(topics):
        topic, at = read_name(view, at)
        count, at = read_size(view, at)
        if topic is None or not 0 <= count <= _MAX_PARTS:
            raise MalformedFrame(f"topic {topic!r} with {count} partitions")
        if flexible:
            told, at = _flexible(view, at, count)
            at = skip_tags(view, at)
        else:
            form = _TOLD_EPOCH if version >= _EPOCH_FROM else _TOLD
            told, at = _all_of(form, view, at, at + count * form.size), at + count * form.size
        yield topic, told


def _flexible(view: memoryview, at: int, count: int) -> tuple[list[tuple[int, ...]], int]:
    end = at + count * _TOLD_FLEXIBLE.size
    if end <= len(view) and not any(view[at + _TOLD_EPOCH.size : end : _TOLD_FLEXIBLE.size]):
        return _all_of(_TOLD_FLEXIBLE, view, at, end), end
    told = []
    for _ in range(count):  # there are tags
        told.append(_TOLD_EPOCH.unpack_from(view, at))
        at = skip_tags(view, at + _TOLD_EPOCH.size)
    return told, at


def _all_of(form: Struct, view: memoryview, at: int, end: int) -> list[tuple[int, ...]]:
    if end > len(view):
        raise IndexError("the frame ends inside the partitions")
    return list(form.iter_unpack(view[at:end]))
