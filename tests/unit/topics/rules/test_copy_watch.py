"""When the topic of a copy counts as another one, and when it is only a broker that lags."""

from __future__ import annotations

import pytest

from gateway.state.records import MirrorDirection, MirrorError, MirrorState
from gateway.topics.rules.copy_watch import PATIENCE_S, CopyTopicWatch, Look, failure, is_watched
from tests.support.control.mirror_records import changed, mirror_record

MIRROR = mirror_record(
    link="l", source_topic="s", mirror_topic="t", mirror_id=1, source_topic_id="S1", mirror_topic_id="T1"
)


@pytest.mark.parametrize(("found", "look"), [(None, Look.ASK), ("T2", Look.ANOTHER)])
def test_it_must_be_so_for_long(found, look):
    watch = CopyTopicWatch("T1")
    assert watch.look(found, 0.0) is Look.WAIT
    assert watch.look(found, PATIENCE_S - 0.1) is Look.WAIT
    assert watch.look(found, PATIENCE_S) is look


@pytest.mark.parametrize("found", [None, "T2"])
def test_one_look_at_the_right_one_begins_anew(found):
    watch = CopyTopicWatch("T1")
    watch.look(found, 0.0)
    assert watch.look("T1", PATIENCE_S - 1) is Look.FINE
    assert watch.look(found, PATIENCE_S) is Look.WAIT


def test_another_finding_begins_anew():
    watch = CopyTopicWatch("T1")
    watch.look(None, 0.0)
    assert watch.look("T2", PATIENCE_S) is Look.WAIT
    assert watch.look("T3", 2 * PATIENCE_S) is Look.WAIT
    assert watch.look("T3", 3 * PATIENCE_S) is Look.ANOTHER


def test_the_controller_has_the_last_word():
    watch = CopyTopicWatch("T1")
    watch.look(None, 0.0)
    watch.there()
    assert watch.look(None, PATIENCE_S) is Look.WAIT


def test_a_cluster_without_ids_knows_no_other_topic():
    assert CopyTopicWatch("").look("T2", 0.0) is Look.FINE
    assert CopyTopicWatch("T1").look("", 0.0) is Look.FINE


def test_the_reason_names_topic_cluster_and_way_out():
    error, message = failure(MIRROR, Look.ASK, "")
    assert error is MirrorError.TARGET_TOPIC_MAY_BE_DELETED
    assert message == "topic t was deleted on the target by others; `mirror repair` creates it anew"
    error, message = failure(changed(MIRROR, direction=MirrorDirection.REVERSE), Look.ANOTHER, "S2")
    assert error is MirrorError.TARGET_TOPIC_ID_CHANGED
    assert "topic s was deleted on the source and created again" in message
    assert "S2, the mirror's was S1; `mirror truncate-and-restore`" in message


def test_nobody_is_watched_while_an_operation_creates_or_deletes():
    assert {state for state in MirrorState if is_watched(changed(MIRROR, state=state))} == {
        MirrorState.ACTIVE,
        MirrorState.PAUSED,
        MirrorState.SOURCE_UNAVAILABLE,
        MirrorState.LINK_FAILED,
        MirrorState.PENDING_STOPPED,
    }
    assert not is_watched(changed(MIRROR, created=False))
    assert not is_watched(changed(MIRROR, deletion="topic"))
