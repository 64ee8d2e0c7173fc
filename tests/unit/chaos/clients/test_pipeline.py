from __future__ import annotations

import pytest

from tests.chaos.clients.pipeline import not_once
from tests.support.brokers.logs import Record


def log(*values: str) -> list[Record]:
    return [Record(offset, None, value.encode(), (1, 0), ()) for offset, value in enumerate(values)]


INPUTS = {"plain-b": [log("a:1", "a:2"), log("b:1")]}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (("a:1|p.1:0", "b:1|p.1:1", "a:2|p.2:0"), ""),
        (("a:1|p.1:0", "b:1|p.1:1"), "1 record(s) were not processed, such as b'a:2'"),
        (("a:1|p.1:0", "b:1|p.1:1", "a:2|p.1:2", "a:2|p.2:0"), "1 record(s) were processed again, such as b'a:2'"),
    ],
)
def test_each_record_is_processed_exactly_once(written: tuple[str, ...], expected: str) -> None:
    assert not_once(INPUTS, [log(*written[:1]), log(*written[1:])]) == expected
