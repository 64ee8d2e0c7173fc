"""What an operation makes of a mirror topic's record, or why it cannot be: `mirror_transitions.py` in words.

Which way a mirror goes is asked only where a row says so.

A fact about a mirror holds for one identity, direction and period; `tag_of` writes these three as one word.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gateway.state.mirror_transitions import BY_OPERATION, MirrorOperation
from gateway.state.records import MirrorRecord, MirrorState, ThenReverse

__all__ = [
    "TABLE",
    "MirrorOperation",
    "WrongState",
    "allows",
    "apply",
    "is_mirroring",
    "require",
    "shown",
    "transition",
]

_S = MirrorState


def shown(record: MirrorRecord, *, link_paused: bool = False) -> MirrorState:
    """The state as people and scripts are told it: of a mirror that `create` has not finished, Confluent's word.

    `link_paused`: its link is, so what would be mirrored is PAUSED.
    """
    if not record.created:
        return _S.PENDING_MIRROR
    return _S.PAUSED if link_paused and is_mirroring(record.state) else record.state


UNDER_WAY = (
    MirrorState.PENDING_SYNCHRONIZE,
    MirrorState.PENDING_MIRROR,
    MirrorState.PENDING_SETUP_FOR_RESTORE,
    MirrorState.PENDING_RESTORE_MIRROR,
)
"""Between the start of a failback and the moment from which its mirror runs."""


class WrongState(Exception):
    """The operation is not possible in the mirror's state; the message says why and what to do."""


_PROMOTING = (
    "is being promoted (PENDING_STOPPED); wait until it is STOPPED, or call it off with `mirror promote --cancel`"
)
_STOPPED = "is STOPPED: it is written on the target, and not mirrored"
_FAILED = "has FAILED; `mirror describe` says why, and `mirror repair` what can be done"
_REVERSING = "is being reversed ({}); wait until it is ACTIVE, or end the reversal with `mirror failover`"
_RESTORING = "is being restored ({}); wait until it is ACTIVE, or end that with `mirror failover`"

_MIRRORS = (_S.ACTIVE, _S.PAUSED, _S.SOURCE_UNAVAILABLE, _S.PENDING_STOPPED, _S.PENDING_MIRROR)

# Why not, of the rows that are for one direction only.
_WRONG_WAY: Mapping[tuple[MirrorOperation, MirrorState], str] = {
    (MirrorOperation.COMPLETE_PROMOTE, _S.PENDING_STOPPED): "is a mirror back to the source",
    (MirrorOperation.COMPLETE_FAILBACK, _S.PENDING_STOPPED): "is no mirror back to the source",
    (MirrorOperation.RESTORE, _S.FAILED): (
        "has FAILED on its way to the target; fail it over first, so that the target is the one that is written"
    ),
}

_REFUSED: Mapping[MirrorOperation, Mapping[MirrorState, str]] = {
    MirrorOperation.PAUSE: {_S.PAUSED: "is already PAUSED"},
    MirrorOperation.RESUME: {
        _S.ACTIVE: "is not paused: it is ACTIVE",
        _S.SOURCE_UNAVAILABLE: "is not paused: its source is unavailable, and it goes on by itself",
        _S.LINK_FAILED: "is not paused: the source refuses its link; give the link credentials that it takes",
    },
    MirrorOperation.PROMOTE: {
        _S.PAUSED: "is PAUSED; resume it first, so that it can catch up",
        _S.SOURCE_UNAVAILABLE: "cannot be promoted: its source is unavailable, so its last records cannot be known",
        _S.STOPPED: "is promoted already (STOPPED): it is written on the target",
    },
    MirrorOperation.FORCE_PROMOTE: {_S.PAUSED: "is PAUSED; resume it first, so that it can catch up"},
    MirrorOperation.FAILOVER: {_S.STOPPED: "is STOPPED already: it is written on the target"},
    MirrorOperation.REVERSE: {
        **dict.fromkeys(_MIRRORS, "is not STOPPED; promote it first, or fail it over"),
        _S.FAILED: "has FAILED; fail it over first, then reverse or restore it",
    },
    MirrorOperation.RESTORE: dict.fromkeys(_MIRRORS, "is not STOPPED; promote it first, or fail it over"),
    MirrorOperation.REPAIR: dict.fromkeys(_MIRRORS, "has not FAILED: there is nothing to repair"),
}

_BY_STATE: Mapping[MirrorState, str] = {
    _S.ACTIVE: "is ACTIVE",
    _S.PAUSED: "is PAUSED",
    _S.SOURCE_UNAVAILABLE: "has lost its source (SOURCE_UNAVAILABLE)",
    _S.PENDING_STOPPED: _PROMOTING,
    _S.STOPPED: _STOPPED,
    _S.FAILED: _FAILED,
    _S.LINK_FAILED: "has a link that its source refuses (LINK_FAILED); update the link's credentials first",
    _S.PENDING_SYNCHRONIZE: _REVERSING.format(_S.PENDING_SYNCHRONIZE),
    _S.PENDING_MIRROR: _REVERSING.format(_S.PENDING_MIRROR),
    _S.PENDING_SETUP_FOR_RESTORE: _RESTORING.format(_S.PENDING_SETUP_FOR_RESTORE),
    _S.PENDING_RESTORE_MIRROR: _RESTORING.format(_S.PENDING_RESTORE_MIRROR),
}

TABLE: Mapping[MirrorOperation, Mapping[MirrorState, MirrorState | str]] = {
    operation: {
        state: BY_OPERATION[operation, state].after
        if (operation, state) in BY_OPERATION
        else _REFUSED.get(operation, {}).get(state, _BY_STATE[state])
        for state in MirrorState
    }
    for operation in MirrorOperation
}


def transition(operation: MirrorOperation, state: MirrorState) -> MirrorState:
    """The next state. Raises WrongState with the reason when there is none."""
    found = TABLE[operation][state]
    if isinstance(found, MirrorState):
        return found
    raise WrongState(found)


def allows(operation: MirrorOperation, state: MirrorState) -> bool:
    """True when the operation is possible in the state."""
    return isinstance(TABLE[operation][state], MirrorState)


def require(operation: MirrorOperation, mirror: MirrorRecord) -> MirrorState:
    """The state after the operation on this mirror.

    Raises:
        WrongState: naming the topic.
    """
    try:
        state = transition(operation, mirror.state)
    except WrongState as exc:
        raise WrongState(f"mirror topic '{mirror.mirror_topic}' {exc}") from None
    if BY_OPERATION[operation, mirror.state].only not in (None, mirror.failback.direction):
        raise WrongState(f"mirror topic '{mirror.mirror_topic}' {_WRONG_WAY[operation, mirror.state]}")
    if operation in (MirrorOperation.REVERSE, MirrorOperation.RESTORE):
        require_same_bytes(mirror)
    return state


def require_same_bytes(mirror: MirrorRecord) -> None:
    """What leads back to the source takes both logs for the same.

    Raises:
        WrongState: its records name other schema ids on the target.
    """
    if mirror.translates_ids:
        raise WrongState(
            f"mirror topic '{mirror.mirror_topic}' cannot go back to the source: schema ids in its records are written "
            "anew, so both logs differ; mirror it back under another name, by a link the other way"
        )


def apply(operation: MirrorOperation, mirror: MirrorRecord, now_ms: int, **changes: Any) -> MirrorRecord:
    """The record after the operation: next state and direction, since `now_ms`, and `changes` to its other fields.

    The operation alone says the direction: one that `changes` names counts for nothing. What is not being promoted is
    of no set, and no reverse follows on it unless the promote has just cut over.

    Raises:
        WrongState: naming the topic.
    """
    state, turns = require(operation, mirror), BY_OPERATION[operation, mirror.state].turns
    since_ms = now_ms if state is not mirror.state else mirror.state_since_ms
    new = replace(mirror, state=state, state_since_ms=since_ms, **changes)
    if state is not _S.PENDING_STOPPED:
        new = replace(new, cutover=replace(new.cutover, promoted_with=()))
    if state is not _S.PENDING_STOPPED and operation is not MirrorOperation.COMPLETE_PROMOTE:
        new = replace(new, cutover=replace(new.cutover, then_reverse=ThenReverse.NO))
    return replace(new, failback=replace(new.failback, direction=turns or mirror.failback.direction))


def is_mirroring(state: MirrorState) -> bool:
    """True when the engine runs the mirror in this state."""
    return state in (
        _S.ACTIVE,
        _S.SOURCE_UNAVAILABLE,
        _S.LINK_FAILED,
        _S.PENDING_STOPPED,
        _S.PENDING_RESTORE_MIRROR,
    )


def tag_of(record: MirrorRecord) -> str:
    """Tells the mirrors that a topic has had apart.

    Positions, log ends and log starts of one of them say nothing of another: after a change of sides the very numbers
    belong to the other cluster. So whoever tells a fact tells its tag, and a fact of another tag is no fact.
    """
    repaired = f".{record.repairs}" if record.repairs else ""
    return f"{record.mirror_id}.{record.failback.epoch}.{'back' if record.is_reverse else 'to'}{repaired}"
