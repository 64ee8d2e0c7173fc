"""How offsets relate: lookups both ways, cuts that keep together what belongs together, the gateway's own answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.jobs.audit.asked_periods import periods, relation
from gateway.jobs.audit.relation import Point, Relation
from gateway.mirror.offset_map.rules.offset_map import OffsetMap, TranslationRule
from gateway.mirror.offset_map.rules.translation import PeriodMaps, TranslationMaps
from gateway.state.records import MirrorMode
from tests.audit_mutations.history import STATES, history

gaps = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(1, 5)), min_size=1, max_size=8)


def made(parts: list[tuple[int, int, int]]) -> Relation:
    """Segments with gaps of these lengths before them."""
    source = target = 0
    segments = []
    for here, there, count in parts:
        source, target = source + here, target + there
        segments.append((source, target, count))
        source, target = source + count, target + count
    return Relation(segments, begin=Point(0, 0))


@given(gaps)
def test_both_ways(parts: list[tuple[int, int, int]]) -> None:
    known = made(parts)
    for source in range(known.end.source + 3):
        target = known.on_target(source)
        assert target is None or known.on_source(target) == source
    counted = [source for source in range(known.end.source) if known.on_target(source) is not None]
    assert len(counted) == sum(count for _, _, count in known)


@given(gaps, st.integers(0, 60))
def test_a_cut_keeps_together_what_belongs_together(parts: list[tuple[int, int, int]], at: int) -> None:
    known = made(parts)
    for point in (known.cut(at), known.cut_at_target(at)):
        for source in range(known.end.source):
            target = known.on_target(source)
            if target is not None:
                assert (source < point.source) == (target < point.target)
        pieces = known.part(Point(0, 0), point), known.part(point, Point(1 << 40, 1 << 40))
        assert sorted([*pieces[0], *pieces[1]]) == sorted(_split(known, point))
        assert all(piece.end == known.end for piece in pieces)


def _split(known: Relation, point: Point) -> list[tuple[int, int, int]]:
    found = []
    for source, target, count in known:
        inside = max(0, min(count, point.source - source))
        found += [(source, target, inside), (source + inside, target + inside, count - inside)]
    return [segment for segment in found if segment[2]]


@given(gaps, st.integers(0, 40), st.integers(0, 40))
def test_limited_forgets_what_is_beyond(parts: list[tuple[int, int, int]], source: int, target: int) -> None:
    known = made(parts)
    less = known.limited(Point(source, target))
    for offset in range(known.end.source):
        there = known.on_target(offset)
        kept = there is not None and offset < source and there < target
        assert less.on_target(offset) == (there if kept else None)
        if kept:
            assert offset < less.end.source


def test_segments_that_go_backwards_are_refused() -> None:
    with pytest.raises(ValueError, match="goes backwards at source offset 5"):
        Relation([(0, 0, 10), (5, 20, 1)])
    with pytest.raises(ValueError, match="target offset 3"):
        Relation([(0, 0, 10), (15, 3, 1)])


def test_segments_that_touch_are_one() -> None:
    assert list(Relation([(0, 5, 2), (2, 7, 3), (6, 10, 1), (9, 20, 0)])) == [(0, 5, 5), (6, 10, 1)]
    assert Relation([(0, 5, 2), (9, 20, 0)]).end == (9, 20)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=10))
def test_the_same_as_an_offset_map(steps: list[tuple[int, int]]) -> None:
    source = target = 0
    known = OffsetMap()
    for gap, count in steps:
        source += gap
        known.append(source, target)
        source, target = source + count, target + count
    known.end = target
    mine = Relation(known.segments())
    for offset in range(source):
        found = known.to_target(offset)
        if mine.on_target(offset) is not None:
            assert found == (mine.on_target(offset), TranslationRule.EXACT)
        else:
            assert found.rule is not TranslationRule.EXACT


@pytest.mark.parametrize("state", STATES)
def test_the_same_as_the_gateway_over_all_ways(state: str) -> None:
    """Of every record on both clusters, and of it alone: where the gateway would send a group that reads it next."""
    made = history(MirrorMode.TRANSLATE, state)
    chain = periods(made.record)
    maps = made.maps[-len(chain) :]
    gateway = TranslationMaps(
        [PeriodMaps(period, [one]) for period, one in zip(reversed(chain), reversed(maps), strict=True)]
    )
    ends = Point(made.source.log_end, made.target.log_end)
    mine = relation(made.record, 0, maps, ends)

    there = {record.timestamp: record.offset for record in made.target.records()}
    both = {record.offset: there[record.timestamp] for record in made.source.records() if record.timestamp in there}
    assert both
    assert {offset: mine.on_target(offset) for offset in both} == both
    assert {offset: gateway.to_target(0, offset).offset for offset in both} == both
    paired = {offset for offset in range(ends.source) if mine.on_target(offset) is not None}
    assert paired == set(both)
