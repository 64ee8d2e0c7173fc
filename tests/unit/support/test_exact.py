"""The judge of logs that both clusters compact by themselves."""

from __future__ import annotations

import pytest

from tests.support.brokers.logs import Log, Record
from tests.support.clients.exact import assert_compacted_alike


def log(*records: str) -> Log:
    """Records as `key=value`."""
    pairs = (text.split("=") for text in records)
    return [Record(n, key.encode(), value.encode(), (1, n), ()) for n, (key, value) in enumerate(pairs)]


def stamped(whole: Log, *offsets: int) -> Log:
    """Some records of a log."""
    return [whole[offset] for offset in offsets]


WHOLE = log("a=1", "b=1", "a=2", "c=1", "a=3")


@pytest.mark.parametrize("source", [(0, 1, 2, 3, 4), (1, 3, 4), (1, 2, 3, 4)])
@pytest.mark.parametrize("target", [(0, 1, 2, 3, 4), (1, 3, 4), (0, 1, 3, 4)])
def test_each_may_have_compacted_more(source: tuple[int, ...], target: tuple[int, ...]) -> None:
    assert_compacted_alike(stamped(WHOLE, *source), stamped(WHOLE, *target))


@pytest.mark.parametrize("target", [(0, 2, 3, 4), (0, 1, 2, 3), (1, 4, 3), (3, 1, 4)])
def test_lost_or_out_of_order(target: tuple[int, ...]) -> None:
    with pytest.raises(AssertionError, match="not on the target"):
        assert_compacted_alike(WHOLE, stamped(WHOLE, *target))
