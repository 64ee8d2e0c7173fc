"""A pipeline that does not say which member sends its offsets, and whose last transaction ends behind its consumer."""

from __future__ import annotations

from tests.simulation.fleet import logs
from tests.simulation.kernel.loop import SimLoop
from tests.simulation.mutations.lives import Operation, brief, life
from tests.simulation.plan.roles import OLD_API, OUT, PIPE
from tests.simulation.world import World


def test_a_transaction_of_before_a_promote_brings_no_offsets_behind_it() -> None:
    acts = life(
        (Operation.CREATE, (OUT,)), Operation.CREATE, Operation.GROUP_PROMOTE, (Operation.PROMOTE, (OUT,)), pause_s=2.0
    )
    with logs.told_to(None), SimLoop(1) as loop:
        world = World(brief(acts, cast=(PIPE, OLD_API)), loop, None)
        outcome = loop.run_until_complete(world.run())
        (pipeline,) = world.cast.members
    assert not outcome.failure, outcome.why
    assert any("TxnOffsetCommit: UNKNOWN_MEMBER_ID" in error for error in pipeline.errors), pipeline.errors
