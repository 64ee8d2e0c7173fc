"""Whether a promote can be undone now, and why not. Pure."""

from __future__ import annotations

from gateway.state.records import MirrorRecord, MirrorState, Undo

_GOES_HOME = "is on its way home already (PENDING_STOPPED)"
_NO_MIRROR_BACK = "has no mirror back; begin one (lockgate mirror reverse), and undo it then"


def why_not_undone(record: MirrorRecord) -> str:
    """Why the topic cannot be undone now, with the remedy; '' when a failback promote may be requested.

    A mirror back that an operator began has no end, and serves as well as an automatic one.
    """
    undo = record.cutover.undo
    if record.state is MirrorState.STOPPED:
        if undo is Undo.OVER:
            return f"{_over(record)}; {_again(record)}"
        if undo is Undo.REFUSED:
            why = record.transition_errors[-1].error_message if record.transition_errors else "see describe"
            return f"has no mirror back, it could not be begun: {why}"
        return _NO_MIRROR_BACK
    if record.state is MirrorState.PENDING_SYNCHRONIZE:
        return "has a mirror back that begins just now (PENDING_SYNCHRONIZE); ask again when it is ACTIVE"
    if not record.is_reverse:
        if record.state is MirrorState.PENDING_STOPPED:
            return "is being promoted (PENDING_STOPPED); ask again when it is STOPPED"
        return "is written on the source: there is nothing to undo"
    if undo is Undo.OVER:
        return f"{_over(record)}; {_again(record)}"
    return _of_mirror_back(record)


def _of_mirror_back(record: MirrorRecord) -> str:
    match record.state:
        case MirrorState.PENDING_STOPPED:
            return _GOES_HOME
        case MirrorState.PAUSED:
            return "has a mirror back that is PAUSED; lockgate mirror resume, and ask again when its lag is 0"
        case MirrorState.FAILED:
            return f"has a mirror back that has FAILED ({record.error_message}); lockgate mirror repair"
        case MirrorState.ACTIVE | MirrorState.SOURCE_UNAVAILABLE | MirrorState.LINK_FAILED:
            return ""  # if such a state refuses a promote, it refuses this one with its own message
    return f"has a mirror back that begins just now ({record.state}); ask again when it is ACTIVE"


def _over(record: MirrorRecord) -> str:
    return "cannot be undone: the time for it is over"


def _again(record: MirrorRecord) -> str:
    return "mirror it back then (lockgate mirror reverse), and go home by lockgate mirror promote --failback"
