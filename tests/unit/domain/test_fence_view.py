"""Records and commands may come in any order: only what is of the present epoch counts."""

import pytest

from gateway.domain.fence_view import FenceView
from gateway.domain.records import MirrorState
from gateway.domain.routing import Phase

ACTIVE, PENDING, STOPPED = MirrorState.ACTIVE, MirrorState.PENDING_STOPPED, MirrorState.STOPPED


def test_a_promote() -> None:
    view = FenceView(ACTIVE, 0)
    assert view.phase is Phase.FORWARD
    view.record(PENDING, 1)
    phases = [view.phase]
    assert view.fence(1)
    phases.append(view.phase)
    view.record(STOPPED, 1)
    phases.append(view.phase)
    assert phases == [Phase.FORWARD, Phase.FENCED, Phase.SWITCHED], "PENDING_STOPPED alone holds nothing"


def test_a_fence_may_come_before_its_record() -> None:
    view = FenceView(ACTIVE, 0)
    assert view.fence(1)
    view.record(PENDING, 1)
    assert view.phase is Phase.FENCED


def test_a_promote_that_is_given_up_frees_also_those_that_do_not_hear_it() -> None:
    for command in (True, False):
        view = FenceView(ACTIVE, 0)
        view.record(PENDING, 1)
        view.fence(1)
        if command:
            assert view.unfence(1)
        view.record(ACTIVE, 1)
        assert view.phase is Phase.FORWARD
        assert not view.fence(1), "a late command of a run that has ended"
        assert view.phase is Phase.FORWARD
        assert view.fence(2)


def test_commands_of_a_leader_that_is_one_no_more_have_no_effect() -> None:
    view = FenceView(ACTIVE, 0)
    view.record(PENDING, 1)
    view.fence(1)
    view.record(PENDING, 2)
    assert view.phase is Phase.FENCED, "the next run begins under the fence that it found"
    assert not view.unfence(1)
    assert not view.fence(1)
    assert view.fence(2)
    view.record(ACTIVE, 1)  # read late
    assert view.phase is Phase.FENCED


@pytest.mark.parametrize(("fenced", "phase"), [(None, Phase.FORWARD), (3, Phase.FENCED), (2, Phase.FORWARD)])
def test_whoever_comes_new_is_told_the_fences_in_force(fenced: int | None, phase: Phase) -> None:
    assert FenceView(PENDING, 3, fenced).phase is phase


def test_an_assignment_ends_the_fences_of_earlier_terms_only() -> None:
    view = FenceView(ACTIVE, 0)
    view.fence(1, term=7)
    held = []
    for term in (7, 6, 8):  # one that was made before the fence began; one that was read late; the next leader's
        view.assigned(term, None)
        held.append(view.held)
    assert held == [True, True, False]
    assert not view.fence(2, term=7)
    view.assigned(8, 2)
    assert not view.unfence(2, term=7)
    assert view.unfence(2, term=8)


def test_the_end_of_a_fence_may_be_heard_before_the_assignment_that_names_it() -> None:
    """A failover that was given up: no record tells of it."""
    view = FenceView(ACTIVE, 3)
    assert not view.unfence(4, term=7)
    view.assigned(7, 4)
    phases = [view.phase]
    assert view.fence(4, term=7), "it is tried again"
    phases.append(view.phase)
    assert phases == [Phase.FORWARD, Phase.FENCED]


def test_a_new_leader_knows_the_epochs_of_records_only() -> None:
    """A failover of its predecessor came to nothing, twice: no record tells of its epochs."""
    view = FenceView(MirrorState.ACTIVE, 4, term=7)
    assert view.fence(6, term=7)
    assert not view.fence(5, term=7)
    view.record(MirrorState.PENDING_STOPPED, 5)
    assert view.held
    assert view.fence(5, term=8)
    assert not view.unfence(6, term=7)
    assert view.held
    assert view.unfence(5, term=8)
    assert not view.fence(4, term=9), "below what a record says"
