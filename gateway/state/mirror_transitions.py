"""All that can happen to a mirror topic: state x operation -> state, and whose operation it is. One table.

`mirror_states.py` asks it what an operation makes of a record, and the store asks it before it writes a mirror's
record: no state is written that is not in here. `docs/reference/states.md` shows it, which
`python -m tests.support.pages.states_page` writes.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple

from gateway.state.records import MirrorDirection, MirrorRecord, MirrorState

_S = MirrorState
_FORWARD, _REVERSE = MirrorDirection.FORWARD, MirrorDirection.REVERSE


class MirrorOperation(StrEnum):
    """What can happen to a mirror topic. Those from ABORT_PROMOTE on are not asked for by an operator."""

    PAUSE = "pause"
    RESUME = "resume"
    PROMOTE = "promote"
    FORCE_PROMOTE = "promote --force"
    FAILOVER = "failover"
    REVERSE = "reverse"
    RESTORE = "truncate-and-restore"
    REPAIR = "repair"
    ABORT_PROMOTE = "abort of the promote"
    COMPLETE_PROMOTE = "completion of the promote"
    COMPLETE_FAILBACK = "completion of the failback promote"
    SYNCHRONIZED = "end of the comparison before a reverse"
    ABORT_REVERSE = "abort of the reverse"
    RECREATED = "creation of the failback destination"
    BEGIN_MIRROR = "begin of the mirror"
    BEGIN_PAUSED = "begin of the mirror, paused"
    FAIL = "failure"
    LOSE_SOURCE = "loss of the source"
    LOSE_LINK = "refusal of the link"
    FIND_SOURCE = "return of the source"


class Who(StrEnum):
    """Whose operation it is. All of them are carried out by the gateway that leads: it alone writes the state."""

    OPERATOR = "operator"
    PROMOTE = "the promote's run"
    FAILBACK = "the failback's run"
    ENGINE = "the mirror engine"


WHO: Final = {
    MirrorOperation.PAUSE: (Who.OPERATOR,),
    MirrorOperation.RESUME: (Who.OPERATOR,),
    MirrorOperation.PROMOTE: (Who.OPERATOR,),
    MirrorOperation.FORCE_PROMOTE: (Who.OPERATOR,),
    MirrorOperation.FAILOVER: (Who.OPERATOR,),
    MirrorOperation.REVERSE: (Who.OPERATOR,),
    MirrorOperation.RESTORE: (Who.OPERATOR,),
    MirrorOperation.REPAIR: (Who.OPERATOR,),
    MirrorOperation.ABORT_PROMOTE: (Who.PROMOTE,),
    MirrorOperation.COMPLETE_PROMOTE: (Who.PROMOTE,),
    MirrorOperation.COMPLETE_FAILBACK: (Who.PROMOTE,),
    MirrorOperation.SYNCHRONIZED: (Who.FAILBACK,),
    MirrorOperation.ABORT_REVERSE: (Who.FAILBACK,),
    MirrorOperation.RECREATED: (Who.FAILBACK,),
    MirrorOperation.BEGIN_MIRROR: (Who.FAILBACK,),
    MirrorOperation.BEGIN_PAUSED: (Who.FAILBACK,),
    MirrorOperation.FAIL: (Who.ENGINE, Who.FAILBACK),
    MirrorOperation.LOSE_SOURCE: (Who.ENGINE,),
    MirrorOperation.LOSE_LINK: (Who.ENGINE,),
    MirrorOperation.FIND_SOURCE: (Who.ENGINE,),
}


class Transition(NamedTuple):
    """One row. `meaning`: what is so from then on.

    `only`: the direction that the mirror must have, None: any. `turns`: the one it has then, None: as before.
    """

    before: MirrorState
    operation: MirrorOperation
    after: MirrorState
    meaning: str
    only: MirrorDirection | None = None
    turns: MirrorDirection | None = None


def _each(
    states: Iterable[MirrorState],
    operation: MirrorOperation,
    after: MirrorState | None,
    meaning: str,
    turns: MirrorDirection | None = None,
) -> tuple[Transition, ...]:
    """`after`: None where the state stays as it is."""
    return tuple(Transition(state, operation, after or state, meaning, turns=turns) for state in states)


_Op = MirrorOperation
_MIRRORING = "mirrored"
_FAILED = "the mirror stopped for good; `mirror describe` says why"
_FAILED_OVER = "written on the target, at once; ends a failback too"
_REFUSED = "the source has refused the link's credentials for `cluster.link.retry.timeout.ms`"

CREATED: Final = (_S.ACTIVE, _FORWARD)
"""The state and direction in which an operator creates a mirror topic; it ends with its link, or when it is deleted."""

TRANSITIONS: Final[tuple[Transition, ...]] = (
    Transition(_S.ACTIVE, _Op.PAUSE, _S.PAUSED, "not mirrored; clients' writes go on"),
    Transition(_S.SOURCE_UNAVAILABLE, _Op.PAUSE, _S.PAUSED, "not mirrored; clients' writes go on"),
    Transition(_S.PAUSED, _Op.RESUME, _S.ACTIVE, _MIRRORING),
    Transition(_S.ACTIVE, _Op.LOSE_SOURCE, _S.SOURCE_UNAVAILABLE, "the source does not answer; goes on by itself"),
    Transition(_S.SOURCE_UNAVAILABLE, _Op.FIND_SOURCE, _S.ACTIVE, _MIRRORING),
    *_each((_S.ACTIVE, _S.SOURCE_UNAVAILABLE), _Op.LOSE_LINK, _S.LINK_FAILED, _REFUSED),
    Transition(_S.LINK_FAILED, _Op.FIND_SOURCE, _S.ACTIVE, _MIRRORING),
    Transition(_S.LINK_FAILED, _Op.PAUSE, _S.PAUSED, "not mirrored; clients' writes go on"),
    # a promote, to the target or home
    Transition(_S.ACTIVE, _Op.PROMOTE, _S.PENDING_STOPPED, "mirrored; writes pause as soon as it is level"),
    Transition(_S.ACTIVE, _Op.FORCE_PROMOTE, _S.PENDING_STOPPED, "the same, whoever still reads on the source"),
    Transition(_S.SOURCE_UNAVAILABLE, _Op.FORCE_PROMOTE, _S.PENDING_STOPPED, "the same, once the source answers"),
    Transition(
        _S.PENDING_STOPPED,
        _Op.ABORT_PROMOTE,
        _S.ACTIVE,
        "mirrored as before; the record says why, unless somebody called it off",
    ),
    Transition(
        _S.PENDING_STOPPED, _Op.COMPLETE_PROMOTE, _S.STOPPED, "written on the target: the cutover", only=_FORWARD
    ),
    Transition(
        _S.PENDING_STOPPED,
        _Op.COMPLETE_FAILBACK,
        _S.PENDING_MIRROR,
        "written on the source again: the failback cutover; the target is about to be the mirror",
        only=_REVERSE,
        turns=_FORWARD,
    ),
    # a reverse
    Transition(_S.STOPPED, _Op.REVERSE, _S.PENDING_SYNCHRONIZE, "both logs are compared up to the cutover"),
    Transition(_S.PENDING_SYNCHRONIZE, _Op.ABORT_REVERSE, _S.STOPPED, "they are not the same; the record says how"),
    Transition(
        _S.PENDING_SYNCHRONIZE,
        _Op.SYNCHRONIZED,
        _S.PENDING_MIRROR,
        "they are the same: the failback destination is about to be the mirror",
        turns=_REVERSE,
    ),
    Transition(_S.PENDING_MIRROR, _Op.BEGIN_MIRROR, _S.ACTIVE, _MIRRORING),
    Transition(_S.PENDING_MIRROR, _Op.BEGIN_PAUSED, _S.PAUSED, "not mirrored before it is resumed"),
    # a truncate-and-restore
    Transition(
        _S.STOPPED,
        _Op.RESTORE,
        _S.PENDING_SETUP_FOR_RESTORE,
        "the failback destination is to be deleted",
        turns=_REVERSE,
    ),
    Transition(
        _S.FAILED,
        _Op.RESTORE,
        _S.PENDING_SETUP_FOR_RESTORE,
        "the same, of a mirror back that failed",
        only=_REVERSE,
        turns=_REVERSE,
    ),
    Transition(_S.PENDING_SETUP_FOR_RESTORE, _Op.RECREATED, _S.PENDING_RESTORE_MIRROR, "it was created anew"),
    Transition(_S.PENDING_RESTORE_MIRROR, _Op.BEGIN_MIRROR, _S.ACTIVE, "mirrored from the target's log start on"),
    # being reversed: whether it will be paused when it begins
    *_each((_S.PENDING_SYNCHRONIZE, _S.PENDING_MIRROR), _Op.PAUSE, None, "the mirror will begin PAUSED"),
    *_each((_S.PENDING_SYNCHRONIZE, _S.PENDING_MIRROR), _Op.RESUME, None, "the mirror will begin ACTIVE"),
    # out of FAILED
    Transition(_S.FAILED, _Op.REPAIR, _S.ACTIVE, "mirrored again, or about to be created anew"),
    # out of anything
    *_each((state for state in _S if state is not _S.STOPPED), _Op.FAILOVER, _S.STOPPED, _FAILED_OVER, turns=_FORWARD),
    *_each(
        (
            _S.ACTIVE,
            _S.PAUSED,
            _S.SOURCE_UNAVAILABLE,
            _S.LINK_FAILED,
            _S.PENDING_STOPPED,
            _S.PENDING_MIRROR,
            _S.PENDING_SETUP_FOR_RESTORE,
            _S.PENDING_RESTORE_MIRROR,
        ),
        _Op.FAIL,
        _S.FAILED,
        _FAILED,
    ),
)

WAYS_OUT: Final = {
    _S.SOURCE_UNAVAILABLE: (
        "The source has not answered for 5 s. Clients' writes fail as they do when a cluster is down.",
        (
            (_Op.FIND_SOURCE, "by itself, as soon as the source answers; nothing is to be done, however long it takes"),
            (_Op.PAUSE, "`mirror pause`, and `mirror resume` later"),
            (_Op.FORCE_PROMOTE, "`mirror promote --force`, which waits until the source answers"),
            (_Op.FAILOVER, "`mirror failover`, when the source will not come back: the target is written from then on"),
        ),
    ),
    _S.LINK_FAILED: (
        "The source answers, and has refused the link's credentials for `cluster.link.retry.timeout.ms` (5 minutes).",
        (
            (
                _Op.FIND_SOURCE,
                "`link configuration update`, with credentials that the source takes; by itself when it takes these",
            ),
            (_Op.PAUSE, "`mirror pause`, and `mirror resume` later"),
            (_Op.FAILOVER, "`mirror failover`: the target is written from then on"),
        ),
    ),
    _S.FAILED: (
        "The mirror has stopped for good: see `mirror_topic_error` in `mirror describe`.",
        (
            (
                _Op.REPAIR,
                "`mirror repair`, which says what can be done: go on, go on translated, or create the copy anew",
            ),
            (_Op.RESTORE, "`mirror truncate-and-restore`, of a mirror back (REVERSE)"),
            (_Op.FAILOVER, "`mirror failover`: the target is written from then on"),
        ),
    ),
}
"""Of the states that nobody wants: when a mirror is in it, and which operations lead out of it, each as an operator
sees it."""

BY_OPERATION: Final = {(row.operation, row.before): row for row in TRANSITIONS}
"""The row of an operation in a state, if there is one."""


class NoSuchTransition(Exception):
    """A record would be written whose state nothing leads to from the one that is stored. Never expected."""


def check_write(stored: MirrorRecord | None, new: MirrorRecord) -> None:
    """What the store asks before it writes a mirror's record.

    Raises:
        NoSuchTransition: naming the topic, and both states.
    """
    to = new.state, new.failback.direction
    if stored is None:
        if to != CREATED:
            raise NoSuchTransition(
                f"mirror topic '{new.mirror_topic}' would be created {new.state} {new.failback.direction}"
            )
        return
    if to == (stored.state, stored.failback.direction):
        return
    before = stored.failback.direction
    if not any(
        (row.before, row.after) == (stored.state, new.state)
        and row.only in (None, before)
        and (row.turns or before) is new.failback.direction
        for row in TRANSITIONS
    ):
        raise NoSuchTransition(
            f"mirror topic '{new.mirror_topic}' is {stored.state} {before}, and nothing leads from there to "
            f"{new.state} {new.failback.direction}"
        )
