"""What is said of a share group's delivery state, by number."""

from __future__ import annotations

import pytest

from gateway.groups.rules.share_delivery import Delivery, delivery_note

HEAD = "share group: its start offsets are carried, delivery counts begin anew, "


@pytest.mark.parametrize(
    ("delivery", "again", "exact"),
    [
        (Delivery(10, 30, 40, 40), 0, True),
        (Delivery(10, 28, 40, 40), 2, True),
        (Delivery(10, 28, 40, 45), 7, False),
        (Delivery(10, 30, 39, 39), 0, True),  # written between two looks
        (Delivery(10, -1, 40, 40), None, True),
    ],
)
def test_what_lies_behind_the_start_and_is_not_in_the_lag(delivery, again, exact):
    assert (delivery.again_at_most, delivery.is_exact) == (again, exact)


def test_nothing_is_delivered_again():
    assert delivery_note({("t", 0): Delivery(10, 30, 40, 40)}) == HEAD + "no record behind them was done with"
    assert delivery_note({}) == HEAD + "no record behind them was done with"


def test_records_are_counted_and_named():
    found = {("t", 1): Delivery(0, 9, 10, 10), ("t", 0): Delivery(10, 28, 40, 40)}
    words = "3 records behind them were done with and are delivered again (t-0: 2, t-1: 1)"
    assert delivery_note(found) == HEAD + words
    found["u", 0] = Delivery(0, 9, 10, 11)
    assert "at most 5 records" in delivery_note(found)


def test_many_are_not_all_named():
    found = {("t", index): Delivery(0, 9, 10, 10) for index in range(7)}
    assert delivery_note(found).endswith("t-4: 1 and 2 more)")


def test_what_is_not_known_is_said():
    note = delivery_note({("t", 0): Delivery(0, -1, 10, 10), ("t", 1): Delivery(0, 9, 10, 10)})
    assert "1 records behind them" in note
    assert note.endswith("of 1 partition(s) the source does not tell what is done with (Kafka before 4.2)")
