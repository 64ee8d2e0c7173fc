"""What gateways tell one another survives the way as JSON; what a newer version adds is left out.

What heartbeats tell again.
"""

from __future__ import annotations

import json

import pytest

from gateway.fleet.rules import heartbeats
from gateway.fleet.rules.heartbeats import (
    PeerHeartbeat,
    Rotation,
    decode_heartbeat,
    decode_partitions,
    encode_heartbeat,
    encode_partitions,
)
from gateway.mirror.interface import PartitionStatus
from gateway.mirror.rules.period import MirrorPartition
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


def parts(*indexes: int) -> frozenset[MirrorPartition]:
    return frozenset(MirrorPartition("l", "t", index) for index in indexes)


HERE = parts(0, 1, 2, 3, 4)


def told(
    of: Rotation, here: frozenset[MirrorPartition], times: int, *, regular: bool, at_rest: bool = False
) -> list[list[int]]:
    return [[each.partition for each in of.piece(here, regular=regular, at_rest=at_rest)] for _ in range(times)]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "PIECE", 2)


def test_a_piece_is_told_now_and_then() -> None:
    one = Rotation()
    assert told(one, HERE, 4, regular=True) == [[0, 1], [2, 3], [4], [0, 1]]
    assert told(one, HERE, 2, regular=False) == [[], []]


def test_the_longer_nothing_happens_the_less_often() -> None:
    one = Rotation()
    assert told(one, HERE, 4, regular=True, at_rest=True) == [[0, 1], [2, 3], [4], [0, 1]]
    assert told(one, HERE, 6, regular=True, at_rest=True) == [[], [2, 3], [], [4], [], [0, 1]]
    far = [piece for piece in told(one, HERE, 400, regular=True, at_rest=True) if piece]
    assert len(far) == pytest.approx(400 / heartbeats.SLOWEST, abs=5)
    assert told(one, HERE, 2, regular=True)[1], "something moves: each time again"
    told(one, HERE, 40, regular=True, at_rest=True)
    assert all(told(one, parts(0, 1, 2, 3, 4, 5), 2, regular=True, at_rest=True)), "and what has come"


def test_all_is_told_at_once_when_somebody_comes() -> None:
    one = Rotation()
    told(one, HERE, 1, regular=True)
    one.everything()
    found = told(one, HERE, 5, regular=False)
    assert found[:3] == [[2, 3], [4], [0, 1]]
    assert found[3:] == [[], []]


def test_what_comes_is_told_and_what_goes_is_not() -> None:
    one = Rotation()
    told(one, HERE, 1, regular=True)
    changed = parts(0, 2, 4, 5)
    assert told(one, changed, 4, regular=True) == [[2], [4, 5], [0, 2], [4, 5]]
    turn = [each for piece in told(one, changed, 2, regular=True) for each in piece]
    assert sorted(turn) == [0, 2, 4, 5]


def test_what_went_and_came_back_is_told_once_a_turn() -> None:
    one = Rotation()
    told(one, HERE, 1, regular=True)
    told(one, parts(), 1, regular=True)
    told(one, HERE, 5, regular=True)
    turn = [each for piece in told(one, HERE, 3, regular=True) for each in piece]
    assert sorted(turn) == sorted(set(turn))


def test_nothing_here_is_nothing_told() -> None:
    one = Rotation()
    one.everything()
    assert told(one, parts(), 2, regular=True) == [[], []]
    assert told(one, parts(), 2, regular=False) == [[], []]
