from hypothesis import given
from hypothesis import strategies as st

from gateway.jobs.audit.pieces import SLACK, Side, Span
from gateway.jobs.audit.slices import slices
from gateway.jobs.audit.verdict import Compared


def compared(start: int, end: int) -> Compared:
    return Compared(
        topic="t", partition=1, source_start=0, source_end=end, target_start=0, target_end=end, start=start, end=end
    )


@given(st.integers(0, 10_000), st.integers(0, 100_000), st.floats(0.0001, 1), st.integers(0, 5))
def test_a_sample(start: int, length: int, fraction: float, seed: int) -> None:
    end = start + length
    found = slices(compared(start, end), fraction, seed)

    assert found == slices(compared(start, end), fraction, seed)
    edges = [at for piece in found for at in piece]
    assert edges == sorted(edges)
    assert all(start <= low < high <= end for low, high in found)
    covered = sum(high - low for low, high in found)
    assert abs(covered - fraction * length) <= 8 or length < 8
    if length:
        assert found[-1][1] == end


def test_all_of_it() -> None:
    assert slices(compared(5, 50), 1.0, 0) == [(5, 50)]
    assert slices(compared(5, 5), 1.0, 0) == []


def test_what_is_read() -> None:
    side = Side(Span(10, 100), 10_000_000)
    assert side.for_batches() == (10, 100 + SLACK)
    assert side.for_records(Span(5, 103)) == (10, 103)
    assert side.for_records(None) == (10, 10)
    assert Side(Span(10, 100), 100).for_batches() == (10, 100)
    inner = Side(Span(10, 100), 10_000_000, is_last=False)
    assert inner.for_batches() == (10, 100)
    assert inner.with_slack() == (10, 100 + SLACK)
