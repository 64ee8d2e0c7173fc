"""OffsetCommit, OffsetFetch, OffsetDelete and TxnOffsetCommit, as brokers answer them.

A broker first looks whether the topics exist; what does not is answered UNKNOWN_TOPIC_OR_PARTITION, and the group is
asked about the rest only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import OffsetCommitResponse, OffsetDeleteResponse, OffsetFetchResponse, TxnOffsetCommitResponse
from tests.simulation.kafka.broker import Broker, Request, handles
from tests.simulation.kafka.groups.group_handlers import WRITES_S, status
from tests.simulation.kafka.groups.group_offsets import CommittedOffset, GroupOffsets, TopicPartition
from tests.simulation.kafka.groups.group_rules import GroupRules
from tests.simulation.kafka.groups.groups import Groups

_BY_ID = 10
_NEW_NOT_FOUND = 9
_LISTS = 8
_TXN_V2 = 5
_ABORTABLE = 4


def _topic_name(broker: Broker, topic: Any, by_id: bool) -> str | None:
    """The topic's name, None for an id that no topic has."""
    if not by_id:
        return str(topic.name)
    found = broker.cluster.topics_by_id.get(topic.topic_id)
    return found.name if found is not None else None


def _sorted_out(
    broker: Broker, topics: Iterable[Any], limit: int, by_id: bool
) -> tuple[dict[TopicPartition, CommittedOffset], dict[tuple[int, int], int]]:
    """Offsets of partitions that exist, and the error of every other one by (place of its topic, partition)."""
    offsets: dict[TopicPartition, CommittedOffset] = {}
    errors: dict[tuple[int, int], int] = {}
    for place, topic in enumerate(topics):
        name = _topic_name(broker, topic, by_id)
        for part in topic.partitions:
            index = part.partition_index
            if name is None:
                errors[place, index] = ErrorCode.UNKNOWN_TOPIC_ID
            elif broker.cluster.lookup(name, index) is None:
                errors[place, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif len(part.committed_metadata or "") > limit:
                errors[place, index] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                metadata = part.committed_metadata or ""
                offsets[name, index] = CommittedOffset(part.committed_offset, part.committed_leader_epoch, metadata)
    return offsets, errors


@handles(ApiKey.OFFSET_COMMIT)
async def offset_commit(broker: Broker, request: Request) -> Any:
    """Offsets of a member, or with generation -1 of somebody who is in no group."""
    message = request.message
    limit = broker.cluster.groups.config("offset.metadata.max.bytes")
    by_id = request.version >= _BY_ID
    offsets, errors = _sorted_out(broker, message.topics, limit, by_id)
    error = 0
    if offsets or any(code == ErrorCode.OFFSET_METADATA_TOO_LARGE for code in errors.values()):
        error = _commit(broker, request, offsets)
        if broker.cut_off and error == ErrorCode.COORDINATOR_NOT_AVAILABLE:
            is_back = await broker.hears_again(WRITES_S)
            error = _commit(broker, request, offsets) if is_back else ErrorCode.REQUEST_TIMED_OUT
    answer = OffsetCommitResponse.OffsetCommitResponseTopic
    part = answer.OffsetCommitResponsePartition
    return OffsetCommitResponse(
        topics=[
            answer(
                name=topic.name or "",
                topic_id=topic.topic_id if by_id else None,
                partitions=[
                    part(partition_index=p.partition_index, error_code=_code(errors, (place, p.partition_index), error))
                    for p in topic.partitions
                ],
            )
            for place, topic in enumerate(message.topics)
        ]
    )


def _code(errors: dict[tuple[int, int], int], key: tuple[int, int], group_error: int) -> int:
    """A partition's own error; the group's goes over one of the metadata's size."""
    own = errors.get(key, 0)
    if group_error and own in (0, ErrorCode.OFFSET_METADATA_TOO_LARGE):
        return int(group_error)
    return int(own)


def _commit(broker: Broker, request: Request, offsets: dict[TopicPartition, CommittedOffset]) -> int:
    message, owner = request.message, broker.cluster.groups
    groups = status(broker, message.group_id, may_be_empty=True)
    if isinstance(groups, ErrorCode):
        return groups
    generation = message.generation_id_or_member_epoch
    rules = groups.get(message.group_id)
    if rules is None:
        if generation >= 0:
            new = owner.is_java and request.version >= _NEW_NOT_FOUND
            return ErrorCode.GROUP_ID_NOT_FOUND if new else ErrorCode.ILLEGAL_GENERATION
        rules = groups.get_or_create(message.group_id)
        if not offsets and owner.is_java:
            groups.unseen.add(message.group_id)
    error = rules.group.commit_error(generation, message.member_id, message.group_instance_id, False)
    if error:
        return error
    rules.committed(message.member_id)
    if groups.shard.write_error:
        return groups.shard.write_error
    owner.offsets.commit(message.group_id, offsets)
    if offsets:
        groups.written()
    return ErrorCode.NONE


@handles(ApiKey.TXN_OFFSET_COMMIT)
async def txn_offset_commit(broker: Broker, request: Request) -> Any:
    """Offsets that count when the transaction commits."""
    message, owner = request.message, broker.cluster.groups
    offsets, errors = _sorted_out(broker, message.topics, owner.config("offset.metadata.max.bytes"), False)
    error = 0
    if offsets or any(code == ErrorCode.OFFSET_METADATA_TOO_LARGE for code in errors.values()):
        error = _commit_pending(broker, request, offsets)
    if request.version < 2 and error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    answer = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
    part = answer.TxnOffsetCommitResponsePartition
    return TxnOffsetCommitResponse(
        topics=[
            answer(
                name=topic.name,
                partitions=[
                    part(partition_index=p.partition_index, error_code=_code(errors, (place, p.partition_index), error))
                    for p in topic.partitions
                ],
            )
            for place, topic in enumerate(message.topics)
        ]
    )


def _commit_pending(broker: Broker, request: Request, offsets: dict[TopicPartition, CommittedOffset]) -> int:
    message, owner = request.message, broker.cluster.groups
    groups = status(broker, message.group_id)
    if isinstance(groups, ErrorCode):
        return groups
    if not owner.is_java:
        groups.get_or_create(message.group_id)  # the old coordinator makes a group of whoever asks
    key = (groups.shard.partition.index, message.producer_id)
    error = 0 if key in owner.open else _verify(broker, request, key[0])
    if not error:
        error = _pending_error(groups, message)
    if not error and owner.producers.get(key, -1) > message.producer_epoch:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    if not error:
        error = groups.shard.write_error
    if error:
        return error
    owner.producers[key] = message.producer_epoch
    owner.open.add(key)
    owner.offsets.commit_pending(message.producer_id, message.group_id, offsets)
    groups.written()
    return ErrorCode.NONE


def _verify(broker: Broker, request: Request, index: int) -> int:
    """Ask the transaction's coordinator whether the group's partition is in the transaction (KIP-890)."""
    message = request.message
    producer = (message.transactional_id, message.producer_id, message.producer_epoch)
    return broker.cluster.transactions.verify_offsets(
        *producer, index, adds=request.version >= _TXN_V2, abortable=request.version >= _ABORTABLE
    )


def _pending_error(groups: Groups, message: Any) -> int:
    rules: GroupRules | None = groups.get(message.group_id)
    if rules is None:
        if message.generation_id >= 0:
            return ErrorCode.ILLEGAL_GENERATION
        rules = groups.get_or_create(message.group_id)
    return rules.group.commit_error(message.generation_id, message.member_id, message.group_instance_id, True)


@handles(ApiKey.OFFSET_FETCH)
async def offset_fetch(broker: Broker, request: Request) -> Any:
    """Offsets of one group, or from version 8 on of several; `require_stable` asks for none of open transactions."""
    message, version = request.message, request.version
    stable = bool(message.require_stable) and version >= 7
    if version >= _LISTS:
        answer = OffsetFetchResponse.OffsetFetchResponseGroup
        found = []
        for group in message.groups:
            error, topics = _fetch(broker, group.group_id, group.topics, stable, answer, version >= _BY_ID)
            found.append(answer(group_id=group.group_id, error_code=error, topics=topics))
        return OffsetFetchResponse(groups=found)
    error, topics = _fetch(broker, message.group_id, message.topics, stable, OffsetFetchResponse, False)
    return OffsetFetchResponse(error_code=error, topics=topics)


def _fetch(
    broker: Broker, group: str, wanted: list[Any] | None, stable: bool, classes: Any, by_id: bool
) -> tuple[int, list[Any]]:
    owner = broker.cluster.groups
    groups = status(broker, group, may_be_empty=True)
    if isinstance(groups, ErrorCode):
        return int(groups), []
    if wanted is None:
        by_topic: dict[str, list[int]] = {}
        for name, index in sorted((broker.offsets or owner.offsets).of(group)):
            by_topic.setdefault(name, []).append(index)
        ids = broker.cluster.topics
        names = [(name, ids[name].id if by_id else None, indexes) for name, indexes in by_topic.items()]
    else:
        names = [
            (_topic_name(broker, topic, by_id) or "", topic.topic_id if by_id else None, topic.partition_indexes)
            for topic in wanted
        ]
    kind = getattr(classes, "OffsetFetchResponseTopics", None) or classes.OffsetFetchResponseTopic
    topics = []
    for name, topic_id, indexes in names:
        known = broker.offsets or owner.offsets
        partitions = [_fetched(known, group, (name, index), stable, kind, by_id) for index in indexes]
        topics.append(kind(name=name, partitions=partitions))
        if by_id:
            topics[-1].topic_id = topic_id
    return 0, topics


def _fetched(known: GroupOffsets, group: str, key: TopicPartition, stable: bool, kind: Any, by_id: bool) -> Any:
    part = getattr(kind, "OffsetFetchResponsePartitions", None) or kind.OffsetFetchResponsePartition
    found = known.of(group).get(key)
    error = 0
    if by_id and not key[0]:
        error = int(ErrorCode.UNKNOWN_TOPIC_ID)
    elif stable and known.is_unstable(group, key):
        found, error = None, int(ErrorCode.UNSTABLE_OFFSET_COMMIT)
    return part(
        partition_index=key[1],
        committed_offset=-1 if found is None else found.offset,
        committed_leader_epoch=-1 if found is None else found.leader_epoch,
        metadata="" if found is None else found.metadata,
        error_code=error,
    )


@handles(ApiKey.OFFSET_DELETE)
async def offset_delete(broker: Broker, request: Request) -> Any:
    """Of topics that no member reads."""
    message = request.message
    groups = status(broker, message.group_id)
    if isinstance(groups, ErrorCode):
        return OffsetDeleteResponse(error_code=int(groups), topics=[])
    rules = groups.get(message.group_id)
    if rules is None:
        return OffsetDeleteResponse(error_code=int(ErrorCode.GROUP_ID_NOT_FOUND), topics=[])
    if rules.group.members and rules.group.protocol_type != "consumer":
        return OffsetDeleteResponse(error_code=int(ErrorCode.NON_EMPTY_GROUP), topics=[])
    answer = OffsetDeleteResponse.OffsetDeleteResponseTopic
    topics = []
    for topic in message.topics:
        parts = []
        for part in topic.partitions:
            error = ErrorCode.NONE
            if broker.cluster.lookup(topic.name, part.partition_index) is None:
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif rules.group.is_subscribed(topic.name):
                error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            elif groups.shard.write_error:
                error = groups.shard.write_error
            else:
                broker.cluster.groups.offsets.delete(message.group_id, [(topic.name, part.partition_index)])
            index = part.partition_index
            parts.append(answer.OffsetDeleteResponsePartition(partition_index=index, error_code=int(error)))
        topics.append(answer(name=topic.name, partitions=parts))
    if not broker.cluster.groups.is_java and any(not part.error_code for topic in topics for part in topic.partitions):
        groups.drop_unused([message.group_id])
    return OffsetDeleteResponse(error_code=0, topics=topics)
