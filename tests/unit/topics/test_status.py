"""What is shown of a mirror that does not run: its own last numbers, and never those of another way."""

from __future__ import annotations

from dataclasses import replace

from gateway.state.records import MirrorDirection, MirrorState
from tests.support.control.control_plane import Plane
from tests.support.control.mirror_records import changed
from tests.support.fakes.fake_engine import status


async def test_the_numbers_of_a_mirror_that_was_stopped_are_kept(plane: Plane) -> None:
    await plane.with_link()
    mirror = await plane.with_mirror()
    measure = plane.parts.measure
    plane.engine.numbers["l", "orders"] = [status(0, mirrored_to=70)]
    await measure.stop(mirror)
    await measure.stop(mirror)  # it does not run any more
    paused = replace(mirror, state=MirrorState.PAUSED)
    assert [(one.phase, one.mirrored_to) for one in measure.known(paused)] == [("paused", 70)]


async def test_those_of_another_way_are_not_its_numbers(plane: Plane) -> None:
    """A mirror back counts offsets of the target; a failover would take them for the source's."""
    await plane.with_link()
    mirror = await plane.with_mirror()
    measure = plane.parts.measure
    back = changed(mirror, direction=MirrorDirection.REVERSE)
    plane.engine.numbers["l", "orders"] = [status(0, source_end=900, mirrored_to=900)]
    await measure.stop(back)
    home = changed(mirror, failback_epoch=1, state=MirrorState.PAUSED)
    assert measure.known(home) == []
    await measure.stop(home)  # nor does a stop before it has begun make them so
    assert measure.known(home) == []
