"""A name that somebody may have meant."""

from __future__ import annotations

from gateway.close_names import did_you_mean


def test_the_nearest_one_is_named() -> None:
    assert did_you_mean("Order", ["orders", "payments"]) == " (did you mean 'orders'?)"


def test_nothing_is_named_where_none_is_near() -> None:
    assert did_you_mean("nope", ["orders", "payments"]) == ""


def test_a_name_that_is_there_is_not_meant_by_itself() -> None:
    """The refusal was about something else in the request."""
    assert did_you_mean("orders", ["orders", "orders-2"]) == ""
