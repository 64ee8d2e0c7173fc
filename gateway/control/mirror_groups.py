"""Which groups of a source are mirror groups: asked of the source, one group at a time."""

from __future__ import annotations

import asyncio

import structlog

from gateway.control.context import ControlContext, source_errors
from gateway.control.store import StoreConflict
from gateway.domain.group_kind import MemberTopics, is_mirror_group
from gateway.domain.records import GroupRecord, LinkRecord

_ASK_S = 5.0
_log = structlog.get_logger("lockgate.control")


async def reads_mirrored(context: ControlContext, link: LinkRecord, source_group: str) -> bool:
    """Whether a group of the link's source reads a topic that the link mirrors.

    Raises:
        SourceUnreachable, Conflict: the source did not tell.
    """
    topics = {mirror.source_topic for mirror in context.store.mirrors.values() if mirror.link == link.name}
    if not topics:
        return False
    access = await context.sources.reach(link)
    with source_errors(link.name):
        async with asyncio.timeout(_ASK_S):
            view = await access.describe_group(source_group)
            committed = await access.committed_offsets(source_group)
    members = [MemberTopics(m.topics, bool(m.subscribed_regex)) for m in view.members]
    return is_mirror_group(members, {topic for topic, _ in committed}, topics)


async def record_group(context: ControlContext, link: LinkRecord, group: str, source_group: str) -> None:
    """Store a mirror group that was just found, from where on it is gated; `group` is its name on the target.

    Nothing is written when it has a record already, of this link or another: whoever was faster knows more, and may
    have promoted it since the source was asked.

    Raises:
        StoreError: not written. StoreConflict: the link is not there any more.
    """
    record = GroupRecord(
        link=link.name,
        group=group,
        state_since_ms=context.now_ms(),
        source_group=source_group if source_group != group else "",
    )

    def recorded() -> bool:
        return any(name == group for _, name in context.store.groups)

    def still_wanted() -> None:
        if recorded() or context.store.links.get(link.name) != link:
            raise StoreConflict(f"group '{group}' of link '{link.name}' was changed meanwhile")

    if recorded():
        return
    try:
        await context.store.insert(record, guard=still_wanted)
    except StoreConflict:
        if not recorded():
            raise
        return
    _log.info("mirror group found", link=link.name, group=group)
