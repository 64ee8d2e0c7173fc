"""What a fleet does for each partition does not grow with their number: counted, so a slow machine says the same."""

from __future__ import annotations

from collections.abc import Mapping
from cProfile import Profile

import pytest

from gateway.runtime import peering
from tests.simulation.fleet import logs
from tests.simulation.kernel.loop import SimLoop
from tests.simulation.scale.run import Scale, Size, Step
from tests.simulation.scale.table_engine import TableEngine

FEW, MANY = 200, 800
TIMES = MANY / FEW
PER_TOPIC = 5
TOLD = 300  # bytes of a partition, to all other gateways
SLACK = 1.3  # what is the same at any size makes for less than TIMES


def _steps(partitions: int) -> Mapping[str, Step]:
    with pytest.MonkeyPatch.context() as patch, logs.told_to(None), SimLoop(seed=1) as loop:
        patch.setattr(peering, "Engine", TableEngine)
        size = Size(partitions, PER_TOPIC, gateways=3, promoted_at_once=partitions)
        one = Scale(loop, size, profile=Profile(), rest_s=5.0, settled_s=10.0, has_cpu=False)
        one.on_step = lambda step: None
        loop.run_until_complete(one.run())
    return {step.name: step for step in one.steps}


@pytest.fixture(scope="module")
def runs() -> tuple[Mapping[str, Step], Mapping[str, Step]]:
    return _steps(FEW), _steps(MANY)


Runs = tuple[Mapping[str, Step], Mapping[str, Step]]


@pytest.mark.slow
def test_no_step_costs_more_for_each_partition_where_there_are_more(runs: Runs) -> None:
    few, many = runs
    for name, one in few.items():
        other = many[name]
        times = TIMES * SLACK
        if "spread" in name:  # rounds: how many is for `fleet/rules/test_membership.py`
            continue
        assert other.calls <= times * one.calls, f"calls: {name}"
        told = max(times * one.to_gateways.size, TOLD * MANY)  # a step that is over at once tells little
        assert other.to_gateways.size <= told, f"bytes to gateways: {name}"
        assert other.to_clusters.size <= times * one.to_clusters.size, f"bytes to clusters: {name}"


@pytest.mark.slow
def test_a_promote_does_not_ask_each_gateway_for_each_topic(runs: Runs) -> None:
    assert runs[1]["all is promoted"].to_gateways.writes < MANY / PER_TOPIC


@pytest.mark.slow
def test_what_lies_still_costs_nothing_for_each_partition(runs: Runs) -> None:
    few, many = (each["at rest, promoted"] for each in runs)
    assert many.calls <= TIMES / 2 * few.calls
    assert many.to_gateways.writes <= 1.1 * few.to_gateways.writes


@pytest.mark.slow
def test_no_message_between_gateways_is_long(runs: Runs) -> None:
    assert max(step.to_gateways.largest for step in runs[1].values()) < 100_000
