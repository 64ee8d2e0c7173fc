"""When the leader is asked, when a replica is read, and when it is left."""

from __future__ import annotations

import pytest

from gateway.mirror.rules.read_replica import LAG_LOOKS, ReadReplica

LEADER, NEAR, MAX_AGE_S = 1, 3, 300.0


def led() -> ReadReplica:
    replica = ReadReplica()
    replica.led_by(LEADER)
    return replica


def named(now: float = 0.0) -> ReadReplica:
    replica = led()
    replica.named(NEAR, now, MAX_AGE_S)
    return replica


def read(replica: ReadReplica) -> tuple[int | None, bool]:
    """Who is read, and whether the rack is told."""
    return replica.node, replica.asks


def test_the_leader_is_asked_first_and_again_when_the_time_is_over() -> None:
    replica = led()
    assert read(replica) == (None, True)
    assert not replica.is_due(1e9), "it is asked with every fetch"
    replica.named(NEAR, 10.0, MAX_AGE_S)
    assert read(replica) == (NEAR, True)
    assert not replica.is_due(10.0 + MAX_AGE_S - 1)
    assert replica.is_due(10.0 + MAX_AGE_S)
    assert read(replica) == (None, True)


def test_another_leader_is_asked_anew() -> None:
    replica = named()
    replica.led_by(LEADER)
    assert replica.node == NEAR
    replica.led_by(2)
    assert read(replica) == (None, True)


def test_a_replica_that_refuses_is_left_longer_each_time_but_not_for_ever() -> None:
    replica, now, left = named(), 0.0, []
    for _ in range(7):
        replica.refused(now, MAX_AGE_S)
        assert read(replica) == (None, False), "with the rack the leader would name it again"
        begun = now
        while not replica.is_due(now):
            now += 1.0
        left.append(now - begun)
        assert replica.asks
        replica.named(NEAR, now, MAX_AGE_S)
    assert left == [10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]
    assert replica.is_due(now + MAX_AGE_S), "it has served all of its time"
    replica.named(NEAR, now, MAX_AGE_S)
    replica.refused(now, MAX_AGE_S)
    assert replica.is_due(now + 10.0)


def test_one_that_lacks_what_the_leader_had_lags() -> None:
    replica = named()
    replica.replica_told(100)
    looks = [replica.leader_told(end, float(now), fetching=True) for now, end in enumerate((100, 200, 300, 400, 500))]
    assert looks == [False] * (LAG_LOOKS + 1) + [True], "what came since the look before is no lag"


@pytest.mark.parametrize("step", [10, 1000])
def test_one_that_follows_does_not_lag_however_fast_the_log_grows(step: int) -> None:
    replica = named()
    for now in range(1, 50):
        replica.replica_told((now - 1) * step)
        assert not replica.leader_told(now * step, float(now), fetching=True)


def test_a_partition_that_is_not_fetched_says_nothing_of_its_replica() -> None:
    replica = named()
    replica.replica_told(100)
    for now in range(20):
        assert not replica.leader_told(100 + 100 * now, float(now), fetching=False)


def test_a_replica_is_looked_at_less_often_while_nothing_happens() -> None:
    replica, now, waits = named(), 0.0, []
    replica.replica_told(100)
    for _ in range(7):
        replica.leader_told(100, now, fetching=True)
        waits.append(replica.look_at - now)
        now = replica.look_at
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    replica.leader_told(200, now, fetching=True)
    assert replica.look_at - now == 1.0
