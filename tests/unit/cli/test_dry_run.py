"""`--dry-run`: the gateway says what would begin, and nothing is changed."""

from __future__ import annotations

import json

import pytest

from gateway.state.records import MirrorState


@pytest.mark.parametrize(
    "arguments",
    [
        ("pause", "orders"),
        ("resume", "clicks"),
        ("failover", "orders", "--yes"),
    ],
)
def test_what_would_begin(linked, run, arguments):
    mirrors(linked, run)
    verb, topic, *more = arguments
    before = states(linked)
    shown = run("mirror", verb, topic, "--link", "l", "--dry-run", *more)
    assert shown.stdout == f"would {verb} {topic}\n"
    assert states(linked) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("pause", "clicks"), "is already PAUSED"),
        (("resume", "orders"), "is not paused"),
        (("pause", "nope"), "no mirror topic 'nope'"),
    ],
)
def test_what_would_be_refused(linked, run, arguments, words):
    mirrors(linked, run)
    before = states(linked)
    verb, topic = arguments
    refused = run("mirror", verb, topic, "--link", "l", "--dry-run", code=1)
    assert words in refused.stderr
    assert states(linked) == before


def test_each_topic_has_its_own_answer(linked, run):
    mirrors(linked, run)
    shown = run("mirror", "pause", "orders", "clicks", "--link", "l", "--dry-run", code=1)
    assert shown.stdout == "would pause orders\n"
    assert "clicks" in shown.stderr
    answer = json.loads(
        run("mirror", "pause", "orders", "clicks", "--link", "l", "--dry-run", "-o", "json", code=1).stdout
    )
    assert [each["error_code"] for each in answer["data"]] == [None, 400]


def test_a_link_that_does_not_exist(linked, run):
    assert "link 'x' does not exist" in run("mirror", "pause", "orders", "--link", "x", "--dry-run", code=1).stderr


def mirrors(linked, run):
    """orders ACTIVE and readable, clicks PAUSED."""
    run("mirror", "create", "orders", "clicks", "--link", "l")
    run("mirror", "pause", "clicks", "--link", "l")

    async def readable():
        from dataclasses import replace

        plane = linked.plane
        await plane.by_hand(replace(plane.store.mirrors["l", "orders"], readable=True))

    linked.do(readable)


def states(linked):
    found = {topic: mirror.state for (_, topic), mirror in linked.plane.store.mirrors.items()}
    assert found == {"orders": MirrorState.ACTIVE, "clicks": MirrorState.PAUSED}
    return found
