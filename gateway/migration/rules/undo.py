"""What an undo of a migration would take home, and until when it can. Pure.

A set goes home in the order that loses nothing: all topics fail back under one write pause. Groups whose transactions
tie them to the topics (`together`) change sides with them, by the same write of the state, so no transaction has two
sides and none of their members has to stop. Groups that only read stay: their members go on reading at the gateway,
whichever cluster is written; who wants them home as well has them demoted first, with none of their members on the
target.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gateway.migration.rules.resolve import ApplicationPlan
from gateway.migration.rules.world import MirrorStanding, World
from gateway.state.records import GroupState, MirrorState, Undo


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoCandidate:
    """What of some applications goes home, by names of the target. `groups`: that change sides with the topics;
    `demoted`: before them."""

    topics: tuple[str, ...]
    groups: tuple[str, ...] = ()
    demoted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoStanding:
    """Of one application. `promoted`: how many topics are written on the target; `open`: of how many of them the
    promote can be taken back, `until_ms`: until when, the first of them; 0: without an end. `at_risk`: records that the
    source does not have yet; None: not known. `over`: topics whose time is over. `refused`: whose mirror back could
    not begin, or has FAILED. `late`: records that somebody wrote to their source beside the gateway: with any, the undo
    of all of them is refused; None: not measured yet.
    """

    promoted: int = 0
    open: int = 0
    over: int = 0
    refused: int = 0
    until_ms: int = 0
    at_risk: int | None = 0
    late: int | None = 0


def goes_home(plans: Iterable[ApplicationPlan], world: World, *, with_groups: bool) -> UndoCandidate:
    """All that of these applications is on the target, in their order.

    Args:
        with_groups: groups that only read go, too.
    """
    topics, groups, demoted = [], [], []
    for plan in plans:
        topics += [one.mirror_topic for one in _mirrors(plan, world) if one.written_on_target]
        standing = [world.groups[name] for name in plan.groups if name in world.groups]
        promoted = [one.group for one in standing if one.state is GroupState.PROMOTED]
        if plan.application.together:
            groups += promoted
        elif with_groups:
            demoted += promoted
    return UndoCandidate(topics=tuple(topics), groups=tuple(groups), demoted=tuple(demoted))


def standing(plan: ApplicationPlan, world: World) -> UndoStanding | None:
    """Of one application; None while nothing of it is promoted, or no undo was ever asked for."""
    promoted = [one for one in _mirrors(plan, world) if one.written_on_target]
    if not any(one.undo is not Undo.NONE or one.reverse for one in promoted):
        return None
    back = [one for one in promoted if one.reverse and one.undo in (Undo.OPEN, Undo.NONE)]
    opened = [one for one in back if one.state is not MirrorState.FAILED]
    ends = [one.undo_until_ms for one in opened if one.undo is Undo.OPEN and one.undo_until_ms]
    lags = [one.lag for one in opened]
    return UndoStanding(
        promoted=len(promoted),
        open=len(opened),
        over=sum(one.undo is Undo.OVER for one in promoted),
        refused=sum(one.undo is Undo.REFUSED for one in promoted) + len(back) - len(opened),
        until_ms=min(ends, default=0),
        late=_late(back),
        at_risk=None if None in lags else sum(lag or 0 for lag in lags),
    )


def _late(back: Sequence[MirrorStanding]) -> int | None:
    """What is known of them is enough to refuse an undo; None: that nobody has written is not known of all."""
    known = sum(one.late for one in back)
    return known if known or all(one.late_known for one in back) else None


def _mirrors(plan: ApplicationPlan, world: World) -> Sequence[MirrorStanding]:
    return [world.mirrors[name] for name in plan.topics if name in world.mirrors]
