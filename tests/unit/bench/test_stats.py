"""Medians, percentiles, and ratios that are formed within a round."""

from __future__ import annotations

import pytest

from bench.stats import Sample, Samples, Spread, percentile


def samples(*rows: tuple[int, str, float]) -> Samples:
    return Samples([Sample("load", number, who, {"cpu": value}) for number, who, value in rows])


def test_a_ratio_is_formed_round_by_round() -> None:
    """The second round was ten times as slow for everybody, and the ratio does not see it."""
    found = samples((0, "a", 3.0), (0, "b", 1.0), (1, "a", 20.0), (1, "b", 10.0)).ratio("load", "cpu", "a", "b")
    assert found == Spread(median=2.5, low=2.0, high=3.0, count=2)


def test_a_round_without_its_pair_does_not_count() -> None:
    assert samples((0, "a", 3.0), (1, "b", 1.0)).ratio("load", "cpu", "a", "b") is None


def test_a_ratio_to_nothing_does_not_count() -> None:
    assert samples((0, "a", 3.0), (0, "b", 0.0)).ratio("load", "cpu", "a", "b") is None


def test_a_difference_is_formed_round_by_round() -> None:
    found = samples((0, "a", 3.0), (0, "b", 1.0), (1, "a", 20.0), (1, "b", 21.0)).difference("load", "cpu", "a", "b")
    assert found == Spread(median=0.5, low=-1.0, high=2.0, count=2)


def test_other_loads_and_metrics_stay_out() -> None:
    mixed = samples((0, "a", 3.0))
    mixed.add(Sample("other", 0, "a", {"cpu": 100.0}))
    mixed.add(Sample("load", 1, "a", {"memory": 100.0}))
    assert mixed.values("load", "a", "cpu") == [3.0]
    assert mixed.spread("load", "a", "disk") is None


@pytest.mark.parametrize(("percent", "expected"), [(50, 5.0), (99, 10.0), (90, 9.0), (91, 10.0), (0, 1.0), (100, 10.0)])
def test_percentiles_are_values_that_were_seen(percent: float, expected: float) -> None:
    assert percentile([float(value) for value in range(1, 11)], percent) == expected


def test_a_percentile_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="nothing"):
        percentile([], 99)
