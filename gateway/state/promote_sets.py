"""What changes sides together, as the records of a set of mirror topics name it: topics, and groups among them.

`MirrorCutover.promoted_with` holds names. A group's begins with `group/`, which no topic's does: Kafka allows no slash
there. A gateway of a version that knows of no groups in a set takes such a name for a topic that is not there, so for
it the set is never whole: should it lead, it gives the promote up, and cuts over no half of it.

Each record of a set names all of it; of n topics that would be n times n names. So from `NAMED` topics on there is one
name for all of them, which says how many they are: `set/…/5000` (`topics_as`). It is no topic's either, so an older
version takes such a set for one that is not whole.

A promote that was called off has `CALLED_OFF` among the names of its set until it is back: no topic has that name, so
the set is never whole any more, and whoever leads next, of whatever version, gives it up. Behind that the names go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from gateway.state.records import MirrorRecord, MirrorState

GROUP: Final = "group/"
SET: Final = "set/"
CALLED_OFF: Final = "(called off)"
NAMED: Final = 64
"""Topics of a set that are named one by one: some 0.2 MB of records in all."""


def name_of(group: str) -> str:
    """A group among the names of a set, or of a transaction."""
    return f"{GROUP}{group}"


def groups_among(names: Iterable[str]) -> tuple[str, ...]:
    """The groups of a set, by their names on the target."""
    return tuple(name.removeprefix(GROUP) for name in names if name.startswith(GROUP))


def called_off(mirror: MirrorRecord) -> MirrorRecord:
    """The record of a topic that is being promoted, with its promote called off."""
    names = mirror.cutover.promoted_with or (mirror.mirror_topic,)
    return replace(mirror, cutover=replace(mirror.cutover, promoted_with=(*names, CALLED_OFF)))


def is_called_off(mirror: MirrorRecord) -> bool:
    """Whether its promote was called off, and is not back yet."""
    return mirror.state is MirrorState.PENDING_STOPPED and CALLED_OFF in mirror.cutover.promoted_with


def topics_as(mirrors: Sequence[MirrorRecord]) -> tuple[str, ...]:
    """How records name the topics of their set. No two sets have one name: a mirror's pause epoch only rises.

    Args:
        mirrors: of the set, with the epochs under which they are to be paused.
    """
    if len(mirrors) <= NAMED:
        return tuple(mirror.mirror_topic for mirror in mirrors)
    first = min(mirrors, key=lambda mirror: mirror.mirror_id)
    return (f"{SET}{first.mirror_id}.{first.cutover.pause_epoch}/{len(mirrors)}",)


def missing_of(names: Sequence[str], pending: Sequence[str]) -> tuple[str, ...]:
    """What of a set is not among the topics that are being promoted as that set: names, or how many where they have one
    name for all."""
    there = frozenset(pending)
    found = [name for name in names if not name.startswith((GROUP, SET)) and name not in there]
    counts = (name.rpartition("/")[2] for name in names if name.startswith(SET))
    found += [f"all but {len(there)} of {count} topics" for count in counts if count != str(len(there))]
    return tuple(found)


def groups_of(mirror: MirrorRecord) -> tuple[str, ...]:
    """The groups that change sides with the topic while it is being promoted; else none."""
    return groups_among(mirror.cutover.promoted_with) if mirror.state is MirrorState.PENDING_STOPPED else ()


def moved_with(mirrors: Iterable[MirrorRecord], link: str, group: str) -> tuple[str, ...]:
    """The mirror topics with which the group is changing sides now; empty for a group that goes alone."""
    return tuple(one.mirror_topic for one in mirrors if one.link == link and group in groups_of(one))
