"""What is said of a promote that somebody calls off, against what becomes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.state.records import MirrorDirection, MirrorFailback, MirrorRecord, MirrorState, PartitionStart
from tests.simulation.judge import Findings
from tests.simulation.judge.called_off import CallOffClaims, said_to_be
from tests.simulation.recorder import SOURCE, TARGET

ACTIVE = MirrorRecord(link="l", source_topic="t", mirror_topic="t", mirror_id=7, starts=(PartitionStart(0, 0),))
PENDING = replace(ACTIVE, state=MirrorState.PENDING_STOPPED)
STOPPED = replace(ACTIVE, state=MirrorState.STOPPED)
BACK = MirrorFailback(direction=MirrorDirection.REVERSE)


class Told:
    """The records of one topic, one behind the other."""

    def __init__(self) -> None:
        self.findings = Findings()
        self.claims = CallOffClaims(self.findings)
        self._last: MirrorRecord | None = None
        self.records(ACTIVE)

    def records(self, *said: MirrorRecord) -> None:
        for record in said:
            self.claims.seen(self._last, record, 1.0)
            self._last = record

    @property
    def wrong(self) -> list[str]:
        return self.findings.examples["claims_wrong"]


def test_a_promote_that_was_called_off_and_goes_back_is_none_that_cuts_over_later() -> None:
    told = Told()
    told.claims.requests = 1
    told.records(PENDING)
    asked = told.claims.asked(0)
    told.claims.called_off(asked, ["t"], 2.0)
    told.records(PENDING, ACTIVE)
    told.claims.requests = 2
    told.records(PENDING, STOPPED)
    assert told.wrong == []


@pytest.mark.parametrize("is_before", [True, False], ids=["before the answer", "behind it"])
def test_one_that_cuts_over_was_not_called_off(is_before: bool) -> None:
    told = Told()
    told.records(PENDING)
    asked = told.claims.asked(0)
    if is_before:
        told.records(STOPPED)
    told.claims.called_off(asked, ["t"], 2.0)
    if not is_before:
        told.records(STOPPED)
    (what,) = told.wrong
    assert "promote number 1 was said to be called off, and has cut over" in what


def test_so_it_is_on_the_way_home() -> None:
    told = Told()
    told.records(STOPPED, replace(ACTIVE, failback=BACK), replace(PENDING, failback=BACK))
    asked = told.claims.asked(0)
    told.claims.called_off(asked, ["t"], 2.0)
    told.records(replace(ACTIVE, failback=BACK))
    assert told.wrong == []
    told.records(replace(PENDING, failback=BACK))
    asked = told.claims.asked(0)
    told.claims.called_off(asked, ["t"], 2.0)
    told.records(ACTIVE)
    assert len(told.wrong) == 1


@pytest.mark.parametrize(("requests", "open_requests", "wrong"), [(1, 1, 1), (2, 1, 0), (1, 2, 0)])
def test_what_has_no_record_yet_is_the_next_one_if_nobody_else_can_have_begun_that(
    requests: int, open_requests: int, wrong: int
) -> None:
    told = Told()
    told.claims.requests = 1
    asked = told.claims.asked(open_requests)
    told.claims.called_off(asked, ["t"], 2.0)
    told.claims.requests = requests
    told.records(PENDING, STOPPED)
    assert len(told.wrong) == wrong


def test_nobody_is_held_to_what_a_target_has_lost() -> None:
    told = Told()
    told.records(PENDING)
    asked = told.claims.asked(0)
    told.claims.state_lost()
    told.claims.called_off(asked, ["t"], 2.0)
    told.records(STOPPED)
    assert told.wrong == []


def test_where_a_topic_is_said_to_be_written_it_is_seen_at_rest() -> None:
    told = Told()
    told.records(PENDING)
    asked = told.claims.asked(0)
    assert not told.claims.is_so(asked, "t", SOURCE)
    assert not told.claims.is_so(asked, "t", TARGET)
    told.records(STOPPED)
    assert told.claims.is_so(asked, "t", TARGET)
    assert not told.claims.is_so(asked, "t", SOURCE)
    assert told.claims.is_so(told.claims.asked(0), "t", TARGET)


def test_what_an_answer_says() -> None:
    there = "mirror topic 't.a' is promoted already, and written on the target (STOPPED); to go back: lockgate"
    assert said_to_be({"message": there}) == ("t.a", TARGET)
    here = "mirror topic 't' is not being promoted: it is ACTIVE, and written on the source"
    assert said_to_be({"message": here}) == ("t", SOURCE)
    assert said_to_be({"message": "the promote of mirror topic 't' is not called off yet, and may cut over"}) is None
    assert said_to_be("no answer") is None
