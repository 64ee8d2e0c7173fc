"""Steps: Produce, Fetch, ListOffsets, DeleteRecords, OffsetForLeaderEpoch, DescribeProducers."""

from __future__ import annotations

from random import Random
from typing import Any

from protocol.apis import ApiKey
from protocol.messages import (
    DeleteRecordsRequest,
    DescribeProducersRequest,
    FetchRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
    ProduceRequest,
)
from tests.broker_model.context import Context, ProducerInfo, Sent, TopicInfo
from tests.broker_model.records import batch
from tests.broker_model.sides import CLOSED
from tests.broker_model.steps import a_partition, a_producer, a_topic, step

_BY_ID_PRODUCE = 13
_BY_ID_FETCH = 13
_TXN_V2_PRODUCE = 12


def _produce_message(
    version: int, topic: TopicInfo, partition: int, records: bytes, acks: int, transactional_id: str | None
) -> Any:
    topic_class = ProduceRequest.TopicProduceData
    part = topic_class.PartitionProduceData(index=partition, records=records)
    by_id = version >= _BY_ID_PRODUCE
    data = topic_class(name=topic.name, topic_id=topic.topic_id if by_id else None, partition_data=[part])
    return ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=10_000, topic_data=[data])


async def _produce(
    ctx: Context,
    rng: Random,
    label: str,
    topic: TopicInfo,
    partition: int,
    records: bytes,
    transactional_id: str | None = None,
) -> Any:
    node = await ctx.leader(topic.name, partition)
    highest = 11 if topic.topic_id is None else 13
    if transactional_id is not None:
        highest = min(highest, 11)
    version = ctx.version(rng, ApiKey.PRODUCE, highest, 3)
    acks = rng.choice((-1, -1, -1, 1))
    message = _produce_message(version, topic, partition, records, acks, transactional_id)
    answer = await ctx.ask(label, node, ApiKey.PRODUCE, version, message)
    if acks != -1 and topic.name in ctx.topics and partition < topic.partitions:
        await ctx.until_replicated(topic.name, partition)
    if answer is None or answer is CLOSED:
        return None
    return answer.responses[0].partition_responses[0]


def _keys(rng: Random) -> list[bytes]:
    return [b"k%d" % rng.randrange(4) for _ in range(rng.randint(1, 3))]


def _time(ctx: Context, rng: Random) -> int:
    return ctx.base_ms - 100_000 + rng.randrange(50_000)


@step(10)
async def produce_plain(ctx: Context, rng: Random) -> None:
    """Records without a producer id."""
    topic = a_topic(ctx, rng)
    if topic is None:
        return
    partition = a_partition(rng, topic)
    await _produce(ctx, rng, "produce", topic, partition, batch(_keys(rng), _time(ctx, rng)))


@step(2)
async def produce_unacknowledged(ctx: Context, rng: Random) -> None:
    """acks=0: no answer, or a closed connection. The next request on the connection comes after it."""
    topic = a_topic(ctx, rng, unknown=0.0)
    if topic is None:
        return
    partition = a_partition(rng, topic, unknown=0.0)
    version = ctx.version(rng, ApiKey.PRODUCE, 11, 3)
    message = _produce_message(version, topic, partition, batch(_keys(rng), _time(ctx, rng)), 0, None)
    node = await ctx.leader(topic.name, partition)
    await ctx.ask("produce with acks=0", node, ApiKey.PRODUCE, version, message)
    await ctx.until_replicated(topic.name, partition)


def _next_sequence(sent: list[Sent], producer: ProducerInfo) -> int:
    current = [each for each in sent if (each.producer_id, each.epoch) == (producer.producer_id, producer.epoch)]
    return current[-1].sequence + current[-1].count if current else 0


async def _produce_in_sequence(ctx: Context, rng: Random, producer: ProducerInfo, topic: TopicInfo) -> None:
    """The next batch; sometimes a batch again, one too far, or of another epoch."""
    partition = rng.randrange(topic.partitions)
    sent = producer.sent.setdefault((topic.name, partition), [])
    keys, epoch, sequence = _keys(rng), producer.epoch, _next_sequence(sent, producer)
    kind = rng.random()
    label = "produce in sequence"
    if kind < 0.18 and sent:
        again = rng.choice(sent[-7:])
        keys, epoch, sequence = [b"again"] * again.count, again.epoch, again.sequence
        label = "produce a batch again"
    elif kind < 0.26:
        sequence, label = sequence + rng.choice((1, 5)), "produce after a gap"
    elif kind < 0.32:
        epoch, label = epoch + rng.choice((-1, 1, 2)), "produce with another epoch"
    elif kind < 0.35:
        epoch, sequence, label = epoch + 1, 0, "produce with the next epoch from 0"
    if epoch < 0:
        return
    records = batch(
        keys,
        _time(ctx, rng),
        producer_id=producer.producer_id,
        epoch=epoch,
        sequence=sequence,
        transactional=producer.transactional_id is not None,
    )
    found = await _produce(ctx, rng, label, topic, partition, records, producer.transactional_id)
    if found is not None and not found.error_code and label != "produce a batch again":
        sent.append(Sent(sequence, len(keys), epoch, producer.producer_id))


@step(16)
async def produce_idempotent(ctx: Context, rng: Random) -> None:
    """A batch of an idempotent producer."""
    topic, producer = a_topic(ctx, rng, unknown=0.0), a_producer(ctx, rng, transactional=False)
    if topic is not None and producer is not None:
        await _produce_in_sequence(ctx, rng, producer, topic)


@step(14)
async def produce_transactional(ctx: Context, rng: Random) -> None:
    """A batch of a transaction, mostly to a partition that was added to it."""
    producer = a_producer(ctx, rng, transactional=True)
    topic = a_topic(ctx, rng, unknown=0.0)
    if producer is None or topic is None:
        return
    added = sorted({name for name, _ in producer.partitions if name in ctx.topics})
    if added and rng.random() < 0.9:
        topic = ctx.topics[rng.choice(added)]
    await _produce_in_sequence(ctx, rng, producer, topic)


def _fetch_topic(version: int, topic: TopicInfo, parts: list[Any]) -> Any:
    by_id = version >= _BY_ID_FETCH
    return FetchRequest.FetchTopic(topic=topic.name, topic_id=topic.topic_id if by_id else None, partitions=parts)


def _fetch_part(rng: Random, topic: TopicInfo, partition: int) -> Any:
    offset = rng.choice((0, 0, 1, 2, 3, 5, 8, 13, -1, 100_000))
    return FetchRequest.FetchTopic.FetchPartition(
        partition=partition,
        current_leader_epoch=rng.choice((-1, -1, -1, 0, 5)),
        fetch_offset=offset,
        log_start_offset=-1,
        partition_max_bytes=rng.choice((1, 100, 1 << 20)),
    )


@step(12)
async def fetch(ctx: Context, rng: Random) -> None:
    """Without a session, either isolation."""
    topic = a_topic(ctx, rng)
    if topic is None:
        return
    partition = a_partition(rng, topic)
    highest = 12 if topic.topic_id is None else 17
    version = ctx.version(rng, ApiKey.FETCH, highest, 4)
    message = FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=rng.choice((0, 1)),
        max_bytes=rng.choice((1, 200, 1 << 20)),
        isolation_level=rng.randint(0, 1),
        session_id=0,
        session_epoch=-1,
        topics=[_fetch_topic(version, topic, [_fetch_part(rng, topic, partition)])],
        forgotten_topics_data=[],
        rack_id="",
    )
    await ctx.ask("fetch", await ctx.leader(topic.name, partition), ApiKey.FETCH, version, message)


@step(6)
async def fetch_in_session(ctx: Context, rng: Random) -> None:
    """KIP-227: a session is made, used, or misused."""
    topic = a_topic(ctx, rng, unknown=0.0)
    if topic is None:
        return
    partition = a_partition(rng, topic, unknown=0.0)
    node = await ctx.leader(topic.name, partition)
    session = ctx.sessions.get(node)
    version = ctx.version(rng, ApiKey.FETCH, 12 if topic.topic_id is None else 17, 7)
    session_id, epoch = (0, 0) if session is None or rng.random() < 0.3 else (session[0], session[1])
    if session is not None and session[2] != (version >= _BY_ID_FETCH):
        session_id, epoch = 0, 0
    if session_id and rng.random() < 0.15:
        epoch += 1
    elif session_id and rng.random() < 0.1:
        session_id += 1
    parts = [_fetch_part(rng, topic, partition)] if not session_id or rng.random() < 0.7 else []
    message = FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        isolation_level=rng.randint(0, 1),
        session_id=session_id,
        session_epoch=epoch,
        topics=[_fetch_topic(version, topic, parts)] if parts else [],
        forgotten_topics_data=[],
        rack_id="",
    )
    answer = await ctx.ask("fetch in a session", node, ApiKey.FETCH, version, message, once=True)
    if answer is CLOSED:
        return
    if answer.error_code:
        ctx.sessions.pop(node, None)
    elif answer.session_id:
        ctx.sessions[node] = [answer.session_id, epoch + 1 if session_id else 1, version >= _BY_ID_FETCH]


@step(8)
async def list_offsets(ctx: Context, rng: Random) -> None:
    """Ends, beginnings, by time."""
    topic = a_topic(ctx, rng)
    if topic is None:
        return
    partition = a_partition(rng, topic)
    version = ctx.version(rng, ApiKey.LIST_OFFSETS, 9, 1)
    times = [-1, -1, -2, ctx.base_ms - 100_000 + rng.randrange(60_000)]
    if version >= 7:
        times.append(-3)
    part_class = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition
    part = part_class(
        partition_index=partition, current_leader_epoch=rng.choice((-1, -1, 0, 4)), timestamp=rng.choice(times)
    )
    message = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=rng.randint(0, 1),
        topics=[ListOffsetsRequest.ListOffsetsTopic(name=topic.name, partitions=[part])],
        timeout_ms=1000,
    )
    node = await ctx.leader(topic.name, partition)
    await ctx.ask("list offsets", node, ApiKey.LIST_OFFSETS, version, message)


@step(3)
async def delete_records(ctx: Context, rng: Random) -> None:
    """Within the log, beyond it, up to the high watermark."""
    topic = a_topic(ctx, rng)
    if topic is None:
        return
    partition = a_partition(rng, topic)
    part_class = DeleteRecordsRequest.DeleteRecordsTopic.DeleteRecordsPartition
    part = part_class(partition_index=partition, offset=rng.choice((0, 1, 2, 3, 5, 8, -1, -2, 100_000)))
    topics = [DeleteRecordsRequest.DeleteRecordsTopic(name=topic.name, partitions=[part])]
    message = DeleteRecordsRequest(topics=topics, timeout_ms=5000)
    node = await ctx.leader(topic.name, partition)
    await ctx.ask("delete records", node, ApiKey.DELETE_RECORDS, ctx.version(rng, ApiKey.DELETE_RECORDS), message)


@step(2)
async def offset_for_leader_epoch(ctx: Context, rng: Random) -> None:
    """Where an epoch ends."""
    topic = a_topic(ctx, rng)
    if topic is None:
        return
    partition = a_partition(rng, topic)
    topic_class = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    part = topic_class.OffsetForLeaderPartition(
        partition=partition, current_leader_epoch=rng.choice((-1, 0, 3)), leader_epoch=rng.choice((0, 0, 1, 7))
    )
    message = OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic_class(topic=topic.name, partitions=[part])])
    node = await ctx.leader(topic.name, partition)
    version = ctx.version(rng, ApiKey.OFFSET_FOR_LEADER_EPOCH, lowest=2)
    await ctx.ask("offset for leader epoch", node, ApiKey.OFFSET_FOR_LEADER_EPOCH, version, message)


@step(5)
async def describe_producers(ctx: Context, rng: Random) -> None:
    """What the leader knows of producers."""
    topic = a_topic(ctx, rng)
    if topic is None:
        return
    partition = a_partition(rng, topic)
    asked = DescribeProducersRequest.TopicRequest(name=topic.name, partition_indexes=[partition])
    node = await ctx.leader(topic.name, partition)
    await ctx.ask("describe producers", node, ApiKey.DESCRIBE_PRODUCERS, 0, DescribeProducersRequest(topics=[asked]))
