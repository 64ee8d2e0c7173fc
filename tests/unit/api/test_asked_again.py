"""Every verb that changes something: what it answers when it is asked again, and that neither this nor its dry run
changes anything. The tables of docs/reference/cli.md say so.
"""

from __future__ import annotations

import pytest

from tests.support.control.control_plane import Plane
from tests.support.control.verbs import VERBS, state_of, verb_api
from tests.support.pages.verbs_page import PAGE, page
from tests.support.waiting import wait_until_async


@pytest.mark.parametrize("name", VERBS)
async def test_asked_again(plane: Plane, name: str) -> None:
    verb = VERBS[name]
    await verb.prepare(plane)
    method, path, body = verb.asked
    async with verb_api(plane) as api:
        first = await api.request(method, path, json=body)
        assert first.status_code < 300, first.text
        await wait_until_async(lambda: verb.done(plane), 10, what=f"{name} to be done")

        before = state_of(plane)
        second = await api.request(method, path, json=body)
    expected, words = verb.again
    assert (second.status_code, words in second.text) == (expected, True), second.text
    assert state_of(plane) == before


@pytest.mark.parametrize("name", VERBS)
async def test_a_dry_run_changes_nothing(plane: Plane, name: str) -> None:
    verb = VERBS[name]
    await verb.prepare(plane)
    method, path, body = verb.asked
    async with verb_api(plane) as api:
        before = state_of(plane)
        answer = await api.request(method, path, json=body, params={"validate_only": "true"})
    assert answer.status_code < 300, answer.text
    assert state_of(plane) == before


def test_the_page_says_so() -> None:
    told = PAGE.read_text(encoding="utf-8")
    assert page(told) == told, "python -m tests.support.pages.verbs_page"
