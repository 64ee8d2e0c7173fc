"""The fuzzer finds what it is there for: a conversation for each thing that it looks for, with a fault and without."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from protocol.apis import ApiKey
from tests.fuzz.corpus import Request, Writer, login
from tests.fuzz.mutations import FAULTS, Fault, put_in
from tests.fuzz.run import Theatre
from tests.fuzz.steps import Conversation, Do, Step
from tests.fuzz.values import Filler


@pytest.fixture(scope="module")
def theatre() -> Iterator[Theatre]:
    with Theatre().opened() as opened:
        yield opened


def said(*requests: Request, cut: int = 0) -> Conversation:
    """One connection to a broker, on which each request is sent; of the last one so many bytes are missing."""
    steps = [Step(Do.OPEN, 0, "broker")]
    steps += [Step(Do.SEND, 0, data=each.data, frames=1, note=each.note) for each in requests]
    if cut:
        last = requests[-1]
        steps[-1] = Step(Do.SEND, 0, data=last.data[:-cut], frames=1, note=last.note)
    return Conversation(0, "as it comes", tuple(steps))


def writer() -> Writer:
    return Writer(random.Random(1), Filler(random.Random(1)))


def heartbeat(by: Writer) -> Request:
    return by.make(ApiKey.HEARTBEAT, 3, group_id="gated", member_id="m", generation_id=1, group_instance_id=None)


def logged_in(cut: int = 0) -> Conversation:
    by = writer()
    return said(*login(by, "PLAIN", "alice"), heartbeat(by), cut=cut)


def half_a_login() -> Conversation:
    return said(*login(writer(), "PLAIN", "alice"), cut=3)


def fault(name: str) -> Fault:
    return next(each for each in FAULTS if each.name == name)


@pytest.mark.parametrize(
    ("name", "conversation"),
    [
        ("before a login requests are taken", said(heartbeat(writer()))),
        ("groups take long to remember", logged_in()),
        ("what a closed connection held is held on", logged_in(cut=3)),
        ("what a stranger held is held on", half_a_login()),
        ("a client without a group", logged_in()),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_fault_is_found_and_only_with_it(theatre: Theatre, name: str, conversation: Conversation) -> None:
    seeded = fault(name)
    with put_in(seeded):
        found = theatre.had(conversation)
    assert seeded.kind in found.kinds
    assert theatre.had(conversation).findings == []


def test_a_stranger_by_rest_touches_nothing(theatre: Theatre) -> None:
    asked = Step(Do.REST, place="GET /v3/links", headers=(("host", "gateway"),), frames=1)
    assert theatre.had(Conversation(0, "as it comes", (asked,))).findings == []
    with put_in(fault("REST is everybody's")):
        assert "touched_before_login" in theatre.had(Conversation(0, "as it comes", (asked,))).kinds
