from __future__ import annotations

from hashlib import md5
from itertools import pairwise

import pytest

from gateway.kafka.connection.config import ClusterConfig
from gateway.state import link_config
from tests.chaos.cast import SETS, groups_of
from tests.chaos.conductor import MIGRATIONS, Conductor
from tests.chaos.daily import _CONFIGS, DAILY, DAILY_FROM, DailyConductor, with_daily
from tests.chaos.losses import LOSSES
from tests.chaos.nemeses import _OTHERS
from tests.chaos.network import _FAULTS
from tests.chaos.plan import (
    AIMS,
    CALM_S,
    NETWORK,
    PIPELINE,
    PROCESSES,
    PRODUCERS,
    SOURCES,
    TRANSLATED,
    Plan,
    plan,
    source_kafka,
)

GROUPS = groups_of(SOURCES[-1])


def made(seed: int, duration_s: float = 600, gateways: int = 3) -> Plan:
    return plan(seed, duration_s, gateways, tuple(SETS), GROUPS)


def test_whatever_is_planned_can_be_done():
    kinds = {act.kind for seed in range(5) for act in made(seed).acts}
    assert kinds == set(MIGRATIONS)
    assert all(callable(getattr(Conductor, f"_{kind}", None)) for kind in kinds)


def test_a_seed_is_a_plan():
    assert made(7) == made(7)
    assert made(7) != made(8)
    assert made(7).lines() == made(7).lines()


@pytest.mark.parametrize("seed", range(5))
def test_faults_of_a_lane_follow_one_another(seed: int):
    for lane in ("network", "processes"):
        faults = [n for n in made(seed).nemeses if n.lane == lane]
        assert faults[0].at_s >= CALM_S
        assert all(one.at_s + one.hold_s < two.at_s for one, two in pairwise(faults))
        assert faults[-1].at_s < 600


def test_every_kind_comes_in_a_long_run():
    assert {n.kind for n in made(1, 1800).nemeses} == {*NETWORK, *PROCESSES}


def test_every_kind_can_be_carried_out():
    assert {*NETWORK, *PROCESSES, *LOSSES} == {*_FAULTS, *_OTHERS}


def test_gateways_of_a_fault_exist():
    assert {n.gateway for n in made(1, 1800, 2).nemeses} == {-1, 0, 1}
    assert {n.gateway for n in made(1, 1800, 2).nemeses if n.lane == "processes"} == {0, 1}


@pytest.mark.parametrize("seed", range(5))
def test_each_cycle_goes_over_and_back(seed: int):
    """A topic or group is only ever asked for what can be done from where it is."""
    state = {**dict.fromkeys(SETS, "source"), **dict.fromkeys(GROUPS, "source")}
    after = {"roll": "target", "promote": "target", "reverse": "back", "failback": "source", "demote": "source"}
    before = {"roll": "source", "promote": "source", "reverse": "target", "failback": "back", "demote": "target"}
    pipeline = {"carry": ("roll", "promote"), "fetch_back": ("demote", "failback")}
    acts = made(seed).acts
    assert acts[0].what == PRODUCERS
    for act in acts[1:]:
        steps = zip(pipeline[act.kind], PIPELINE, strict=True) if act.kind in pipeline else [(act.kind, act.what)]
        for kind, what in steps:
            if kind not in ("create", "fail_over"):  # of topics of their own
                assert state[what] == before[kind]
                state[what] = after[kind]


def test_a_promote_before_a_group_has_moved_is_forced():
    waiting = set(GROUPS)
    for act in made(3).acts[1:]:
        if act.kind in ("roll", "carry"):
            waiting.discard(PIPELINE[0] if act.kind == "carry" else act.what)
        if act.kind in ("demote", "fetch_back"):
            waiting.add(PIPELINE[0] if act.kind == "fetch_back" else act.what)
        if act.kind == "promote":
            assert act.force == bool(waiting)


def test_what_is_left_out_changes_nothing_else():
    whole, part = (plan(7, 600, 3, tuple(SETS), GROUPS, frozenset(one)) for one in ((), ("gateway-kill",)))

    assert [n for n in whole.nemeses if n.kind != "gateway-kill"] == list(part.nemeses)
    assert whole.acts == part.acts


def test_a_translated_set_fails_back_twice_in_each_cycle():
    acts = made(1).acts
    cycles = sum(act.kind == "create" for act in acts)
    assert sum(act.kind == "failback" and act.what == TRANSLATED for act in acts) == 2 * cycles
    assert sum(act.kind == "fail_over" for act in acts) == cycles


def test_every_aimed_fault_comes_and_only_where_there_is_a_middle():
    acts = made(1, 1800).acts
    assert {act.aim.kind for act in acts if act.aim} == set(AIMS)
    assert {act.kind for act in acts if act.aim} == {"promote", "failback"}


def daily(seed: int) -> Plan:
    return with_daily(made(seed))


def test_earlier_seeds_do_nothing_but_migrate():
    assert daily(DAILY_FROM - 1) == made(DAILY_FROM - 1)


@pytest.mark.parametrize("seed", [DAILY_FROM, DAILY_FROM + 7, 987_654])
def test_later_seeds_do_each_daily_act_once_a_cycle(seed: int):
    before, found = made(seed), daily(seed)
    assert [act for act in found.acts if act.kind not in DAILY] == list(before.acts)
    assert found.nemeses == before.nemeses
    assert found.acts[0].what == PRODUCERS
    cycles = sum(act.kind == "fail_over" for act in before.acts)
    assert all(sum(act.kind == kind for act in found.acts) == cycles for kind in DAILY)
    assert found == daily(seed)


def test_each_topic_of_a_daily_act_is_its_own():
    named = [act.what for act in daily(DAILY_FROM).acts if act.kind in ("create", "fail_over", *DAILY)]
    topics = [what for what in named if what.rpartition("-")[2].isdigit()]
    assert len(topics) == len(set(topics)) > 20
    assert not set(topics) & {topic for topics in SETS.values() for topic in topics}


def test_every_daily_act_can_be_done():
    assert all(callable(getattr(DailyConductor, f"_{kind}", None)) for kind in DAILY)
    assert set(DAILY) | set(MIGRATIONS) == set(DailyConductor.worth)


@pytest.mark.parametrize("configs", _CONFIGS.values())
def test_what_is_altered_is_known_and_kept_from_records(configs: dict[str, str]):
    options = {name: value for name, value in configs.items() if name in link_config.OPTION_NAMES}
    properties = {name: value for name, value in configs.items() if name not in options}
    parsed = link_config.parse(options)
    assert parsed != link_config.parse({}) or properties
    ClusterConfig.from_client_properties({"bootstrap.servers": "localhost:9092", **properties})
    assert parsed.client_topics == link_config.parse({}).client_topics
    assert parsed.paused is False


@pytest.mark.parametrize(
    ("seed", "told"),
    [(7, "c04130ba927d38eec1fcfa0a3ee2de19"), (42, "9148595cab7477bcb817a17884e8c3ac")],
)
def test_plans_of_the_seeds_below_stay_as_they_were(seed: int, told: str):
    lines = "\n".join(plan(seed, 600, 3, tuple(SETS), groups_of(source_kafka(seed))).lines()) + "\n"
    assert md5(lines.encode(), usedforsecurity=False).hexdigest() == told
