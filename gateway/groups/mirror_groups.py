"""Which groups of a source are mirror groups: asked of the source, one group at a time."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import structlog

from gateway.errors import Conflict
from gateway.groups.rules.kind import MemberTopics, is_mirror_group, kind_of
from gateway.operations.cluster_errors import source_errors
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


async def require_no_promoted_readers(records: Records, sources: Sources, intent: MirrorRecord) -> None:
    """A group that is promoted reads on the target: nobody can carry its offsets of one topic more over any more.

    Asked once the intent is stored: a group that is promoted later is promoted with this topic's offsets, too.

    Raises:
        Conflict: such a group has committed offsets of the topic on the source; names it and the way out.
        SourceUnreachable: the source did not tell.
    """
    promoted = [
        record
        for record in records.store.groups.values()
        if record.link == intent.link and record.state is GroupState.PROMOTED
    ]
    if not promoted:
        return
    access = await sources.reach(records.link(intent.link))
    slots = asyncio.Semaphore(_AT_ONCE)

    async def offsets_of(record: GroupRecord) -> dict[int, int]:
        async with slots, asyncio.timeout(_ASK_S):
            committed = await access.committed_offsets(record.source_name)
        return {index: each.offset for (topic, index), each in committed.items() if topic == intent.source_topic}

    with source_errors(intent.link):
        found = await asyncio.gather(*(offsets_of(record) for record in promoted))
    for record, offsets in zip(promoted, found, strict=True):
        if offsets:
            index, offset = min(offsets.items())
            raise Conflict(
                f"group '{record.group}' is promoted, and stands at offset {offset} of partition {index} of topic "
                f"'{intent.source_topic}' on the source: on the target it would begin anew; demote it first (lockgate "
                f"group demote {record.group}), or delete its offsets of the topic on the source"
            )
