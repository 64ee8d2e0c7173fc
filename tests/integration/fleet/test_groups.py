"""Groups whose members come through a gateway that does not lead: gated, promoted, sent back; and none reads early."""

from __future__ import annotations

import pytest

from tests.support.clients.group_lab import Reader
from tests.support.gateways.fleet import GatewayFleet
from tests.support.gateways.gateway import GatewayProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow


def group_of(gateway: GatewayProcess, fleet: GatewayFleet, group: str) -> dict[str, object]:
    """What `group describe` shows through a gateway; empty for no mirror group."""
    answer = gateway.api.get(f"/v3/links/{fleet.link}/groups/{group}")
    found: dict[str, object] = answer.json() if answer.is_success else {}
    return found


def waits(gateway: GatewayProcess, fleet: GatewayFleet, group: str) -> bool:
    return bool(group_of(gateway, fleet, group).get("waiting"))


def test_a_group_that_waits_at_a_follower_is_promoted_and_sent_back(fleet: GatewayFleet) -> None:
    leader = fleet.leader()
    (follower,) = fleet.others(leader)
    group = f"group-{fleet.topic}"
    with fleet.writer() as writer:
        writer.wait_for_acks(200)
        with Reader(fleet.source.bootstrap, group, fleet.topic) as old:
            old.wait_for(200)
            with Reader(follower.bootstrap, group, fleet.topic) as new:
                wait_until(lambda: waits(leader, fleet, group), 30.0, what="that the leader knows who waits")
                assert waits(follower, fleet, group), "what it shows is the leader's"
                assert not new.read
                old.stop()
                new.wait_for(200)
                assert group_of(follower, fleet, group)["state"] == "PROMOTED"
        seen = [(partition, offset) for _, partition, offset in (*old.read, *new.read)]
        assert len(seen) == len(set(seen)), "a record was read twice"

        answer = leader.api.post(f"/v3/links/{fleet.link}/groups/{group}:demote", json={})
        assert answer.is_success, answer.text
        before = len(new.read)
        with Reader(follower.bootstrap, group, fleet.topic) as early:
            wait_until(lambda: waits(leader, fleet, group), 30.0, what="that it waits at the follower again")
            assert not early.read, "a demoted group must not read on the target"
            with Reader(fleet.source.bootstrap, group, fleet.topic) as back:
                back.wait_for(100)
        again = {(partition, offset) for _, partition, offset in back.read}
        assert not again & set(seen), f"read again on the source, behind {before} read on the target"


def test_a_group_that_has_nothing_to_do_with_the_mirror_passes_at_a_follower(fleet: GatewayFleet) -> None:
    leader = fleet.leader()
    (follower,) = fleet.others(leader)
    with fleet.writer(leader) as writer:
        writer.wait_for_acks(200)
    with Reader(follower.bootstrap, f"new-{fleet.topic}", fleet.topic) as reader:
        reader.wait_for(writer.acks)
    assert group_of(leader, fleet, f"new-{fleet.topic}") == {}
