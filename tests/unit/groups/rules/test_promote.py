"""Group promote, step by step and interrupted anywhere, against a small model of two clusters."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.groups.rules.kind import MemberTopics, is_mirror_group
from gateway.groups.rules.promote import (
    GroupInvariantViolated,
    GroupLimits,
    GroupSnapshot,
    GroupStep,
    GroupStepKind,
    check_invariants,
    next_step,
)
from gateway.state.records import CarriedOffset, GroupState, SourceOffset

LIMITS = GroupLimits(quiet_s=1.0)
KEY = ("orders", 0)


@dataclass
class Model:
    """A group with one partition. What the runner remembers is lost by `crash`; records and offsets are not."""

    state: GroupState = GroupState.ACTIVE
    members: int = 0
    waiting: int = 1
    source_offset: int = 10
    mirrored: int = 0
    target_offset: int | None = None
    gate_open: bool = False
    now: float = 100.0
    read_on_target_from: int | None = None
    empty_since: float | None = None
    offsets: int | None = None
    offsets_at: float = 0.0
    committed: bool = False
    read_back: int | None = None
    mark_fails: bool = False
    steps: list[GroupStepKind] = field(default_factory=list)

    def snapshot(self) -> GroupSnapshot:
        self.now += 0.01
        if self.members:
            self.empty_since = None
            self.offsets, self.committed, self.read_back = None, False, None
        elif self.empty_since is None:
            self.empty_since = self.now
        at = self.offsets
        return GroupSnapshot(
            state=self.state,
            now=self.now,
            gate_open=self.gate_open,
            waiting=self.waiting,
            members=self.members,
            members_at=self.now,
            empty_since=self.empty_since,
            offsets=None if at is None else (SourceOffset(*KEY, at),),
            offsets_at=self.offsets_at,
            mirrored={KEY: self.mirrored},
            carried=(CarriedOffset(*KEY, at, at),) if self.committed and at is not None else None,
            read_back=None if self.read_back is None else {KEY: (self.read_back, "")},
        )

    def step(self) -> GroupStepKind:
        if not self.members and self.offsets not in (None, self.source_offset):  # the look before each step
            self.offsets, self.committed, self.read_back = None, False, None
        snapshot = self.snapshot()
        step = next_step(snapshot, LIMITS)
        check_invariants(snapshot, step)
        self.steps.append(step.kind)
        self.take(step)
        return step.kind

    def take(self, step: GroupStep) -> None:
        match step.kind:
            case GroupStepKind.WAIT:
                self.now += 0.5
            case GroupStepKind.MARK_PENDING:
                self.state = GroupState.PENDING_PROMOTED
            case GroupStepKind.MARK_ACTIVE:
                self.state, self.empty_since = GroupState.ACTIVE, None
                self.offsets, self.committed, self.read_back = None, False, None
            case GroupStepKind.READ_OFFSETS:
                self.now += 0.01
                self.offsets, self.offsets_at = self.source_offset, self.now
            case GroupStepKind.COMMIT:
                self.target_offset, self.committed = self.offsets, True
            case GroupStepKind.READ_BACK:
                self.offsets_at = self.now
                if self.offsets == self.source_offset:
                    self.read_back = self.target_offset
                else:
                    self.offsets, self.committed = None, False
            case GroupStepKind.MARK_PROMOTED if self.mark_fails:
                self.mark_fails = False
                self.offsets, self.committed, self.read_back = None, False, None
            case GroupStepKind.MARK_PROMOTED:
                self.state, self.gate_open, self.read_on_target_from = GroupState.PROMOTED, True, self.target_offset
            case _:
                pass

    def crash(self) -> None:
        """The gateway is killed: its gates are rebuilt from the records, what it had learned is gone."""
        self.gate_open = self.state is GroupState.PROMOTED
        if self.gate_open and self.read_on_target_from is None:
            self.read_on_target_from = self.target_offset
        self.empty_since, self.offsets, self.committed, self.read_back = None, None, False, None

    def run(self, limit: int = 50) -> None:
        for _ in range(limit):
            if self.step() is GroupStepKind.DONE:
                return


def test_the_steps_of_a_quiet_promote() -> None:
    model = Model(mirrored=10)
    model.run()
    assert [kind for kind in model.steps if kind is not GroupStepKind.WAIT] == [
        GroupStepKind.MARK_PENDING,
        GroupStepKind.READ_OFFSETS,
        GroupStepKind.COMMIT,
        GroupStepKind.READ_BACK,
        GroupStepKind.MARK_PROMOTED,
        GroupStepKind.DONE,
    ]
    assert model.read_on_target_from == 10


@pytest.mark.parametrize("prefix", range(12))
def test_interrupted_anywhere_it_comes_to_the_same_end(prefix: int) -> None:
    model = Model(mirrored=10)
    for _ in range(prefix):
        model.step()
    model.crash()
    model.run()
    assert (model.state, model.gate_open, model.read_on_target_from) == (GroupState.PROMOTED, True, 10)


def test_it_waits_for_the_mirror() -> None:
    model = Model(mirrored=9)
    model.run()
    assert model.state is GroupState.PENDING_PROMOTED
    model.mirrored = 10
    model.run()
    assert model.read_on_target_from == 10


def test_it_waits_for_a_mirror_that_has_failed() -> None:
    """However far that has come: its copy may be another topic by now, or hold other records."""
    model = Model(state=GroupState.PENDING_PROMOTED, mirrored=10, offsets=10, offsets_at=1.0)
    assert next_step(model.snapshot(), LIMITS).kind is GroupStepKind.COMMIT
    step = next_step(replace(model.snapshot(), failed=frozenset({"orders"})), LIMITS)
    assert step.kind is GroupStepKind.WAIT
    assert "mirror topic 'orders' has FAILED" in step.reason
    assert "repair it, or fail it over" in step.reason


def test_what_was_translated_before_a_mirror_was_repaired_is_forgotten() -> None:
    """A repair may give records of the copy other offsets."""
    model = Model(state=GroupState.PENDING_PROMOTED, mirrored=10, offsets=10, offsets_at=1.0)
    carried = replace(model.snapshot(), carried=())
    assert next_step(carried, LIMITS).kind is GroupStepKind.READ_BACK
    for repaired in (replace(carried, failed=frozenset({"orders"})), replace(carried, mirrored={})):
        assert next_step(repaired, LIMITS).kind is GroupStepKind.READ_OFFSETS


def test_an_empty_group_that_nobody_waits_for_is_not_promoted_by_itself() -> None:
    model = Model(mirrored=10, waiting=0)
    model.run()
    assert set(model.steps) == {GroupStepKind.WAIT}


def test_members_on_the_source_keep_the_gate_closed() -> None:
    model = Model(mirrored=10, members=2)
    model.run()
    assert model.state is GroupState.ACTIVE
    assert not model.gate_open


def test_a_member_that_comes_back_before_the_end_undoes_the_promote() -> None:
    model = Model(mirrored=10)
    while GroupStepKind.READ_OFFSETS not in model.steps:
        model.step()
    model.members = 1
    assert model.step() is GroupStepKind.MARK_ACTIVE
    assert not model.gate_open


EVENTS = st.lists(
    st.sampled_from(["step", "step", "step", "join", "leave", "consume", "mirror", "crash", "tick", "mark fails"]),
    max_size=80,
)


def happens(model: Model, event: str) -> None:
    match event:
        case "step":
            model.step()
        case "join":
            model.members = 1
        case "mark fails":
            model.mark_fails = True
        case "leave":
            model.members = 0
        case "consume" if model.members:
            model.source_offset += 1
        case "mirror":
            model.mirrored = model.source_offset
        case "crash":
            model.crash()
        case "tick":
            model.now += 1.0
        case _:
            pass


@given(EVENTS)
def test_whatever_happens_the_group_reads_on_from_its_last_commit(events: list[str]) -> None:
    """Members may come, commit and go between any two looks, and the mark may fail."""
    model = Model(members=1)
    for event in events:
        before = model.state
        happens(model, event)
        if model.state is GroupState.PROMOTED and before is not GroupState.PROMOTED:
            assert model.target_offset == model.source_offset
        assert not model.gate_open or model.state is GroupState.PROMOTED
        if model.state is GroupState.PROMOTED:
            break
    model.members, model.mirrored = 0, model.source_offset
    model.run()
    assert model.read_on_target_from == model.source_offset


def test_the_invariants_forbid_a_gate_that_opens_too_early() -> None:
    snapshot = Model(mirrored=10).snapshot()
    with pytest.raises(GroupInvariantViolated):
        check_invariants(snapshot, GroupStep(GroupStepKind.MARK_PROMOTED))


@pytest.mark.parametrize(
    ("members", "committed", "verdict"),
    [
        ([], [], False),
        ([], ["other"], False),
        ([], ["orders"], True),
        ([MemberTopics(["orders"])], [], True),
        ([MemberTopics(["other"])], [], False),
        ([MemberTopics([])], [], True),  # its subscription cannot be read: the safe side is the gate
        ([MemberTopics(["other"], by_pattern=True)], [], True),
    ],
)
def test_which_groups_are_mirror_groups(members: list[MemberTopics], committed: list[str], verdict: bool) -> None:
    assert is_mirror_group(members, committed, {"orders"}) is verdict


def test_offsets_that_are_not_the_sources_are_not_promoted_by() -> None:
    """What is stored as carried over was made of what the source held at the last look."""
    ready = Model(members=0, mirrored=50)
    while ready.step() is not GroupStepKind.READ_BACK:
        pass
    snapshot = ready.snapshot()
    step = next_step(snapshot, LIMITS)
    assert step.kind is GroupStepKind.MARK_PROMOTED
    check_invariants(snapshot, step)
    at = (snapshot.offsets or ())[0].offset
    for carried in ((), (CarriedOffset(*KEY, at - 1, at),), (CarriedOffset("other", 0, at, at),)):
        with pytest.raises(GroupInvariantViolated, match="not those of the source"):
            check_invariants(replace(snapshot, carried=carried), step)


def test_a_streams_group_waits_for_the_topics_of_its_topology() -> None:
    snapshot = replace(Model(members=0).snapshot(), requested=True, unmirrored=tuple("abcdefg"))
    assert next_step(snapshot, LIMITS) == GroupStep(
        GroupStepKind.WAIT,
        "topics of its topology are not mirrored (a, b, c, d, e and 2 more): the target would make them anew, empty; "
        "mirror them",
    )
    pending = replace(snapshot, state=GroupState.PENDING_PROMOTED)
    assert next_step(pending, LIMITS).kind is GroupStepKind.MARK_ACTIVE
    assert next_step(replace(snapshot, force=True), LIMITS).kind is GroupStepKind.MARK_PENDING
    assert next_step(replace(snapshot, unmirrored=()), LIMITS).kind is GroupStepKind.MARK_PENDING
