"""The life of a mirror topic as one table: operation x state -> next state, or why not.

    create          -> ACTIVE
    ACTIVE          <-> PAUSED                  pause, resume (by the operator)
    ACTIVE          <-> SOURCE_UNAVAILABLE      by the engine, when the source is lost or found again
    ACTIVE          -> PENDING_STOPPED          promote; back to ACTIVE when it is aborted
    PENDING_STOPPED -> STOPPED                  the flip: the only way into STOPPED
    any but STOPPED -> FAILED                   by the engine; for good

STOPPED and FAILED have no exit: their records go when the link is deleted. The other states belong to
operations that do not exist yet (reverse, restore); nothing is allowed in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any

from gateway.domain.records import MirrorRecord, MirrorState

_S = MirrorState


class MirrorOperation(StrEnum):
    """What can happen to a mirror topic. The last five are not asked for by an operator."""

    PAUSE = "pause"
    RESUME = "resume"
    PROMOTE = "promote"
    FORCE_PROMOTE = "promote --force"
    ABORT_PROMOTE = "abort of the promote"
    COMPLETE_PROMOTE = "completion of the promote"
    FAIL = "failure"
    LOSE_SOURCE = "loss of the source"
    FIND_SOURCE = "return of the source"


class WrongState(Exception):
    """The operation is not possible in the mirror's state; the message says why and what to do."""


_PROMOTING = "is being promoted (PENDING_STOPPED); wait until it is STOPPED or the promote was aborted"
_STOPPED = "was promoted (STOPPED): mirroring has ended for good"
_FAILED = "has FAILED for good; see `mirror describe` for the reason"
_UNBORN = "is in a state that this version has no operation for"

_NOT_OURS = (
    _S.PENDING_SYNCHRONIZE,
    _S.PENDING_MIRROR,
    _S.PENDING_SETUP_FOR_RESTORE,
    _S.PENDING_RESTORE_MIRROR,
    _S.LINK_FAILED,
)

_ALLOWED: Mapping[MirrorOperation, Mapping[MirrorState, MirrorState]] = {
    MirrorOperation.PAUSE: {_S.ACTIVE: _S.PAUSED, _S.SOURCE_UNAVAILABLE: _S.PAUSED},
    MirrorOperation.RESUME: {_S.PAUSED: _S.ACTIVE},
    MirrorOperation.PROMOTE: {_S.ACTIVE: _S.PENDING_STOPPED},
    MirrorOperation.FORCE_PROMOTE: {_S.ACTIVE: _S.PENDING_STOPPED, _S.SOURCE_UNAVAILABLE: _S.PENDING_STOPPED},
    MirrorOperation.ABORT_PROMOTE: {_S.PENDING_STOPPED: _S.ACTIVE},
    MirrorOperation.COMPLETE_PROMOTE: {_S.PENDING_STOPPED: _S.STOPPED},
    MirrorOperation.FAIL: dict.fromkeys((_S.ACTIVE, _S.PAUSED, _S.SOURCE_UNAVAILABLE, _S.PENDING_STOPPED), _S.FAILED),
    MirrorOperation.LOSE_SOURCE: {_S.ACTIVE: _S.SOURCE_UNAVAILABLE},
    MirrorOperation.FIND_SOURCE: {_S.SOURCE_UNAVAILABLE: _S.ACTIVE},
}

_REFUSED: Mapping[MirrorOperation, Mapping[MirrorState, str]] = {
    MirrorOperation.PAUSE: {_S.PAUSED: "is already PAUSED"},
    MirrorOperation.RESUME: {
        _S.ACTIVE: "is not paused: it is ACTIVE",
        _S.SOURCE_UNAVAILABLE: "is not paused: its source is unavailable, and it goes on by itself",
    },
    MirrorOperation.PROMOTE: {
        _S.PAUSED: "is PAUSED; resume it first, so that it can catch up",
        _S.SOURCE_UNAVAILABLE: "cannot be promoted: its source is unavailable, so its last records cannot be known",
    },
    MirrorOperation.FORCE_PROMOTE: {_S.PAUSED: "is PAUSED; resume it first, so that it can catch up"},
}

_BY_STATE: Mapping[MirrorState, str] = {
    _S.ACTIVE: "is ACTIVE",
    _S.PAUSED: "is PAUSED",
    _S.SOURCE_UNAVAILABLE: "has lost its source (SOURCE_UNAVAILABLE)",
    _S.PENDING_STOPPED: _PROMOTING,
    _S.STOPPED: _STOPPED,
    _S.FAILED: _FAILED,
    **dict.fromkeys(_NOT_OURS, _UNBORN),
}

TABLE: Mapping[MirrorOperation, Mapping[MirrorState, MirrorState | str]] = {
    operation: {
        state: _ALLOWED[operation].get(state) or _REFUSED.get(operation, {}).get(state, _BY_STATE[state])
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


def apply(operation: MirrorOperation, mirror: MirrorRecord, now_ms: int, **changes: Any) -> MirrorRecord:
    """The record after the operation: next state, since `now_ms`, and `changes` to its other fields.

    Raises:
        WrongState: naming the topic.
    """
    try:
        state = transition(operation, mirror.state)
    except WrongState as exc:
        raise WrongState(f"mirror topic '{mirror.mirror_topic}' {exc}") from None
    return replace(mirror, state=state, state_since_ms=now_ms, **changes)


def is_mirroring(state: MirrorState) -> bool:
    """True when the engine runs the mirror in this state."""
    return state in (_S.ACTIVE, _S.SOURCE_UNAVAILABLE, _S.PENDING_STOPPED)
