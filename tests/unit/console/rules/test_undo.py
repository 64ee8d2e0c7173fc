"""What rows say of an undo: of a topic, and of an application that has several."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.console.rules.sections import Row
from gateway.console.rules.undo import of_application, of_topic
from gateway.state.records import MirrorState, Undo
from gateway.telemetry.numbers import MirrorNumbers
from tests.support.control.mirror_records import mirror_record

UNTIL = 1_900_000_000_000
S = MirrorState


def told(state: MirrorState, undo: Undo, at_risk: int | None = None) -> Row:
    values = {"state": state, "undo": undo, "undo_until_ms": UNTIL if undo else 0}
    record = mirror_record(link="l", mirror_topic="orders", source_topic="orders", mirror_id=1, **values)
    numbers = MirrorNumbers("l", "orders", state, [], 0, 0, state is S.ACTIVE, 0, at_risk=at_risk)
    return of_topic(numbers, record)


@pytest.mark.parametrize(
    ("state", "undo", "said"),
    [
        (S.ACTIVE, Undo.NONE, ""),
        (S.PENDING_SYNCHRONIZE, Undo.OPEN, "open"),
        (S.ACTIVE, Undo.OPEN, "open"),
        (S.STOPPED, Undo.OPEN, "ended"),
        (S.ACTIVE, Undo.OVER, "over"),
        (S.STOPPED, Undo.REFUSED, "refused"),
    ],
)
def test_a_topic_says_what_describe_says(state: MirrorState, undo: Undo, said: str) -> None:
    row = told(state, undo, 3)
    assert row == {"undo": said, "undo_until_ms": UNTIL if undo else 0, "at_risk": 3}


def test_a_topic_whose_record_is_not_there_yet_has_none() -> None:
    numbers = MirrorNumbers("l", "orders", S.ACTIVE, [], 0, 0, False, 0)
    assert of_topic(numbers, None) == {"undo": "", "undo_until_ms": 0, "at_risk": None}


def row(undo: str = "open", at_risk: int | None = 0, until: int = UNTIL, **more: Any) -> Row:
    there = {"written_on": "target", "direction": "REVERSE", "state": "ACTIVE"}
    return {**there, "undo": undo, "undo_until_ms": until, "at_risk": at_risk, "after_cutover": 0, **more}


def test_an_application_goes_home_until_the_first_of_its_topics_cannot() -> None:
    said = of_application([row(at_risk=2), row(at_risk=3, until=UNTIL - 5), row("", 4, 0)])
    assert (said["undo_open"], said["undo_until_ms"], said["at_risk"]) == (3, UNTIL - 5, 9)


def test_a_topic_that_is_not_measured_makes_the_risk_unknown() -> None:
    assert of_application([row(at_risk=2), row(at_risk=None)])["at_risk"] is None


def test_late_writes_are_those_of_topics_that_can_go_home() -> None:
    said = of_application([row(after_cutover=2), row(after_cutover=3), row(state="FAILED", after_cutover=5)])
    assert said["late"] == 5
    assert of_application([row(after_cutover=2), row(after_cutover=None)])["late"] is None


def test_what_cannot_go_home_is_counted_apart() -> None:
    stopped: dict[str, Any] = {"direction": "FORWARD", "state": "STOPPED"}
    said = of_application(
        [
            row(),
            row(state="FAILED", at_risk=None),
            row("over", None, **stopped),
            row("refused", None, **stopped),
            row("ended", None, **stopped),
            row("over", None, written_on="source", direction="FORWARD"),
        ]
    )
    assert said == {"undo_open": 1, "undo_over": 1, "undo_refused": 2, "undo_until_ms": UNTIL, "at_risk": 0, "late": 0}


def test_nothing_promoted_is_nothing_to_undo() -> None:
    counts = ("undo_open", "undo_over", "undo_refused", "undo_until_ms", "at_risk", "late")
    assert of_application([]) == dict.fromkeys(counts, 0)
