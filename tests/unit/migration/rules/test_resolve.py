"""What is left between the world and a migration file."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from gateway.migration.rules.file import MigrationFile, parsed
from gateway.migration.rules.resolve import MigrationPlan, MigrationStepKind, PlannedStep, Stage, resolve
from gateway.migration.rules.world import GroupStanding, MirrorStanding, World
from gateway.state.records import GroupState, MirrorState, Undo

K = MigrationStepKind
SATURDAY = datetime(2026, 11, 28, 23, 0, tzinfo=UTC)


def file(*applications: dict[str, Any]) -> MigrationFile:
    return parsed({"migration": "m", "link": "l", "applications": list(applications)})


def app(name: str = "a", **more: Any) -> dict[str, Any]:
    return {"name": name, "topics": ["orders", "payments"], "groups": ["billing"], **more}


def mirror(name: str, state: MirrorState = MirrorState.ACTIVE, **more: Any) -> MirrorStanding:
    return MirrorStanding(mirror_topic=name, state=state, **{"link": "l", "lag": 0, **more})


def group(name: str, state: GroupState = GroupState.ACTIVE, **more: Any) -> GroupStanding:
    return GroupStanding(group=name, state=state, **{"members": 0, "waiting": 1, **more})


SOURCE = World(source_topics=frozenset({"orders", "payments"}), source_groups=frozenset({"billing"}))


def mirrored(*, billing: GroupStanding | None = None, **mirrors: MirrorStanding) -> World:
    there = {"orders": mirror("orders"), "payments": mirror("payments"), **mirrors}
    return replace(SOURCE, mirrors=there, groups={"billing": billing or group("billing")})


def steps(plan: MigrationPlan, name: str = "a") -> list[PlannedStep]:
    return [step for one in plan.applications if one.application.name == name for step in one.steps]


def kinds(plan: MigrationPlan, name: str = "a") -> list[MigrationStepKind]:
    return [step.kind for step in steps(plan, name)]


def waits(plan: MigrationPlan, name: str = "a") -> str:
    return next((step.waits_for for step in steps(plan, name) if step.waits_for), "")


def test_everything_is_left_in_an_empty_world() -> None:
    plan = resolve(file(app()), SOURCE)
    assert kinds(plan) == [K.CREATE_MIRROR, K.CREATE_MIRROR, K.DECLARE_GROUP, K.PROMOTE_GROUP, K.PROMOTE_TOPICS]
    assert [bool(step.waits_for) for step in steps(plan)] == [False, False, False, True, True]
    assert plan.applications[0].stage is Stage.TO_MIRROR


def test_a_group_goes_before_its_topics() -> None:
    plan = resolve(file(app()), mirrored())
    assert [(step.kind, step.waits_for) for step in steps(plan)] == [
        (K.PROMOTE_GROUP, ""),
        (K.PROMOTE_TOPICS, "group 'billing' is not promoted yet"),
    ]
    moved = resolve(file(app()), mirrored(billing=group("billing", GroupState.PROMOTED)))
    assert [(step.kind, step.waits_for) for step in steps(moved)] == [(K.PROMOTE_TOPICS, "")]
    assert moved.applications[0].stage is Stage.GROUPS_MOVED


def test_nothing_is_left_when_all_is_promoted() -> None:
    stopped = {name: mirror(name, MirrorState.STOPPED) for name in ("orders", "payments")}
    plan = resolve(file(app()), mirrored(billing=group("billing", GroupState.PROMOTED), **stopped))
    assert plan.is_done
    assert plan.applications[0].stage is Stage.PROMOTED


@pytest.mark.parametrize(
    ("state", "undo"),
    [
        (MirrorState.ACTIVE, Undo.OPEN),
        (MirrorState.PENDING_SYNCHRONIZE, Undo.OPEN),
        (MirrorState.FAILED, Undo.OPEN),
        (MirrorState.PAUSED, Undo.OVER),
    ],
)
def test_what_is_mirrored_back_by_itself_is_promoted(state: MirrorState, undo: Undo) -> None:
    kept = {name: mirror(name, state, reverse=True, undo=undo) for name in ("orders", "payments")}
    plan = resolve(file(app()), mirrored(billing=group("billing", GroupState.PROMOTED), **kept))
    assert plan.is_done
    assert plan.applications[0].stage is Stage.PROMOTED


@pytest.mark.parametrize(("until", "left"), [("mirrored", []), ("groups", [K.PROMOTE_GROUP])])
def test_until_ends_it_earlier(until: str, left: list[MigrationStepKind]) -> None:
    plan = resolve(file(app(until=until)), mirrored())
    assert kinds(plan) == left
    assert plan.applications[0].beyond == 2 - len(left)


@pytest.mark.parametrize(
    ("standing", "words"),
    [
        (group("billing", members=2), "2 member(s) on the source"),
        (
            group("billing", members=1, alive=("old-1 at /10.0.0.7",)),
            "1 member(s) on the source: stop old-1 at /10.0.0.7 there, and start it at the gateway",
        ),
        (group("billing", members=5, waiting=9, alive=("a", "b", "c", "d")), "stop a, b, c and 1 more there"),
        (group("billing", members=2, waiting=2), "lockgate group remove-members billing"),
        (group("billing", members=None, remark="no answer"), "no answer"),
        (group("billing", waiting=0), "no member waits at the gateway"),
        (group("billing", demoted=True), "somebody has demoted it"),
    ],
)
def test_what_a_group_waits_for(standing: GroupStanding, words: str) -> None:
    assert words in waits(resolve(file(app()), mirrored(billing=standing)))


def test_a_group_that_stays_idle_is_promoted_when_the_file_says_so() -> None:
    idle = mirrored(billing=group("billing", waiting=0))
    assert not waits(resolve(file(app(options={"idle_groups": True}, until="groups")), idle))


@pytest.mark.parametrize(
    ("standing", "words"),
    [
        (mirror("orders", MirrorState.PAUSED), "lockgate mirror resume orders"),
        (mirror("orders", MirrorState.PENDING_STOPPED), "it is being promoted"),
        (mirror("orders", MirrorState.SOURCE_UNAVAILABLE, remark="gone"), "SOURCE_UNAVAILABLE: gone"),
        (mirror("orders", lag=None), "has not measured its lag"),
    ],
)
def test_what_a_mirror_waits_for_is_respected(standing: MirrorStanding, words: str) -> None:
    world = mirrored(billing=group("billing", GroupState.PROMOTED), orders=standing)
    assert words in waits(resolve(file(app()), world))


@pytest.mark.parametrize(
    ("standing", "words"),
    [
        (mirror("orders", MirrorState.FAILED, remark="why"), "has FAILED (why)"),
        (mirror("orders", reverse=True), "is mirrored back"),
        (mirror("orders", link="other"), "is a mirror topic of link 'other'"),
    ],
)
def test_what_a_person_must_decide_is_a_problem(standing: MirrorStanding, words: str) -> None:
    plan = resolve(file(app()), mirrored(billing=group("billing", GroupState.PROMOTED), orders=standing))
    assert words in plan.applications[0].problems[0]
    assert not standing.reverse or "mirrored back" in waits(plan)  # a promote would take it home
    assert not plan.is_done


def test_names_that_are_nowhere_are_problems_and_patterns_are_not() -> None:
    missing = file({"name": "a", "topics": ["orders", "nosuch", "none-*"], "groups": ["nobody"]})
    plan = resolve(missing, SOURCE)
    assert [problem.split("'")[1] for problem in plan.applications[0].problems] == ["nosuch", "nobody"]


def test_groups_that_are_not_there_yet_do_not_keep_it_from_being_mirrored() -> None:
    assert resolve(file(app(groups=["later"], until="mirrored")), mirrored()).is_done
    assert not resolve(file(app(groups=["later"], until="groups")), mirrored()).is_done


def test_a_pattern_takes_what_no_other_application_names() -> None:
    world = replace(SOURCE, source_topics=frozenset({"orders", "orders-eu", "__consumer_offsets"}))
    plan = resolve(file({"name": "a", "topics": ["o*", "_*"]}, {"name": "b", "topics": ["orders-eu"]}), world)
    assert [one.topics for one in plan.applications] == [("orders",), ("orders-eu",)]


def test_without_the_source_names_cannot_be_resolved() -> None:
    silent = replace(SOURCE, source_topics=None, source_groups=None, source_trouble="no answer")
    assert resolve(file(app()), silent).problems == ("no answer",)
    assert not resolve(file(app()), replace(mirrored(), source_topics=None, source_groups=None)).problems


def test_an_application_waits_for_those_before_it() -> None:
    both = file(app(), {"name": "b", "topics": ["logs"], "after": ["a"]})
    world = replace(mirrored(logs=mirror("logs")), source_topics=frozenset({"orders", "payments", "logs"}))
    assert waits(resolve(both, world), "b") == "application 'a' goes first"
    stopped = {name: mirror(name, MirrorState.STOPPED) for name in ("orders", "payments")}
    done = mirrored(billing=group("billing", GroupState.PROMOTED), logs=mirror("logs"), **stopped)
    assert not waits(resolve(both, done), "b")


def test_until_of_one_does_not_let_another_pass() -> None:
    both = file(app(until="mirrored"), {"name": "b", "topics": ["logs"], "after": ["a"]})
    world = replace(mirrored(logs=mirror("logs")), source_topics=frozenset({"orders", "payments", "logs"}))
    assert waits(resolve(both, world), "b") == "application 'a' goes first"


def test_a_promote_waits_for_its_window_and_says_when_it_opens() -> None:
    window = {"days": ["sat"], "from": "22:00", "to": "02:00"}
    world = mirrored(billing=group("billing", GroupState.PROMOTED))
    assert not waits(resolve(file(app(windows=[window])), replace(world, now=SATURDAY)))
    after_midnight = SATURDAY.replace(day=29, hour=1)
    assert not waits(resolve(file(app(windows=[window])), replace(world, now=after_midnight)))
    closed = resolve(file(app(windows=[window])), replace(world, now=SATURDAY.replace(hour=12)))
    assert "opens at 2026-11-28T22:00+00:00" in waits(closed)
    assert "opens at 2026-12-05" in waits(
        resolve(file(app(windows=[window])), replace(world, now=SATURDAY.replace(day=29)))
    )


def test_a_promote_waits_for_its_readiness() -> None:
    world = mirrored(billing=group("billing", GroupState.PROMOTED))
    wanted = file(app(options={"min_readiness": 80}))
    assert "its readiness is 79, below 80" in waits(resolve(wanted, replace(world, readiness={"a": 79})))
    assert not waits(resolve(wanted, replace(world, readiness={"a": 80})))


def test_together_is_one_step_and_waits_for_all_of_it() -> None:
    (step,) = steps(resolve(file(app(together=True)), mirrored()))
    assert (step.kind, step.topics, step.groups, step.waits_for) == (
        K.PROMOTE_TOGETHER,
        ("orders", "payments"),
        ("billing",),
        "",
    )
    assert "1 member(s) on the source" in waits(
        resolve(file(app(together=True)), mirrored(billing=group("billing", members=1)))
    )


def test_together_wants_groups_that_are_not_promoted_by_themselves() -> None:
    world = replace(mirrored(), auto_promote=True)
    assert "groups.auto.promote=false" in waits(resolve(file(app(together=True)), world))
    assert not waits(resolve(file(app(until="groups")), world))  # alone they may be


def test_together_that_has_begun_is_brought_to_its_end_outside_its_window() -> None:
    stopped = {name: mirror(name, MirrorState.STOPPED) for name in ("orders", "payments")}
    window = {"days": ["sat"], "from": "22:00", "to": "23:30"}
    late = replace(mirrored(billing=group("billing"), **stopped), now=SATURDAY.replace(day=29, hour=5))
    (step,) = steps(resolve(file(app(together=True, windows=[window])), late))
    assert (step.topics, step.groups, step.waits_for) == ((), ("billing",), "")


def test_a_paused_link_and_one_that_is_gone() -> None:
    assert "lockgate link resume l" in waits(resolve(file(app()), replace(SOURCE, link_paused=True)))
    assert "does not exist" in resolve(file(app()), World(link_there=False)).problems[0]


def test_it_comes_to_its_end_from_every_state_that_it_makes() -> None:
    """Taking what waits for nothing, again and again, ends; each look begins anew, as after a crash."""
    world, wanted = SOURCE, file(app(), app("b", topics=["logs"], groups=[], after=["a"]))
    world = replace(world, source_topics=frozenset({"orders", "payments", "logs"}))
    for _ in range(20):
        plan = resolve(wanted, world)
        if plan.is_done:
            return
        taken = [step for one in plan.applications for step in one.steps if not step.waits_for]
        assert taken, plan
        world = _after(world, taken[0])
    raise AssertionError("it does not end")


def _after(world: World, step: PlannedStep) -> World:
    state = MirrorState.ACTIVE if step.kind is K.CREATE_MIRROR else MirrorState.STOPPED
    mirrors = {**world.mirrors, **{name: mirror(name, state) for name in step.topics}}
    promoted = GroupState.ACTIVE if step.kind is K.DECLARE_GROUP else GroupState.PROMOTED
    return replace(
        world, mirrors=mirrors, groups={**world.groups, **{name: group(name, promoted) for name in step.groups}}
    )


@pytest.mark.parametrize("more", [{"groups": ["billing*"]}, {"topics": ["orders", "payments", "refunds"]}])
def test_nothing_is_promoted_while_the_source_does_not_tell_what_the_file_means(more: dict[str, Any]) -> None:
    """A group that was not declared yet, a topic that is not mirrored yet, would be left behind without a word."""
    billing = group("billing", GroupState.PROMOTED)
    silent = replace(
        mirrored(billing=billing), source_topics=None, source_groups=None, source_trouble="the source is silent"
    )
    assert waits(resolve(file(app(**more)), silent)) == "the source is silent"
    assert waits(resolve(file(app(**more, together=True)), silent)) == "the source is silent"
    stopped = {name: mirror(name, MirrorState.STOPPED) for name in ("orders", "payments")}
    over = replace(silent, mirrors={**silent.mirrors, **stopped, "after": mirror("after")})
    last = {"name": "last", "topics": ["after"], "after": ["a"]}
    plan = resolve(file(app(**more), last), over)
    assert plan.applications[0].stage is not Stage.PROMOTED
    assert waits(plan, "last") == "application 'a' goes first"


def test_what_the_file_names_and_the_fleet_has_is_promoted_without_the_sources_names() -> None:
    silent = replace(mirrored(billing=group("billing", GroupState.PROMOTED)), source_topics=None, source_groups=None)
    assert waits(resolve(file(app()), silent)) == ""


def test_a_topic_is_not_told_of_by_a_group_of_its_name() -> None:
    """A group is often named as the topic that it reads: of one that the source does not tell nothing is promoted."""
    silent = World(
        source_topics=None,
        source_groups=None,
        source_trouble="no answer",
        groups={"orders": group("orders", GroupState.PROMOTED)},
    )
    plan = resolve(file(app(topics=["orders"], groups=["orders"])), silent)
    assert not plan.is_done
    assert plan.problems == ("no answer",)
    assert plan.applications[0].stage is not Stage.PROMOTED
    other = replace(silent, groups={}, mirrors={"orders": mirror("orders", MirrorState.STOPPED)})
    assert not resolve(file(app(topics=["orders"], groups=["orders"])), other).is_done
