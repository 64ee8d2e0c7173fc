"""What the log says of a mirror back's beginning."""

from __future__ import annotations

import pytest

from gateway.cutover.failback.runs import told_of
from gateway.state.records import MirrorDirection, MirrorState
from tests.support.control.control_plane import Plane
from tests.support.control.mirror_records import changed


@pytest.mark.parametrize(
    ("state", "direction", "words"),
    [
        (MirrorState.ACTIVE, MirrorDirection.REVERSE, "is running"),
        (MirrorState.FAILED, MirrorDirection.REVERSE, "has FAILED"),
        (MirrorState.STOPPED, MirrorDirection.FORWARD, "has not begun"),
    ],
)
async def test_it_says_what_has_become_of_it(
    plane: Plane, state: MirrorState, direction: MirrorDirection, words: str
) -> None:
    mirror = await plane.with_mirror()
    assert told_of(changed(mirror, state=state, direction=direction)) == f"the mirror back to the source {words}"
