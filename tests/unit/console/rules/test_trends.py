"""Trends: bounded whatever happens, coarser with age, and a gap where nothing was heard."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as some

from gateway.console.rules.trends import (
    HOUR,
    HOUR_STEP_MS,
    OBJECTS,
    POINTS,
    WHOLE,
    WHOLE_STEP_MS,
    TrendPoints,
    TrendRing,
    Trends,
)

T0 = HOUR_STEP_MS * 1_000_000  # a beginning of a step of either ring
TOPIC = "topic/l/orders"


def fed(*levels: tuple[int, float | None]) -> Trends:
    made = Trends()
    for at_ms, lag in levels:
        made.add(T0 + at_ms, {TOPIC: [lag, 10.0, None]})
    return made


def test_a_point_is_the_highest_lag_and_the_mean_throughput() -> None:
    made = Trends()
    made.add(T0, {TOPIC: [5, 10.0, 0]})
    made.add(T0 + 10_000, {TOPIC: [9, 20.0, 93]})
    made.add(T0 + 20_000, {TOPIC: [2, 60.0, 0]})
    found = made.of(TOPIC, HOUR)
    assert found["lag"] == TrendPoints(T0, HOUR_STEP_MS, [9])
    assert found["bytes_per_s"].values == [30]
    assert found["pause_ms"].values == [93]


def test_nothing_heard_is_a_gap_and_no_zero() -> None:
    made = fed((0, 5), (HOUR_STEP_MS, None), (4 * HOUR_STEP_MS, 7))
    assert made.of(TOPIC, HOUR)["lag"].values == [5, None, None, None, 7]
    assert made.of(TOPIC, HOUR)["pause_ms"].values == [None] * 5


def test_the_hour_forgets_what_is_older() -> None:
    made = fed(*((index * HOUR_STEP_MS, index) for index in range(POINTS + 5)))
    points = made.of(TOPIC, HOUR)["lag"]
    assert points.since_ms == T0 + 5 * HOUR_STEP_MS
    assert points.values == list(range(5, POINTS + 5))


def test_an_hour_of_nothing_is_begun_anew() -> None:
    made = fed((0, 5), (1000 * HOUR_STEP_MS, 7))
    assert made.of(TOPIC, HOUR)["lag"].values == [7]


def test_the_whole_becomes_coarser_and_keeps_its_beginning_and_its_peaks() -> None:
    made = fed(*((index * WHOLE_STEP_MS, 1000 if index == 3 else 1) for index in range(POINTS * 5)))
    points = made.of(TOPIC, WHOLE)["lag"]
    assert points.step_ms == 8 * WHOLE_STEP_MS
    assert points.since_ms <= T0 < points.since_ms + points.step_ms
    assert len(points.values) <= POINTS
    assert points.values[0] == 1000
    assert set(points.values[1:]) == {1}


def test_objects_that_are_gone_are_forgotten_and_there_is_a_bound_of_them() -> None:
    made = Trends()
    made.add(T0, {f"topic/l/{index}": [1, 1, 1] for index in range(OBJECTS + 9)})
    assert len(made) == OBJECTS
    made.add(T0, {TOPIC: [1, 1, 1], "nonsense": [1]})
    assert made.keys() == [TOPIC]
    assert made.of("topic/l/0", HOUR) == {}


def test_a_clock_that_goes_back_writes_no_history() -> None:
    made = fed((5 * HOUR_STEP_MS, 5), (0, 99), (5 * HOUR_STEP_MS, 6))
    assert made.of(TOPIC, HOUR)["lag"].values == [6]


def test_a_gateway_that_begins_goes_on_where_others_were() -> None:
    """In pages, over JSON; what it has heard itself counts."""
    old = fed((0, 5), (HOUR_STEP_MS, 6), (2 * HOUR_STEP_MS, 7))
    old.add(T0 + 2 * HOUR_STEP_MS, {TOPIC: [7, 1, 1], "group/l/billing": [3]})
    new = fed((2 * HOUR_STEP_MS, 4), (4 * HOUR_STEP_MS, 8))
    after, pages = "", 0
    while said := json.loads(json.dumps(old.told(after, 1))):
        new.join(said)
        after, pages = max(said), pages + 1
    assert pages == 2
    assert new.of(TOPIC, HOUR)["lag"] == TrendPoints(T0, HOUR_STEP_MS, [5, 6, 4, None, 8])
    assert new.of("group/l/billing", HOUR)["lag"].values == [3]
    new.add(T0 + 5 * HOUR_STEP_MS, {TOPIC: [1, 1, 1]})
    assert new.of(TOPIC, HOUR)["lag"].values == [5, 6, 4, None, 8, 1]


def test_wholes_of_two_resolutions_are_joined() -> None:
    old = fed(*((index * WHOLE_STEP_MS, 2) for index in range(POINTS * 3)))
    new = fed((POINTS * 3 * WHOLE_STEP_MS, 9))
    new.join(json.loads(json.dumps(old.told("", 10))))
    points = new.of(TOPIC, WHOLE)["lag"]
    assert points.step_ms == 4 * WHOLE_STEP_MS
    assert points.values[-1] == 9
    assert points.values[0] == 2
    assert None not in points.values


@given(some.lists(some.tuples(some.integers(0, 40 * WHOLE_STEP_MS), some.none() | some.integers(0, 10**6))))
def test_rings_are_bounded_and_never_say_more_than_they_heard(steps: list[tuple[int, int | None]]) -> None:
    at = T0
    heard: set[float | None] = {None}
    rings = [
        TrendRing(HOUR_STEP_MS, grows=False, mean=False),
        TrendRing(WHOLE_STEP_MS, grows=True, mean=False),
    ]
    for wait, value in steps:
        at += wait
        heard.add(value)
        for ring in rings:
            ring.add(at, value)
            points = ring.points
            assert 1 <= len(points.values) <= POINTS
            assert set(points.values) <= heard
            assert points.since_ms + (len(points.values) - 1) * points.step_ms <= at
            assert at < points.since_ms + len(points.values) * points.step_ms
