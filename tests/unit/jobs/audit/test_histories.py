"""A topic through any number of changes of sides: what its record and maps say is what is on both clusters."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.jobs.audit.asked_periods import is_live, periods, relation
from gateway.jobs.audit.relation import Point
from gateway.jobs.audit.verdict import AuditVerdict
from gateway.state.records import MirrorMode, MirrorState
from tests.audit_mutations import edits
from tests.audit_mutations.history import History
from tests.support.jobs.audit_logs import Log, audit
from tests.support.jobs.audit_logs import given as made_up
from tests.support.mirror.source_log import Given

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
    first = periods(made.record)[0]
    remembered = mode is MirrorMode.PRESERVE or (first.failback.epoch == 0 and not first.is_reverse)
    if remembered:
        assert finding.verdict is (AuditVerdict.IDENTICAL if finding.sums.compared else AuditVerdict.EMPTY), (
            finding.sentence
        )
    if finding.verdict is AuditVerdict.IDENTICAL:
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


def consumed(log: Log, below: int) -> list[Given]:
    """What a consumer gets, without offsets."""
    return [one._replace(offset=0) for one in log.records() if one.offset < below]


def spoil(log: Log, how: str, offset: int) -> None:
    """Some edit of a log."""
    if how == "change":
        edits.change(log, offset, lambda one: one._replace(headers=(*one.headers, ("more", b""))))
    elif how == "drop":
        edits.drop(log, offset)
    elif how == "close":
        edits.drop_and_close(log, offset)
    elif how == "insert":
        edits.insert(log, offset, made_up(0, 10_000))
    elif how == "double":
        edits.double(log, edits.at(log, offset))
    elif how == "cut":
        edits.cut_off(log, offset)
    elif how == "trim":
        edits.trim(log, offset + 1)
    else:
        log.add([made_up(log.log_end, 20_000)])


ways_to_spoil = st.sampled_from(["change", "drop", "close", "insert", "double", "cut", "trim", "add"])


@settings(deadline=None, max_examples=400)
@given(
    st.sampled_from([MirrorMode.PRESERVE, MirrorMode.TRANSLATE]),
    moves,
    st.booleans(),
    ways_to_spoil,
    st.integers(0, 100),
    st.integers(1, 4),
)
def test_never_identical_when_consumers_would_see_something_else(
    mode: MirrorMode, steps: list[tuple[str, int]], on_source: bool, how: str, place: int, parts: int
) -> None:
    made = lived(mode, steps)
    log = made.source if on_source else made.target
    offsets = [one.offset for one in log.records()]
    if offsets:
        spoil(log, how, offsets[len(offsets) * place // 101])
    live = is_live(made.record)
    end = 1 << 62 if live else made.record.cutover.stopped_copy_at[0]

    finding = audit(made.facts(), made.logs, parts=parts)

    assert finding.closes or finding.verdict is not AuditVerdict.IDENTICAL
    if consumed(made.source, 1 << 62) != consumed(made.target, end):
        assert finding.verdict in (AuditVerdict.DIFFERENT, AuditVerdict.INCOMPLETE), finding.sentence
