"""Faults that show when the clusters are unsteady: see `faults/cluster_events.py`.

What else was a hole on such ground, and cannot be expressed here, or was found by no run, is held by tests of its own:

* *a heartbeat renews the write lease*: who is alone with a coordinator that is cut off
  (`EventKind.COORDINATOR_KEEPS_ONE`) hears no peer either, and has the group drop them; the generation that this begins
  is never written, so that no heartbeat is sent any more. tests/unit/fleet/rules/test_group.py
  (`test_a_coordinator_that_is_cut_off_from_its_cluster_renews_no_lease`);
* *who is missing in a JoinGroup's answer is presumed from then on*: a gateway that was told to join renews nothing
  until it has; one that was not told (its heartbeats are held up) cannot ask for the next coordinator either, on the
  same connection (`EventKind.FOLLOWER_LEFT_OUT`). tests/unit/fleet/test_registry.py
  (`test_a_generation_that_never_began_presumes_nobody`);
* *one low log end lets a group go beyond the mirror*: members of a group must read at the new leader what the gateway
  asks the old one about, and both ask brokers at random. tests/unit/groups/test_promote.py
  (`test_one_answer_that_a_log_ends_before_the_groups_offset_is_no_proof`);
* *log ends of whoever says that it leads*: before a promote reads ends, somebody else has found out who leads.
  tests/unit/operations/test_origin_ends.py (`test_log_ends_are_asked_of_the_leader_in_its_epoch`);
* *a copy that is on one replica alone is promoted to*: a run in which that replica is lost breaks Kafka's promises.
  tests/unit/cutover/promote/rules/test_promote.py
  (`test_a_copy_that_is_on_one_replica_alone_is_waited_for_and_said`);
* *who is found wrong is asked who coordinates*, and *a member of a generation in no log joins as a new one*: that
  takes long, and no longer than the operator's patience. tests/unit/simulation/faults/test_cluster_events.py
  (`test_a_coordinator_that_is_cut_off_costs_no_gateway_its_write_lease`), tests/unit/kafka/test_cluster.py,
  tests/unit/fleet/rules/test_group.py.
"""

from __future__ import annotations

from typing import Any, Final

from gateway.fleet.rules.group import FleetGroupState, GroupRefused
from gateway.kafka.connection.quota_rest import QuotaRest
from tests.simulation.mutations.lives import Event, EventKind, Operation, life, sought
from tests.simulation.mutations.patching import Patching


def any_code_is_final(patching: Patching) -> None:
    """What no member can act by is taken for a refusal of the group: every gateway stops, since all ask one broker."""

    def refused(self: Any, refusal: str) -> None:
        raise GroupRefused(refusal)

    patching.replace(FleetGroupState, "_not_understood", refused)


def write_to_the_throttled(patching: Patching) -> None:
    """Nobody reads what answers say of quotas."""

    def nothing(self: Any, throttle_ms: int) -> None:
        return

    patching.replace(QuotaRest, "told", nothing)


MUTATIONS: Final = (
    sought(
        "clusters: a code that nobody knows is final",
        any_code_is_final,
        life(Operation.CREATE, Operation.PROMOTE, pause_s=1.0),
        runs=2,
        events=[Event(EventKind.COORDINATOR_REFUSES, 1, "mark_pending", 0.0, 8.0)],
    ),
    sought(
        "clusters: throttled connections are written to",
        write_to_the_throttled,
        life(Operation.CREATE, Operation.PROMOTE, pause_s=6.0),
        runs=4,
        rate_per_s=100.0,
        events=[Event(EventKind.QUOTA_MUTES, 0, "", 1.0, 300.03)],
    ),
)
