"""Where a group goes on after a failover, and what is said of it."""

from __future__ import annotations

from gateway.domain.group_failover import Cut, FailoverPlan, Known, failover_note, plan_failover
from gateway.domain.records import CarriedOffset

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
