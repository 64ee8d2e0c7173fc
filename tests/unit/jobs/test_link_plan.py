"""What a gateway tells of a mirror's ways arrives in the job as the record that the gateway has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.api.catch_up_models import JobPlanData, PlannedMirror
from gateway.jobs.link_plan import LinkPlan
from gateway.state.records import GroupRecord, GroupState, LinkRecord, MirrorMode, MirrorRecord, PartitionStart
from gateway.topics.catch_up import JobPlan
from gateway.version import VERSION
from tests.audit_mutations.history import STATES, history
from tests.support.mirror_records import changed

_NOT_TOLD = {
    "producers": (),
    "state_since_ms": 0,
    "cutover_ms": 0,
    "readable": False,
    "created": True,
    "pause_epoch": 0,
}


def told(record: MirrorRecord) -> MirrorRecord:
    """Through REST, and back."""
    body = {
        "link_name": "l",
        "group_prefix": "",
        "source": {"cluster_id": "s", "client": {}},
        "target": {"cluster_id": "t", "client": {}},
        "mirrors": [PlannedMirror.of(record, 1).model_dump(mode="json")],
        "groups": [],
        "version": VERSION,
    }
    (found,) = LinkPlan.from_rest(body).records
    return found


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("mode", list(MirrorMode))
def test_every_state(mode: MirrorMode, state: str) -> None:
    record = replace(history(mode, state).record, restore_configs={"retention.ms": "7"})
    assert told(record) == changed(record, **_NOT_TOLD)


def test_a_topic_that_was_created_anew() -> None:
    record = changed(history(MirrorMode.PRESERVE, "reversed").record, reverse_starts=(PartitionStart(9, 7),))
    assert told(record).failback.reverse_starts == (PartitionStart(9, 7),)


@pytest.mark.parametrize(("version", "said"), [({}, "older"), ({"version": "0.0.1"}, "0.0.1")])
def test_a_gateway_of_another_version(version: dict[str, str], said: str) -> None:
    plan = {"link_name": "l", "group_prefix": "", "mirrors": [], "groups": []}
    cluster = {"cluster_id": "c", "client": {}}
    with pytest.raises(ValueError, match=f"the gateway is {said}.*this job {VERSION}"):
        LinkPlan.from_rest({**plan, "source": cluster, "target": cluster, **version})


def test_states_of_groups() -> None:
    told = JobPlanData.of(
        JobPlan(
            link=LinkRecord(name="l", link_id=1, source_cluster_id="s", client={}, configs={}),
            target_cluster_id="t",
            target_client={},
            mirrors=(),
            groups=(GroupRecord(link="l", group="g", state=GroupState.PROMOTED),),
        )
    )
    assert LinkPlan.from_rest(told.model_dump(mode="json")).groups == {"g": "PROMOTED"}


@pytest.mark.parametrize("says", ["skip", "fail"])
def test_what_the_link_says_of_deleted_records(says: str) -> None:
    plan = JobPlan(
        link=LinkRecord(
            name="l", link_id=1, source_cluster_id="s", client={}, configs={"mirror.on.records.deleted": says}
        ),
        target_cluster_id="t",
        target_client={},
        mirrors=(history(MirrorMode.PRESERVE, "mirroring").record,),
    )
    (mirror,) = LinkPlan.from_rest(JobPlanData.of(plan).model_dump(mode="json")).mirrors
    assert mirror.skip_deleted is (says == "skip")
