"""What keeps groups from changing sides with topics."""

from __future__ import annotations

from gateway.groups.rules.moves import lost_on_target
from gateway.state.records import CarriedOffset, GroupRecord, GroupState

CARRIED = (CarriedOffset("orders", 0, 40, 40), CarriedOffset("old", 0, 7, 7))
RECORD = GroupRecord(link="l", group="g", state=GroupState.PROMOTED, offsets=CARRIED)


def test_an_offset_that_the_target_holds_no_more_keeps_a_group_there() -> None:
    assert lost_on_target(RECORD, {("orders", 0), ("old", 0)}, {"orders", "old"}) == ""
    assert "no offset of orders-0 for group 'g'" in lost_on_target(RECORD, {("old", 0)}, {"orders", "old"})


def test_of_a_topic_whose_mirror_was_deleted_nothing_is_to_be_carried_back() -> None:
    """Else the group could never go home again: nobody commits an offset of it, and no mirror takes it back."""
    assert lost_on_target(RECORD, {("orders", 0)}, {"orders"}) == ""
