"""Whether the promote of topics can be called off, and which topics go back with them. Pure.

A promote can be called off until the record of the cutover is written. A set goes back as one, as it would have cut
over: to name one of its topics calls all of it off.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from gateway.cutover.write_pause.rules.routing_build import written_on_target
from gateway.errors import Conflict
from gateway.state.mirror_states import MirrorOperation, allows
from gateway.state.records import MirrorRecord, MirrorState, Undo

WAS_CALLED_OFF: Final = "the promote was called off"
"""The reason with which a promote that was called off goes back."""


def goes_back(
    named: Sequence[MirrorRecord], mirrors: Iterable[MirrorRecord], begun: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """The mirror topics that go back, the named ones first.

    Args:
        named: the topics to call off. mirrors: all of their link.
        begun: topic -> its set, for promotes that were requested and have neither cut over nor ended.

    Raises:
        Conflict: one of the named topics is not being promoted; says what it is.
    """
    for mirror in named:
        if not _is_promoted_now(mirror, begun):
            raise Conflict(why_not(mirror))
    sets = {mirror.cutover.promoted_with for mirror in named if mirror.state is MirrorState.PENDING_STOPPED}
    together = [one.mirror_topic for one in mirrors if _is_of(one, sets)]
    asked = [mirror.mirror_topic for mirror in named]
    return tuple(dict.fromkeys([*asked, *together, *(name for one in asked for name in begun.get(one, ()))]))


def _is_promoted_now(mirror: MirrorRecord, begun: Mapping[str, Sequence[str]]) -> bool:
    if mirror.state is MirrorState.PENDING_STOPPED:
        return True
    return mirror.mirror_topic in begun and allows(MirrorOperation.FORCE_PROMOTE, mirror.state)


def _is_of(mirror: MirrorRecord, sets: Iterable[tuple[str, ...]]) -> bool:
    names = mirror.cutover.promoted_with
    return mirror.state is MirrorState.PENDING_STOPPED and bool(names) and names in sets


def why_not(mirror: MirrorRecord) -> str:
    """Why there is nothing to call off: the present state, and how to go back from there."""
    topic, link = mirror.mirror_topic, mirror.link
    if not written_on_target(mirror):
        return f"mirror topic '{topic}' is not being promoted: it is {mirror.state.value}, and written on the source"
    back = f"lockgate mirror {'undo' if _has_undo(mirror) else 'reverse'} {topic} --link {link}"
    return (
        f"mirror topic '{topic}' is promoted already, and written on the target ({mirror.state.value}); to go back: "
        f"{back}"
    )


def _has_undo(mirror: MirrorRecord) -> bool:
    undo = mirror.cutover.undo
    return mirror.is_reverse or undo is Undo.OPEN or (undo is Undo.NONE and mirror.cutover.undo_until_ms > 0)
