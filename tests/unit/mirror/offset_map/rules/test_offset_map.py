"""The offset map against a model that lists every record of the source."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.mirror.offset_map.rules import offset_map
from gateway.mirror.offset_map.rules.offset_map import PAGE, OffsetMap, Translation, TranslationRule

stretches = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 6)), min_size=1, max_size=40)
"""A source log: an offset gap of so many offsets, then so many records."""


def build(log: list[tuple[int, int]], start: int, target_start: int) -> tuple[OffsetMap, list[int]]:
    """The map of a log, and the source offsets of its records in order."""
    found, source = OffsetMap(), start
    records: list[int] = []
    for gap, count in log:
        source += gap
        found.append(source, target_start + len(records))
        records += range(source, source + count)
        source += count
    found.end = target_start + len(records)
    return found, records


@given(stretches, st.integers(0, 2**40), st.integers(0, 2**40), st.data())
def test_translates_as_the_list_of_records_does(
    log: list[tuple[int, int]], start: int, target_start: int, data: st.DataObject
) -> None:
    offsets, records = build(log, start, target_start)
    trailing = data.draw(st.integers(0, 3))
    offsets.advance(offsets.end, records[-1] + 1 + trailing)
    for source in range(start - 2, records[-1] + trailing + 4):
        following = sum(1 for record in records if record < source)
        found = offsets.to_target(source)
        assert found.offset == target_start + following
        if source in records or source == records[-1] + 1 + trailing:
            assert found.rule is TranslationRule.EXACT
        elif source > records[-1] + 1 + trailing:
            assert found.rule is TranslationRule.BEYOND_END
        elif source < records[0]:
            assert found.rule is TranslationRule.LOG_START
    for index, record in enumerate(records):
        assert offsets.to_source(target_start + index) == Translation(record, TranslationRule.EXACT)
        assert offsets.position(target_start + index) == record
    assert offsets.to_source(offsets.end) == Translation(records[-1] + 1, TranslationRule.EXACT)
    assert offsets.to_source(offsets.end + 1).rule is TranslationRule.BEYOND_END


@given(stretches, st.integers(0, 60))
def test_a_map_that_is_ahead_of_the_log_promises_nothing(log: list[tuple[int, int]], end: int) -> None:
    offsets, records = build(log, 10, 0)
    offsets.end = end = min(end, len(records))
    for source in range(8, records[-1] + 3):
        found = offsets.to_target(source)
        assert found.offset == min(end, sum(1 for record in records if record < source))
        exact = source in records[:end]
        assert (found.rule is TranslationRule.EXACT) == exact or found.offset == end
    assert sum(count for _, _, count in offsets.segments()) == end


@given(stretches, st.integers(0, 60), st.integers(1, 9))
def test_truncated_and_continued_it_is_the_same_map(log: list[tuple[int, int]], at: int, pages: int) -> None:
    offsets, _ = build(log * pages, 3, 0)
    whole = list(offsets)
    offsets.truncate(at)
    assert list(offsets) == [each for each in whole if each.target < at]
    for source, target in whole:
        if target >= at:
            offsets.append(source, target)
    assert list(offsets) == whole


def test_segments_are_merged_while_the_difference_stays() -> None:
    offsets = OffsetMap([(5, 0), (9, 4), (20, 7)])
    assert list(offsets) == [(5, 0), (20, 7)]
    offsets.end = 9
    assert list(offsets.segments()) == [(5, 0, 7), (20, 7, 2)]


def test_a_breakpoint_without_a_record_is_replaced() -> None:
    offsets = OffsetMap([(0, 0), (7, 5), (9, 5)])
    assert list(offsets) == [(0, 0), (9, 5)]


@pytest.mark.parametrize("wrong", [(4, 6), (5, 7), (9, 4), (0, 0)])
def test_order_is_demanded(wrong: tuple[int, int]) -> None:
    offsets = OffsetMap([(0, 0), (7, 5)])
    with pytest.raises(ValueError, match="after"):
        offsets.append(*wrong)


def test_an_empty_map() -> None:
    assert OffsetMap().to_target(3) == Translation(0, TranslationRule.BEYOND_END)
    assert OffsetMap().to_source(0) == Translation(0, TranslationRule.BEYOND_END)
    with pytest.raises(LookupError):
        OffsetMap().position(0)


def test_pages() -> None:
    many = 3 * PAGE + 17
    offsets = OffsetMap(((i * 7, i * 5) for i in range(many)), end=many * 5)
    assert len(offsets) == many
    for index in (0, 1, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE, 3 * PAGE - 1, 3 * PAGE, many - 1):
        assert offsets.to_target(index * 7 + 4) == Translation(index * 5 + 4, TranslationRule.EXACT)
        assert offsets.to_source(index * 5 + 3) == Translation(index * 7 + 3, TranslationRule.EXACT)
        if index < many - 1:
            assert offsets.to_target(index * 7 + 5) == Translation(index * 5 + 5, TranslationRule.NEXT_RECORD)
    sources, targets = offsets.arrays()
    assert list(sources) == [i * 7 for i in range(many)]
    assert list(targets) == [i * 5 for i in range(many)]
    offsets.truncate(PAGE * 5)
    assert len(offsets) == PAGE
    assert offsets.last == ((PAGE - 1) * 7, (PAGE - 1) * 5)


def test_gaps_that_do_not_fit_four_bytes() -> None:
    step = 2**33
    offsets = OffsetMap(((i * step, i) for i in range(2 * PAGE)), end=2 * PAGE)
    assert offsets.to_target(PAGE // 2 * step) == Translation(PAGE // 2, TranslationRule.EXACT)
    assert offsets.to_target(PAGE // 2 * step + 1) == Translation(PAGE // 2 + 1, TranslationRule.NEXT_RECORD)


def test_a_breakpoint_takes_eight_bytes() -> None:
    many = 50 * PAGE
    tracemalloc.start()
    try:
        offsets = OffsetMap(((i * 7, i * 5) for i in range(many)), end=many * 5)
        taken = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    own = taken.filter_traces([tracemalloc.Filter(True, offset_map.__file__)])  # other threads allocate, too
    used = sum(one.size for one in own.statistics("filename"))
    assert len(offsets) == many
    assert many * 8 <= used < many * 9, used
