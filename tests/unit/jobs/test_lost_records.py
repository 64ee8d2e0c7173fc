"""What a job goes on without is counted once, and never passed before it is told."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gateway.jobs.errors import JobFailed
from gateway.jobs.lost_records import AT_ONCE, LostRange, LostRecordLog, each_once

FIRST, SECOND = LostRange("t", 0, 100, 200), LostRange("t", 1, 5, 9)


def test_a_task_is_answered_once_the_gateway_has_heard() -> None:
    book, answered = LostRecordLog(), list[LostRange]()
    book.add(FIRST, lambda: answered.append(FIRST))
    assert not book.tell(lambda _: False)
    assert answered == []
    said: list[Sequence[LostRange]] = []

    def say(lost: Sequence[LostRange]) -> bool:
        said.append(lost)
        book.add(SECOND, lambda: answered.append(SECOND))  # meanwhile
        return True

    assert book.tell(say)
    assert (said, answered) == ([[FIRST]], [FIRST])


def test_what_was_heard_is_not_said_again() -> None:
    book, said = LostRecordLog(), list[list[LostRange]]()
    book.add(FIRST, lambda: None)

    def say(lost: Sequence[LostRange]) -> bool:
        said.append(list(lost))
        return True

    for _ in range(2):
        assert book.tell(say)
    assert said == [[FIRST], []]
    assert book.all == (FIRST,)


def test_what_the_gateway_refuses_stays_untold() -> None:
    book, answered = LostRecordLog(), list[LostRange]()
    book.add(FIRST, lambda: answered.append(FIRST))

    def refuse(_: Sequence[LostRange]) -> bool:
        raise JobFailed("the gateway refuses")

    with pytest.raises(JobFailed):
        book.tell(refuse)
    assert answered == []
    assert book.tell(lambda lost: list(lost) == [FIRST])


def test_no_more_at_once_than_a_heartbeat_can_tell() -> None:
    book, said = LostRecordLog(), list[int]()
    for number in range(AT_ONCE + 5):
        book.add(LostRange("t", number, 100, 200), lambda: None)

    def say(lost: Sequence[LostRange]) -> bool:
        said.append(len(lost))
        return True

    for _ in range(3):
        assert book.tell(say)
    assert said == [AT_ONCE, 5, 0]


def test_without_a_gateway_nobody_is_waited_for() -> None:
    book, answered = LostRecordLog(is_counted=False), list[LostRange]()
    book.add(FIRST, lambda: answered.append(FIRST))
    assert answered == [FIRST]
    assert book.all == (FIRST,)


def test_each_offset_is_in_a_report_once() -> None:
    found = [FIRST, SECOND, LostRange("t", 0, 100, 250), LostRange("t", 0, 300, 301), FIRST]
    assert each_once(found) == (LostRange("t", 0, 100, 250), LostRange("t", 0, 300, 301), SECOND)
