"""Which groups of a source are mirror groups: asked of the source, one group at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import structlog

from gateway.errors import Conflict
from gateway.groups.rules.kind import MemberTopics, is_mirror_group, kind_of
from gateway.kafka.commits import Committed
from gateway.kafka.topic_partition import TopicPartition
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.cluster_errors import source_errors, target_errors
from gateway.operations.records import Records
from gateway.operations.sources import Sources, SourcesForViews
from gateway.state.records import GroupKind, GroupRecord, GroupState, LinkRecord, MirrorRecord
from gateway.state.store import StateStore, StoreConflict

_ASK_S = 5.0
_AT_ONCE = 16
_log = structlog.get_logger("lockgate.control")


class Reading(NamedTuple):
    """What the source tells of a group. `kind`: of one that reads a topic that the link mirrors; None of another one.

    `settled`: it has members or committed offsets. Without both it may be about to begin.
    """

    kind: GroupKind | None
    settled: bool = True


async def reads_mirrored(
    store: StateStore, sources: Sources | SourcesForViews, link: LinkRecord, source_group: str
) -> Reading:
    """Whether a group of the link's source reads a topic that the link mirrors: of those that are stored now.

    Raises:
        SourceUnreachable, Conflict: the source did not tell.
    """
    topics = {mirror.source_topic for mirror in store.mirrors.values() if mirror.link == link.name}
    if not topics:
        return Reading(None)
    access = await sources.reach(link)
    with source_errors(link.name):
        async with asyncio.timeout(_ASK_S):
            view = await access.describe_group(source_group)
            committed = await access.committed_offsets(source_group)
    members = [MemberTopics(m.topics, bool(m.subscribed_regex)) for m in view.members]
    if not is_mirror_group(members, {topic for topic, _ in committed}, topics):
        return Reading(None, settled=bool(members or committed))
    return Reading(kind_of(view.type))


async def record_group(
    records: Records, link: LinkRecord, group: str, source_group: str, kind: GroupKind = GroupKind.CONSUMER
) -> None:
    """Store a mirror group that was just found, from where on it is gated; `group` is its name on the target.

    Nothing is written when it has a record already, of this link or another: whoever was faster knows more, and may
    have promoted it since the source was asked.

    Raises:
        StoreError: not written. StoreConflict: the link is not there any more.
    """
    store = records.store
    record = GroupRecord(
        link=link.name,
        group=group,
        state_since_ms=records.now_ms(),
        source_group=source_group if source_group != group else "",
        kind=kind,
    )

    def recorded() -> bool:
        return any(name == group for _, name in store.groups)

    def still_wanted() -> None:
        if recorded() or store.links.get(link.name) != link:
            raise StoreConflict(f"group '{group}' of link '{link.name}' was changed meanwhile")

    if recorded():
        return
    try:
        await store.insert(record, guard=still_wanted)
    except StoreConflict:
        if not recorded():
            raise
        return
    _log.info("mirror group found", link=link.name, group=group)


class PromotedReader(NamedTuple):
    """A promoted group that reads a topic, and how that is known: by an offset of it. `where` the offset stands."""

    group: str
    partition: int
    offset: int
    where: str


async def promoted_readers(
    records: Records,
    target: ClusterAccess,
    source: ClusterAccess | None,
    mirror: MirrorRecord,
) -> Sequence[PromotedReader]:
    """The promoted groups of the mirror's link that read its topic, wherever something tells of that.

    What was carried over at the promote, what the target holds, and what the source holds: each of them may be gone.
    Offsets of a group that is empty on the source expire after a week there (`offsets.retention.minutes`), while its
    members read on at the target.

    Args:
        source: None: it is not asked, as one that is gone cannot be.

    Raises:
        SourceUnreachable, TargetUnreachable, Conflict: a cluster did not tell.
    """
    slots = asyncio.Semaphore(_AT_ONCE)

    async def of(record: GroupRecord) -> PromotedReader | None:
        carried = {one.partition: one.target_offset for one in record.offsets if one.topic == mirror.mirror_topic}
        if carried:
            return _reader(record, carried, "where it was promoted")
        async with slots:
            with target_errors():
                async with asyncio.timeout(_ASK_S):
                    on_target = _of_topic(await target.committed_offsets(record.group), mirror.mirror_topic)
            if on_target or source is None:
                return _reader(record, on_target, "on the target")
            with source_errors(mirror.link):
                async with asyncio.timeout(_ASK_S):
                    on_source = _of_topic(await source.committed_offsets(record.source_name), mirror.source_topic)
        return _reader(record, on_source, "on the source")

    promoted = [
        record
        for record in records.store.groups.values()
        if record.link == mirror.link and record.state is GroupState.PROMOTED
    ]
    return [one for one in await asyncio.gather(*map(of, promoted)) if one is not None]


def _of_topic(committed: Mapping[TopicPartition, Committed], topic: str) -> dict[int, int]:
    return {partition: each.offset for (name, partition), each in committed.items() if name == topic}


def _reader(record: GroupRecord, offsets: Mapping[int, int], where: str) -> PromotedReader | None:
    return PromotedReader(record.group, *min(offsets.items()), where) if offsets else None


async def require_no_promoted_readers(
    records: Records, target: ClusterAccess, sources: Sources, intent: MirrorRecord
) -> None:
    """A group that is promoted reads on the target: nobody can carry its offsets of one topic more over any more, and
    a copy that is created anew has others.

    Asked once the intent is stored: a group that is promoted later is promoted with this topic's offsets, too.

    Raises:
        Conflict: such a group reads the topic; names it and the way out.
        SourceUnreachable, TargetUnreachable: a cluster did not tell.
    """
    if not any(one.link == intent.link and one.state is GroupState.PROMOTED for one in records.store.groups.values()):
        return
    source = await sources.reach(records.link(intent.link))
    found = await promoted_readers(records, target, source, intent)
    for group, partition, offset, where in found:
        topic = intent.source_topic if where == "on the source" else intent.mirror_topic
        raise Conflict(
            f"group '{group}' is promoted, and stands at offset {offset} of partition {partition} of topic "
            f"'{topic}' {where}: on the target it would begin anew; demote it first (lockgate group demote {group}), "
            "or delete its offsets of the topic there"
        )
