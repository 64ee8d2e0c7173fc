"""When a mirror topic may be deleted: every state, with the topic and without, by force and not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.state.records import Deletion, MirrorDirection, MirrorState, PartitionStart
from gateway.topics.rules.delete import DeletionFacts, why_not_changed, why_not_deleted
from tests.support.control.mirror_records import changed, mirror_record

S = MirrorState
MIRROR = mirror_record(
    link="l", source_topic="t", mirror_topic="t", mirror_id=1, mirror_topic_id="T1", starts=(PartitionStart(0, 0),)
)
NOTHING = DeletionFacts()
UNDER_WAY = {
    S.PENDING_STOPPED,
    S.PENDING_SYNCHRONIZE,
    S.PENDING_MIRROR,
    S.PENDING_SETUP_FOR_RESTORE,
    S.PENDING_RESTORE_MIRROR,
}


def why_not(record, facts=NOTHING, *, topic_too=False, force=False) -> str:
    return why_not_deleted(record, facts, topic_too=topic_too, force=force)


@pytest.mark.parametrize("state", S)
def test_by_state(state):
    record = changed(MIRROR, state=state)
    assert bool(why_not(record, force=True)) is (state in UNDER_WAY)
    assert bool(why_not(record)) is (state is not S.STOPPED)
    assert bool(why_not(record, topic_too=True)) is (state in UNDER_WAY | {S.STOPPED})


@pytest.mark.parametrize("state", [S.FAILED, S.PAUSED, S.ACTIVE])
def test_without_its_source_topic_nobodys_writes_part(state):
    assert not why_not(changed(MIRROR, state=state), DeletionFacts(source_is_gone=True))


def test_a_mirror_back():
    back = changed(MIRROR, state=S.FAILED, direction=MirrorDirection.REVERSE)
    assert "end that first with `mirror failover`" in why_not(back)
    assert "nobody else has those records" in why_not(back, topic_too=True)
    assert not why_not(back, topic_too=True, force=True)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (DeletionFacts(retried_s=61), "wait 2 min, or use force"),
        (DeletionFacts(readers=["g", "h"]), r"not promoted \(g, h\)"),
        (DeletionFacts(readers=None, unknown="connection refused"), "connection refused; try again"),
    ],
)
def test_what_force_helps_against(facts, words):
    stopped = changed(MIRROR, state=S.STOPPED)
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(why_not(stopped, facts))
    assert not why_not(stopped, facts, force=True)


def test_a_promoted_group_keeps_the_topic_and_not_the_record():
    failed, facts = changed(MIRROR, state=S.FAILED), DeletionFacts(promoted_readers=["g"])
    assert "read on the target by promoted groups (g)" in why_not(failed, facts, topic_too=True)
    assert not why_not(failed, replace(facts, source_is_gone=True))


def test_a_topic_that_the_link_would_create_again_is_deleted_in_vain():
    failed, facts = changed(MIRROR, state=S.FAILED), DeletionFacts(again="it would be created again")
    assert "in vain: it would be created again, or use force" in why_not(failed, facts, topic_too=True)
    assert not why_not(failed, facts, topic_too=True, force=True)
    assert not why_not(failed, replace(facts, source_is_gone=True), topic_too=True)
    assert not why_not(changed(MIRROR, state=S.STOPPED), facts), "the topic stays, so none is created"


def test_what_force_does_not_help_against():
    stopped = changed(MIRROR, state=S.STOPPED)
    assert "job j-1" in why_not(stopped, DeletionFacts(job="j-1"), force=True)
    assert "about to be reversed" in why_not(changed(stopped, then_reverse="start"), force=True)
    unknown = changed(MIRROR, state=S.FAILED, mirror_topic_id="")
    assert "by its id only" in why_not(unknown, topic_too=True, force=True)


def test_one_that_is_being_created_takes_force():
    begun = changed(MIRROR, created=False)
    assert "is being created" in why_not(begun)
    assert not why_not(begun, force=True)


def test_a_deletion_that_has_begun():
    assert why_not_changed(Deletion.TOPIC, Deletion.RECORD)
    assert not why_not_changed(Deletion.RECORD, Deletion.TOPIC)
    assert not why_not_changed(Deletion.NONE, Deletion.TOPIC)
