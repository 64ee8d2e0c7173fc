"""What gateways tell one another survives the way as JSON; what a newer version adds is left out."""

from __future__ import annotations

import json

import pytest

from gateway.domain.beats import Beat, decode_beat, decode_partitions, encode_beat, encode_partitions, tag_of
from gateway.domain.membership import MirrorPartition
from gateway.domain.ports import PartitionStatus
from gateway.domain.records import MirrorDirection, MirrorRecord

STATUS = PartitionStatus(
    partition=3, phase="copying", source_end=9, mirrored_to=8, target_end=8, lag=1, lag_ms=4, bytes_per_s=1.5
)
BEAT = Beat(
    regular=True,
    leaving=True,
    at={"t": ("1.0.to", {0: 5, 7: 2**40})},
    statuses={("l", "t"): [STATUS]},
    forwarded={("t", 1): (100, 3)},
    held={"t": "a transaction"},
    aside=(("l", "u"),),
    watch=(("t", 2),),
)


@pytest.mark.parametrize("beat", [BEAT, Beat(), Beat(aside=())])
def test_there_and_back(beat: Beat) -> None:
    assert decode_beat(json.loads(json.dumps(encode_beat(beat)))) == beat


def test_a_newer_version_says_more() -> None:
    said = encode_beat(BEAT)
    said["statuses"][0][2][0] = (*said["statuses"][0][2][0], "a new field")
    assert decode_beat({**said, "new": 1}) == BEAT


def test_what_is_no_beat() -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        decode_beat({"at": {"t": "nonsense"}})


def test_partitions_there_and_back() -> None:
    some = frozenset(MirrorPartition("l", topic, index) for topic in "ab" for index in range(3))
    assert decode_partitions(json.loads(json.dumps(encode_partitions(some)))) == some


def test_a_tag_tells_the_mirrors_of_a_topic_apart() -> None:
    record = MirrorRecord(link="l", source_topic="t", mirror_topic="t", mirror_id=1)
    others = [
        MirrorRecord(link="l", source_topic="t", mirror_topic="t", mirror_id=2),
        MirrorRecord(link="l", source_topic="t", mirror_topic="t", mirror_id=1, generation=1),
        MirrorRecord(link="l", source_topic="t", mirror_topic="t", mirror_id=1, direction=MirrorDirection.REVERSE),
    ]
    assert len({tag_of(each) for each in (record, *others)}) == 4
