"""Two real gateways: one leads, both serve; a promote covers both, and no fault of one loses a record."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.gateways import stopped_sending
from tests.support.gateways.fleet import GatewayFleet, go_on, pause
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

SHORT = {"fleet": {"lease_s": 8}}


def test_a_promote_holds_the_writes_of_every_gateway(fleet: GatewayFleet) -> None:
    one, two = fleet.gateways
    with fleet.writer(one) as first, fleet.writer(two) as second:
        for writer in (first, second):
            writer.wait_for_acks(300)
        follower = fleet.others(fleet.leader())[0]
        follower.promote(fleet.link, fleet.topic)  # passed on to the leader
        fleet.wait_for("STOPPED", follower)
        for writer in (first, second):
            writer.wait_for_acks(300)
    fleet.assert_promoted(first, second)


def test_the_leader_is_killed_and_another_one_goes_on(fleet: GatewayFleet) -> None:
    leader = fleet.leader()
    name, (other,) = fleet.name_of(leader), fleet.others(leader)
    with fleet.writer() as writer:
        writer.wait_for_acks(300)
        leader.kill()
        wait_until(lambda: fleet.leader_for(other) == fleet.name_of(other), 30.0, what="the next leader")
        writer.wait_for_acks(300)
        other.promote(fleet.link, fleet.topic)
        fleet.wait_waiting(other, f"lockgate gateway forget {name}")
        assert other.api.delete(f"/v3/gateways/{name}").status_code == 204
        fleet.wait_for("STOPPED", other)
        writer.wait_for_acks(300)
    fleet.assert_promoted(writer)


def test_all_gateways_are_restarted_one_after_the_other_and_no_producer_sees_it(fleet: GatewayFleet) -> None:
    with fleet.writer() as writer:
        writer.wait_for_acks(300)
        for gateway in fleet.gateways:
            assert gateway.stop() == 0
            writer.wait_for_acks(300)
            gateway.start()
            fleet.wait_together()
            writer.wait_for_acks(300)
        fleet.gateways[0].promote(fleet.link, fleet.topic)
        fleet.wait_for("STOPPED", fleet.gateways[1])
        writer.wait_for_acks(300)
    fleet.assert_promoted(writer)


@pytest.mark.parametrize("fleet", [SHORT], indirect=True)
def test_a_gateway_that_is_stopped_for_a_while_acknowledges_nothing_behind_the_write_pause(fleet: GatewayFleet) -> None:
    leader = fleet.leader()
    (other,) = fleet.others(leader)
    name = fleet.name_of(other)
    with fleet.writer(other) as writer, fleet.writer(leader) as second:
        writer.wait_for_acks(300)
        pause(other)
        wait_until(
            lambda: fleet.known(leader).get(name, {}).get("state") in ("silent", "lost"), 20.0, what="that it is missed"
        )
        leader.promote(fleet.link, fleet.topic)
        fleet.wait_waiting(leader, name)
        fleet.wait_promoted(leader, 60.0)
        cutover = fleet.source_ends()
        second.wait_for_acks(300)
        go_on(other)
        writer.wait_for_acks(300)
    fleet.assert_promoted(writer, second, cutover=cutover)


@pytest.mark.parametrize("fleet", [SHORT], indirect=True)
@pytest.mark.parametrize("while_sending", [False, True])
def test_a_gateway_that_is_stopped_while_a_topic_fails_back_does_not_write_it_by_its_old_routes(
    fleet: GatewayFleet, tmp_path: Path, while_sending: bool
) -> None:
    leader = fleet.leader()
    (other,) = fleet.others(leader)
    name, now = fleet.name_of(other), tmp_path / "now"
    if while_sending:
        assert other.stop() == 0
        other.program = stopped_sending.program(now)
        other.start()
        fleet.wait_together()
    with fleet.writer(other) as writer:
        writer.wait_for_acks(300)
        fleet.operate(leader, "promote")
        fleet.wait_for("STOPPED", leader)
        writer.wait_for_acks(300)
        if while_sending:
            now.touch()
        else:
            pause(other)  # while the producer goes on writing to its socket
        wait_until(lambda: fleet.known(leader).get(name, {}).get("state") == "lost", 30.0, what="that it is lost")
        assert not now.exists()
        wait_until(lambda: fleet.is_lease_over(leader, name), 30.0, what="the end of its lease")
        fleet.operate(leader, "reverse-and-start-mirror")
        fleet.wait_for("ACTIVE", leader)

        def at_home() -> bool:
            """A promote that a busy machine does not get done within its pause is asked for again."""
            found = fleet.mirror(leader)
            if found["mirror_direction"] != "FORWARD" and found["mirror_status"] == "ACTIVE":
                fleet.operate(leader, "promote", mirror_direction="REVERSE")
            return bool(found["mirror_direction"] == "FORWARD")

        wait_until(at_home, 60.0, what="the topic at home")
        go_on(other)
        writer.wait_for_acks(300)
    fleet.wait_for("ACTIVE", leader)  # and not FAILED; PENDING_MIRROR for as long as the copy's end is looked for
    fleet.wait_level()
    fleet.assert_promoted(writer)


@pytest.mark.parametrize("fleet", [SHORT], indirect=True)
def test_an_old_leader_that_wakes_up_follows(fleet: GatewayFleet) -> None:
    leader = fleet.leader()
    (other,) = fleet.others(leader)
    with fleet.writer(other) as writer:
        writer.wait_for_acks(100)
        pause(leader)
        wait_until(lambda: fleet.leader_for(other) == fleet.name_of(other), 30.0, what="the next leader")
        other.promote(fleet.link, fleet.topic)
        fleet.wait_for("STOPPED", other, 60.0)
        go_on(leader)
        wait_until(lambda: fleet.leader_for(leader) == fleet.name_of(other), 30.0, what="that it follows")
        fleet.wait_together()
        answer = leader.api.post(f"/v3/links/{fleet.link}/mirrors/{fleet.topic}:promote", json={})
        assert answer.status_code == 409, "passed on to the new leader, which knows that it is done"
        with fleet.writer(leader) as second:
            second.wait_for_acks(300)
        writer.wait_for_acks(300)
    fleet.assert_promoted(writer, second)


def test_a_sidecar_serves_clients_and_of_two_operators_one_is_refused(fleet: GatewayFleet) -> None:
    sidecar = fleet.add("sidecar")
    fleet.wait_together()
    found = fleet.known(sidecar)
    assert [one["role"] for one in found.values()] == ["node", "node", "sidecar"]

    def mirrored() -> list[int]:
        return [one["mirror_partitions"] for one in fleet.known(sidecar).values()]

    wait_until(lambda: mirrored()[2] == 0 and abs(mirrored()[0] - mirrored()[1]) < 2, 60.0, what="an even spread")
    with fleet.writer(sidecar) as writer:
        writer.wait_for_acks(300)
        path = f"/v3/links/{fleet.link}/mirrors/{fleet.topic}:promote"
        with ThreadPoolExecutor() as operators:
            answers = list(
                operators.map(lambda one: one.api.post(path, json={}).status_code, (sidecar, fleet.gateways[0]))
            )
        assert sorted(answers) == [202, 409]
        fleet.wait_for("STOPPED", sidecar)
        writer.wait_for_acks(300)
    fleet.assert_promoted(writer)


def test_two_gateways_that_start_at_the_same_moment_are_one_fleet(fleet: GatewayFleet) -> None:
    for gateway in fleet.gateways:
        assert gateway.stop() == 0
    with ThreadPoolExecutor() as both:
        list(both.map(lambda one: one.start(), fleet.gateways))
    fleet.wait_together()
    assert len({fleet.leader_for(gateway) for gateway in fleet.gateways}) == 1
    with fleet.writer() as writer:
        writer.wait_for_acks(300)
        fleet.gateways[1].promote(fleet.link, fleet.topic)
        fleet.wait_for("STOPPED", fleet.gateways[0])
        writer.wait_for_acks(100)
    fleet.assert_promoted(writer)


def test_a_second_process_of_one_gateway_changes_nothing(fleet: GatewayFleet) -> None:
    leader = fleet.leader()
    again = leader.run_again()
    assert again.returncode == 1
    assert "cannot listen on" in again.stderr
    assert fleet.leader() is leader
    with fleet.writer() as writer:
        writer.wait_for_acks(100)
        leader.promote(fleet.link, fleet.topic)
        fleet.wait_for("STOPPED", leader)
        writer.wait_for_acks(100)
    fleet.assert_promoted(writer)
