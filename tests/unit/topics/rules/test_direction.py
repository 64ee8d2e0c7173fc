"""Which way a promote goes, and what is said of a topic that does not go that way."""

from __future__ import annotations

import pytest

from gateway.state.records import MirrorDirection, MirrorState
from gateway.topics.rules.direction import why_not_this_way
from tests.support.control.mirror_records import changed, one_partition

S, D = MirrorState, MirrorDirection


@pytest.mark.parametrize(
    ("state", "direction", "wanted", "said"),
    [
        (S.ACTIVE, D.FORWARD, D.FORWARD, ""),
        (S.ACTIVE, D.REVERSE, D.REVERSE, ""),
        (S.STOPPED, D.FORWARD, D.FORWARD, ""),  # the table of states says that it is promoted
        (S.ACTIVE, D.REVERSE, D.FORWARD, "is written on the target already, and mirrored back to the source (ACTIVE)"),
        (S.FAILED, D.REVERSE, D.FORWARD, "is written on the target already, and mirrored back to the source (FAILED)"),
        (S.PENDING_STOPPED, D.REVERSE, D.FORWARD, ""),  # likewise, that it is on its way
        (S.ACTIVE, D.FORWARD, D.REVERSE, "is written on the source already (ACTIVE); the target follows"),
        (S.PAUSED, D.FORWARD, D.REVERSE, "is written on the source already (PAUSED); the target follows"),
        (S.STOPPED, D.FORWARD, D.REVERSE, "so it cannot go home yet: lockgate mirror reverse orders --link l"),
        (S.PENDING_STOPPED, D.FORWARD, D.REVERSE, ""),
        (S.FAILED, D.FORWARD, D.REVERSE, ""),
    ],
)
def test_the_side_that_has_the_writes_is_named(state, direction, wanted, said):
    ended = {"stopped_at": (5,)} if direction is D.REVERSE or state is S.STOPPED else {}
    record = changed(one_partition("orders", state, 0), direction=direction, **ended)
    found = why_not_this_way(record, wanted)
    assert said in found
    assert bool(said) == bool(found)
