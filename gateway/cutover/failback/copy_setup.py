"""Prepares the copy of a failback: keeps the topic's own configs, sets those of a copy, or recreates the topic.

The record says which cluster has the copy: the source, unless the topic has just failed back.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from gateway.errors import Conflict, SourceUnreachable, TargetUnreachable
from gateway.kafka.connection.errors import BrokerError
from gateway.kafka.rules.topic_configs import SyncedConfigs, config_changes, stamps_itself, synced_configs
from gateway.operations.cluster_access import ClusterAccess, TopicInfo
from gateway.operations.cluster_errors import knows_no_topic, source_errors, target_errors
from gateway.operations.door import Door
from gateway.state.records import NOT_PADDED, MirrorMode, MirrorRecord, MirrorState, PartitionStart
from gateway.topics.lifted_configs import LiftedConfigs
from gateway.topics.rules.copy_watch import Look, failure
from protocol.errors import ErrorCode

_REPLICAS = "replication.factor"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCopy:
    """`configs`: the copy's present configs, and those to restore later. `starts`: where a refilled copy begins."""

    configs: SyncedConfigs
    partitions: int
    starts: tuple[PartitionStart, ...] = ()


class CopyGone(Conflict):
    """The copy's topic was deleted during the failback."""


async def own_configs(target: ClusterAccess, record: MirrorRecord, source: ClusterAccess) -> dict[str, str]:
    """The copy's own configs and `replication.factor`, to be kept before they change or are deleted.

    If the failback destination is gone already, the target topic's.

    Raises:
        SourceUnreachable, TargetUnreachable, Conflict: a cluster does not answer, or refuses.
        CopyGone: the copy was deleted; the controller confirms it.
    """
    access, name = (target, record.mirror_topic) if _is_forward(record) else (source, record.source_topic)
    replicas_at_most = max(1, access.broker_count())
    with _errors(target, record, access):
        found = (await access.topics([name])).get(name)
        kept = {} if found is None else dict(await access.topic_overrides(name))
    if found is None:
        await _require_there(target, record, access, name)
        if _is_forward(record):
            raise TargetUnreachable(f"topic {name} is not there, or not yet")  # that broker may not know it yet
        with target_errors():
            found = await _topic(target, record.mirror_topic)
            kept = dict(await target.topic_overrides(record.mirror_topic))
    return kept | {_REPLICAS: str(min(found.replication_factor, replicas_at_most))}


async def prepare_copy(
    target: ClusterAccess,
    record: MirrorRecord,
    source: ClusterAccess,
    include: tuple[str, ...],
    door: Door,
    lifted: LiftedConfigs,
) -> PreparedCopy:
    """Give the copy the configs that a copy needs, and as many partitions as its origin has.

    Args:
        door: of the present term; changes are decided from `record`.
        include: the configs that follow the origin (`topic.config.sync.include`).

    Raises:
        SourceUnreachable, TargetUnreachable: a cluster does not answer.
        CopyGone: the copy was deleted; the controller confirms it.
        Conflict: a cluster refuses, the origin is gone, or the copy has more partitions than its origin.
    """
    origin, copy = (source, target) if _is_forward(record) else (target, source)
    origin_topic, copy_topic = record.mirror_topic, record.source_topic
    if _is_forward(record):
        origin_topic, copy_topic = copy_topic, origin_topic
    with _errors(target, record, origin):
        partitions = (await _topic(origin, origin_topic)).partitions
        origin_configs = (await origin.topic_configs([origin_topic]))[origin_topic]
    try:
        if _is_forward(record):
            partitions = await _grown_home(target, record, source, partitions, door)
        configs = await _configured(target, record, copy, copy_topic, partitions, origin_configs, include, door, lifted)
    except Conflict as exc:
        if knows_no_topic(exc):  # it existed a moment ago, or was just created: this broker may not know it yet
            await _require_there(target, record, copy, copy_topic)
            missing = TargetUnreachable if copy is target else SourceUnreachable
            raise missing(f"topic {copy_topic} is not there, or not yet: {exc}") from exc
        raise
    if record.state is not MirrorState.PENDING_SETUP_FOR_RESTORE:
        return PreparedCopy(configs=configs, partitions=partitions)
    with target_errors():
        starts = await target.starts(origin_topic, partitions)
    if record.mode is MirrorMode.TRANSLATE:
        starts = [replace(start, pad_to=NOT_PADDED) for start in starts]
    return PreparedCopy(configs=configs, partitions=partitions, starts=tuple(starts))


async def _grown_home(
    target: ClusterAccess, record: MirrorRecord, source: ClusterAccess, partitions: int, door: Door
) -> int:
    """The number of source partitions, after adding those that were added on the target right before the failback.

    They came too late for the mirror back, whose failback was already decided. They are empty, so the source gets them,
    as it gets added partitions while it is mirrored to.

    Raises:
        Conflict: there are records in them, which the source does not have.
    """
    with target_errors():
        has = (await _copy_topic(target, record.mirror_topic)).partitions
        if has <= partitions:
            return partitions
        added = (await target.log_ranges(record.mirror_topic, has))[partitions:]
    if any(end > 0 for _, end in added):
        raise Conflict(
            f"topic {record.mirror_topic} has {has} partitions on the target, {record.source_topic} {partitions} on "
            "the source, and there are records in those that the source lacks: they were added, and written to, "
            "behind the failback; read them from the target, then `mirror repair` creates the copy anew"
        )
    with source_errors(record.link):
        async with door.through(record):
            await source.add_partitions(record.source_topic, has)
    return has


async def _configured(
    target: ClusterAccess,
    record: MirrorRecord,
    copy: ClusterAccess,
    copy_topic: str,
    partitions: int,
    origin_configs: Mapping[str, str],
    include: tuple[str, ...],
    door: Door,
    lifted: LiftedConfigs,
) -> SyncedConfigs:
    """Give the copy its configs and partitions. Raises as `prepare_copy` does."""
    with _errors(target, record, copy):
        has = (await _copy_topic(copy, copy_topic)).partitions
        if has > partitions:
            raise Conflict(_too_many(record, copy_topic, has, partitions))
        present = (await copy.topic_configs([copy_topic]))[copy_topic]
        synced = [name for name in include if not (_is_forward(record) and name in record.configs)]
        configs = synced_configs(origin_configs, present, synced, record.failback.recreate)
        changes = config_changes(configs.apply, present)
        if changes or has < partitions or stamps_itself(configs.restore):
            async with door.through(record):
                await lifted.lift(copy, copy_topic, has, changes, configs.restore)
                if has < partitions:
                    await copy.add_partitions(copy_topic, partitions)
    return configs


async def delete_old_topic(record: MirrorRecord, source: ClusterAccess, door: Door) -> None:
    """Delete the very topic that the record names, by its id, unless it is gone.

    A source without topic ids (before Kafka 2.8) deletes by name. There a deletion without an answer is not repeated,
    and no topic is created under that name: the deletion could land later, and delete the new topic.

    Raises:
        SourceUnreachable: no answer; try again.
        Conflict: the source refuses; or, without topic ids, it is unknown whether the topic was deleted.
    """
    name, topic_id = record.source_topic, record.source_topic_id
    with source_errors(record.link):
        found = (await source.topics([name])).get(name)
    if found is None or (topic_id and found.topic_id and found.topic_id != topic_id):
        return  # the topic there now, if any, is another one
    try:
        with source_errors(record.link):
            async with door.through(record):
                await source.delete_topic(name, topic_id)
    except SourceUnreachable as exc:
        if topic_id:
            raise
        raise Conflict(
            f"whether topic {name} was deleted is not known, and the source has no topic ids by which a deletion that "
            f"lands later would spare a new topic: {exc}; look at it there, then run truncate-and-restore again"
        ) from exc
    except Conflict as exc:
        if not knows_no_topic(exc):
            raise


async def create_topic_anew(target: ClusterAccess, record: MirrorRecord, source: ClusterAccess, door: Door) -> None:
    """Create the source topic with the kept configs and as many partitions as the target has, unless it exists.

    Raises as `own_configs` does.
    """
    configs = dict(record.failback.recreate)
    replicas = int(configs.pop(_REPLICAS, "1"))
    with target_errors():
        partitions = (await _topic(target, record.mirror_topic)).partitions
    try:
        with source_errors(record.link):
            async with door.through(record):
                await source.create_topic(record.source_topic, partitions, replicas, configs)
    except Conflict as exc:
        if not _says(exc, ErrorCode.TOPIC_ALREADY_EXISTS):  # the old one is still being deleted
            raise


def _is_forward(record: MirrorRecord) -> bool:
    """True when the copy is on the target again."""
    return record.state is MirrorState.PENDING_MIRROR and not record.is_reverse


def _errors(target: ClusterAccess, record: MirrorRecord, access: ClusterAccess) -> AbstractContextManager[None]:
    return target_errors() if access is target else source_errors(record.link)


async def _copy_topic(access: ClusterAccess, name: str) -> TopicInfo:
    found = (await access.topics([name])).get(name)
    if found is None:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name} is not there")
    return found


async def _require_there(target: ClusterAccess, record: MirrorRecord, copy: ClusterAccess, name: str) -> None:
    """Raises CopyGone if the topic does not exist. Not for a topic being recreated: the next step creates it."""
    if record.state is not MirrorState.PENDING_MIRROR:
        return
    with _errors(target, record, copy):
        is_absent = await copy.is_absent(name)
    if is_absent:
        raise CopyGone(failure(record, Look.ASK, "")[1])


def _too_many(record: MirrorRecord, copy_topic: str, has: int, partitions: int) -> str:
    says = f"topic {copy_topic} has {has} partitions, but is to be a copy of one with {partitions}"
    if _is_forward(record):
        return f"{says}; `mirror repair` creates it anew"
    return (
        f"{says}; give {record.mirror_topic} on the target {has} as well (kafka-topics.sh --alter --partitions {has}), "
        "or `mirror truncate-and-restore` creates the copy anew"
    )


async def _topic(access: ClusterAccess, name: str) -> TopicInfo:
    found = (await access.topics([name])).get(name)
    if found is None:
        raise Conflict(f"topic {name} does not exist any more")
    return found


def _says(exc: Conflict, code: ErrorCode) -> bool:
    cause = exc.__cause__
    return isinstance(cause, BrokerError) and cause.code == code
