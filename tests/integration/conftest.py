"""Marks everything in this folder as `integration`; what its tests share."""

import random
from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.integration)


@pytest.fixture
def dice() -> random.Random:
    """Randomness whose seed is told."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed: {seed}")  # noqa: T201 - shown when the test fails
    return random.Random(seed)
