"""Shrunken plans that once showed a bug of the product: `tests/simulation/seeds/`. Each passes now."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.simulation.plan import RunPlan
from tests.simulation.world import simulate

SEEDS = sorted((Path(__file__).parents[2] / "simulation" / "seeds").glob("*.json"))


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: path.stem)
def test_what_was_found_once(path: Path) -> None:
    outcome = simulate(RunPlan.from_json(json.loads(path.read_text(encoding="utf-8"))))
    assert not outcome.failure, outcome.why


def test_they_are_there() -> None:
    assert SEEDS
