"""Records, commands and assignments may come in any order: each rule of the write pause, by itself."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.cutover.write_pause.rules.write_pause import Pause, Recorded, WritePause, WritePauses, WritePhase
from gateway.state.records import MirrorState

ACTIVE, PENDING, STOPPED = MirrorState.ACTIVE, MirrorState.PENDING_STOPPED, MirrorState.STOPPED


def pause_of(state: MirrorState, epoch: int, term: int = 0) -> WritePause:
    return WritePause(Recorded(state, epoch), term)


def test_a_promote() -> None:
    topic = pause_of(ACTIVE, 0)
    phases = [topic.phase]
    topic.record(Recorded(PENDING, 1))
    phases.append(topic.phase)
    assert topic.pause(1, 0)
    phases.append(topic.phase)
    topic.record(Recorded(STOPPED, 1))
    phases.append(topic.phase)
    assert phases == [WritePhase.FORWARD, WritePhase.FORWARD, WritePhase.PAUSED, WritePhase.SWITCHED], (
        "PENDING_STOPPED alone pauses nothing"
    )


@pytest.mark.parametrize("state", [ACTIVE, PENDING, STOPPED])
def test_without_a_lease_a_write_goes_nowhere(state: MirrorState) -> None:
    topic = pause_of(state, 0)
    assert topic.goes(leased=True) is topic.phase
    assert topic.goes(leased=False) is None


def test_a_pause_may_come_before_its_record() -> None:
    topic = pause_of(ACTIVE, 0)
    assert topic.pause(1, 0)
    topic.record(Recorded(PENDING, 1))
    assert topic.phase is WritePhase.PAUSED


@pytest.mark.parametrize("command", [True, False])
def test_a_promote_that_is_given_up_frees_also_those_that_do_not_hear_it(command: bool) -> None:
    topic = pause_of(ACTIVE, 0)
    topic.record(Recorded(PENDING, 1))
    topic.pause(1, 0)
    if command:
        assert topic.resume(1, 0)
    topic.record(Recorded(ACTIVE, 1))
    assert topic.phase is WritePhase.FORWARD
    assert not topic.pause(1, 0), "a late command of a run that has ended"
    assert topic.phase is WritePhase.FORWARD
    assert topic.pause(2, 0)


def test_the_end_of_one_operation_does_not_end_another_one() -> None:
    topic = pause_of(ACTIVE, 0)
    topic.pause(1, 0)
    topic.pause(2, 0)
    assert topic.resume(2, 0)
    phases = [topic.phase]
    assert topic.resume(1, 0)
    assert [*phases, topic.phase] == [WritePhase.PAUSED, WritePhase.FORWARD]


def test_a_command_that_is_repeated_changes_nothing() -> None:
    topic = pause_of(ACTIVE, 0)
    assert topic.pause(1, 0)
    assert topic.pause(2, 0)
    assert topic.pause(1, 0), "it is in force: who lost the answer asks again"
    assert topic.resume(1, 0)
    assert not topic.resume(1, 0)
    assert not topic.pause(1, 0)


def test_commands_of_an_earlier_term_have_no_effect() -> None:
    topic = pause_of(ACTIVE, 0, term=7)
    topic.pause(1, 7)
    topic.assigned(8, 2)
    assert not topic.pause(3, 7)
    assert not topic.resume(2, 7)
    assert not topic.resume(1, 7)
    assert topic.in_force() == 2


def test_a_command_below_what_the_record_says_is_late() -> None:
    topic = pause_of(PENDING, 3)
    assert not topic.pause(2, 0)
    assert topic.pause(3, 0)
    topic.record(Recorded(ACTIVE, 1))  # read late
    assert topic.phase is WritePhase.PAUSED


@pytest.mark.parametrize(
    ("named", "phase"), [(None, WritePhase.FORWARD), (3, WritePhase.PAUSED), (2, WritePhase.FORWARD)]
)
def test_whoever_comes_new_is_told_the_pauses_in_force(named: int | None, phase: WritePhase) -> None:
    topic = pause_of(PENDING, 3, term=-1)
    topic.assigned(0, named)
    assert topic.phase is phase


def test_an_assignment_ends_the_pauses_of_earlier_terms_only() -> None:
    topic = pause_of(ACTIVE, 0, term=-1)
    topic.pause(1, 7)
    paused = []
    for term in (7, 6, 8):  # one that was made before the pause began; one that was read late; the next leader's
        topic.assigned(term, None)
        paused.append(topic.phase is WritePhase.PAUSED)
    assert paused == [True, True, False]


def test_a_leaders_first_commands_end_nothing_of_its_predecessors() -> None:
    """This gateway has not read what became of the first one: it may have been the cutover."""
    topic = pause_of(PENDING, 4, term=7)
    topic.pause(4, 7)
    assert topic.pause(5, 8)
    assert topic.resume(5, 8)
    phases = [topic.phase]
    topic.record(Recorded(STOPPED, 4))
    assert [*phases, topic.phase] == [WritePhase.PAUSED, WritePhase.SWITCHED]


def test_a_later_operation_of_the_same_leader_ends_nothing_either() -> None:
    """It has cut over, failed back, and paused again, before the first record came here."""
    topic = pause_of(PENDING, 4)
    topic.pause(4, 0)
    topic.pause(5, 0)
    topic.resume(5, 0)
    assert topic.phase is WritePhase.PAUSED


def test_the_end_of_a_pause_may_be_heard_before_its_begin() -> None:
    """A failover that was given up: no record tells of it."""
    topic = pause_of(ACTIVE, 3)
    assert not topic.resume(4, 7)
    topic.assigned(7, 4)
    assert topic.phase is WritePhase.FORWARD
    assert not topic.pause(4, 7)
    assert topic.pause(5, 7)


def test_a_new_leader_knows_the_epochs_of_records_only() -> None:
    """A failover of its predecessor came to nothing, twice: no record tells of its epochs."""
    topic = pause_of(ACTIVE, 4, term=7)
    assert topic.pause(6, 7)
    assert not topic.pause(5, 7)
    topic.record(Recorded(PENDING, 5))
    assert topic.pause(5, 8)
    topic.assigned(8, 5)
    assert topic.in_force() == 5
    assert topic.resume(5, 8)
    assert topic.phase is WritePhase.FORWARD


def test_a_failback_cutover_ends_the_pause_by_its_record() -> None:
    topic = WritePause(Recorded(PENDING, 1, on_target=True))
    phases = [topic.phase]
    topic.pause(1, 0)
    phases.append(topic.phase)
    topic.record(Recorded(MirrorState.PENDING_MIRROR, 1))
    phases.append(topic.phase)
    assert phases == [WritePhase.SWITCHED, WritePhase.PAUSED, WritePhase.FORWARD]


def test_no_epoch_is_given_out_twice() -> None:
    """A failover that came to nothing marks no record; what comes late of it must not end the next promote's pause."""
    topic = pause_of(ACTIVE, 4)
    assert topic.next_epoch == 5
    topic.pause(5, 0)
    topic.resume(5, 0)
    assert topic.next_epoch == 6
    topic.record(Recorded(ACTIVE, 8))
    assert topic.next_epoch == 9


def test_the_youngest_operation_of_a_term_is_the_one_that_assignments_name() -> None:
    topic = pause_of(ACTIVE, 0)
    topic.pause(1, 0)
    topic.pause(2, 0)
    topic.pause(1, 1)
    assert (topic.in_force(0), topic.in_force(1), topic.in_force(2)) == (2, 1, None)
    assert topic.is_in_force(1, 0)
    assert not topic.is_in_force(2, 1)


def test_the_first_writes_wait_at_every_gateway_until_the_topic_stamps_them_itself() -> None:
    paused, follower = pause_of(PENDING, 1), pause_of(PENDING, 1)  # one was never told of the pause
    paused.pause(1, 0)
    for topic in (paused, follower):
        topic.record(Recorded(STOPPED, 1, unstamped=True))
    phases = [paused.phase, follower.phase]
    paused.resume(1, 0)
    phases.append(paused.phase)
    for topic in (paused, follower):
        topic.record(Recorded(STOPPED, 1))
    assert phases == [WritePhase.PAUSED] * 3
    assert {paused.phase, follower.phase} == {WritePhase.SWITCHED}


def test_acknowledged_means_closed_until_it_is_over() -> None:
    topic = pause_of(ACTIVE, 0)
    topic.close()
    closed = [topic.closed]
    topic.pause(1, 0)
    topic.close()
    topic.pause(2, 0)
    closed.append(topic.closed)
    topic.record(Recorded(ACTIVE, 2))
    assert [*closed, topic.closed] == [False, True, False]


def test_who_waits_is_released_in_order() -> None:
    topic = pause_of(ACTIVE, 0)
    released: list[int] = []
    leaves = [topic.wait(partial(released.append, n)) for n in range(3)]
    leaves[1]()
    assert topic.waiting == 2
    topic.let_go()
    assert (released, topic.waiting) == ([0, 2], 0)
    topic.wait(partial(released.append, 3))
    leaves[2]()  # once more, as who is released does
    topic.let_go()
    assert released == [0, 2, 3]


# -- all topics of a gateway -----------------------------------------------------------------------------------------


def read(pauses: WritePauses, *topics: str) -> None:
    """These are all the mirrors there are."""
    for topic in {*pauses, *topics}:
        pauses.record(topic, Recorded(ACTIVE, 0) if topic in topics else None)


def test_a_topic_that_is_not_known_is_not_paused() -> None:
    pauses = WritePauses()
    assert not pauses.pause(Pause("t", 1, 0))
    assert not pauses.resume(Pause("t", 1, 0))
    assert pauses.in_force() == {}


def test_a_deleted_mirror_is_paused_no_more_and_what_was_said_of_it_stays_late() -> None:
    pauses = WritePauses()
    read(pauses, "t", "u")
    assert pauses.pause(Pause("t", 3, 0))
    assert pauses.pause(Pause("u", 1, 0))
    read(pauses, "u")
    assert pauses.in_force() == {"u": 1}
    read(pauses, "t", "u")
    assert not pauses.pause(Pause("t", 3, 0))
    assert pauses["t"].next_epoch == 4


def test_an_assignment_concerns_every_topic_and_those_that_come_later() -> None:
    pauses = WritePauses()
    read(pauses, "t", "u")
    pauses.pause(Pause("t", 1, 3))
    pauses.assigned(4, {"u": 1})
    assert pauses.in_force() == {"u": 1}
    read(pauses, "t", "v")
    assert not pauses.pause(Pause("v", 1, 3))
    assert pauses.pause(Pause("v", 1, 4))
    assert (pauses.in_force(4), len(pauses)) == ({"v": 1}, 2)


topics, numbers = st.sampled_from("tuv"), st.integers(0, 3)
told = st.one_of(
    st.builds(Pause, topics, numbers, numbers),
    st.tuples(st.just("resume"), st.builds(Pause, topics, numbers, numbers)),
    st.tuples(st.just("assigned"), numbers, st.dictionaries(topics, numbers, max_size=2)),
    st.tuples(st.just("record"), topics, st.none() | st.builds(Recorded, st.sampled_from(MirrorState), numbers)),
)


@given(st.lists(told, max_size=30))
def test_what_is_in_force_is_known_without_a_look_at_every_topic(story: list[Any]) -> None:
    pauses = WritePauses()
    read(pauses, *"tuv")
    for step in story:
        match step:
            case Pause():
                pauses.pause(step)
            case ("resume", pause):
                pauses.resume(pause)
            case ("assigned", term, named):
                pauses.assigned(term, named)
            case ("record", topic, found):
                pauses.record(topic, found)
        for term in (None, *range(4)):
            of_all = {topic: pause.in_force(term) for topic, pause in pauses.items()}
            assert pauses.in_force(term) == {topic: epoch for topic, epoch in of_all.items() if epoch is not None}
