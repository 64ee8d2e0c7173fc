"""Fetch v4-18 of consumers: sessions, limits, isolation, and the long poll.

A partition is read from its leader; from v11 on also from a follower that is asked (KIP-392), up to what that knows of
the high watermark. Readers wait until something they can see was appended, or `max_wait_ms`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from tests.simulation.kafka.broker import Broker, Request, handles
from tests.simulation.kafka.logs.fetch_response import Answer, Fetched, build_body
from tests.simulation.kafka.logs.fetch_session import NO_SESSION, Context, Key, Wanted

if TYPE_CHECKING:
    from tests.simulation.kafka.logs.replica import Replica

_BY_ID_FROM: Final = 13
_FOLLOWERS_FROM: Final = 11
_BEFORE_LENGTH: Final = 12  # bytes of a batch up to and with its length
_NO_EPOCH: Final = -1


@dataclass(slots=True)
class _Query:
    """What holds for all partitions of a request."""

    broker: Broker
    version: int
    max_bytes: int
    committed: bool


@handles(ApiKey.FETCH)
async def fetch(broker: Broker, request: Request) -> bytes:
    """Serve a Fetch request."""
    message, version = request.message, request.version
    wanted = _wanted(broker, version, message)
    forgotten = _forgotten(version, message)
    context = broker.sessions.context(version, message, wanted, forgotten)
    if context.error != ErrorCode.NONE:
        return build_body(broker, version, Answer(context.error, NO_SESSION, []))
    query = _Query(broker, version, message.max_bytes, message.isolation_level == 1)
    erroneous, readable = _sorted(broker, context.wanted)
    results = _read(query, readable)
    if readable and not _enough(results, message.min_bytes):
        results = await _wait(query, readable, message.min_bytes, message.max_wait_ms, results)
    return build_body(broker, version, _concluded(broker, version, context, results + erroneous))


def _wanted(broker: Broker, version: int, message: Any) -> dict[Key, Wanted]:
    wanted: dict[Key, Wanted] = {}
    for topic in message.topics:
        name, topic_id = _named(broker, version, topic)
        for part in topic.partitions:
            leader_epoch = part.current_leader_epoch if version >= 9 else _NO_EPOCH
            last_epoch = part.last_fetched_epoch if version >= 12 else _NO_EPOCH
            wanted[(topic_id if version >= _BY_ID_FROM else name), part.partition] = Wanted(
                name, topic_id, part.partition, part.fetch_offset, part.partition_max_bytes, leader_epoch, last_epoch
            )
    return wanted


def _forgotten(version: int, message: Any) -> list[Key]:
    if version < 7:
        return []
    return [
        (topic.topic_id if version >= _BY_ID_FROM else topic.topic, index)
        for topic in message.forgotten_topics_data
        for index in topic.partitions
    ]


def _named(broker: Broker, version: int, topic: Any) -> tuple[str | None, UUID | None]:
    if version < _BY_ID_FROM:
        return topic.topic, None
    found = broker.cluster.topics_by_id.get(topic.topic_id)
    return (None if found is None else found.name), topic.topic_id


def _sorted(broker: Broker, wanted: dict[Key, Wanted]) -> tuple[list[Fetched], list[Wanted]]:
    """Partitions that do not exist, and those to be read."""
    erroneous: list[Fetched] = []
    readable: list[Wanted] = []
    for want in wanted.values():
        if want.topic is None:
            found = broker.cluster.topics_by_id.get(want.topic_id) if want.topic_id is not None else None
            if found is None:
                erroneous.append(Fetched(want, ErrorCode.UNKNOWN_TOPIC_ID, aborted=[]))
                continue
            want.topic = found.name
        if broker.cluster.lookup(want.topic, want.index) is None:
            erroneous.append(Fetched(want, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, aborted=[]))
        else:
            readable.append(want)
    return erroneous, readable


def _enough(results: list[Fetched], min_bytes: int) -> bool:
    size = 0
    for result in results:
        if result.error != ErrorCode.NONE or result.diverging is not None:
            return True
        size += len(result.records)
    return size >= min_bytes


async def _wait(
    query: _Query, readable: list[Wanted], min_bytes: int, max_wait_ms: int, results: list[Fetched]
) -> list[Fetched]:
    loop = query.broker.cluster.loop
    end = loop.time() + max_wait_ms / 1000
    while loop.time() < end:
        woken: asyncio.Future[None] = loop.create_future()
        watched = [replica for want in readable if (replica := _replica(query, want)) is not None]
        for replica in watched:
            replica.readers[woken] = None
        timer = loop.call_at(end, _time_out, woken)
        await woken
        timer.cancel()
        for replica in watched:
            replica.readers.pop(woken, None)
        results = _read(query, readable)
        if _enough(results, min_bytes):
            break
    return results


def _time_out(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _replica(query: _Query, want: Wanted) -> Replica | None:
    partition = query.broker.cluster.lookup(want.topic or "", want.index)
    return None if partition is None else partition.replicas.get(query.broker.id)


def _read(query: _Query, readable: list[Wanted]) -> list[Fetched]:
    left = query.max_bytes
    whole_first = True
    results = []
    for want in readable:
        result = _read_one(query, want, left, whole_first)
        size = len(result.records)
        if size:
            whole_first = False
            left = max(0, left - size)
        results.append(result)
    return results


def _read_one(query: _Query, want: Wanted, left: int, whole_first: bool) -> Fetched:
    partition = query.broker.cluster.lookup(want.topic or "", want.index)
    if partition is None:
        return Fetched(want, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if want.topic_id is not None and partition.topic.id != want.topic_id:
        return Fetched(want, ErrorCode.INCONSISTENT_TOPIC_ID)
    replica = partition.replicas.get(query.broker.id)
    error = _refused(query, want, replica)
    if replica is None or error != ErrorCode.NONE:
        return Fetched(want, error)
    log = replica.log
    start, high, stable = log.start, log.high_watermark, log.last_stable_offset
    if want.last_epoch != _NO_EPOCH:
        epoch, end = log.end_of_epoch(want.last_epoch)
        if epoch < 0 or want.offset < start:
            return Fetched(want, ErrorCode.OFFSET_OUT_OF_RANGE)
        if epoch < want.last_epoch or end < want.offset:
            aborted: list[tuple[int, int]] | None = None
            return Fetched(want, ErrorCode.NONE, high, stable, start, b"", aborted, (epoch, end))
    if not start <= want.offset <= log.end:
        return Fetched(want, ErrorCode.OFFSET_OUT_OF_RANGE)
    limit = stable if query.committed else high
    records = log.read(want.offset, limit, min(want.max_bytes, left), whole_first)
    if _is_cut_off(records):
        return Fetched(want, ErrorCode.NONE, high, stable, start)
    aborted = None
    if query.committed:
        aborted = log.producers.aborted_between(want.offset, log.end) if records else []
    return Fetched(want, ErrorCode.NONE, high, stable, start, records, aborted)


def _is_cut_off(records: bytes) -> bool:
    """Not even the first batch is whole: a broker then sends nothing, and no aborted transactions."""
    return bool(records) and len(records) < _BEFORE_LENGTH + int.from_bytes(records[8:_BEFORE_LENGTH], "big")


def _refused(query: _Query, want: Wanted, replica: Replica | None) -> ErrorCode:
    if replica is None or replica.epoch < 0:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if want.leader_epoch != _NO_EPOCH:
        if want.leader_epoch < replica.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if want.leader_epoch > replica.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
    if replica.leading is None and query.version < _FOLLOWERS_FROM:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.NONE


def _concluded(broker: Broker, version: int, context: Context, results: list[Fetched]) -> Answer:
    session = context.session
    if session is None:
        if not context.opens:
            return Answer(ErrorCode.NONE, NO_SESSION, results)
        for result in results:
            result.want.told_high_watermark, result.want.told_log_start = result.high_watermark, result.log_start
        return Answer(ErrorCode.NONE, broker.sessions.open(version, context.wanted), results)
    if session.epoch != context.expected_epoch:
        return Answer(ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.id, [])
    shown = []
    for result in results:
        if not _is_news(result):
            continue
        shown.append(result)
        if result.records:  # it goes to the end, so that others are read first the next time
            want = result.want
            key: Key = (want.topic_id if session.by_id else want.topic, want.index)
            session.partitions[key] = session.partitions.pop(key, want)
    return Answer(ErrorCode.NONE, session.id, shown)


def _is_news(result: Fetched) -> bool:
    want = result.want
    news = bool(result.records) or result.diverging is not None
    if want.told_high_watermark != result.high_watermark:
        want.told_high_watermark, news = result.high_watermark, True
    if want.told_log_start != result.log_start:
        want.told_log_start, news = result.log_start, True
    if result.error != ErrorCode.NONE:
        want.told_high_watermark, news = -1, True
    return news
