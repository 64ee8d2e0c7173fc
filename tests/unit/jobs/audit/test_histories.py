"""A topic through any number of changes of sides: what its record and maps say is what is on both clusters."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.domain.records import MirrorMode, MirrorState
from gateway.jobs.audit.asked_ways import is_live, relation, ways
from gateway.jobs.audit.relation import Point
from gateway.jobs.audit.verdict import Verdict
from tests.audit_mutations.history import History
from tests.support.audit_logs import audit

moves = st.lists(st.tuples(st.sampled_from(["write", "mirror", "turn"]), st.integers(1, 4)), max_size=24)


def turn(made: History) -> None:
    """The next change of sides."""
    if made.record.is_reverse:
        made.home()
    elif made.record.state is MirrorState.STOPPED:
        made.reverse()
    else:
        made.promote()


def lived(mode: MirrorMode, steps: list[tuple[str, int]]) -> History:
    made = History(mode, transactional=mode is MirrorMode.TRANSLATE)
    for what, number in steps:
        if what == "write":
            made.write(number, 3)
        elif what == "turn":
            turn(made)
        elif is_live(made.record):
            made.mirror()
    if is_live(made.record):
        made.mirror()
    return made


@settings(deadline=None)
@given(st.sampled_from([MirrorMode.PRESERVE, MirrorMode.TRANSLATE]), moves, st.integers(1, 5))
def test_a_level_topic_is_identical_as_far_as_anybody_remembers(
    mode: MirrorMode, steps: list[tuple[str, int]], parts: int
) -> None:
    made = lived(mode, steps)
    finding = audit(made.facts(), made.logs, parts=parts)

    assert finding.closes
    assert finding.sums.different == 0, finding.sentence
    first = ways(made.record)[0]
    remembered = mode is MirrorMode.PRESERVE or (first.generation == 0 and not first.is_reverse)
    if remembered:
        assert finding.verdict is (Verdict.IDENTICAL if finding.sums.compared else Verdict.EMPTY), finding.sentence
    if finding.verdict is Verdict.IDENTICAL:
        assert finding.sums.compared == len(made.source.records())


@settings(deadline=None)
@given(st.sampled_from([MirrorMode.PRESERVE, MirrorMode.TRANSLATE]), moves)
def test_offsets_of_the_same_record_belong_together(mode: MirrorMode, steps: list[tuple[str, int]]) -> None:
    made = lived(mode, steps)
    maps = made.facts().maps
    assert not isinstance(maps, str)
    known = relation(made.record, 0, maps, Point(made.source.log_end, made.target.log_end))
    there = {record.timestamp: record.offset for record in made.target.records()}
    for record in made.source.records():
        if record.offset >= known.begin.source and record.timestamp in there:
            assert known.on_target(record.offset) == there[record.timestamp]
