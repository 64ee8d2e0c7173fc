"""What a group would read next is compared on both sides, of a sample of offsets."""

from __future__ import annotations

import pytest

from gateway.jobs.translate.read_back import SAMPLE, SampledOffset, difference, sample
from protocol.batch.record_reader import Record

PLACE = SampledOffset("t", "t", 0, 21, 19)
HERE = Record(21, 1_000, b"k", b"v", (("h", b"1"),))


def test_the_same_record() -> None:
    assert difference(PLACE, HERE, HERE._replace(offset=19)) == ""


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"key": None}, "key"),
        ({"value": b""}, "value"),
        ({"timestamp_ms": 1_001}, "timestamp_ms"),
        ({"headers": ()}, "headers"),
    ],
)
def test_another_record(change: dict[str, object], name: str) -> None:
    found = difference(PLACE, HERE, HERE._replace(offset=19, **change))  # type: ignore[arg-type]
    assert found == f"t-0: the record at source offset 21 is not the one at target offset 19 ({name} differ)"


def test_nothing_is_said_of_what_one_side_has_no_more() -> None:
    other = Record(20, 0, None, None, ())
    assert difference(PLACE, None, HERE) == difference(PLACE, HERE, None) == ""
    assert difference(PLACE, HERE, other) == "", "compacted away on the target"


def test_each_partition_has_its_turn() -> None:
    many = [SampledOffset("t", "t", 0, at, at) for at in range(1000)]
    few = [SampledOffset("t", "t", index, 5, 5) for index in range(1, SAMPLE)]
    found = sample([*many, *few, *few])
    assert len(found) == SAMPLE
    assert {place.partition for place in found} == set(range(SAMPLE))
