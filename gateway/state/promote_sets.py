"""What changes sides together, as the records of a set of mirror topics name it: topics, and groups among them.

`MirrorCutover.promoted_with` holds names. A group's begins with `group/`, which no topic's does: Kafka allows no slash
there. A gateway of a version that knows of no groups in a set takes such a name for a topic that is not there, so for
it the set is never whole: should it lead, it gives the promote up, and cuts over no half of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gateway.state.records import MirrorRecord, MirrorState

GROUP: Final = "group/"


def name_of(group: str) -> str:
    """A group among the names of a set, or of a transaction."""
    return f"{GROUP}{group}"


def groups_among(names: Iterable[str]) -> tuple[str, ...]:
    """The groups of a set, by their names on the target."""
    return tuple(name.removeprefix(GROUP) for name in names if name.startswith(GROUP))


def topics_among(names: Iterable[str]) -> tuple[str, ...]:
    """All that is not a group."""
    return tuple(name for name in names if not name.startswith(GROUP))


def groups_of(mirror: MirrorRecord) -> tuple[str, ...]:
    """The groups that change sides with the topic while it is being promoted; else none."""
    return groups_among(mirror.cutover.promoted_with) if mirror.state is MirrorState.PENDING_STOPPED else ()


def moved_with(mirrors: Iterable[MirrorRecord], link: str, group: str) -> tuple[str, ...]:
    """The mirror topics with which the group is changing sides now; empty for a group that goes alone."""
    return tuple(one.mirror_topic for one in mirrors if one.link == link and group in groups_of(one))
