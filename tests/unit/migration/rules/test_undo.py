"""What goes home of a migration, and what is said of it."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.migration.rules.file import parsed
from gateway.migration.rules.resolve import ApplicationPlan, resolve
from gateway.migration.rules.undo import UndoCandidate, UndoStanding, goes_home, standing
from gateway.migration.rules.world import GroupStanding, MirrorStanding, World
from gateway.state.records import GroupState, MirrorState, Undo

S = MirrorState


def back(name: str, undo: Undo = Undo.OPEN, **more: Any) -> MirrorStanding:
    values = {"state": S.ACTIVE, "link": "l", "lag": 0, "reverse": True, "written_on_target": True, **more}
    return MirrorStanding(mirror_topic=f"p-{name}", undo=undo, undo_until_ms=60 if undo else 0, **values)


def stopped(name: str, undo: Undo = Undo.NONE) -> MirrorStanding:
    return back(name, undo, state=S.STOPPED, reverse=False)


def forward(name: str) -> MirrorStanding:
    return back(name, Undo.NONE, reverse=False, written_on_target=False)


def scene(*mirrors: MirrorStanding, **more: Any) -> tuple[ApplicationPlan, World]:
    names = [one.mirror_topic[2:] for one in mirrors]
    application = {"name": "a", "topics": names, "groups": ["billing"], **more}
    promoted = GroupStanding(group="p-billing", state=GroupState.PROMOTED)
    world = World(
        mirrors=dict(zip(names, mirrors, strict=True)),
        groups={"billing": promoted},
        source_topics=frozenset(names),
        source_groups=frozenset({"billing"}),
    )
    return resolve(parsed({"migration": "m", "link": "l", "applications": [application]}), world).applications[0], world


def test_what_is_on_the_target_goes_home_and_nothing_else() -> None:
    plan, world = scene(back("x"), forward("y"), stopped("z"))
    assert goes_home([plan], world, with_groups=False) == UndoCandidate(topics=("p-x", "p-z"))


def test_groups_that_transactions_tie_go_with_the_topics() -> None:
    plan, world = scene(back("x"), together=True)
    home = goes_home([plan], world, with_groups=True)
    assert (home.groups, home.demoted) == (("p-billing",), ())
    plan, world = scene(back("x"))
    home = goes_home([plan], world, with_groups=True)
    assert (home.groups, home.demoted) == ((), ("p-billing",))


@pytest.mark.parametrize(
    ("mirrors", "told"),
    [
        ([forward("x")], None),
        ([stopped("x")], None),
        ([back("x", lag=3), back("y", lag=4)], UndoStanding(promoted=2, open=2, until_ms=60, at_risk=7)),
        ([back("x", lag=None), forward("y")], UndoStanding(promoted=1, open=1, until_ms=60, at_risk=None)),
        ([back("x", Undo.NONE)], UndoStanding(promoted=1, open=1, until_ms=0, at_risk=0)),
        ([back("x"), stopped("y", Undo.REFUSED)], UndoStanding(promoted=2, open=1, refused=1, until_ms=60)),
        ([back("x"), back("y", state=S.FAILED)], UndoStanding(promoted=2, open=1, refused=1, until_ms=60)),
        ([stopped("x", Undo.OPEN), back("y")], UndoStanding(promoted=2, open=1, until_ms=60)),
        ([stopped("x", Undo.OVER), back("y", Undo.OVER)], UndoStanding(promoted=2, over=2)),
    ],
)
def test_what_is_said(mirrors: list[MirrorStanding], told: UndoStanding | None) -> None:
    assert standing(*scene(*mirrors)) == told


@pytest.mark.parametrize(
    ("mirrors", "late"),
    [
        ((back("x"), back("y")), 0),
        ((back("x"), back("y", late_known=False)), None),
        ((back("x", late=2), back("y", late_known=False)), 2),
    ],
)
def test_what_is_not_measured_is_not_none_and_what_is_refuses(
    mirrors: tuple[MirrorStanding, ...], late: int | None
) -> None:
    found = standing(*scene(*mirrors))
    assert found is not None
    assert found.late == late
