"""The records of a create: what an intent lacks, and what outlives a copy that is made anew."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.kafka.rules.topic_configs import SyncedConfigs
from gateway.operations.cluster_access import TopicInfo
from gateway.state import link_config
from gateway.state.mirror_states import WrongState
from gateway.state.records import LinkRecord, MirrorError, MirrorMode, MirrorRecord, MirrorState, PartitionStart
from gateway.topics.plan import MirrorPlan
from gateway.topics.rules.create import anew, going_on, record_of
from tests.support.control.mirror_records import mirror_record

LINK = LinkRecord(name="l", link_id=1, source_cluster_id="A", client={}, configs={"link.prefix": "west."})


def plan(**values: Any) -> MirrorPlan:
    given: dict[str, Any] = {
        "link": LINK,
        "config": link_config.parse(LINK.configs),
        "source": TopicInfo("t", "source-id", 2, 3),
        "target": None,
        "configs": SyncedConfigs({}, {"retention.ms": "7"}),
        "starts": (PartitionStart(3, 3), PartitionStart(0, 0)),
        "replication_factor": 3,
        "translated": "",
    }
    return MirrorPlan(**given | values)


def failed(**values: Any) -> MirrorRecord:
    return mirror_record(
        link="l",
        source_topic="t",
        mirror_topic="west.t",
        mirror_id=7,
        mirror_topic_id="old",
        state=MirrorState.FAILED,
        error=MirrorError.OFFSET_GAP,
        error_message="a gap",
        pause_epoch=4,
        failback_epoch=2,
        repairs=1,
        readable=True,
        **values,
    )


def test_an_intent_has_no_id_and_no_topic_and_is_the_created_one_otherwise() -> None:
    intent, made = record_of(plan(), 1_000), record_of(plan(), 1_000, 9, "new-id")
    assert (intent.created, intent.mirror_id, intent.mirror_topic_id) == (False, 0, "")
    assert (made.created, made.mirror_id, made.mirror_topic_id) == (True, 9, "new-id")
    assert replace(made, created=False, mirror_id=0, mirror_topic_id="") == intent
    assert (made.mirror_topic, made.source_topic_id, made.starts) == ("west.t", "source-id", plan().starts)
    assert made.restore_configs == {"retention.ms": "7"}


@pytest.mark.parametrize("translated", ["", "the topic is compacted"])
def test_offsets_are_translated_where_the_plan_says_why(translated: str) -> None:
    record = record_of(plan(translated=translated), 0)
    assert (record.mode is MirrorMode.TRANSLATE) == record.compacted == bool(translated)
    assert translated in record.mode_reason


def test_a_topic_made_anew_begins_anew_and_numbers_its_pauses_and_failbacks_on() -> None:
    intent = anew(failed(), record_of(plan(), 0), 2_000)
    assert (intent.state, intent.error, intent.error_message) == (MirrorState.ACTIVE, MirrorError.NO_ERROR, "")
    assert (intent.created, intent.mirror_topic_id, intent.readable) == (False, "", False)
    assert intent.starts == plan().starts
    assert (intent.cutover.pause_epoch, intent.failback.epoch, intent.repairs) == (4, 2, 2)
    assert intent.state_since_ms == 2_000


def test_what_has_not_failed_is_not_made_anew() -> None:
    with pytest.raises(WrongState):
        anew(replace(failed(), state=MirrorState.ACTIVE), record_of(plan(), 0), 0)


def test_a_later_attempt_goes_on_with_what_the_first_one_knew() -> None:
    begun = replace(anew(failed(), record_of(plan(), 0), 0), replaces="old")
    again = going_on(record_of(plan(), 5, 9, "new"), begun)
    assert (again.cutover, again.failback, again.replaces, again.repairs) == (begun.cutover, begun.failback, "old", 2)
    assert going_on(record_of(plan(), 5), None) == record_of(plan(), 5)
