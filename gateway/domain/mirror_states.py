"""The life of a mirror topic as one table: operation x state -> next state, or why not.

    create          -> ACTIVE
    ACTIVE          <-> PAUSED                  pause, resume (by the operator)
    ACTIVE          <-> SOURCE_UNAVAILABLE      by the engine, when the source is lost or found again
    ACTIVE          -> PENDING_STOPPED          promote; back to ACTIVE when it is aborted
    PENDING_STOPPED -> STOPPED                  the flip: writes go to the target from here on
    any but STOPPED -> STOPPED                  failover: the flip without the source; ends a way back too
    any that mirrors -> FAILED                  by the engine

The way back; a mirror's direction is `reverse` from PENDING_MIRROR or PENDING_SETUP_FOR_RESTORE on::

    STOPPED             -> PENDING_SYNCHRONIZE       reverse; back to STOPPED when both logs are not the same
    PENDING_SYNCHRONIZE -> PENDING_MIRROR            they are: the old source becomes the mirror
    PENDING_MIRROR      -> ACTIVE | PAUSED           the mirror has begun
    STOPPED             -> PENDING_SETUP_FOR_RESTORE truncate-and-restore, of a reverse mirror that FAILED too
    PENDING_SETUP_FOR_RESTORE -> PENDING_RESTORE_MIRROR   the old source topic was created anew
    PENDING_RESTORE_MIRROR -> ACTIVE                 its logs begin where the target's do
    PENDING_STOPPED     -> PENDING_MIRROR            the flip home: a promote in reverse. Writes go to the source again,
                                                     the direction is forward again, and the target the mirror

Which way a mirror goes is asked only where `_ONE_WAY` says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any

from gateway.domain.records import MirrorDirection, MirrorRecord, MirrorState

_S = MirrorState


class MirrorOperation(StrEnum):
    """What can happen to a mirror topic. Those from ABORT_PROMOTE on are not asked for by an operator."""

    PAUSE = "pause"
    RESUME = "resume"
    PROMOTE = "promote"
    FORCE_PROMOTE = "promote --force"
    FAILOVER = "failover"
    REVERSE = "reverse"
    RESTORE = "truncate-and-restore"
    ABORT_PROMOTE = "abort of the promote"
    COMPLETE_PROMOTE = "completion of the promote"
    COMPLETE_HOME = "completion of the promote home"
    SYNCHRONIZED = "end of the comparison before a reverse"
    ABORT_REVERSE = "abort of the reverse"
    RECREATED = "creation of the old source topic"
    BEGIN_MIRROR = "begin of the mirror"
    BEGIN_PAUSED = "begin of the mirror, paused"
    FAIL = "failure"
    LOSE_SOURCE = "loss of the source"
    FIND_SOURCE = "return of the source"


class WrongState(Exception):
    """The operation is not possible in the mirror's state; the message says why and what to do."""


_PROMOTING = "is being promoted (PENDING_STOPPED); wait until it is STOPPED or the promote was aborted"
_STOPPED = "is STOPPED: it is written on the target, and not mirrored"
_FAILED = "has FAILED for good; see `mirror describe` for the reason"
_REVERSING = "is being reversed ({}); wait until it is ACTIVE, or end the reversal with `mirror failover`"
_RESTORING = "is being restored ({}); wait until it is ACTIVE, or end that with `mirror failover`"

_MIRRORS = (_S.ACTIVE, _S.PAUSED, _S.SOURCE_UNAVAILABLE, _S.PENDING_STOPPED, _S.PENDING_MIRROR)

_ALLOWED: Mapping[MirrorOperation, Mapping[MirrorState, MirrorState]] = {
    MirrorOperation.PAUSE: {_S.ACTIVE: _S.PAUSED, _S.SOURCE_UNAVAILABLE: _S.PAUSED},
    MirrorOperation.RESUME: {_S.PAUSED: _S.ACTIVE},
    MirrorOperation.PROMOTE: {_S.ACTIVE: _S.PENDING_STOPPED},
    MirrorOperation.FORCE_PROMOTE: {_S.ACTIVE: _S.PENDING_STOPPED, _S.SOURCE_UNAVAILABLE: _S.PENDING_STOPPED},
    MirrorOperation.FAILOVER: dict.fromkeys((state for state in _S if state is not _S.STOPPED), _S.STOPPED),
    MirrorOperation.REVERSE: {_S.STOPPED: _S.PENDING_SYNCHRONIZE},
    MirrorOperation.RESTORE: {
        _S.STOPPED: _S.PENDING_SETUP_FOR_RESTORE,
        _S.FAILED: _S.PENDING_SETUP_FOR_RESTORE,
    },
    MirrorOperation.ABORT_PROMOTE: {_S.PENDING_STOPPED: _S.ACTIVE},
    MirrorOperation.COMPLETE_PROMOTE: {_S.PENDING_STOPPED: _S.STOPPED},
    MirrorOperation.COMPLETE_HOME: {_S.PENDING_STOPPED: _S.PENDING_MIRROR},
    MirrorOperation.SYNCHRONIZED: {_S.PENDING_SYNCHRONIZE: _S.PENDING_MIRROR},
    MirrorOperation.ABORT_REVERSE: {_S.PENDING_SYNCHRONIZE: _S.STOPPED},
    MirrorOperation.RECREATED: {_S.PENDING_SETUP_FOR_RESTORE: _S.PENDING_RESTORE_MIRROR},
    MirrorOperation.BEGIN_MIRROR: {_S.PENDING_MIRROR: _S.ACTIVE, _S.PENDING_RESTORE_MIRROR: _S.ACTIVE},
    MirrorOperation.BEGIN_PAUSED: {_S.PENDING_MIRROR: _S.PAUSED},
    MirrorOperation.FAIL: dict.fromkeys(
        (*_MIRRORS, _S.PENDING_SETUP_FOR_RESTORE, _S.PENDING_RESTORE_MIRROR), _S.FAILED
    ),
    MirrorOperation.LOSE_SOURCE: {_S.ACTIVE: _S.SOURCE_UNAVAILABLE},
    MirrorOperation.FIND_SOURCE: {_S.SOURCE_UNAVAILABLE: _S.ACTIVE},
}

# What goes one way only, of what the table allows.
_ONE_WAY: Mapping[tuple[MirrorOperation, MirrorState], tuple[MirrorDirection, str]] = {
    (MirrorOperation.COMPLETE_PROMOTE, _S.PENDING_STOPPED): (MirrorDirection.FORWARD, "is a mirror back to the source"),
    (MirrorOperation.COMPLETE_HOME, _S.PENDING_STOPPED): (MirrorDirection.REVERSE, "is no mirror back to the source"),
    (MirrorOperation.RESTORE, _S.FAILED): (
        MirrorDirection.REVERSE,
        "has FAILED on its way to the target; fail it over first, so that the target is the one that is written",
    ),
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
        _S.STOPPED: "is promoted already (STOPPED)",
    },
    MirrorOperation.FORCE_PROMOTE: {_S.PAUSED: "is PAUSED; resume it first, so that it can catch up"},
    MirrorOperation.FAILOVER: {_S.STOPPED: "is STOPPED already: it is written on the target"},
    MirrorOperation.REVERSE: {
        **dict.fromkeys(_MIRRORS, "is not STOPPED; promote it first, or fail it over"),
        _S.FAILED: "has FAILED; fail it over first, then reverse or restore it",
    },
    MirrorOperation.RESTORE: dict.fromkeys(_MIRRORS, "is not STOPPED; promote it first, or fail it over"),
}

_BY_STATE: Mapping[MirrorState, str] = {
    _S.ACTIVE: "is ACTIVE",
    _S.PAUSED: "is PAUSED",
    _S.SOURCE_UNAVAILABLE: "has lost its source (SOURCE_UNAVAILABLE)",
    _S.PENDING_STOPPED: _PROMOTING,
    _S.STOPPED: _STOPPED,
    _S.FAILED: _FAILED,
    _S.LINK_FAILED: "has a link that failed (LINK_FAILED)",
    _S.PENDING_SYNCHRONIZE: _REVERSING.format(_S.PENDING_SYNCHRONIZE),
    _S.PENDING_MIRROR: _REVERSING.format(_S.PENDING_MIRROR),
    _S.PENDING_SETUP_FOR_RESTORE: _RESTORING.format(_S.PENDING_SETUP_FOR_RESTORE),
    _S.PENDING_RESTORE_MIRROR: _RESTORING.format(_S.PENDING_RESTORE_MIRROR),
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


def require(operation: MirrorOperation, mirror: MirrorRecord) -> MirrorState:
    """The state after the operation on this mirror.

    Raises:
        WrongState: naming the topic.
    """
    try:
        state = transition(operation, mirror.state)
    except WrongState as exc:
        raise WrongState(f"mirror topic '{mirror.mirror_topic}' {exc}") from None
    direction, reason = _ONE_WAY.get((operation, mirror.state), (mirror.direction, ""))
    if mirror.direction is not direction:
        raise WrongState(f"mirror topic '{mirror.mirror_topic}' {reason}")
    return state


def apply(operation: MirrorOperation, mirror: MirrorRecord, now_ms: int, **changes: Any) -> MirrorRecord:
    """The record after the operation: next state, since `now_ms`, and `changes` to its other fields.

    Raises:
        WrongState: naming the topic.
    """
    return replace(mirror, state=require(operation, mirror), state_since_ms=now_ms, **changes)


def is_mirroring(state: MirrorState) -> bool:
    """True when the engine runs the mirror in this state."""
    return state in (_S.ACTIVE, _S.SOURCE_UNAVAILABLE, _S.PENDING_STOPPED, _S.PENDING_RESTORE_MIRROR)
