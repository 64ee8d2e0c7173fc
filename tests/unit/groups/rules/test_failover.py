"""Where a group goes on after a failover, and what is said of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.groups.rules import failover as group_failover
from gateway.groups.rules.failover import (
    LIMIT_S,
    Cut,
    FailoverPlan,
    GroupFailoverSnapshot,
    GroupFailoverStep,
    GroupFailoverStepKind,
    GroupFailoverViolated,
    Known,
    changed_sides,
    copy_ends,
    failover_note,
    meant,
    next_step,
    plan_failover,
)
from gateway.groups.rules.source_gone import GONE_S, SourceSeen
from gateway.state.records import (
    CarriedOffset,
    GroupState,
    MirrorRecord,
    MirrorState,
    PartitionStart,
    SourceOffset,
)
from tests.support.control.mirror_records import changed

K = GroupFailoverStepKind

A, B, C = ("t", 0), ("t", 1), ("u", 0)


def test_confluent_s_example():
    """Mirrored up to 90; group A at 80 stays there, group B at 95 is cut to 90."""
    ends = {A: 90}

    stays = plan_failover({A: Known(80, 80, 0)}, {}, ends)
    cut = plan_failover({A: Known(95, None, 5)}, {}, ends)

    assert (stays.offsets, stays.cuts) == ((CarriedOffset("t", 0, 80, 80),), ())
    assert cut.offsets == (CarriedOffset("t", 0, 95, 90),)
    assert (cut.cuts, cut.records) == ((Cut("t", 0, 95, 90, 5),), 5)


def test_what_was_read_on_the_source_goes_before_what_was_synced():
    plan = plan_failover({A: Known(70, 70, 0, "new")}, {A: (60, "old"), B: (5, "m")}, {A: 100, B: 100})

    assert plan.offsets == (CarriedOffset("t", 0, 70, 70, "new"), CarriedOffset("t", 1, 5, 5, "m"))


def test_a_target_that_lost_records_cuts_too():
    plan = plan_failover({A: Known(70, 50, 0)}, {B: (60, "")}, {A: 45, B: 40})

    assert [(o.target_offset) for o in plan.offsets] == [45, 40]
    assert [cut.records for cut in plan.cuts] == [5, 20]


def test_partitions_that_are_not_asked_for_are_left_alone():
    assert plan_failover({C: Known(1, 1, 0)}, {B: (1, "")}, {A: 9}) == FailoverPlan((), ())


def test_the_note_has_the_numbers():
    plan = plan_failover({A: Known(95, None, 5)}, {}, {A: 90})

    assert failover_note(plan, "offsets as of 3 s ago") == (
        "failed over: offsets as of 3 s ago; t-0: the group was at 95 on the source; cut to 90, where the "
        "mirrored records end: 5 record(s) that it has read are not there"
    )


# -- the steps -------------------------------------------------------------------------------------------------

START = (PartitionStart(0, 0),)
ACTIVE = MirrorRecord(link="l", source_topic="t", mirror_topic="t", mirror_id=1, starts=START)
OVER = changed(ACTIVE, state=MirrorState.STOPPED, stopped_at=(90,), stopped_copy_at=(90,), not_mirrored=(5,))
OTHER = replace(ACTIVE, mirror_topic="u", source_topic="u")
PROMOTED = replace(OTHER, state=MirrorState.STOPPED)
PLAN = FailoverPlan((CarriedOffset("t", 0, 95, 90, "m"),), ())
HELD = {A: (90, "m")}
GONE = SourceSeen(GONE_S, "connection refused")
PLANNED = {"known": (SourceOffset("t", 0, 95, "m"),), "held": {}, "plan": PLAN, "planned_by": {"t": OVER}}
COMMITTED = {**PLANNED, "committed": True, "read_back": HELD}


def snapshot(**known: object) -> GroupFailoverSnapshot:
    values = {
        "now": 1.0,
        "began": 0.0,
        "group": "g",
        "state": GroupState.ACTIVE,
        "mirrors": {"t": OVER, "u": OTHER},
        "source": GONE,
    }
    return GroupFailoverSnapshot(**(values | known))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("known", "kind"),
    [
        ({}, K.READ_TARGET),
        ({"state": GroupState.PENDING_PROMOTED}, K.READ_TARGET),
        ({"state": GroupState.PROMOTED}, K.DONE),
        ({"mirrors": {"t": ACTIVE}}, K.DONE),
        ({"mirrors": {"t": changed(OVER, not_mirrored=())}}, K.DONE),  # it was promoted
        ({"held": {}}, K.WAIT),  # nothing is known of what it reads, and 'u' is the source's
        ({"held": {}, "known": ()}, K.WAIT),
        ({"held": {}, "mirrors": {"t": OVER}}, K.PLAN),
        ({"held": {}, "mirrors": {"t": OVER, "u": PROMOTED}}, K.PLAN),
        ({"source": SourceSeen()}, K.WAIT),
        ({"source": SourceSeen(None, "credentials refused")}, K.WAIT),
        ({"source": SourceSeen(GONE_S - 1, "connection refused")}, K.WAIT),
        ({"source": SourceSeen(), "known": (SourceOffset("u", 0, 1),)}, K.DONE),  # it reads another topic
        ({**COMMITTED, "source": SourceSeen()}, K.WAIT),  # it is back
        ({"held": {C: (1, "")}}, K.DONE),  # it reads another topic
        ({"held": {}, "known": (SourceOffset("u", 0, 1),)}, K.DONE),
        ({"held": {C: (1, "")}, "known": (SourceOffset("t", 0, 1),)}, K.PLAN),
        (PLANNED, K.COMMIT),
        ({**PLANNED, "mirrors": {"t": changed(OVER, failback_epoch=1)}}, K.DONE),
        ({**PLANNED, "mirrors": {"t": OVER}, "planned_by": {"t": OVER, "u": OTHER}}, K.DONE),
        ({**PLANNED, "committed": True}, K.READ_BACK),
        (COMMITTED, K.MARK_PROMOTED),
        ({**COMMITTED, "read_back": {}}, K.DONE),
        ({**COMMITTED, "read_back": {A: (89, "m")}}, K.DONE),
        ({**COMMITTED, "now": LIMIT_S}, K.DONE),
    ],
)
def test_steps(known: dict[str, object], kind: GroupFailoverStepKind) -> None:
    assert next_step(snapshot(**known)).kind is kind


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        ({"now": LIMIT_S}, "not done in 10 s: the offsets of the group on the target"),
        ({**COMMITTED, "read_back": {}}, "the target does not hold the offset committed for group 'g' on t-0"),
        ({**PLANNED, "mirrors": {"t": changed(OVER, failback_epoch=1)}}, "mirror topic 't' was changed meanwhile"),
        ({"held": {C: (1, "")}}, ""),
    ],
)
def test_why_it_is_not_failed_over_now(known: dict[str, object], reason: str) -> None:
    step = next_step(snapshot(**known))
    assert step.kind is K.DONE
    assert step.reason.startswith(reason)
    assert bool(step.reason) is bool(reason)


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        (
            {"source": SourceSeen(3.0, "connection refused")},
            "topics of its link failed over: the group goes on without the source once that has not answered",
        ),
        ({"held": {}}, "nothing is known of what the group reads, and 'u' did not fail over"),
        (
            {"held": {}, "mirrors": {"t": OVER, "u": OTHER, "v": replace(OTHER, mirror_topic="v")}},
            "nothing is known of what the group reads, and 'u' and 1 more did not fail over",
        ),
    ],
)
def test_what_it_waits_for(known: dict[str, object], reason: str) -> None:
    step = next_step(snapshot(**known))
    assert step.kind is K.WAIT
    assert step.reason.startswith(reason)


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ({"state": GroupState.PROMOTED}, K.COMMIT),
        ({"plan": None}, K.COMMIT),
        ({"mirrors": {}}, K.COMMIT),
        ({"source": SourceSeen()}, K.COMMIT),
        ({"source": SourceSeen(GONE_S - 1, "connection refused")}, K.MARK_PROMOTED),
        ({"read_back": None}, K.MARK_PROMOTED),
        ({"read_back": {A: (1, "m")}}, K.MARK_PROMOTED),
    ],
)
def test_the_second_opinion_refuses(wrong: dict[str, object], kind: GroupFailoverStepKind) -> None:
    with pytest.raises(GroupFailoverViolated):
        group_failover._check(snapshot(**{**COMMITTED, **wrong}), GroupFailoverStep(kind))
    group_failover._check(snapshot(**COMMITTED), GroupFailoverStep(kind))


def test_the_second_opinion_refuses_to_go_on_from_nothing_while_something_is_left_on_the_source() -> None:
    nothing = {**COMMITTED, "known": None}
    with pytest.raises(GroupFailoverViolated, match="of which nothing is known"):
        group_failover._check(snapshot(**nothing), GroupFailoverStep(K.COMMIT))
    alone = {**nothing, "mirrors": {"t": OVER}}
    group_failover._check(snapshot(**alone), GroupFailoverStep(K.COMMIT))


def test_a_record_that_says_it_for_some_partitions_only_says_nothing() -> None:
    with pytest.raises(ValueError, match="says for 0 of 1 partitions where the copy ended"):
        copy_ends(changed(OVER, stopped_at=()))
    assert copy_ends(ACTIVE) is None
    assert changed_sides({"t": OVER}, {}) == "t"


class World:
    """A group that was at 95 of a copy that ended at 90, and everybody who may come in between its steps."""

    def __init__(self) -> None:
        self.state, self.mirror, self.log_end = GroupState.ACTIVE, OVER, 90
        self.target: dict[tuple[str, int], tuple[int, str]] = {}
        self.done: dict[str, object] = {}

    def happen(self, event: str) -> None:
        """Do it; of a group that is PROMOTED its members decide."""
        getattr(self, f"_{event}")()

    def _killed(self) -> None:
        self.done = {}

    def _others_commit(self) -> None:
        if self.state is not GroupState.PROMOTED:
            self.target[A] = (7, "set by hand")

    def _clients_write(self) -> None:
        self.log_end += 10

    def _changes_sides(self) -> None:
        self.mirror = changed(self.mirror, failback_epoch=self.mirror.failback.epoch + 1)

    def _step(self) -> None:
        known = (SourceOffset("t", 0, 95, "m"),)
        step = next_step(snapshot(state=self.state, mirrors={"t": self.mirror}, known=known, **self.done))
        getattr(self, f"_do_{step.kind}")()

    def _do_read_target(self) -> None:
        self.done["held"] = dict(self.target)

    def _do_plan(self) -> None:
        ends = copy_ends(self.mirror) or (self.log_end,)
        plan = plan_failover({A: Known(95, 95, 0, "m")}, {}, {A: ends[0]})
        self.done |= {"plan": plan, "planned_by": {"t": self.mirror}}

    def _do_commit(self) -> None:
        plan = self.done["plan"]
        assert isinstance(plan, FailoverPlan)
        self.target |= meant(plan)
        self.done["committed"] = True

    def _do_read_back(self) -> None:
        self.done["read_back"] = dict(self.target)

    def _do_mark_promoted(self) -> None:
        assert self.done["read_back"] == HELD
        self.state = GroupState.PROMOTED

    def _do_done(self) -> None:
        """It is tried again."""
        self.done = {}


@given(st.lists(st.sampled_from(["step", "killed", "others_commit", "clients_write", "changes_sides"]), max_size=40))
def test_random_interleavings(events: list[str]) -> None:
    """Whatever happens in between: the group is PROMOTED at the offsets of its plan, cut to where the copy ended."""
    world = World()
    for event in [*events, *["step"] * 12]:
        world.happen(event)
    assert world.state is GroupState.PROMOTED
