from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from gateway.quickstart.judge import Count, has_partitions, judge


def sent(*values: str, name: str = "producer_send_success") -> list[str]:
    return [json.dumps({"timestamp": 1, "name": name, "key": None, "value": value}) for value in values]


def read(*values: str) -> list[str]:
    return sent(*values, name="record_data")


def test_what_is_read_once_is_neither_lost_nor_duplicated() -> None:
    found = judge(sent("1.0", "1.1", "2.0"), read("1.1", "1.0", "2.0"))
    assert found == Count(written=3, lost=0, duplicated=0, errors=0)
    assert found.passed


@pytest.mark.parametrize(
    ("said", "got", "wanted"),
    [
        (sent("1.0", "1.1"), read("1.0"), Count(2, 1, 0, 0)),
        (sent("1.0"), read("1.0", "1.0"), Count(1, 0, 1, 0)),
        ([*sent("1.0"), *sent("1.1", name="producer_send_error")], read("1.0"), Count(1, 0, 0, 1)),
        ([], [], Count(0, 0, 0, 0)),
    ],
)
def test_one_that_is_not_so_fails(said: Sequence[str], got: Sequence[str], wanted: Count) -> None:
    found = judge(said, got)
    assert found == wanted
    assert not found.passed


def test_lines_of_a_logger_and_one_that_is_being_written_are_left_out() -> None:
    lines = ["[2026-01-01] WARN something", *sent("1.0"), '{"timestamp":1,"name":"producer_send_succ']
    assert judge(lines, read("1.0")) == Count(1, 0, 0, 0)


def changed(name: str, count: int) -> str:
    partitions = [{"topic": "orders", "partition": index} for index in range(count)]
    return json.dumps({"timestamp": 1, "name": f"partitions_{name}", "partitions": partitions})


@pytest.mark.parametrize(
    ("lines", "has"),
    [
        ([], False),
        ([changed("assigned", 3)], True),
        ([changed("assigned", 0)], False),
        ([changed("assigned", 3), changed("revoked", 3)], False),
        ([changed("assigned", 3), changed("revoked", 3), changed("assigned", 1)], True),
    ],
)
def test_a_member_has_what_it_was_assigned_last(lines: list[str], has: bool) -> None:
    assert has_partitions(lines) is has
