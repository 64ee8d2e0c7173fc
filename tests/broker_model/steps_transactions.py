"""Steps: producer ids, transactions, offsets in transactions, and what is told of them."""

from __future__ import annotations

from random import Random
from typing import Any

from protocol.apis import ApiKey
from protocol.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    TxnOffsetCommitRequest,
)
from tests.broker_model.context import Context, ProducerInfo
from tests.broker_model.sides import CLOSED
from tests.broker_model.steps import a_partition, a_producer, a_topic, step

_ENDS_V1 = 4


def _a_transactional_id(ctx: Context, rng: Random) -> str:
    return f"{ctx.prefix}txn{rng.randrange(3)}"


def _given(ctx: Context, transactional_id: str | None, answer: Any) -> None:
    """A producer id was given out; the older users of the same transactional id keep what they had."""
    if answer is CLOSED or answer.error_code:
        return
    ctx.producers.append(ProducerInfo(answer.producer_id, answer.producer_epoch, transactional_id))
    del ctx.producers[:-8]


@step(5)
async def init_producer_id(ctx: Context, rng: Random) -> None:
    """Without a transactional id."""
    version = ctx.version(rng, ApiKey.INIT_PRODUCER_ID, 5)
    producer_id, epoch = (-1, -1) if rng.random() < 0.9 or version < 3 else (5, -1)
    message = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=60_000, producer_id=producer_id, producer_epoch=epoch
    )
    answer = await ctx.ask("init producer id", ctx.side.nodes[0], ApiKey.INIT_PRODUCER_ID, version, message)
    _given(ctx, None, answer)


@step(6)
async def init_transactional_id(ctx: Context, rng: Random) -> None:
    """A new user of a transactional id, or one that recovers (KIP-360)."""
    transactional_id = _a_transactional_id(ctx, rng)
    version = ctx.version(rng, ApiKey.INIT_PRODUCER_ID, 5)
    producer_id, epoch = -1, -1
    users = [each for each in ctx.producers if each.transactional_id == transactional_id]
    if version >= 3 and users and rng.random() < 0.5:
        user = rng.choice(users)
        producer_id, epoch = user.producer_id, user.epoch
    timeout_ms = rng.choice((60_000, 60_000, 60_000, 60_000, 0, 10**9))
    node = await ctx.txn_coordinator(transactional_id)
    message = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
    answer = await ctx.ask("init transactional id", node, ApiKey.INIT_PRODUCER_ID, version, message)
    await ctx.until_ended(transactional_id)
    _given(ctx, transactional_id, answer)


def _epoch(rng: Random, producer: ProducerInfo) -> int:
    return producer.epoch + (rng.choice((-1, 1)) if rng.random() < 0.06 else 0)


@step(12)
async def add_partitions_to_txn(ctx: Context, rng: Random) -> None:
    """One partition or two, sometimes one that does not exist."""
    producer, topic = a_producer(ctx, rng, transactional=True), a_topic(ctx, rng)
    if producer is None or topic is None or producer.transactional_id is None:
        return
    indexes = sorted({a_partition(rng, topic), a_partition(rng, topic)})
    version = ctx.version(rng, ApiKey.ADD_PARTITIONS_TO_TXN, 3)
    message = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=_epoch(rng, producer),
        v3_and_below_topics=[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic.name, partitions=indexes)],
    )
    node = await ctx.txn_coordinator(producer.transactional_id)
    answer = await ctx.ask("add partitions to txn", node, ApiKey.ADD_PARTITIONS_TO_TXN, version, message)
    if answer is CLOSED:
        return
    for found in answer.results_by_topic_v3_and_below:
        for part in found.results_by_partition:
            if not part.partition_error_code:
                producer.partitions.add((topic.name, part.partition_index))


@step(10)
async def end_txn(ctx: Context, rng: Random) -> None:
    """Commit or abort, whether there is something to end or not."""
    producer = a_producer(ctx, rng, transactional=True)
    if producer is None or producer.transactional_id is None:
        return
    version = ctx.version(rng, ApiKey.END_TXN, _ENDS_V1)
    message = EndTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=_epoch(rng, producer),
        committed=rng.random() < 0.7,
    )
    node = await ctx.txn_coordinator(producer.transactional_id)
    answer = await ctx.ask("end txn", node, ApiKey.END_TXN, version, message)
    await ctx.until_ended(producer.transactional_id)
    if answer is not CLOSED and not answer.error_code:
        producer.partitions.clear()


@step(4)
async def add_offsets_to_txn(ctx: Context, rng: Random) -> None:
    """A group's offsets become part of the transaction."""
    producer = a_producer(ctx, rng, transactional=True)
    if producer is None or producer.transactional_id is None:
        return
    message = AddOffsetsToTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=_epoch(rng, producer),
        group_id=f"group{rng.randrange(2)}{ctx.mine}",
    )
    node = await ctx.txn_coordinator(producer.transactional_id)
    version = ctx.version(rng, ApiKey.ADD_OFFSETS_TO_TXN)
    await ctx.ask("add offsets to txn", node, ApiKey.ADD_OFFSETS_TO_TXN, version, message)


@step(6)
async def txn_offset_commit(ctx: Context, rng: Random) -> None:
    """Offsets of a transaction, by a member of the group or by somebody who tells no generation."""
    producer, topic = a_producer(ctx, rng, transactional=True), a_topic(ctx, rng)
    if producer is None or topic is None or producer.transactional_id is None:
        return
    group = f"group{rng.randrange(2)}{ctx.mine}"
    members = [each for each in ctx.members.values() if each.group == group and each.member_id]
    version = ctx.version(rng, ApiKey.TXN_OFFSET_COMMIT, _ENDS_V1)
    member_id, generation = "", -1
    if version >= 3 and members and rng.random() < 0.6:
        member = rng.choice(members)
        member_id, generation = member.member_id, member.generation + (1 if rng.random() < 0.1 else 0)
    topic_class = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
    part = topic_class.TxnOffsetCommitRequestPartition(
        partition_index=a_partition(rng, topic),
        committed_offset=rng.randrange(50),
        committed_leader_epoch=-1,
        committed_metadata=rng.choice(("", "m", "x" * 5000)) if rng.random() < 0.3 else "",
    )
    message = TxnOffsetCommitRequest(
        transactional_id=producer.transactional_id,
        group_id=group,
        producer_id=producer.producer_id,
        producer_epoch=_epoch(rng, producer),
        generation_id=generation,
        member_id=member_id,
        group_instance_id=None,
        topics=[topic_class(name=topic.name, partitions=[part])],
    )
    node = await ctx.group_coordinator(group)
    await ctx.ask("txn offset commit", node, ApiKey.TXN_OFFSET_COMMIT, version, message)


@step(1)
async def let_a_transaction_time_out(ctx: Context, rng: Random) -> None:
    """The coordinator aborts it and fences its producer, who then tries everything."""
    topic = a_topic(ctx, rng, unknown=0.0)
    if topic is None:
        return
    transactional_id = f"{ctx.prefix}slow{len(ctx.producers)}"
    node = await ctx.txn_coordinator(transactional_id)
    init = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=600, producer_id=-1, producer_epoch=-1
    )
    given = await ctx.ask("init slow", node, ApiKey.INIT_PRODUCER_ID, 4, init)
    producer = ProducerInfo(given.producer_id, given.producer_epoch, transactional_id)
    add = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic.name, partitions=[0])],
    )
    await ctx.ask("add slow", node, ApiKey.ADD_PARTITIONS_TO_TXN, 3, add)
    await ctx.until_ended(transactional_id, "CompleteAbort")
    end = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=rng.random() < 0.5,
    )
    for version in (1, rng.choice((2, 3, 4))):
        await ctx.ask("end slow", node, ApiKey.END_TXN, version, end)
    await ctx.ask("add slow again", node, ApiKey.ADD_PARTITIONS_TO_TXN, rng.choice((0, 3)), add)
    describe = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    await ctx.ask("describe slow", node, ApiKey.DESCRIBE_TRANSACTIONS, 0, describe)
    if rng.random() < 0.5:
        init.producer_id, init.producer_epoch = producer.producer_id, producer.epoch
    await ctx.ask("init slow again", node, ApiKey.INIT_PRODUCER_ID, rng.choice((3, 4)), init)


@step(4)
async def describe_transactions(ctx: Context, rng: Random) -> None:
    """State, producer, partitions."""
    transactional_id = _a_transactional_id(ctx, rng)
    node = await ctx.txn_coordinator(transactional_id)
    message = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    await ctx.ask("describe transactions", node, ApiKey.DESCRIBE_TRANSACTIONS, 0, message)


@step(2)
async def list_transactions(ctx: Context, rng: Random) -> None:
    """Those of this sequence: others have producer ids that are not asked for."""
    ids = sorted({each.producer_id for each in ctx.producers if each.transactional_id is not None})
    if not ids:
        return
    states = rng.choice(([], [], ["Ongoing"], ["CompleteCommit", "Empty"], ["Nonsense"]))
    version = ctx.version(rng, ApiKey.LIST_TRANSACTIONS, 1)
    message = ListTransactionsRequest(state_filters=states, producer_id_filters=ids, duration_filter=-1)
    await ctx.ask_everywhere("list transactions", ApiKey.LIST_TRANSACTIONS, version, message, "transaction_states")
