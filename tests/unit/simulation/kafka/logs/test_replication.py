"""Replication in the broker model: high watermark, ISR, elections, truncation."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import ErrorCode
from tests.simulation.kafka.logs.partition import Partition
from tests.support.fakes.model_cluster import ModelLab, batch_of, fetch_request, values_in


def three(min_isr: int = 2, seed: int = 1, **configs: str) -> tuple[ModelLab, Partition]:
    timeouts = {"replica.lag.time.max.ms": "10000", "broker.session.timeout.ms": "3000"}
    lab = ModelLab(brokers=3, seed=seed, configs=timeouts)
    more = {"min.insync.replicas": str(min_isr), **{name.replace("_", "."): value for name, value in configs.items()}}
    topic = lab.cluster.create_topic("t", 1, 3, more, assignments=[[1, 2, 3]])
    lab.sleep(1)
    return lab, topic.partitions[0]


def values(lab: ModelLab) -> list[bytes | None]:
    return [record.value for record in lab.cluster.records("t", 0)]


def test_the_high_watermark_is_what_all_of_the_isr_has():
    lab, partition = three()
    with lab:
        lab.produce("t", 0, batch_of(b"a"), acks=1)
        assert lab.cluster.log_range("t", 0) == (0, 1, 0, 0)
        lab.sleep(0.1)
        assert lab.cluster.log_range("t", 0) == (0, 1, 1, 1)
        partition.replicas[3].lag_until = lab.loop.time() + 100
        lab.produce("t", 0, batch_of(b"b"), acks=1)
        lab.sleep(5)
        assert lab.cluster.log_range("t", 0)[2] == 1
        assert partition.replicas[2].log.end == 2
        lab.sleep(20)
        assert partition.state.isr == (1, 2)
        assert lab.cluster.log_range("t", 0)[2] == 2
        lab.sleep(100)
        assert sorted(partition.state.isr) == [1, 2, 3]


def test_judges_see_all_of_a_log_and_readers_what_is_replicated():
    lab, _ = three()
    with lab:
        lab.produce("t", 0, batch_of(b"a"), acks=1)
        assert lab.cluster.log_range("t", 0)[3] == 0
        assert [record.value for record in lab.cluster.records("t", 0, committed_only=True)] == [b"a"]


def test_a_killed_leader_is_replaced_by_a_member_of_the_isr():
    lab, partition = three()
    with lab:
        lab.produce("t", 0, batch_of(b"a"))
        lab.cluster.kill_broker(1)
        lab.sleep(1)
        assert partition.state.leader == 1
        lab.sleep(3)
        assert (partition.state.leader, partition.state.epoch, partition.state.isr) == (2, 1, (2, 3))
        assert lab.produce("t", 0, batch_of(b"b"), broker=2).base_offset == 1
        assert values(lab) == [b"a", b"b"]
        lab.run(lab.cluster.start_broker(1))
        lab.sleep(1)
        assert partition.state.isr == (2, 3, 1)
        assert partition.replicas[1].log.end == 2


def test_without_a_member_of_the_isr_there_is_no_leader():
    lab, partition = three(min_isr=1)
    with lab:
        for broker_id in (2, 3, 1):
            lab.cluster.kill_broker(broker_id)
            lab.sleep(4)
        assert (partition.state.leader, partition.state.isr) == (-1, (1,))
        lab.run(lab.cluster.start_broker(2))
        lab.sleep(2)
        assert partition.state.leader == -1
        lab.run(lab.cluster.start_broker(1))
        lab.sleep(2)
        assert partition.state.leader == 1


def test_an_unclean_election_loses_what_was_not_copied():
    lab, partition = three(min_isr=1, unclean_leader_election_enable="true")
    with lab:
        lab.produce("t", 0, batch_of(b"a"))
        lab.cluster.lag_followers("t", 0, 1000)
        lab.produce("t", 0, batch_of(b"b"), acks=1)
        lab.sleep(20)
        assert partition.state.isr == (1,)
        lab.cluster.kill_broker(1)
        lab.sleep(4)
        assert partition.state.leader == 2
        assert values(lab) == [b"a"]


def test_a_paused_leader_answers_when_it_wakes_and_truncates_what_it_wrote_alone():
    lab, partition = three()
    with lab:
        lab.produce("t", 0, batch_of(b"a"))
        lab.cluster.pause_broker(1)
        lab.sleep(4)
        assert partition.state.leader == 2
        lab.produce("t", 0, batch_of(b"b"), broker=2)
        lab.cluster.wake_broker(1)
        stale = lab.produce("t", 0, batch_of(b"zombie"), acks=1)
        assert (stale.error_code, stale.base_offset) == (0, 1), "it has not heard of its successor yet"
        lab.sleep(1)
        assert values(lab) == [b"a", b"b"]
        assert [batch.header.base_offset for batch in partition.replicas[1].log.batches] == [0, 1]
        assert partition.replicas[1].log.batches[1] is partition.replicas[2].log.batches[1]
        assert lab.produce("t", 0, batch_of(b"c")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_leader_can_be_moved_with_a_loss():
    lab, partition = three()
    with lab:
        for value in (b"a", b"b", b"c"):
            lab.produce("t", 0, batch_of(value))
        assert lab.cluster.move_leader("t", 0, to=3, lose=2) == 3
        lab.sleep(1)
        assert values(lab) == [b"a"]
        assert {replica.log.end for replica in partition.replicas.values()} == {1}
        lab.produce("t", 0, batch_of(b"d"), broker=3)
        lab.sleep(1)
        assert partition.replicas[1].log.epochs == [(0, 0), (1, 1)]


def test_a_follower_of_v11_readers_shows_what_it_knows_to_be_in_all_of_the_isr():
    lab, _ = three()
    with lab:
        lab.produce("t", 0, batch_of(b"a"))
        lab.sleep(1)
        lab.produce("t", 0, batch_of(b"b"))
        asked = fetch_request({("t", 0): 0}, max_wait_ms=0)
        assert lab.ask(asked, 10, broker=2).responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        part = lab.ask(asked, 11, broker=2).responses[0].partitions[0]
        assert (part.error_code, part.high_watermark, values_in(part.records)) == (0, 1, [b"a"])
        paused = fetch_request({("t", 0): 0}, leader_epoch=1)
        assert lab.ask(paused, 11).responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        lab.cluster.move_leader("t", 0, to=2)
        lab.sleep(1)
        part = lab.ask(fetch_request({("t", 0): 0}, leader_epoch=0), 12).responses[0].partitions[0]
        assert part.error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_a_follower_hears_of_the_high_watermark_without_another_record():
    lab, partition = three()
    with lab:
        lab.produce("t", 0, batch_of(b"a"))
        lab.sleep(0.6)
        part = lab.ask(fetch_request({("t", 0): 0}, max_wait_ms=0), 11, broker=2).responses[0].partitions[0]
        assert (part.high_watermark, values_in(part.records)) == (1, [b"a"])
        lab.cluster.kill_broker(1)
        lab.sleep(4)
        assert partition.state.leader == 2
        partition.replicas[3].lag_until = lab.loop.time() + 2
        lab.produce("t", 0, batch_of(b"b"), acks=1, broker=2)
        lab.sleep(1)
        assert partition.replicas[3].log.high_watermark == 1
        lab.sleep(2)
        assert partition.replicas[3].log.high_watermark == 2


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "write", "kill", "start", "pause", "wake", "move", "lag", "wait", "stop"]),
        st.integers(1, 3),
        st.floats(0.0, 6.0),
    ),
    max_size=25,
)


class World:
    """Writers with acks=all and acks=1, and what was told them."""

    def __init__(self, seed: int) -> None:
        self.lab, self.partition = three(seed=seed)
        self.acked: dict[bytes, int] = {}
        self.written = 0
        self.tasks: list[asyncio.Task[Any]] = []
        self.seen: dict[int, bytes | None] = {}  # below a leader's high watermark

    async def write(self, acks: int, broker: int) -> None:
        value = b"%d/%d" % (acks, self.written)
        self.written += 1
        if not self.lab.cluster.brokers[broker].running:
            return
        answer = await self.lab.produced("t", 0, batch_of(value), broker=broker, acks=acks, timeout_ms=2000)
        if answer.error_code == 0 and acks == -1:
            self.acked[value] = answer.base_offset

    def step(self, what: str, which: int, seconds: float) -> None:
        cluster = self.lab.cluster
        broker = cluster.brokers[which]
        if what == "write":
            for acks in (-1, 1):
                for broker_id in {which, max(self.partition.leader_id, 1)}:  # the one may not know of the other
                    self.tasks.append(self.lab.loop.create_task(self.write(acks, broker_id), name="writer"))
        elif what == "start" and not broker.alive:
            self.lab.run(cluster.start_broker(which))
        elif what == "stop" and broker.running:
            self.lab.run(cluster.stop_broker(which))
        elif what == "move":
            cluster.move_leader("t", 0, to=which)
        elif what == "lag":
            cluster.lag_followers("t", 0, seconds)
        else:
            {"kill": cluster.kill_broker, "pause": cluster.pause_broker, "wake": cluster.wake_broker}.get(
                what, lambda _: None
            )(which)
        self.lab.sleep(seconds if what == "wait" else 0.03)

    def look(self) -> None:
        """What a reader of the leader sees never changes afterwards."""
        leader = self.partition.leader
        if leader is None:
            return
        log = leader.log
        assert log.high_watermark <= log.end
        for batch in log.batches:
            if batch.last < log.high_watermark:
                offset, value = batch.header.base_offset, batch.data[61:]
                assert self.seen.setdefault(offset, value) == value, offset
        for member in self.partition.state.isr:
            if leader.leading is not None and leader.epoch == self.partition.state.epoch:
                assert self.partition.replicas[member].log.end >= log.high_watermark, member

    def heal(self) -> None:
        for broker in self.lab.cluster.brokers.values():
            self.lab.cluster.wake_broker(broker.id)
            if not broker.alive:
                self.lab.run(self.lab.cluster.start_broker(broker.id))
        self.lab.sleep(30)


@settings(max_examples=30, deadline=None)
@given(STEPS, st.integers(0, 1000))
def test_what_is_acknowledged_by_all_stays_whatever_fails(steps: list[tuple[str, int, float]], seed: int):
    """With min.insync.replicas=2 and clean elections: what all acknowledged and what was once readable is kept."""
    world = World(seed)
    with world.lab:
        for step in steps:
            world.step(*step)
            world.look()
        world.heal()
        world.look()
        partition = world.partition
        assert partition.state.leader >= 0
        assert sorted(partition.state.isr) == [1, 2, 3]
        by_offset = {record.offset: record.value for record in world.lab.cluster.records("t", 0)}
        for value, offset in world.acked.items():
            assert by_offset.get(offset) == value
        logs = [[batch.data for batch in replica.log.batches] for replica in partition.replicas.values()]
        assert logs[0] == logs[1] == logs[2]
        ends = {replica.log.high_watermark for replica in partition.replicas.values()}
        assert max(ends) == partition.best.log.end
        assert not world.lab.loop.unhandled
        for task in world.tasks:
            task.cancel()


@pytest.mark.parametrize("acks", [1, -1])
def test_records_of_one_batch_are_kept_or_lost_together(acks: int):
    lab, partition = three()
    with lab:
        lab.produce("t", 0, batch_of(b"a", b"b", b"c"), acks=acks)
        lab.sleep(1)
        lab.cluster.move_leader("t", 0, to=2, lose=1)
        lab.sleep(1)
        assert values(lab) == []
        assert partition.best.log.end == 0
