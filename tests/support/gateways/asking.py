"""REST of a fleet, asked as its answers say: 503 is asked again, and so is what one silent gateway holds up.

While no gateway leads, or the one that leads is about to change, a request that changes something is answered with 503
and "try again": on a busy machine that happens at the set-up of a fleet, too. Either nothing was done, or the outcome
is not known. No verb is done twice (docs/reference/cli.md, "Asked again"), so the same request is sent again until a
deadline. What the lost answer had done already is then refused with 409: only `is_done` can tell that from a real
refusal.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Final

import httpx

from tests.support.waiting import wait_until

DEADLINE_S: Final = 60.0


def _nobody_knows() -> bool:
    return False


def is_unserved(answer: httpx.Response) -> bool:
    """Nobody leads now, or not for long enough; or a gateway is silent for a moment, on a busy machine."""
    is_silent = answer.status_code == HTTPStatus.CONFLICT and "does not answer and may still write" in answer.text
    return is_silent or answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE


def was_overtaken(answer: httpx.Response) -> bool:
    """Nothing was done, since what it is about was changed while it was decided on."""
    return answer.status_code == HTTPStatus.CONFLICT and "changed meanwhile; try again" in answer.text


def answered(
    ask: Callable[[], httpx.Response],
    deadline_s: float = DEADLINE_S,
    *,
    again: Callable[[httpx.Response], bool] = is_unserved,
) -> tuple[httpx.Response, bool]:
    """The first answer that is not to be asked `again`, and whether one came before it: then it may be about what was
    done already.

    Raises:
        AssertionError: no other within `deadline_s` seconds; it has what the last one said.
    """
    answers = 0
    last: httpx.Response | None = None

    def is_served() -> bool:
        nonlocal answers, last
        answers += 1
        last = ask()
        return not again(last)

    try:
        wait_until(is_served, deadline_s, what="an answer that is no 'try again'")
    except AssertionError as exc:
        raise AssertionError(f"{exc}: {last.text if last is not None else ''}") from None
    assert last is not None
    return last, answers > 1


def carried_out(
    ask: Callable[[], httpx.Response],
    is_done: Callable[[], bool] = _nobody_knows,
    deadline_s: float = DEADLINE_S,
) -> httpx.Response:
    """The answer to a request that must succeed.

    Args:
        ask: sends it.
        is_done: whether what it asks for is so. Looked at when it was asked again and refused with 409.

    Raises:
        AssertionError: it is refused, or nobody serves it within `deadline_s` seconds.
    """
    answer, again = answered(ask, deadline_s)
    if not (again and answer.status_code == HTTPStatus.CONFLICT and is_done()):
        assert answer.is_success, f"{answer.status_code} {answer.text}{' (after 503)' if again else ''}"
    return answer
