"""Bytes that a principal may write to sources: who sends more is told for how long to be quiet."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.proxy.rules import write_quotas
from gateway.proxy.rules.write_quotas import MOST_S, WriteQuotas


def test_up_to_a_seconds_worth_comes_at_once() -> None:
    quotas = WriteQuotas(1_000)
    assert [quotas.spend("alice", 500, 10.0) for _ in range(3)] == [0.0, 0.0, 0.5]
    assert quotas.spend("bob", 500, 10.0) == 0.0
    assert quotas.spend("alice", 500, 10.5) == 0.5  # half a second has drained as much as came
    assert quotas.spend("alice", 1_000, 99.0) == 0.0
    assert quotas.throttled == 2


def test_one_large_request_is_paid_for_bit_by_bit() -> None:
    quotas = WriteQuotas(1_000)
    assert quotas.spend("alice", 31_000, 0.0) == MOST_S
    assert quotas.spend("alice", 0, 10.0) == MOST_S
    assert quotas.spend("alice", 0, 25.0) == 5.0
    assert quotas.spend("alice", 0, 30.0) == 0.0


def test_no_limit_keeps_nothing() -> None:
    quotas = WriteQuotas(0)
    assert quotas.spend("alice", 1 << 40, 0.0) == 0.0
    assert not quotas._levels


def test_principals_are_bounded_and_the_busiest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_quotas, "KEPT", 10)
    quotas = WriteQuotas(1_000)
    for number in range(100):
        quotas.spend(f"user-{number}", 1_001 + number, 0.0)
        assert len(quotas._levels) <= 10
    assert quotas.spend("user-98", 0, 0.0) > 0
    for number in range(100):
        quotas.spend(f"late-{number}", 1, 1_000.0)  # everybody else is quiet again
        assert len(quotas._levels) <= 10


@given(st.lists(st.tuples(st.integers(1, 50_000), st.floats(0, 3)), min_size=2, max_size=60))
def test_who_keeps_quiet_as_told_never_writes_faster_than_the_rate(sent: list[tuple[int, float]]) -> None:
    """Beyond a second's worth at the beginning, and the last request; a wait is at most `MOST_S`, but a debt stays."""
    rate, now, total = 10_000, 0.0, 0
    quotas = WriteQuotas(rate)
    for size, pause in sent:
        total += size
        quiet = quotas.spend("alice", size, now)
        while quiet >= MOST_S:  # a client that sends the smallest request when it may
            now += quiet
            quiet = quotas.spend("alice", 0, now)
        now += quiet + pause
        assert total <= rate * (now + 1) + 1e-3 * total
