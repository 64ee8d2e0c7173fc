"""A record as origin and copy."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.domain.mirror_way import way_of
from gateway.domain.per_partition import WrongLength, grown
from gateway.domain.producer_ids import mirror_producer_id
from gateway.domain.records import MirrorDirection, MirrorRecord, PartitionStart

LINK_ID = 3


def record(**changes: Any) -> MirrorRecord:
    starts = (PartitionStart(5, 5), PartitionStart(7, 6))
    values: dict[str, Any] = {
        "link": "l",
        "source_topic": "s",
        "mirror_topic": "m",
        "mirror_id": 9,
        "source_topic_id": "of s",
        "mirror_topic_id": "of m",
        "starts": starts,
    }
    return MirrorRecord(**(values | changes))


def test_forward():
    way = way_of(record(), LINK_ID)
    assert (way.origin, way.origin_id, way.copy) == ("s", "of s", "m")
    assert (way.starts, way.handed_over_at) == (record().starts, (0, 0))
    assert way.producer_id == mirror_producer_id(LINK_ID, 9)
    assert way.implied == ((5, 5), (6, 6))


def test_reverse_is_the_other_way_round_under_an_id_of_its_own():
    back = record(
        direction=MirrorDirection.REVERSE, generation=2, handed_over_at=(100, 200), handed_over_from=(90, 200)
    )
    way = way_of(back, LINK_ID)
    assert (way.origin, way.origin_id, way.copy) == ("m", "of m", "s")
    assert way.starts == (PartitionStart(0, 0),) * 2
    assert way.producer_id == mirror_producer_id(LINK_ID, 9, 2, reverse=True)
    assert way.implied == ((90, 100), (200, 200))
    assert {way_of(record(generation=g), LINK_ID).number for g in range(3)}.isdisjoint({way.number})


def test_a_restored_topic_begins_where_its_origin_does():
    starts = (PartitionStart(40, 38), PartitionStart(0, 0))
    way = way_of(record(direction=MirrorDirection.REVERSE, reverse_starts=starts), LINK_ID)
    assert (way.starts, way.implied) == (starts, ((38, 38), (0, 0)))


def test_of_partitions_that_came_later_nothing_was_handed_over():
    way = way_of(grown(record(handed_over_at=(100, 0), handed_over_from=(90, 80)), 4), LINK_ID)
    assert way.handed_over_at == (100, 0, 0, 0)
    assert way.implied == ((90, 100), (6, 6), (0, 0), (0, 0))


@pytest.mark.parametrize(
    "broken",
    [
        {"handed_over_at": (233, 234)},  # as a gateway wrote it that had given its partitions away
        {"handed_over_at": (233, 234), "handed_over_from": (139,)},
        {"handed_over_from": (140, 139)},
        {"handed_over_at": (1, 2, 3), "handed_over_from": (1, 2, 3)},
    ],
    ids=str,
)
def test_what_the_record_does_not_say_is_not_made_up(broken: dict[str, Any]):
    with pytest.raises(WrongLength, match="of mirror topic 'm' has"):
        way_of(record(**broken), LINK_ID)
