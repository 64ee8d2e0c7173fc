"""Repairs and joined links without a fault: each comes to its end, and does what it is there for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.state.records import MirrorState
from tests.simulation.fleet import logs
from tests.simulation.kernel.loop import SimLoop
from tests.simulation.mutations.lives import Operation, brief, life
from tests.simulation.operations.joined import A_LOOP, BEHIND_A_MIRROR, NOT_PROMOTED_YET
from tests.simulation.operations.repairs import HOWS
from tests.simulation.plan import CHAINED, CROSSED, EAST, FANNED, MENDED, NORTH, ORDERS, Act
from tests.simulation.world import World, simulate

_BOTH = (f"{NORTH}{ORDERS}", f"{EAST}{ORDERS}")


def lived(*acts: Act) -> tuple[World, str]:
    """The world of a short life at its end, and its story."""
    with logs.told_to(None), SimLoop(1) as loop:
        world = World(brief(acts), loop, None)
        outcome = loop.run_until_complete(world.run())
        assert not outcome.failure, outcome.why
        return world, "\n".join(map(str, outcome.story))


@pytest.mark.parametrize("how", HOWS)
def test_a_mirror_fails_and_is_repaired(how: str) -> None:
    acts = life((Operation.SPOIL, (MENDED,)), (Operation.REPAIR, (MENDED,)))
    world, story = lived(*(replace(act, how=how) for act in acts))
    (mirror,) = world.judge.state.mirrors
    assert (mirror.state, mirror.repairs) == (MirrorState.ACTIVE, 1)
    assert sum(each.count for each in mirror.lost) > 0 if how == "overtaken" else not mirror.lost
    assert (":repair" in story) == (how in ("refused", "overtaken"))
    assert (":recreate" in story) == (how not in ("refused", "overtaken"))


def test_a_chain_is_promoted_from_its_beginning() -> None:
    chain = (CHAINED,)
    world, story = lived(*life((Operation.CHAIN, chain), (Operation.PROMOTE, chain), (Operation.PROMOTE_JOINED, chain)))
    assert BEHIND_A_MIRROR in story
    assert NOT_PROMOTED_YET in story
    (first,), (second,) = world.judge.state.mirrors, world.branches[CHAINED].judge.state.mirrors
    assert (first.state, second.state) == (MirrorState.STOPPED, MirrorState.STOPPED)
    ends = [
        cluster.log_range(CHAINED, 0)[1] for cluster in (world.source, world.target, world.branches[CHAINED].target)
    ]
    assert ends == sorted(set(ends)), "each was written after the one before"


def test_a_chain_goes_on_when_its_first_link_is_failed_over() -> None:
    chain = (CHAINED,)
    world, _ = lived(
        *life(
            Operation.CREATE, (Operation.CHAIN, chain), (Operation.FAILOVER, chain), (Operation.PROMOTE_JOINED, chain)
        )
    )
    first = next(each for each in world.judge.state.mirrors if each.mirror_topic == CHAINED)
    (second,) = world.branches[CHAINED].judge.state.mirrors
    assert (first.state, second.state) == (MirrorState.STOPPED, MirrorState.STOPPED)
    assert len(first.cutover.not_mirrored) == 1, "it tells what was left behind"


def test_the_first_link_of_a_chain_fails_back_behind_the_promote_of_its_second() -> None:
    chain = (CHAINED,)
    way = (Operation.PROMOTE, Operation.PROMOTE_JOINED, Operation.REVERSE, Operation.FAILBACK)
    world, _ = lived(*life((Operation.CHAIN, chain), *((each, chain) for each in way)))
    (first,), (second,) = world.judge.state.mirrors, world.branches[CHAINED].judge.state.mirrors
    assert (first.state, second.state) == (MirrorState.ACTIVE, MirrorState.STOPPED)


def test_two_targets_of_one_source() -> None:
    world, _ = lived(*life((Operation.FAN_OUT, (FANNED,)), (Operation.PROMOTE, (FANNED,))))
    branch = world.branches[FANNED]
    (here,), (there,) = world.judge.state.mirrors, branch.judge.state.mirrors
    assert (here.state, there.state) == (MirrorState.STOPPED, MirrorState.ACTIVE)
    assert world.source.log_range(FANNED, 0)[1] == branch.target.log_range(FANNED, 0)[1]


def test_two_sources_of_one_target() -> None:
    promotes = [(Operation.PROMOTE_JOINED, (topic,)) for topic in _BOTH]
    world, _ = lived(*life(Operation.CREATE, (Operation.AGGREGATE, _BOTH), *promotes))
    found = {name: branch.judge.state.mirrors[0] for name, branch in world.branches.items()}
    assert {name: mirror.link for name, mirror in found.items()} == dict(zip(_BOTH, ("north", "east"), strict=True))
    assert {mirror.state for mirror in found.values()} == {MirrorState.STOPPED}
    assert {mirror.source_topic for mirror in found.values()} == {ORDERS}


def test_links_both_ways() -> None:
    ways = life(Operation.CREATE, (Operation.BOTH_WAYS, (CROSSED,)), (Operation.PROMOTE_JOINED, (CROSSED,)))
    world, story = lived(*ways)
    assert A_LOOP in story
    (there,), (back,) = world.judge.state.mirrors, world.branches[CROSSED].judge.state.mirrors
    assert (there.mirror_topic, there.state) == ("plain", MirrorState.ACTIVE)
    assert (back.mirror_topic, back.state) == (CROSSED, MirrorState.STOPPED)
    assert world.source.log_range(CROSSED, 0)[1] > world.target.log_range(CROSSED, 0)[1] > 0


def test_what_comes_of_acts_that_were_left_out_is_let_be() -> None:
    """Shrinking leaves out any of them."""
    alone = life((Operation.REPAIR, (MENDED,)), (Operation.PROMOTE_JOINED, (CHAINED,)), Operation.CREATE)
    assert not simulate(brief(alone)).failure
