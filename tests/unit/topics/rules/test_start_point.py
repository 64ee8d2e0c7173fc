"""Where a mirror begins, as text."""

from __future__ import annotations

import pytest

from gateway.state.link_config import EARLIEST, LATEST
from gateway.topics.rules.start_point import StartPoint, parse, text_of, why_out_of_range


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", StartPoint()),
        ("earliest", StartPoint(EARLIEST)),
        ("latest", StartPoint(LATEST)),
        ("1700000000000", StartPoint(1_700_000_000_000)),
        ("2024-01-01T00:00:00Z", StartPoint(1_704_067_200_000)),
        ("0:5", StartPoint(offsets={0: 5})),
        ("2:7,0:5", StartPoint(offsets={0: 5, 2: 7})),
    ],
)
def test_texts(text, found):
    assert parse(text) == found


@pytest.mark.parametrize(("text", "words"), [("soon", "no start"), ("0:5,x", "no start"), ("0:1,0:2", "twice")])
def test_bad_texts_are_named(text, words):
    with pytest.raises(ValueError, match=words) as error:
        parse(text)
    assert repr(text) in str(error.value)


def test_offsets_as_text_come_back():
    assert text_of({3: 9, 0: 5}) == "0:5,3:9"
    assert parse(text_of({3: 9, 0: 5})).offsets == {3: 9, 0: 5}


def test_offsets_out_of_range():
    ranges = [(10, 20), (0, 0)]
    assert not why_out_of_range("t", {0: 10}, ranges)
    assert not why_out_of_range("t", {0: 20, 1: 0}, ranges)  # what is written next
    assert "offset 9 of partition 0 is out of range: topic 't' has offsets 10 to 20" in why_out_of_range(
        "t", {0: 9}, ranges
    )
    assert "offset 1 of partition 1" in why_out_of_range("t", {1: 1}, ranges)
    assert why_out_of_range("t", {2: 0}, ranges) == "start: topic 't' has no partition 2: it has 2 on the source"
