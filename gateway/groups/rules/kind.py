"""Is a group of the source a mirror group, and of which kind? Pure: what the source says of it, in; a verdict, out."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from gateway.kafka.groups import SHARE, STREAMS
from gateway.state.records import GroupKind

_KINDS: Final = {SHARE: GroupKind.SHARE, STREAMS: GroupKind.STREAMS}


def kind_of(group_type: str) -> GroupKind:
    """Of the type that a cluster tells, '' from one that is too old or does not have the group."""
    return _KINDS.get(group_type, GroupKind.CONSUMER)


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
