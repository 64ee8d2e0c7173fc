"""What follows a refused batch is refused until the batch comes again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.proxy.rules import pipeline_guard
from gateway.proxy.rules.pipeline_guard import FORGET_S, PIPELINE, PipelineGuard


def batch(sequence: int, *, partition: int = 0, producer: int = 7, epoch: int = 0) -> tuple[str, int, int, int, int]:
    return ("t", partition, producer, epoch, sequence)


def test_the_rest_of_the_pipeline_waits_for_the_retry() -> None:
    guard = PipelineGuard()
    assert guard.admits([batch(10)], 0)
    guard.refused([batch(10)], 0)
    assert not guard.admits([batch(20)], 0)
    assert not guard.admits([batch(20, partition=1), batch(30)], 0)
    assert guard.admits([batch(20, partition=1)], 0)
    assert guard.admits([batch(20, producer=8)], 0)
    assert guard.admits([batch(10)], 0)
    assert guard.admits([batch(20)], 0)


def test_an_epoch_of_the_client_s_own_begins_anew() -> None:
    guard = PipelineGuard()
    guard.refused([batch(10)], 0)
    assert guard.admits([batch(0, epoch=1)], 0)
    assert guard.admits([batch(20)], 0)


def test_a_retry_that_went_elsewhere_blocks_nothing_for_good() -> None:
    guard = PipelineGuard()
    guard.refused([batch(10)], 0)
    assert [guard.admits([batch(500 + n)], 0) for n in range(PIPELINE)] == [False] * (PIPELINE - 1) + [True]
    guard.refused([batch(10)], 0)
    assert guard.admits([batch(500)], FORGET_S)


def test_all_that_was_refused_comes_again_in_its_order() -> None:
    """A broker refused two of three; the third comes when the first has come again, and the second has not."""
    guard = PipelineGuard()
    guard.refused([batch(20)], 0)
    guard.refused([batch(10)], 0)
    assert guard.admits([batch(5)], 0)  # before all of them
    assert guard.admits([batch(10)], 0)
    assert not guard.admits([batch(30)], 0)
    guard.refused([batch(30)], 0)
    assert guard.admits([batch(20)], 0)
    assert guard.admits([batch(30)], 0)
    assert not guard


def test_sequences_are_counted_round() -> None:
    guard = PipelineGuard()
    guard.refused([batch(2**31 - 10), batch(5)], 0)
    assert not guard.admits([batch(15)], 0)
    assert guard.admits([batch(2**31 - 10)], 0)
    assert not guard.admits([batch(15)], 0)
    assert guard.admits([batch(5)], 0)
    assert guard.admits([batch(15)], 0)


def test_what_was_refused_in_an_idle_partition_is_forgotten() -> None:
    guard = PipelineGuard()
    guard.refused([batch(10)], 0)
    assert guard.admits([batch(7, partition=1)], FORGET_S)
    assert not guard


def test_without_an_identity_there_is_no_order_to_keep() -> None:
    guard = PipelineGuard()
    guard.refused([batch(-1, producer=-1)], 0)
    assert not guard
    assert guard.admits([batch(-1, producer=-1)], 0)


@given(st.lists(st.booleans(), min_size=1, max_size=30), st.integers(0, 2**31 - 1))
def test_what_a_broker_without_memory_is_sent_is_in_order(refusals: list[bool], first: int) -> None:
    """Any batches are refused; the client sends the rest of its five, then all that was refused again, in order."""
    guard, taken, wanted = PipelineGuard(), [], [first + 10 * n for n in range(12)]
    left, decisions = list(wanted), iter(refusals)
    while left:
        window, left = left[:PIPELINE], left[PIPELINE:]
        again = []
        for sequence in window:
            if guard.admits([batch(sequence)], 0) and not next(decisions, False):
                taken.append(sequence)
            else:
                guard.refused([batch(sequence)], 0)
                again.append(sequence)
        left = again + left
    assert taken == wanted


def test_producers_and_sequences_that_a_client_makes_up_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_guard, "KEPT", 3)
    guard = PipelineGuard()
    for number in range(50):
        guard.refused([batch(1_000, producer=number), batch(1_000 - number, producer=49)], 0)
    assert len(guard._refused) == 3
    for number in range(50):
        guard.refused([batch(1_000 - number, producer=49)], 0)
    assert len(guard._refused["t", 0, 49].sequences) == PIPELINE
    assert not guard.admits([batch(2_000, producer=49)], 0)
