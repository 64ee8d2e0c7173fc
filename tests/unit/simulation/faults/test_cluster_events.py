"""Unsteady clusters: each event in a short life, which passes; what it does to answers and connections."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from protocol.apis import ApiKey
from protocol.codec import decode_response
from protocol.produce import PartitionResult, build_response_body
from tests.simulation.faults.cluster_events import throttled
from tests.simulation.kafka.broker import Broker, Handler, Request, Session
from tests.simulation.kafka.logs.fetch_response import Answer, build_body
from tests.simulation.plan import Act, Event, EventKind, Operation, RunPlan
from tests.simulation.world import simulate
from tests.support.fakes.model_cluster import ModelLab

_LIFE = (
    Act(0, Operation.CREATE, ("plain",)),
    Act(1, Operation.PROMOTE, ("plain",), pause_s=1.0),
)


@pytest.mark.parametrize(
    ("kind", "hold_s", "said"),
    [
        (EventKind.COORDINATOR_REFUSES, 8.0, "members of __lockgate.fleet are answered UNKNOWN_SERVER_ERROR"),
        (EventKind.COORDINATOR_FAILS_OVER, 8.0, "the coordinator of __lockgate.fleet moves behind a join"),
        (EventKind.COORDINATOR_CUT_OFF, 8.0, "which coordinates __lockgate.fleet, has lost its cluster"),
        (EventKind.COORDINATOR_CUT_OFF, 8.01, "which coordinates readers, has lost its cluster"),
        (EventKind.COORDINATOR_KEEPS_ONE, 25.0, "which has lost its cluster, and of the source"),
        (EventKind.FOLLOWER_LEFT_OUT, 25.0, "no coordinator of its joins"),
        (EventKind.CONTROLLER_SLOW, 6.0, "target: the controller takes seconds for a change"),
        (EventKind.BROKER_ANSWERS_LATE, 6.01, "tells of configs and log ends late"),
        (EventKind.CONFIGS_HEARD_LATE, 6.0, "hears of no topic's configs"),
        (EventKind.QUOTA_MUTES, 6.01, "source: gateways are beyond their quotas"),
    ],
)
def test_a_short_life_passes(kind: EventKind, hold_s: float, said: str) -> None:
    told: list[str] = []
    events = (Event(kind, 1, "mark_pending", 0.0, hold_s),)
    plan = RunPlan(7, gateways=2, acts=_LIFE, events=events, brief=True, notes="of a test")
    outcome = simulate(plan, lambda line: told.append(str(line)))
    assert not outcome.failure, outcome.why
    assert any(said in line for line in told)


def _request(key: ApiKey, version: int) -> Request:
    return Request(key, version, 1, "gw", b"", Session())


@pytest.mark.parametrize("version", [3, 7, 8, 9, 11])
def test_the_throttle_time_of_a_produce(version: int) -> None:
    body = build_response_body(version, [PartitionResult("t", 0, 0, 5)])
    found = decode_response(ApiKey.PRODUCE, version, throttled(_request(ApiKey.PRODUCE, version), body, 700))
    assert (found.throttle_time_ms, found.responses[0].partition_responses[0].base_offset) == (700, 5)


@pytest.mark.parametrize("version", [4, 12, 17])
def test_the_throttle_time_of_a_fetch(version: int) -> None:
    broker: Any = SimpleNamespace(cluster=None)
    body = build_body(broker, version, Answer(0, 3, []))  # type: ignore[arg-type]
    found = decode_response(ApiKey.FETCH, version, throttled(_request(ApiKey.FETCH, version), body, 700))
    assert found.throttle_time_ms == 700


def test_what_has_no_throttle_time_stays_as_it_is() -> None:
    assert throttled(_request(ApiKey.PRODUCE, 0), b"as it is", 700) == b"as it is"
    assert throttled(_request(ApiKey.PRODUCE, 9), None, 700) is None


def test_the_last_one_that_stands_between_is_asked_first() -> None:
    asked: list[str] = []

    def named(name: str) -> Any:
        async def between(handler: Handler, broker: Broker, request: Request) -> Any:
            asked.append(name)
            return await handler(broker, request)

        return between

    with ModelLab() as lab:
        lab.cluster.between += [named("first"), named("last")]
        lab.cluster.create_topic("t", 1, 1)
        lab.produce("t", 0, b"")
    assert asked == ["last", "first"]


def test_a_coordinator_that_is_cut_off_costs_no_gateway_its_write_lease() -> None:
    """Its session with the controller ends after 3 s here, and the lease after 8."""
    told: list[str] = []
    acts = (_LIFE[0], replace(_LIFE[1], pause_s=20.0))
    events = (Event(EventKind.COORDINATOR_CUT_OFF, 0, "", 1.0, 60.0),)
    outcome = simulate(RunPlan(1, acts=acts, events=events, brief=True), lambda line: told.append(str(line)))
    assert not outcome.failure, outcome.why
    assert any("has lost its cluster" in line for line in told)
    assert [line for line in told if "the write lease is over" in line] == []
