"""A record as origin and copy."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.mirror.rules.period import period_of
from gateway.state.per_partition import WrongLength, grown
from gateway.state.producer_ids import mirror_producer_id
from gateway.state.records import NOT_PADDED, MirrorDirection, MirrorRecord, PartitionStart
from tests.support.control.mirror_records import mirror_record

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
    return mirror_record(**(values | changes))


def test_forward():
    period = period_of(record(), LINK_ID)
    assert (period.origin, period.origin_id, period.copy) == ("s", "of s", "m")
    assert (period.starts, period.handed_over_at) == (record().starts, (0, 0))
    assert period.producer_id == mirror_producer_id(LINK_ID, 9)
    assert period.implied == ((5, 5), (6, 6))


def test_reverse_is_the_other_way_round_under_an_id_of_its_own():
    back = record(
        direction=MirrorDirection.REVERSE, failback_epoch=2, handed_over_at=(100, 200), handed_over_from=(90, 200)
    )
    period = period_of(back, LINK_ID)
    assert (period.origin, period.origin_id, period.copy) == ("m", "of m", "s")
    assert period.starts == (PartitionStart(0, 0),) * 2
    assert period.producer_id == mirror_producer_id(LINK_ID, 9, 2, reverse=True)
    assert period.implied == ((90, 100), (200, 200))
    assert {period_of(record(failback_epoch=g), LINK_ID).number for g in range(3)}.isdisjoint({period.number})


def test_a_restored_topic_begins_where_its_origin_does():
    starts = (PartitionStart(40, 38), PartitionStart(0, 0))
    period = period_of(record(direction=MirrorDirection.REVERSE, reverse_starts=starts), LINK_ID)
    assert (period.starts, period.implied) == (starts, ((38, 38), (0, 0)))


def test_of_partitions_that_came_later_nothing_was_handed_over():
    period = period_of(grown(record(handed_over_at=(100, 0), handed_over_from=(90, 0)), 4), LINK_ID)
    assert period.handed_over_at == (100, 0, 0, 0)
    assert period.implied == ((90, 100), (6, 6), (0, 0), (0, 0))


@pytest.mark.parametrize(
    "broken",
    [
        {"handed_over_at": (233,), "handed_over_from": (139,)},
        {"handed_over_at": (1, 2, 3), "handed_over_from": (1, 2, 3)},
    ],
    ids=str,
)
def test_what_the_record_does_not_say_is_not_made_up(broken: dict[str, Any]):
    with pytest.raises(WrongLength, match="of mirror topic 'm' has"):
        period_of(record(**broken), LINK_ID)


def test_an_empty_copy_goes_with_an_origin_of_markers_alone():
    """The failback: nothing of the source's five offsets is a record, so the target's log still ends at 0."""
    starts = (PartitionStart(0, NOT_PADDED), PartitionStart(0, NOT_PADDED))
    home = record(starts=starts, failback_epoch=1, handed_over_at=(0, 0), handed_over_from=(5, 0))
    assert period_of(home, LINK_ID).implied == ((5, 0), (0, 0))
