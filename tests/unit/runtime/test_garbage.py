from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from gateway.runtime.garbage import YOUNG, spare_what_stays


class _Ring:
    def __init__(self) -> None:
        self.other = self


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


def test_what_is_there_is_not_looked_at_again() -> None:
    spare_what_stays()
    assert gc.get_freeze_count() > 1_000
    assert len(gc.get_objects()) < 1_000


def test_a_burst_of_requests_does_not_make_it_look() -> None:
    spare_what_stays()
    looks = gc.get_stats()[0]["collections"]
    burst = [[index] for index in range(YOUNG // 2)]
    assert gc.get_stats()[0]["collections"] == looks
    assert burst


def test_a_ring_that_came_before_goes_before_and_one_that_comes_later_goes_too() -> None:
    early = weakref.ref(_Ring())
    spare_what_stays()
    assert early() is None
    late = weakref.ref(_Ring())
    kept = [[index] for index in range(2 * YOUNG)]
    assert late() is None
    assert kept
