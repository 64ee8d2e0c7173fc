"""The judge of the Spark demo must see each kind of fault."""

from array import array
from collections.abc import Callable
from typing import Any

import pytest

from demo.records import VALUE_BYTES
from demo.spark.check import Logs, PartitionLog, count, exact_groups

ACKNOWLEDGED = {"a": 6, "b": 4}


def logs() -> Logs:
    """Two partitions: a's records in turn, then b's."""
    found = {index: PartitionLog(end=5) for index in range(2)}
    for producer, total in ACKNOWLEDGED.items():
        for number in range(total):
            log = found[number % 2]
            log.producers.append(producer)
            log.numbers.append(number)
            log.digests.append(hash((producer, number)) & 2**64 - 1)
    for log in found.values():
        log.offsets = array("q", range(len(log.numbers)))
    return found


def add(log: PartitionLog, at: int) -> None:
    log.producers.append(log.producers[at])
    log.numbers.append(log.numbers[at])
    log.digests.append(log.digests[at])
    log.offsets.append(log.offsets[-1] + 1)


def drop_last(log: PartitionLog) -> None:
    columns: tuple[Any, ...] = (log.producers, log.numbers, log.digests, log.offsets)
    for column in columns:
        column.pop()


def swap(log: PartitionLog) -> None:
    columns: tuple[Any, ...] = (log.producers, log.numbers, log.digests)
    for column in columns:
        column[0], column[1] = column[1], column[0]


def test_equal_logs_are_a_pass() -> None:
    found = count(logs(), logs(), ACKNOWLEDGED, {0: 3, 1: 0})
    assert (found.acknowledged, found.found, found.lost, found.duplicated, found.reordered) == (10, 10, 0, 0, 0)
    assert (found.unequal, found.copied_bytes) == ([], 3 * VALUE_BYTES)


@pytest.mark.parametrize(
    ("fault", "lost", "duplicated", "reordered", "unequal"),
    [
        (lambda log: add(log, 0), 0, 1, 0, 0),
        (drop_last, 1, 0, 0, 1),
        (swap, 0, 0, 1, 1),
    ],
    ids=["duplicate", "lost", "reordered"],
)
def test_each_fault_is_counted(
    fault: Callable[[PartitionLog], None], lost: int, duplicated: int, reordered: int, unequal: int
) -> None:
    spoiled = logs()
    fault(spoiled[0])
    found = count(logs(), spoiled, ACKNOWLEDGED, {})
    assert (found.lost, found.duplicated, found.reordered, len(found.unequal)) == (lost, duplicated, reordered, unequal)


def test_a_record_that_nobody_wrote() -> None:
    found = count(logs(), logs(), {"a": 6, "b": 3}, {})
    assert found.unequal == ["b #3 in partition 1 was never acknowledged"]


def test_groups_go_on_with_the_same_record() -> None:
    here, there = logs(), logs()
    before = {"x": {0: 2, 1: 5}, "y": {0: 0}}
    assert exact_groups(here, there, before, {"x": {0: 2, 1: 5}, "y": {0: 0}}) == 2
    assert exact_groups(here, there, before, {"x": {0: 1, 1: 5}, "y": {0: 0}}) == 1
    assert exact_groups(here, there, before, {"x": {0: 2, 1: 5}}) == 1
