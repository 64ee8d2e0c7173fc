"""What a gateway tells of a mirror's ways arrives in the job as the record that the gateway has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.control.rest.catch_up_models import PlannedMirror
from gateway.domain.records import MirrorMode, MirrorRecord, PartitionStart
from gateway.jobs.link_plan import LinkPlan
from tests.audit_mutations.history import STATES, history

_NOT_TOLD = {"producers": (), "state_since_ms": 0, "flipped_ms": 0, "settled": False, "created": True, "fence_epoch": 0}


def told(record: MirrorRecord) -> MirrorRecord:
    """Through REST, and back."""
    body = {
        "link_name": "l",
        "group_prefix": "",
        "source": {"cluster_id": "s", "client": {}},
        "target": {"cluster_id": "t", "client": {}},
        "mirrors": [PlannedMirror.of(record, 1).model_dump(mode="json")],
    }
    (found,) = LinkPlan.from_rest(body).records
    return found


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("mode", list(MirrorMode))
def test_every_state(mode: MirrorMode, state: str) -> None:
    record = replace(history(mode, state).record, restore_configs={"retention.ms": "7"})
    assert told(record) == replace(record, **_NOT_TOLD)  # type: ignore[arg-type]


def test_a_topic_that_was_created_anew() -> None:
    record = replace(history(MirrorMode.PRESERVE, "reversed").record, reverse_starts=(PartitionStart(9, 7),))
    assert told(record).reverse_starts == (PartitionStart(9, 7),)


def test_a_gateway_that_is_older() -> None:
    body = PlannedMirror.of(history(MirrorMode.PRESERVE, "mirroring").record, 1).model_dump(mode="json")
    del body["history"]
    plan = {"link_name": "l", "group_prefix": "", "mirrors": [body]}
    cluster = {"cluster_id": "c", "client": {}}
    with pytest.raises(ValueError, match="the gateway is older than this job"):
        LinkPlan.from_rest({**plan, "source": cluster, "target": cluster})
