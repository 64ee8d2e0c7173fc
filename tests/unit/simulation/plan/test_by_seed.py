from __future__ import annotations

import json
from collections import Counter
from hashlib import blake2b

from tests.simulation.operations.repairs import HOWS
from tests.simulation.plan import (
    AS_ONE_FROM,
    AS_ONE_STEPS,
    CHAINED,
    FURTHER_FROM,
    GIVEN_UP,
    JOINED,
    MORE_PAIRS,
    MORE_STEPS,
    OWNED,
    PAIRS,
    RANDOM_FROM,
    STEPS,
    EventKind,
    FaultKind,
    Operation,
    plan,
    systematic,
    systematic_runs,
)
from tests.simulation.plan.owner_acts import KINDS, LIVES, steps_of

UNSTEADY = (
    EventKind.COORDINATOR_REFUSES,
    EventKind.COORDINATOR_FAILS_OVER,
    EventKind.COORDINATOR_CUT_OFF,
    EventKind.COORDINATOR_KEEPS_ONE,
    EventKind.FOLLOWER_LEFT_OUT,
    EventKind.CONTROLLER_SLOW,
    EventKind.BROKER_ANSWERS_LATE,
    EventKind.CONFIGS_HEARD_LATE,
    EventKind.QUOTA_MUTES,
)
MENDING = Operation.SPOIL, Operation.REPAIR


def test_a_seed_is_a_plan():
    assert plan(7) == plan(7)
    assert plan(RANDOM_FROM + 7) == plan(RANDOM_FROM + 7)
    assert plan(7) != plan(8)


def test_systematic_runs_go_through_every_pair():
    met = Counter(
        (act.operation, fault.step, fault.kind)
        for number in range(systematic_runs())
        for run in [systematic(number)]
        for fault in run.faults
        for act in run.acts
        if act.number == fault.act
    )
    assert set(met) == set(PAIRS)


_LATER = {
    Operation.RELINK,
    Operation.UPDATE_LINK,
    Operation.AUTO_CREATE,
    Operation.UNMIRROR,
    Operation.CHANGE_ACLS,
    Operation.SPOIL,
    Operation.REPAIR,
    Operation.AGGREGATE,
    Operation.CHAIN,
    Operation.FAN_OUT,
    Operation.BOTH_WAYS,
    Operation.PROMOTE_JOINED,
    Operation.REHEARSE,
    Operation.OWN,
    Operation.MADE_AGAIN,
    *AS_ONE_STEPS,
}  # of the seeds from FURTHER_FROM on


def test_every_operation_is_in_every_life():
    assert {act.operation for act in plan(3).acts} == set(Operation) - {*GIVEN_UP, *_LATER}
    runs = plan(0), plan(systematic_runs() - 1)
    assert {act.operation for run in runs for act in run.acts} == set(STEPS) == set(Operation) - _LATER


def test_random_stories_behind_the_systematic_ones_are_shorter():
    short = [len(plan(systematic_runs() + n).acts) for n in range(60)]
    whole = [len(plan(RANDOM_FROM + n).acts) for n in range(60)]
    assert sum(short) < 0.8 * sum(whole)
    operations = {act.operation for n in range(60) for act in plan(systematic_runs() + n).acts}
    assert operations == set(STEPS)


def test_later_seeds_have_more_in_them():
    runs = [plan(FURTHER_FROM + n) for n in range(200)]
    assert plan(FURTHER_FROM - 1).acts[0].operation is not Operation.RELINK
    assert {act.operation for run in runs for act in run.acts} == set(Operation) - AS_ONE_STEPS.keys()
    assert {EventKind.SOURCE_HEARS_LATE, EventKind.KILLED_OFTEN} <= {event.kind for run in runs for event in run.events}
    assert all(run.acts.index(act) == 0 for run in runs for act in run.acts if act.operation is Operation.RELINK)
    struck = {
        (act.operation, fault.step)
        for run in runs
        for act in run.acts
        for fault in run.faults
        if fault.act == act.number
    }
    assert {(operation, step) for operation, steps in MORE_STEPS.items() for step in steps} <= struck
    happened = {event.kind for run in runs for event in run.events}
    assert {EventKind.COMMITTED_ELSEWHERE, EventKind.STATE_UNHEARD, EventKind.COPY_REPLACED} <= happened
    assert {EventKind.END_HELD, EventKind.END_ON_ITS_WAY, EventKind.END_PASSED_ON, EventKind.IDENTITY_LATE} <= happened
    assert EventKind.STATE_LOST in happened
    assert set(UNSTEADY) <= {event.kind for run in runs[3::4] for event in run.events}
    assert not set(UNSTEADY) & {event.kind for at, run in enumerate(runs) if at % 4 != 3 for event in run.events}


def test_no_owner_changes_configs_right_before_a_failover() -> None:
    """Which goes by what was read before."""
    for run in (plan(FURTHER_FROM + n) for n in range(200)):
        changed = {event.act for event in run.events if event.kind is EventKind.CONFIGS_CHANGED}
        before = {
            act.number
            for act, then in zip(run.acts, run.acts[1:], strict=False)
            if then.operation is Operation.FAILOVER and OWNED not in then.topics
        }
        assert not changed & before


def test_an_owner_does_all_that_he_may_on_either_cluster():
    runs = [plan(FURTHER_FROM + 2 + 4 * number) for number in range(150)]
    done = {(event.kind, event.side) for run in runs for event in run.events if event.kind in KINDS}
    assert done == {(kind, side) for kind in KINDS for side in ("source", "target")}
    own = [[act.operation for act in run.acts if act.topics == (OWNED,)] for run in runs]
    assert {tuple(life) for life in own} == set(LIVES)
    at = {
        (act.operation, event.step)
        for run in runs
        for act in run.acts
        for event in run.events
        if event.act == act.number and event.kind in KINDS
    }
    assert all(step in ("", *steps_of(operation)) for operation, step in at)
    assert {operation for operation, _ in at} == {operation for life in LIVES for operation in life}
    assert not any(event.kind in KINDS for n in range(100) for event in plan(FURTHER_FROM + 4 * n).events)


def test_repairs_and_further_links_go_through_every_pair():
    wanted = {*JOINED, Operation.REPAIR}
    struck = {
        (act.operation, fault.step, fault.kind)
        for run in (plan(FURTHER_FROM + number) for number in range(1_400))
        for act in run.acts
        for fault in run.faults
        if act.operation in wanted and fault.act == act.number
    }
    assert {pair for pair in MORE_PAIRS if pair[0] in wanted} <= struck


def test_topics_and_groups_that_change_sides_as_one_go_through_every_pair():
    struck = {
        (act.operation, fault.step, fault.kind)
        for run in (
            plan(AS_ONE_FROM + number) for number in range(max(map(len, AS_ONE_STEPS.values())) * len(FaultKind))
        )
        for act in run.acts
        for fault in run.faults
        if fault.act == act.number
    }
    assert {(op, step, kind) for op, steps in AS_ONE_STEPS.items() for step in steps for kind in FaultKind} <= struck


def test_the_first_link_of_a_chain_fails_back_and_is_promoted_before_the_second_one():
    orders = set[tuple[Operation, ...]]()
    for run in (plan(FURTHER_FROM + 1 + 12 * number) for number in range(20)):
        orders.add(tuple(act.operation for act in run.acts if act.topics == (CHAINED,)))
        assert len({act.number for act in run.acts}) == len(run.acts)
    there, home = (Operation.CHAIN, Operation.PROMOTE), (Operation.REVERSE, Operation.FAILBACK)
    on = Operation.PROMOTE_JOINED
    assert orders == {(*there, *home, Operation.PROMOTE, on), (*there, on, *home)}


def test_a_repair_takes_the_step_that_is_struck():
    resumed = set[bool]()
    for run in (plan(FURTHER_FROM + number) for number in range(0, 1_200, 3)):
        spoil, repair = (next(each for each in run.acts if each.operation is one) for one in MENDING)
        assert run.acts.index(spoil) < run.acts.index(repair)
        assert spoil.how == repair.how in HOWS
        step = next(fault.step for fault in run.faults if fault.act == repair.number)
        resumed.add(step == "resume")
        assert step == "plan" or (step == "resume") == (repair.how in ("refused", "overtaken"))
    assert resumed == {False, True}


def test_plans_of_the_seeds_below_stay_as_they_were():
    """A proof of them stands: whoever adds to the plans adds to later seeds."""
    told = blake2b(digest_size=8)
    for seed in (*range(FURTHER_FROM), *range(RANDOM_FROM, RANDOM_FROM + 100)):
        there = plan(seed).as_json()
        assert there.pop("acls") is False  # plans have had it since then
        del there["leaders_lost"], there["ack_both"], there["stamped"]  # and these, which are not drawn
        assert (there.pop("schemas"), there.pop("asks")) == (False, False)
        there["acts"] = [{name: value for name, value in act.items() if name != "how"} for act in there["acts"]]
        there["events"] = [
            {name: value for name, value in event.items() if name != "side"} for event in there["events"]
        ]
        told.update(json.dumps(there, sort_keys=True).encode())
    assert told.hexdigest() == "921f1e48568705c0"


def test_every_event_of_the_random_runs_is_drawn():
    drawn = {event.kind for n in range(400) for event in plan(systematic_runs() + n).events}
    # those are for the plans of single mutations
    never = {EventKind.PRODUCER_EARLY, EventKind.CREATE_UNANSWERED, EventKind.FAILOVER_ASKED, EventKind.NAME_TAKEN}
    never |= {EventKind.PROMOTE_ASKED, EventKind.REVERSE_ASKED, EventKind.STATE_LATE, EventKind.MAP_UNKNOWN}
    never |= {EventKind.SOURCE_DOWN, EventKind.SOURCE_LEADER_CUT, EventKind.SOURCE_LEADER_MOVES_AWAY}
    never |= {EventKind.SOURCE_REWRITTEN, EventKind.TARGET_LOSES, EventKind.WRITER_STAYS, EventKind.ACLS_REFUSED}
    never |= {EventKind.STATE_UNHEARD, EventKind.ASSIGNMENT_LATE, EventKind.SOURCE_BROKER_CUT_OFF}
    never |= {
        EventKind.COMMITTED_ELSEWHERE,
        EventKind.COPY_REPLACED,
        EventKind.SOURCE_HEARS_LATE,
        EventKind.KILLED_OFTEN,
        EventKind.END_HELD,
        EventKind.END_ON_ITS_WAY,
        EventKind.END_PASSED_ON,
        EventKind.IDENTITY_LATE,
        EventKind.ACLS_CHANGED,
        EventKind.CONFIGS_CHANGED,
        EventKind.STATE_LOST,
        EventKind.MANY_PRODUCERS,
        *UNSTEADY,
        EventKind.CALLED_OFF,
        EventKind.SCHEMAS_CHANGED,
        EventKind.SCHEMAS_REFUSED,
        EventKind.SCHEMA_FIRST,
        EventKind.GROUP_DELETED,
        *KINDS,
    }  # of the runs from FURTHER_FROM on
    assert drawn == set(EventKind) - never


def test_few_runs_have_a_topic_of_ten_thousand_producers() -> None:
    """Each takes some seconds more. Not before FURTHER_FROM, and not where brokers stamp what a writer is to stamp."""
    seeds = [
        seed
        for seed in range(FURTHER_FROM, FURTHER_FROM + 1000)
        if any(event.kind is EventKind.MANY_PRODUCERS for event in plan(seed).events)
    ]
    assert 2 <= len(seeds) < 12
    assert not any(plan(seed).stamped for seed in seeds)
