"""Responses leave in the order of their requests, whatever order they become known in."""

from __future__ import annotations

from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from gateway.proxy.session.exchange import Exchange
from gateway.proxy.session.sequencer import Sequencer


def exchange(number: int) -> Exchange:
    return Exchange(cast("Any", None), 0, 0, number, 0.0)


@given(st.integers(1, 12).flatmap(lambda n: st.permutations(range(n))), st.sets(st.integers(0, 11)))
def test_answers_leave_in_request_order(order: list[int], unanswered: set[int]) -> None:
    sequencer = Sequencer()
    exchanges = [exchange(n) for n in range(len(order))]
    for one in exchanges:
        sequencer.begin(one)
    left: list[bytes] = []
    for n in order:  # acks=0 requests end with an empty response, which must not leave
        left += cast("list[bytes]", sequencer.answer(exchanges[n], b"" if n in unanswered else b"%d" % n))
    assert left == [b"%d" % n for n in range(len(order)) if n not in unanswered]
    assert len(sequencer) == 0


def test_a_streamed_head_lets_the_waiting_ones_follow() -> None:
    sequencer = Sequencer()
    first, second, third = exchange(1), exchange(2), exchange(3)
    for one in (first, second, third):
        sequencer.begin(one)
    assert sequencer.is_head(first)
    assert not sequencer.is_head(second)
    assert sequencer.answer(second, b"2") == []
    assert sequencer.finish_head() == [b"2"]
    assert sequencer.is_head(third)
