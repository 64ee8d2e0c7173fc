"""Which groups of a source are mirror groups: asked of the source, one group at a time."""

from __future__ import annotations

import asyncio

from gateway.control.context import ControlContext, source_errors
from gateway.domain.group_kind import MemberTopics, is_mirror_group
from gateway.domain.records import GroupRecord, LinkRecord

_ASK_S = 5.0


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


def new_record(context: ControlContext, link: LinkRecord, group: str, source_group: str) -> GroupRecord:
    """The record of a mirror group that was just found; `group` is its name on the target."""
    return GroupRecord(
        link=link.name,
        group=group,
        state_since_ms=context.now_ms(),
        source_group=source_group if source_group != group else "",
    )
