"""The judgement of the fault tests must be able to fail."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.brokers.logs import Log, Record, assert_equal, assert_nothing_lost
from tests.support.clients.writer import Acknowledged

PARTITIONS = 2


def logs(count: int = 10) -> list[Log]:
    made: list[Log] = [[] for _ in range(PARTITIONS)]
    for number in range(count):
        log = made[number % PARTITIONS]
        log.append(Record(len(log), b"%d" % number, b"%d x" % number, (1, 1000 + number), ()))
    return made


def writer(count: int = 10) -> Any:
    acknowledged = {number: Acknowledged(number % PARTITIONS, number // PARTITIONS) for number in range(count)}
    return SimpleNamespace(failed={}, sent=count, acknowledged=acknowledged)


def test_a_whole_run_passes() -> None:
    assert_nothing_lost(writer(), logs())
    assert_equal(logs(), logs())


def test_a_lost_record_is_found() -> None:
    broken = logs()
    del broken[0][-1]
    with pytest.raises(AssertionError):
        assert_nothing_lost(writer(), broken)
    with pytest.raises(AssertionError):
        assert_equal(logs(), broken)


def test_a_repeated_record_is_found() -> None:
    broken = logs()
    broken[1].append(broken[1][-1])
    with pytest.raises(AssertionError):
        assert_nothing_lost(writer(), broken)


def test_two_swapped_records_are_found() -> None:
    broken = logs()
    broken[0][1], broken[0][2] = broken[0][2], broken[0][1]
    with pytest.raises(AssertionError):
        assert_nothing_lost(writer(), broken)


def test_a_record_at_another_offset_than_the_producer_was_told_is_found() -> None:
    broken = [[record._replace(offset=record.offset + 1) for record in log] for log in logs()]
    with pytest.raises(AssertionError):
        assert_nothing_lost(writer(), broken)
    with pytest.raises(AssertionError):
        assert_equal(logs(), broken)


@pytest.mark.parametrize(
    "change", [{"timestamp": (1, 0)}, {"headers": (("a", b""),)}, {"key": None}, {"value": b"1 y"}]
)
def test_a_changed_record_is_found(change: dict[str, Any]) -> None:
    broken = logs()
    broken[0][3] = broken[0][3]._replace(**change)
    with pytest.raises(AssertionError):
        assert_equal(logs(), broken)


def test_a_record_that_was_never_acknowledged_is_found() -> None:
    unsure = writer()
    del unsure.acknowledged[7]
    with pytest.raises(AssertionError):
        assert_nothing_lost(unsure, logs())
