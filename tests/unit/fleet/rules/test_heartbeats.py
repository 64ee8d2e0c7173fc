"""What gateways tell one another survives the way as JSON; what a newer version adds is left out."""

from __future__ import annotations

import json

import pytest

from gateway.fleet.rules.heartbeats import (
    PeerHeartbeat,
    decode_heartbeat,
    decode_partitions,
    encode_heartbeat,
    encode_partitions,
)
from gateway.mirror.interface import PartitionStatus
from gateway.mirror.rules.mirror_partition import MirrorPartition
from gateway.state.mirror_states import tag_of
from gateway.state.records import MirrorDirection, MirrorRecord
from tests.support.control.mirror_records import mirror_record

STATUS = PartitionStatus(
    partition=3, phase="copying", source_end=9, mirrored_to=8, target_end=8, lag=1, lag_ms=4, bytes_per_s=1.5
)
HEARTBEAT = PeerHeartbeat(
    regular=True,
    leaving=True,
    at={"t": ("1.0.to", {0: 5, 7: 2**40})},
    statuses={("l", "t"): ("1.0.to", [STATUS])},
    forwarded={("t", 1): (100, 3)},
    held={"t": "a transaction"},
    paused_for_job=(("l", "u"),),
    watch=(("t", 2),),
)


@pytest.mark.parametrize("heartbeat", [HEARTBEAT, PeerHeartbeat(), PeerHeartbeat(paused_for_job=())])
def test_there_and_back(heartbeat: PeerHeartbeat) -> None:
    assert decode_heartbeat(json.loads(json.dumps(encode_heartbeat(heartbeat)))) == heartbeat


def test_a_newer_version_says_more() -> None:
    said = encode_heartbeat(HEARTBEAT)
    said["statuses"][0][3][0] = (*said["statuses"][0][3][0], "a new field")
    assert decode_heartbeat({**said, "new": 1}) == HEARTBEAT


def test_what_is_no_heartbeat() -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        decode_heartbeat({"at": {"t": "nonsense"}})


def test_partitions_there_and_back() -> None:
    some = frozenset(MirrorPartition("l", topic, index) for topic in "ab" for index in range(3))
    assert decode_partitions(json.loads(json.dumps(encode_partitions(some)))) == some


def test_a_tag_tells_the_mirrors_of_a_topic_apart() -> None:
    record = MirrorRecord(link="l", source_topic="t", mirror_topic="t", mirror_id=1)
    others = [
        MirrorRecord(link="l", source_topic="t", mirror_topic="t", mirror_id=2),
        mirror_record(link="l", source_topic="t", mirror_topic="t", mirror_id=1, failback_epoch=1),
        mirror_record(link="l", source_topic="t", mirror_topic="t", mirror_id=1, direction=MirrorDirection.REVERSE),
    ]
    assert len({tag_of(each) for each in (record, *others)}) == 4
