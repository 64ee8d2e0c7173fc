"""The look that a promote of a group goes by is the shipped code's own, whatever lies between it and the record."""

from __future__ import annotations

from gateway.groups.gather import GroupGatherer
from gateway.groups.promote import GroupPromotions
from tests.simulation.fleet.looks import Looks
from tests.support.control.control_plane import Plane
from tests.support.control.group_scene import gated_group


async def test_the_last_look_before_the_mark_is_told(plane: Plane) -> None:
    scene = await gated_group(plane)
    looks, asked = Looks(lambda: scene.now), list[float]()

    def ask() -> None:
        asked.append(scene.now)
        scene.later(0.25)

    scene.offsets.on_ask = ask
    with looks.noted():
        await scene.promoted()
    assert looks.of("l", "g") == (asked[-1], asked[-1] + 0.25)


async def test_of_a_group_that_nobody_has_promoted_nothing_is_told(plane: Plane) -> None:
    scene = await gated_group(plane)
    looks = Looks(lambda: scene.now)
    with looks.noted():
        await scene.attempts(3)
    assert looks.of("l", "g") is None


def test_afterwards_the_code_is_as_it_was() -> None:
    before = GroupGatherer.look, GroupPromotions._mark_promoted
    with Looks(lambda: 0.0).noted():
        assert GroupGatherer.look is not before[0]
    assert (GroupGatherer.look, GroupPromotions._mark_promoted) == before
