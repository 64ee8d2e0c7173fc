"""What a gateway tells of a mirror's ways arrives in the job as the record that the gateway has."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.api.mirrors.catch_up_models import JobPlanData, PlannedMirror
from gateway.jobs.link_plan import LinkPlan, changed_mirrors
from gateway.jobs.source.clusters import Clusters
from gateway.state.producer_ids import mirror_producer_id
from gateway.state.records import (
    GroupRecord,
    GroupState,
    LinkRecord,
    MirrorMode,
    MirrorRecord,
    MirrorState,
    PartitionStart,
    Upstream,
)
from gateway.topics.catch_up import JobPlan
from gateway.version import VERSION
from tests.audit_mutations.history import STATES, history
from tests.support.control.mirror_records import changed

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
    (found,) = plan_of(record).records
    return found


def plan_of(record: MirrorRecord) -> LinkPlan:
    """Of a link with one mirror."""
    body = {
        "link_name": "l",
        "group_prefix": "",
        "source": {"cluster_id": "s", "client": {}},
        "target": {"cluster_id": "t", "client": {}},
        "mirrors": [PlannedMirror.of(record, 1).model_dump(mode="json")],
        "groups": [],
        "sources": {"1": "X"},
        "version": VERSION,
    }
    return LinkPlan.from_rest(body)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("mode", list(MirrorMode))
def test_every_state(mode: MirrorMode, state: str) -> None:
    upstream = (Upstream("u", "first", "t", (3, 4)), Upstream("v", "zeroth", "t"))
    record = replace(history(mode, state).record, restore_configs={"retention.ms": "7"}, upstream=upstream)
    assert told(record) == changed(record, **_NOT_TOLD)


def test_a_report_tells_from_where_the_records_are() -> None:
    record = replace(history(MirrorMode.PRESERVE, "mirroring").record, upstream=(Upstream("u", "first", "t", (3,)),))
    (found,) = plan_of(record).provenance.values()
    assert (found["source_cluster_id"], found["link"], found["link_tag"]) == ("s", "l", 1)
    assert found["producer_id"] == mirror_producer_id(1, record.mirror_id)
    assert found["upstream"] == [{"cluster_id": "u", "link": "first", "topic": "t", "ends": (3,)}]
    assert LinkPlan.without_link({}, {}, ["t"]).provenance == {}


def test_a_topic_that_was_created_anew() -> None:
    record = changed(history(MirrorMode.PRESERVE, "reversed").record, reverse_starts=(PartitionStart(9, 7),))
    assert told(record).failback.reverse_starts == (PartitionStart(9, 7),)


@pytest.mark.parametrize(("version", "said"), [({}, "older"), ({"version": "0.0.1"}, "0.0.1")])
def test_a_gateway_of_another_version(version: dict[str, str], said: str) -> None:
    plan = {"link_name": "l", "group_prefix": "", "mirrors": [], "groups": [], "sources": {}}
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


@pytest.mark.parametrize("says", ["preserve", "auto"])
def test_what_the_link_says_of_offsets(says: str) -> None:
    """A job writes no offset map that the engine of such a link would not read."""
    link = LinkRecord(name="l", link_id=1, source_cluster_id="s", client={}, configs={"mirror.offsets": says})
    record = history(MirrorMode.PRESERVE, "mirroring").record
    plan = JobPlan(link=link, target_cluster_id="t", target_client={}, mirrors=(record,))
    (mirror,) = LinkPlan.from_rest(JobPlanData.of(plan).model_dump(mode="json")).mirrors
    assert mirror.equal_offsets is (says == "preserve")
    clusters: Any = SimpleNamespace(source=object(), target=object(), tasks=None, maps={})
    assert (Clusters.maps_of(clusters, mirror) is None) == (says == "preserve")


def test_what_has_changed_since_offsets_were_translated() -> None:
    record = history(MirrorMode.PRESERVE, "mirroring").record
    paused = replace(record, state=MirrorState.PAUSED, restore_configs={"a": "b"})
    assert changed_mirrors(plan_of(record), plan_of(paused)) == []

    for other in (
        replace(record, mode=MirrorMode.TRANSLATE),
        replace(record, state=MirrorState.FAILED),
        replace(record, mirror_topic_id="anew"),
        changed(record, state=MirrorState.STOPPED, stopped_at=(5,), stopped_copy_at=(5,)),
    ):
        (line,) = changed_mirrors(plan_of(record), plan_of(other))
        assert f"mirror topic '{record.mirror_topic}' was changed meanwhile" in line
        assert f"and is {other.state}, mode {other.mode}" in line
    gone = replace(plan_of(record), records=())
    assert changed_mirrors(plan_of(record), gone) == [f"mirror topic '{record.mirror_topic}' is not mirrored any more"]
