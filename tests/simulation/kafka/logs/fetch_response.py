"""Fetch responses v4-18 written by position: records are used as they are."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Final

from protocol.apis import ApiKey, is_flexible
from protocol.errors import ErrorCode
from protocol.wire import INT32, array_size, bytes_size, string, uvarint
from tests.simulation.kafka.logs.fetch_session import Wanted

if TYPE_CHECKING:
    from tests.simulation.kafka.broker import Broker

_HEAD: Final = Struct(">ihi")  # throttle, error, session id
_PART_V4: Final = Struct(">ihqq")
_PART_V5: Final = Struct(">ihqqq")
_ABORTED: Final = Struct(">qq")
_DIVERGING: Final = Struct(">iq")
_LEADER: Final = Struct(">ii")
_NO_TAGS: Final = b"\x00"
_BY_ID_FROM: Final = 13
_LEADERS_FROM: Final = 16
_NO_ID: Final = b"\x00" * 16


@dataclass(slots=True)
class Fetched:
    """What was read of one partition. `aborted` is None unless committed records were asked for."""

    want: Wanted
    error: ErrorCode
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start: int = -1
    records: bytes = b""
    aborted: list[tuple[int, int]] | None = None
    diverging: tuple[int, int] | None = None


@dataclass(slots=True)
class Answer:
    """A response."""

    error: ErrorCode
    session_id: int
    results: list[Fetched]


def build_body(broker: Broker, version: int, answer: Answer) -> bytes:
    """The response body."""
    flexible = is_flexible(ApiKey.FETCH, version)
    tags = _NO_TAGS if flexible else b""
    head = _HEAD.pack(0, int(answer.error), answer.session_id) if version >= 7 else INT32.pack(0)
    groups = _by_topic(version, answer.results)
    pieces = [head, array_size(len(groups), flexible)]
    leaders: set[int] = set()
    for name, results in groups:
        pieces += (name, array_size(len(results), flexible))
        for result in results:
            _add_partition(broker, version, flexible, result, pieces, leaders)
        pieces.append(tags)
    if flexible:
        pieces.append(_endpoints(broker, leaders))
    return b"".join(pieces)


def _by_topic(version: int, results: list[Fetched]) -> list[tuple[bytes, list[Fetched]]]:
    groups: list[tuple[bytes, list[Fetched]]] = []
    flexible = is_flexible(ApiKey.FETCH, version)
    last: object = None
    for result in results:
        want = result.want
        key = want.topic_id if version >= _BY_ID_FROM else want.topic
        if not groups or key != last:
            if version >= _BY_ID_FROM:
                name = want.topic_id.bytes if want.topic_id is not None else _NO_ID
            else:
                name = string(want.topic, flexible)
            groups.append((name, []))
            last = key
        groups[-1][1].append(result)
    return groups


def _add_partition(
    broker: Broker, version: int, flexible: bool, result: Fetched, pieces: list[bytes], leaders: set[int]
) -> None:
    index, error = result.want.index, int(result.error)
    if version >= 5:
        fixed = (index, error, result.high_watermark, result.last_stable_offset, result.log_start)
        pieces.append(_PART_V5.pack(*fixed))
    else:
        pieces.append(_PART_V4.pack(index, error, result.high_watermark, result.last_stable_offset))
    pieces.append(array_size(-1 if result.aborted is None else len(result.aborted), flexible))
    end = _NO_TAGS if flexible else b""
    pieces += (_ABORTED.pack(*entry) + end for entry in result.aborted or ())
    if version >= 11:
        pieces.append(INT32.pack(-1))
    pieces += (bytes_size(len(result.records), flexible), result.records)
    if flexible:
        pieces.append(_tags(broker, version, result, leaders))


def _tags(broker: Broker, version: int, result: Fetched, leaders: set[int]) -> bytes:
    if result.diverging is None and result.error == ErrorCode.NONE:
        return _NO_TAGS
    tagged = []
    if result.diverging is not None:
        tagged.append(_tag(0, _DIVERGING.pack(*result.diverging) + _NO_TAGS))
    fenced = result.error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
    partition = broker.cluster.lookup(result.want.topic or "", result.want.index)
    if version >= _LEADERS_FROM and fenced and partition is not None:
        state = partition.seen_by(broker.id)
        tagged.append(_tag(1, _LEADER.pack(state.leader, state.epoch) + _NO_TAGS))
        if state.leader >= 0:
            leaders.add(state.leader)
    return uvarint(len(tagged)) + b"".join(tagged)


def _tag(number: int, content: bytes) -> bytes:
    return uvarint(number) + uvarint(len(content)) + content


def _endpoints(broker: Broker, leaders: set[int]) -> bytes:
    if not leaders:
        return _NO_TAGS
    nodes = [
        INT32.pack(leader) + string(broker.cluster.brokers[leader].host, True) + INT32.pack(9092) + b"\x00" + _NO_TAGS
        for leader in sorted(leaders)
    ]
    return uvarint(1) + _tag(0, array_size(len(nodes), True) + b"".join(nodes))
