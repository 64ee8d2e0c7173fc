"""Whether a gate is open: by the record, by command, or since the group has nothing to do with what is mirrored."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.groups.gate.rules.commands import GateCommand, GateCommands
from gateway.groups.gate.rules.gates import GateStatus, GroupGates, Identity, RecordedGate, Waiter

OPEN, CLOSED, UNKNOWN = GateStatus.OPEN, GateStatus.CLOSED, GateStatus.UNKNOWN


@pytest.fixture
def gates() -> GroupGates:
    made = GroupGates()
    made.enabled = True
    return made


def wait(gates: GroupGates, group: str = "g") -> list[str]:
    """A request that waits; what is returned has an entry once it goes on."""
    released: list[str] = []
    gates.wait(Waiter(group, Identity("h", "c"), 0.0), lambda: released.append(group))
    return released


def test_while_nothing_is_mirrored_every_gate_is_open_and_nobody_waits(gates: GroupGates) -> None:
    gates.status("g")
    released = wait(gates)
    assert not released
    gates.enabled = False
    assert released == ["g"]
    assert gates.status("g") is OPEN


def test_a_group_is_asked_about_once_and_anew_when_gates_begin_to_count_again(gates: GroupGates) -> None:
    asked: list[str] = []
    gates.on_unknown = asked.append
    assert (gates.status("g"), gates.status("g"), asked) == (UNKNOWN, UNKNOWN, ["g"])
    gates.enabled = False
    gates.enabled = True
    assert (gates.status("g"), asked) == (UNKNOWN, ["g", "g"])


def test_a_record_decides_and_lets_go_on_who_waits(gates: GroupGates) -> None:
    released = wait(gates)
    gates.recorded({"g": RecordedGate(False, 1)}, grown_at=0)
    assert (gates.status("g"), released) == (CLOSED, [])
    gates.recorded({"g": RecordedGate(True, 2)}, grown_at=0)
    assert (gates.status("g"), released) == (OPEN, ["g"])


def test_who_was_let_in_is_held_when_a_mirror_more_is_stored(gates: GroupGates) -> None:
    asked: list[str] = []
    gates.on_unknown = asked.append
    assert gates.let_in("g", as_of=5)
    assert gates.let_in("late", as_of=8)
    gates.recorded({}, grown_at=5)
    assert (gates.status("g"), asked) == (OPEN, [])

    gates.recorded({}, grown_at=7)

    assert (gates.status("g"), asked) == (UNKNOWN, ["g"])
    assert gates.status("late") is OPEN, "it was looked at with that mirror stored"
    released = wait(gates)
    assert not gates.let_in("g", as_of=6), "an answer of before"
    assert gates.let_in("g", as_of=7)
    assert released == ["g"]


def test_as_of_when_a_group_was_let_in_last_is_kept_until_it_has_a_record(gates: GroupGates) -> None:
    assert gates.last_let_in("g") == -1
    gates.let_in("g", as_of=5)
    gates.recorded({}, grown_at=7)
    assert (gates.status("g"), gates.let_in_at("g"), gates.last_let_in("g")) == (UNKNOWN, None, 5)
    asked: list[str] = []
    gates.on_unknown = asked.append
    gates.recorded({}, grown_at=7)
    assert asked == [], "once"
    gates.recorded({"g": RecordedGate(False, 8)}, grown_at=7)
    assert gates.last_let_in("g") == -1


def test_a_record_counts_more_than_to_have_been_let_in_and_ends_it(gates: GroupGates) -> None:
    gates.let_in("g", as_of=5)
    gates.recorded({"g": RecordedGate(False, 6)}, grown_at=0)
    assert gates.status("g") is CLOSED
    assert not gates.let_in("g", as_of=9)
    gates.recorded({}, grown_at=0)
    assert gates.status("g") is UNKNOWN


def test_who_waits_for_a_group_whose_record_is_deleted_has_it_asked_about(gates: GroupGates) -> None:
    asked: list[str] = []
    gates.on_unknown = asked.append
    gates.recorded({"g": RecordedGate(False, 1)}, grown_at=0)
    released = wait(gates)
    gates.recorded({}, grown_at=0)
    assert asked == ["g"]
    gates.let_in("g", as_of=3)
    assert released == ["g"]


def test_an_operation_of_this_gateway_holds_a_gate_over_changes_of_the_records(gates: GroupGates) -> None:
    gates.recorded({"g": RecordedGate(True, 1)}, grown_at=0)
    gates.hold("g")
    released = wait(gates)
    gates.recorded({"g": RecordedGate(True, 1), "h": RecordedGate(True, 2)}, grown_at=0)
    assert (gates.status("g"), released) == (CLOSED, [])
    gates.let_go("g")
    assert (gates.status("g"), released) == (OPEN, ["g"])


def test_what_an_earlier_term_has_shut_ends_with_the_next_ones_word(gates: GroupGates) -> None:
    gates.recorded({"g": RecordedGate(True, 1)}, grown_at=0)
    gates.hold("g")
    gates.assigned(6, 9, {"g"})
    assert gates.status("g") is CLOSED
    gates.assigned(7, 12, ())
    assert gates.status("g") is OPEN
    gates.hold("g")
    gates.term_begins()
    assert gates.status("g") is OPEN


# -- commands ------------------------------------------------------------------------------------------------


def test_of_two_commands_the_later_one_counts_whichever_is_heard_last() -> None:
    commands = GateCommands()
    commands.open("g", GateCommand(5, 10, 2))
    commands.shut("g", GateCommand(5, 10, 1))
    assert not commands.is_shut("g", 10)
    commands.shut("g", GateCommand(5, 10, 3))
    commands.open("g", GateCommand(5, 10, 2))
    assert commands.is_shut("g", 10)


def test_an_earlier_command_that_is_heard_late_does_not_take_the_place_of_a_later_one() -> None:
    commands = GateCommands()
    commands.shut("g", GateCommand(5, 10, 3))
    commands.shut("g", GateCommand(5, 10, 1))
    commands.open("g", GateCommand(5, 10, 2))
    assert commands.is_shut("g", 10)


def test_an_assignment_says_nothing_of_what_was_commanded_behind_it() -> None:
    commands = GateCommands()
    commands.shut("g", GateCommand(5, 10, 1))
    commands.assigned(5, 10, ())
    assert commands.is_shut("g", 10), "the assignment was made before"
    commands.open("g", GateCommand(5, 10, 2))
    commands.assigned(5, 10, {"g"})
    assert not commands.is_shut("g", 10), "the assignment was made before"


def test_an_assignment_shuts_what_it_names_and_ends_what_was_shut_before_it() -> None:
    commands = GateCommands()
    commands.shut("old", GateCommand(5, 10, 1))
    commands.assigned(6, 20, {"g"})
    assert commands.is_shut("g", 15)
    assert not commands.is_shut("old", 10)


def test_a_command_from_before_the_assignment_is_in_it_if_it_is_in_force() -> None:
    commands = GateCommands()
    commands.assigned(5, 12, ())
    commands.shut("g", GateCommand(5, 10, 1))
    assert not commands.is_shut("g", 10)


def test_a_record_that_has_changed_since_ends_the_command() -> None:
    commands = GateCommands()
    commands.shut("g", GateCommand(5, 10, 1))
    assert commands.is_shut("g", 10)
    assert not commands.is_shut("g", 11)


class Fleet:
    """A leader that demotes and promotes one group, and a follower that hears of it late, in any order, or not at all.

    `said`: commands and assignments on their way. The log of records is read in its order.
    """

    def __init__(self) -> None:
        self.log: list[tuple[int, bool]] = [(1, True)]  # offset, PROMOTED
        self.end, self.read, self.number = 1, 0, 0
        self.shut = False
        self.acknowledged = False  # the follower has answered the command that shuts the gate for the present demote
        self.said: list[tuple[str, int, int]] = []
        self.gates = GroupGates()
        self.gates.enabled = True

    @property
    def promoted(self) -> bool:
        return self.log[-1][1]

    def say(self, what: str) -> None:
        self.number += 1
        self.said.append((what, self.end, self.number))

    def leader(self, what: str) -> None:
        match what:
            case "demote" if self.promoted and not self.shut:
                self.shut, self.acknowledged = True, False
                self.say("shut")
            case "demoted" if self.shut and self.acknowledged:  # it waits for everybody before
                self.write(promoted=False)
                self.end_demote()
            case "give up" if self.shut:
                self.end_demote()
            case "promote" if not self.promoted:
                self.write(promoted=True)
            case "assign":
                self.said.append(("assign shut" if self.shut else "assign", self.end, 0))
            case "something else":
                self.end += 1
            case _:
                pass

    def end_demote(self) -> None:
        self.shut = False
        self.say("open")

    def write(self, *, promoted: bool) -> None:
        self.end += 1
        self.log.append((self.end, promoted))

    def hear(self, index: int, *, again: bool) -> None:
        """What the follower is told; `again`: it is told a second time later."""
        if not self.said:
            return
        index %= len(self.said)
        what, offset, number = self.said[index]
        if what != "shut" and self.read < offset:
            return  # it waits until it has read as far
        if not again:
            del self.said[index]
        match what:
            case "shut":
                self.gates.shut("g", GateCommand(5, offset, number))
                if self.shut and number == self.number:
                    self.acknowledged = True
            case "open":
                self.gates.open("g", GateCommand(5, offset, number))
            case _:
                self.gates.assigned(5, offset, {"g"} if what == "assign shut" else ())

    def read_on(self, count: int) -> None:
        self.read = min(self.end, self.read + count)
        seen = [entry for entry in self.log if entry[0] <= self.read]
        if seen:
            offset, promoted = seen[-1]
            self.gates.recorded({"g": RecordedGate(promoted, offset)}, grown_at=0)

    def check(self) -> None:
        if self.acknowledged and (self.shut or not self.promoted):
            assert self.gates.status("g") is not OPEN, "the group reads on the source, or is about to"

    def comes_to_rest(self) -> None:
        """Everything is read and heard at last; a command that opens is told until it is heard."""
        if self.shut:
            self.leader("give up")
        self.read_on(self.end)
        while self.said:
            self.hear(0, again=False)
        assert self.gates.status("g") is (OPEN if self.promoted else CLOSED)


LEADER = st.tuples(
    st.just("leader"), st.sampled_from(["demote", "demoted", "give up", "promote", "assign", "something else"])
)
FOLLOWER = st.one_of(
    st.tuples(st.just("hear"), st.integers(0, 5), st.booleans()), st.tuples(st.just("read"), st.integers(1, 3))
)


@settings(max_examples=1000, deadline=None)
@given(st.lists(st.one_of(LEADER, FOLLOWER), max_size=60))
def test_in_whatever_order_a_follower_hears_it_its_gate_is_never_open_for_a_group_that_is_demoted(
    events: list[tuple[object, ...]],
) -> None:
    fleet = Fleet()
    fleet.read_on(1)
    for event in events:
        match event:
            case ("leader", str(what)):
                fleet.leader(what)
            case ("hear", int(index), bool(again)):
                fleet.hear(index, again=again)
            case ("read", int(more)):
                fleet.read_on(more)
        fleet.check()
    fleet.comes_to_rest()
