"""Which repairs there are, for every error that a mirror can have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.state.records import MirrorDirection, MirrorError, MirrorMode, MirrorState, PartitionStart
from gateway.topics.rules.repair import Repair, RepairAction, RepairFacts, TopicFacts, repairs_of, way_out
from tests.support.control.mirror_records import changed, mirror_record

E, A = MirrorError, RepairAction
FAILED = mirror_record(
    link="l",
    source_topic="t",
    mirror_topic="w.t",
    mirror_id=1,
    source_topic_id="S1",
    mirror_topic_id="T1",
    state=MirrorState.FAILED,
    starts=(PartitionStart(0, 0),) * 2,
)
LEVEL = RepairFacts(
    origin=TopicFacts(present=True, topic_id="S1", ranges=((0, 100), (0, 50))),
    copy=TopicFacts(present=True, topic_id="T1", ranges=((0, 90), (0, 50))),
)
GONE = TopicFacts()


def failed(error: MirrorError, **values: object):
    return changed(FAILED, error=error, **values)


def possible(record, facts: RepairFacts) -> set[str]:
    return {repair.action.value for repair in repairs_of(record, facts) if repair.possible}


def the(action: RepairAction, record, facts: RepairFacts) -> Repair:
    return next(repair for repair in repairs_of(record, facts) if repair.action is action)


@pytest.mark.parametrize("error", E)
def test_every_error_has_a_way_out_when_both_topics_are_themselves(error):
    both = {"resume", "recreate"}
    expected = {
        E.UNEXPECTED_TRUNCATION: both,
        E.TARGET_DIVERGED: {"recreate"},
        E.SOURCE_RECORDS_DELETED: {"translate", "recreate"},
        E.OFFSET_GAP: {"translate", "recreate"},
        E.UNSUPPORTED_MESSAGE_FORMAT: {"resume", "translate", "recreate"},
    }
    assert possible(failed(error), LEVEL) == expected.get(error, both)


@pytest.mark.parametrize("error", E)
def test_nothing_goes_on_with_a_source_that_is_gone_or_another_one(error):
    gone, other = replace(LEVEL, origin=GONE), replace(LEVEL, origin=replace(LEVEL.origin, topic_id="S2"))
    assert possible(failed(error), gone) == set()
    assert "not there on the source" in the(A.RESUME, failed(error), gone).refused
    assert possible(failed(error), other) == {"recreate"}  # of the topic that has the name now
    assert "its id is S2, not S1" in the(A.RESUME, failed(error), other).refused


@pytest.mark.parametrize("error", E)
def test_nothing_is_appended_to_a_copy_that_is_gone_or_another_one(error):
    for copy in (GONE, replace(LEVEL.copy, topic_id="T2")):
        assert possible(failed(error), replace(LEVEL, copy=copy)) == {"recreate"}


@pytest.mark.parametrize("error", E)
def test_what_is_not_known_is_no_leave(error):
    for facts in (replace(LEVEL, origin=TopicFacts(unknown="timeout")), replace(LEVEL, copy=TopicFacts(unknown="no"))):
        assert possible(failed(error), facts) == set()
        for repair in repairs_of(failed(error), facts):
            assert repair.refused


@pytest.mark.parametrize("error", E)
def test_a_mirror_back_is_created_anew_by_truncate_and_restore_alone(error):
    facts = RepairFacts(
        origin=TopicFacts(present=True, topic_id="T1", ranges=((0, 100), (0, 50))),
        copy=TopicFacts(present=True, topic_id="S1", ranges=((0, 90), (0, 50))),
    )
    record = failed(error, direction=MirrorDirection.REVERSE)
    assert "recreate" not in possible(record, facts)
    assert "truncate-and-restore" in the(A.RECREATE, record, facts).refused
    assert "resume" not in possible(record, LEVEL)  # the two ids are the other way round


@pytest.mark.parametrize("state", [state for state in MirrorState if state is not MirrorState.FAILED])
def test_what_has_not_failed_is_not_repaired(state):
    assert possible(changed(FAILED, state=state), LEVEL) == set()


def test_partitions_that_are_missing():
    fewer = replace(LEVEL, origin=replace(LEVEL.origin, ranges=((0, 100),)))
    refused = the(A.RESUME, failed(E.SOURCE_PARTITIONS_DECREASED), fewer).refused
    assert refused == "topic 't' has 1 partitions on the source, its mirror has 2"


def test_a_truncation_that_is_still_there():
    shorter = replace(LEVEL, origin=replace(LEVEL.origin, ranges=((0, 80), (0, 50))))
    record = failed(E.UNEXPECTED_TRUNCATION)
    assert possible(record, shorter) == {"recreate"}
    assert "ends at 80, its copy at 90" in the(A.RESUME, record, shorter).refused
    translated = changed(record, mode=MirrorMode.TRANSLATE)  # the ends count otherwise: the engine compares
    assert "resume" in possible(translated, shorter)


def test_nothing_is_translated_against_the_link():
    refused = the(A.TRANSLATE, failed(E.OFFSET_GAP), replace(LEVEL, translates=False)).refused
    assert "mirror.offsets=preserve" in refused
    already = failed(E.UNSUPPORTED_MESSAGE_FORMAT, mode=MirrorMode.TRANSLATE)
    assert "translate" not in possible(already, LEVEL)


def test_a_recreate_that_would_be_refused_and_a_target_without_ids():
    record = failed(E.TARGET_DIVERGED)
    assert the(A.RECREATE, record, replace(LEVEL, recreate_refused="group g")).refused == "group g"
    without = replace(LEVEL, copy=replace(LEVEL.copy, topic_id=""))
    assert "deleted by its id only" in the(A.RECREATE, record, without).refused


def test_what_a_recreate_does_is_said_in_numbers():
    assert the(A.RECREATE, failed(E.TARGET_DIVERGED), LEVEL).effect == (
        "deletes the target's topic with 140 offsets, creates it anew and fills it with 150 from the source"
    )


def test_the_way_out_in_one_line():
    assert way_out(repairs_of(failed(E.INTERNAL_ERROR), LEVEL)) == "`mirror repair` can: resume, recreate"
    nothing = way_out(repairs_of(failed(E.INTERNAL_ERROR), replace(LEVEL, origin=GONE)))
    assert "mirror failover" in nothing
    assert "mirror delete" in nothing
