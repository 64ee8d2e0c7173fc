"""The faults of `make test-mutations` that seed the gateway (`tests/mutations/gateway`), in the simulated fleet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from gateway.cutover.promote import run as promote_run
from gateway.cutover.promote.run import PromoteRun
from gateway.cutover.write_pause.follower import PauseAnswers
from gateway.fleet.fleet import Fleet
from gateway.fleet.parts import LeaseGuard
from gateway.groups.gate.rules.gates import GroupGates
from gateway.groups.promote import GroupPromotions
from gateway.mirror.partition.rules import append_window
from gateway.mirror.partition.rules.append_window import AppendWindow
from gateway.proxy.produce.cutover_connections import CutoverLanes
from gateway.proxy.produce.forwarded_as_is import ForwardsAsIs
from gateway.proxy.produce.forwarded_produce import ForwardedProduce
from gateway.proxy.produce.forwarder import Forwarder
from tests.mutations.gateway import patches
from tests.simulation.mutations.lives import (
    Event,
    EventKind,
    Fault,
    FaultKind,
    Operation,
    again,
    brief,
    life,
    sought,
)
from tests.simulation.mutations.patching import Mutation, Patch, Patching

_CREATE, _PROMOTE = Operation.CREATE, Operation.PROMOTE
_PROMOTED: Final = brief(life(_CREATE, _PROMOTE, pause_s=2.0))
_GROUP: Final = brief(life(_CREATE, Operation.GROUP_PROMOTE, pause_s=2.0))
_BATCH: Final = 10
"""The batch of a partition that is spoilt: there are fewer of them here than on real brokers."""


def _of(fault: Callable[[], None], *attributes: tuple[Any, str]) -> Patch:
    def patch(patching: Patching) -> None:
        patching.replace(patches, "_AT", _BATCH)
        patching.by(fault, *attributes)

    return patch


def _merge_out_of_order(patching: Patching) -> None:
    """Of batches that are put together, the first two change places: the target's sequence rule cannot see that."""

    def spoilt(batches: Sequence[memoryview], **known: int) -> tuple[bytes, bytes]:
        first, second, *others = batches
        found: tuple[bytes, bytes] = merged([second, first, *others], **known)
        return found

    merged: Any = patching.replace(append_window, "merged", spoilt)


def _release(patching: Patching) -> None:
    """What `release_after_the_acknowledgement` does is bad luck, and harmless where a cutover is made of one answer."""
    from tests.simulation.mutations.topic_faults import take_what_runs_here

    take_what_runs_here(patching)
    patching.by(patches.release_after_the_acknowledgement, (PromoteRun, "_pause_writes"))


_PUSH: Final = (AppendWindow, "push")
_SENT: Final = ((ForwardsAsIs, "sends"), (ForwardedProduce, "_send_source"))
_LATE: Final = (*_SENT, (CutoverLanes, "routing_changed"))

MUTATIONS: Final = (
    Mutation("drop a batch", _of(patches.drop_a_batch, _PUSH), again(_PROMOTED, 3)),
    Mutation("append twice", _of(patches.append_twice, _PUSH), again(_PROMOTED, 3)),
    Mutation("swap two batches", _of(patches.swap_two_batches, _PUSH, (AppendWindow, "take")), again(_PROMOTED, 3)),
    sought(
        "merge out of order",
        _merge_out_of_order,
        life(_CREATE, _PROMOTE, pause_s=4.0),
        runs=6,
        events=[Event(EventKind.TARGET_BROKER_PAUSED, 1, "", 0.5, 3.0)],
    ),
    Mutation(
        "ungate early",
        _of(patches.ungate_early, (GroupGates, "status"), (GroupGates, "reads_gated")),
        again(_GROUP, 3),
    ),
    Mutation(
        "cutover before lag zero",
        _of(
            patches.cutover_before_lag_zero,
            (promote_run, "next_step"),
            (PromoteRun, "_mark_pending"),
            (PromoteRun, "_stop_mirror"),
        ),
        again(_PROMOTED, 5),
    ),
    Mutation(
        "answer before commit",
        _of(patches.answer_before_commit, *_SENT),
        again(_PROMOTED, 3),
    ),
    Mutation(
        "forget an acknowledgement",
        _of(patches.forget_an_acknowledgement, *_LATE, (Forwarder, "drain_all")),
        again(_PROMOTED, 3),
    ),
    Mutation("release after the acknowledgement", _release, again(_PROMOTED, 3)),
    Mutation("rewind a group", _of(patches.rewind_a_group, (GroupPromotions, "_take")), again(_GROUP, 3)),
    Mutation(
        "forget a write pause of the fleet",
        _of(patches.forget_a_fence_of_the_fleet, *_LATE, (PauseAnswers, "_asked_to_drain")),
        again(_PROMOTED, 5),
    ),
    sought(
        "overlook the lease",
        _of(patches.overlook_the_lease, (Fleet, "lease_valid"), (LeaseGuard, "run")),
        life(_CREATE, _PROMOTE, pause_s=2.0),
        runs=4,
        faults=[Fault(FaultKind.FOLLOWER_PAUSED, 1, "mark_pending", 0.0, 24.0)],
        seed=3,
    ),
)
