"""A promote goes one way: to the target unless it is said that it goes home. Why a topic does not go that way now.

Whoever asks twice, since an answer was lost or a key repeats, must not move the writes of a topic twice. So the state
of the mirror is no direction: what is written where it is to go already is refused, with the side that has the writes.
"""

from __future__ import annotations

from typing import Final

from gateway.state.records import MirrorDirection, MirrorRecord, MirrorState

_ON_THE_SOURCE: Final = frozenset(
    (MirrorState.ACTIVE, MirrorState.PAUSED, MirrorState.SOURCE_UNAVAILABLE, MirrorState.LINK_FAILED)
)


def why_not_this_way(record: MirrorRecord, wanted: MirrorDirection) -> str:
    """Where the topic is written instead, and the remedy; '' where the direction is the one that it has.

    Of one on its way it is '' as well, so that the table of states says what it waits for.
    """
    if record.failback.direction is wanted:
        return ""
    topic, link, state = record.mirror_topic, record.link, record.state
    if wanted is MirrorDirection.FORWARD:
        if state is MirrorState.PENDING_STOPPED:
            return ""
        return (
            f"is written on the target already, and mirrored back to the source ({state}). To take it home: lockgate "
            f"mirror promote {topic} --failback --link {link} (REST: mirror_direction REVERSE)"
        )
    if state is MirrorState.STOPPED:
        return (
            "is written on the target and not mirrored back (STOPPED), so it cannot go home yet: lockgate mirror "
            f"reverse {topic} --link {link}"
        )
    if state in _ON_THE_SOURCE:
        return f"is written on the source already ({state}); the target follows"
    return ""
