"""REST of a fleet is asked again while nobody leads; what a lost answer had done already is told from a refusal."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from tests.support.gateways.asking import answered, carried_out, was_overtaken
from tests.unit.support.conftest import Clock


def saying(*statuses: int) -> Callable[[], httpx.Response]:
    """Answers in this order; the last one again and again."""
    left = list(statuses)

    def say() -> httpx.Response:
        status = left.pop(0) if len(left) > 1 else left[0]
        return httpx.Response(status, text=f"say {status}")

    return say


def test_the_first_answer_of_a_leader_counts(clock: Clock) -> None:
    answer, again = answered(saying(200))
    assert (answer.status_code, again, clock.now) == (200, False, 0.0)
    answer, again = answered(saying(503, 503, 404))
    assert (answer.status_code, again) == (404, True)
    assert clock.now == pytest.approx(0.04)


def test_a_fleet_without_a_leader_is_told_with_its_last_words(clock: Clock) -> None:
    with pytest.raises(AssertionError, match=r"no 'try again' did not come true within 60\.0 s.*: say 503$"):
        answered(saying(503))
    assert clock.now == pytest.approx(60, abs=0.2)


@pytest.mark.parametrize(("statuses", "is_done"), [((201,), False), ((503, 201), False), ((503, 409), True)], ids=str)
def test_what_is_carried_out(clock: Clock, statuses: tuple[int, ...], is_done: bool) -> None:
    assert carried_out(saying(*statuses), lambda: is_done).status_code == statuses[-1]


@pytest.mark.parametrize(("statuses", "is_done"), [((409,), True), ((503, 409), False), ((503, 400), True)], ids=str)
def test_what_is_refused(clock: Clock, statuses: tuple[int, ...], is_done: bool) -> None:
    with pytest.raises(AssertionError, match=rf"^{statuses[-1]} say {statuses[-1]}"):
        carried_out(saying(*statuses), lambda: is_done)


def test_what_was_changed_meanwhile_is_asked_again_by_who_says_so(clock: Clock) -> None:
    words = ["link 'a': a mirror or a group of it was changed meanwhile; try again", "not empty"]
    said = iter([httpx.Response(409, text=text) for text in words])
    answer, again = answered(lambda: next(said), again=was_overtaken)
    assert (answer.text, again) == ("not empty", True)
    assert answered(saying(409))[0].status_code == 409
