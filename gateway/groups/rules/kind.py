"""Is a group of the source a mirror group, and of which kind? Pure: what the source says of it, in; a verdict, out."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from gateway.kafka.groups import DEAD, SHARE, STREAMS, GroupView
from gateway.state.records import GroupKind

_KINDS: Final = {SHARE: GroupKind.SHARE, STREAMS: GroupKind.STREAMS}


def kind_of(group_type: str) -> GroupKind:
    """Of the type that a cluster tells, '' from one that is too old or does not have the group."""
    return _KINDS.get(group_type, GroupKind.CONSUMER)


def kind_now(recorded: GroupKind, told: GroupView) -> GroupKind:
    """Of a group of that record, as one of the clusters tells it now.

    Only what a group keeps decides, start offsets or committed ones: nobody is in a streams group that is told as a
    classic one, and a cluster without such a group tells nothing.
    """
    kind = recorded if told.state == DEAD else kind_of(told.type)
    return kind if GroupKind.SHARE in (kind, recorded) else recorded


def unlike(group: str, kind: GroupKind, origin: str, told: GroupView, where: str) -> str:
    """Why a group of that kind on the `origin` cannot go to where another one has its name already; '' if it can."""
    there = kind_now(kind, told)
    if there is kind:
        return ""
    one, other = (f"a {each.lower()} group" for each in (kind, there))
    return (
        f"group '{group}' is {one} on the {origin} and {other} on the {where}: what it has read is kept in another way "
        f"there; delete the one on the {where} if nobody needs it"
    )


class MemberTopics(NamedTuple):
    """A member's topics as far as they can be read: `topics` empty = its subscription is not known to us."""

    topics: Collection[str]
    by_pattern: bool = False


def is_mirror_group(
    members: Iterable[MemberTopics], committed_topics: Collection[str], mirrored: Collection[str]
) -> bool:
    """True when the group reads one of the link's mirrored topics on the source, or when that cannot be ruled out.

    The safe side is the gate: a member without readable topics, or one that subscribes by pattern, counts as reading.

    Args:
        members: of the source group.
        committed_topics: topics it has committed offsets for on the source.
        mirrored: source topics that the link mirrors.
    """
    wanted = set(mirrored)
    if wanted.intersection(committed_topics):
        return True
    return any(member.by_pattern or not member.topics or wanted.intersection(member.topics) for member in members)
