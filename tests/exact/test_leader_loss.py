"""Target leaders that are lost between an append and its replication, on brokers, dozens of times.

Both followers are stopped, so that what the mirror appends meanwhile is on the leader alone; then the leader is killed,
and the followers go on: they elect one of them, and what only the old leader had is gone. The mirror must not have said
of any of that that it is on the target, and must append it again.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from gateway.devcluster import DevCluster
from gateway.devcluster.node import NodeProcess
from gateway.kafka.admin import create_topic as create_replicated
from gateway.kafka.offsets import EARLIEST
from gateway.mirror.partition.log_start import plan_start
from gateway.state.records import MirrorRecord
from tests.support.brokers.clusters import SOON_MISSED, running_cluster
from tests.support.brokers.logs import assert_equal, assert_nothing_lost, create_topic, read_logs
from tests.support.brokers.replicas import (
    in_sync,
    last_epoch,
    log_end,
    replicas_of,
    start_behind,
    stop_with_unread_answers,
)
from tests.support.clients.writer import Writer
from tests.support.mirror.mirror_lab import LINK, Lab, mirror_lab
from tests.support.waiting import wait_until, wait_until_async

PARTITIONS: Final = 6
DOZENS: Final = 24
ROUNDS: Final = 30
"""At most; each is to lose some partitions."""
UNCLEAN_ROUNDS: Final = 3


def leaders(lab: Lab, topic: str) -> dict[int, int]:
    """Partition -> node."""
    return {index: one.leader for index, one in lab.target.view.topics[topic].partitions.items()}


@contextmanager
def frozen(cluster: DevCluster) -> Iterator[None]:
    """It does nothing for the time of the block."""
    for node in cluster.nodes.values():
        node.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for node in cluster.nodes.values():
            node.signal(signal.SIGCONT)


async def lose_a_leader(lab: Lab, source: DevCluster, target: DevCluster, topic: str) -> list[str]:
    """Returns the partitions of which something was lost, in words.

    The source is stopped until both followers have all there is, and an answer before them that they have not read: the
    next append is on the leader alone.
    """
    await lab.target.refresh()
    of = leaders(lab, topic)
    number = max(set(of.values()), key=list(of.values()).count)
    led = [index for index, leader in of.items() if leader == number]
    leader, followers = target.nodes[number], [node for at, node in target.nodes.items() if at != number]

    def has(node: NodeProcess) -> dict[int, int]:
        return {index: log_end(node, topic, index) for index in led}

    try:
        with frozen(source):
            await wait_until_async(
                lambda: all(has(node) == has(leader) for node in followers), 10.0, what=f"replication of {led}"
            )
            await asyncio.to_thread(stop_with_unread_answers, followers, leader)
            before = has(leader)
        await wait_until_async(lambda: has(leader) != before, 10.0, what=f"appends to {led} at node {number} alone")
        said = {one.partition: max(one.mirrored_to or 0, one.target_end) for one in lab.status(topic)}
        leader.signal(signal.SIGKILL)
        await asyncio.to_thread(leader.wait_stopped, 10.0)
    finally:
        for node in followers:
            node.signal(signal.SIGCONT)
    ends = {index: log_end(leader, topic, index) for index in led}
    epochs = {index: last_epoch(leader, topic, index) for index in led}

    def begun(index: int) -> int | None:
        """Where the next leader's part begins, once something was appended to it."""
        return start_behind(followers, topic, index, epochs[index])

    await wait_until_async(lambda: all(begun(index) is not None for index in led), 60.0, what=f"leaders of {led}")
    lost = []
    for index in led:
        start = begun(index)
        assert start is not None
        assert said[index] <= start, (
            f"partition {index} was said to be mirrored to {said[index]}, the target had {start}"
        )
        if start < ends[index]:
            lost.append(f"{index}: {start} of {ends[index]}")
    await asyncio.to_thread(target.up)
    return lost


@pytest.mark.timeout(900)
async def test_what_is_not_replicated_was_never_said_to_be_there(
    source: DevCluster, topic: str, tmp_path: Path
) -> None:
    create_topic(source.bootstrap, topic, partitions=PARTITIONS)
    lost: list[str] = []
    with running_cluster("three", "4.3.1", tmp_path, brokers=3, properties=SOON_MISSED) as target:
        async with mirror_lab(source.bootstrap, target.bootstrap) as lab:
            configs = {"min.insync.replicas": "2"}
            await create_replicated(lab.target, topic, partitions=PARTITIONS, replication_factor=3, configs=configs)
            starts = await plan_start(lab.source, topic, EARLIEST)
            lab.engine.start_mirror(
                MirrorRecord(link=LINK, source_topic=topic, mirror_topic=topic, mirror_id=5, starts=starts)
            )
            with Writer(source.bootstrap, topic, partitions=PARTITIONS, rate=1000) as writer:
                for _ in range(ROUNDS):
                    await asyncio.to_thread(writer.wait_for_acks, 500)
                    await lab.caught_up(topic)
                    await asyncio.to_thread(wait_until, lambda: in_sync(target, topic), 60.0, what="all in sync")
                    lost += await lose_a_leader(lab, source, target, topic)
                    if len(lost) >= DOZENS:
                        break
            await lab.caught_up(topic)
        one, two = await asyncio.gather(
            *(asyncio.to_thread(read_logs, each.bootstrap, topic, PARTITIONS) for each in (source, target))
        )
    sys.stdout.write(f"leader-loss: partitions={len(lost)}\n")
    assert_equal(one, two)
    assert_nothing_lost(writer, two)
    assert len(lost) >= DOZENS, lost


def lose_what_was_acknowledged(lab: Lab, target: DevCluster, topic: str) -> list[str]:
    """Returns the partitions that have lost something of what they had acknowledged, in words.

    One of two replicas is stopped until the other one is in sync alone; that one takes more, and is killed.
    """
    of = replicas_of(target, topic)
    pairs = [(one.leader, *(each for each in one.all if each != one.leader)) for one in of.values()]
    number, other = max(pairs, key=pairs.count)
    led = [index for index, one in of.items() if (one.leader, set(one.all)) == (number, {number, other})]
    leader, follower = target.nodes[number], target.nodes[other]
    follower.signal(signal.SIGSTOP)
    try:
        wait_until(
            lambda: bool(now := replicas_of(target, topic)) and all(now[index].in_sync == (number,) for index in led),
            60.0,
            what=f"node {number} to be in sync alone",
        )
        ends = {index: log_end(follower, topic, index) for index in led}

        def said() -> dict[int, int]:
            return {one.partition: one.target_end for one in lab.status(topic)}

        # A partition that begins anew asks whether there is an offset map, 15 s at a time: once two such questions got
        # no answer, of a broker that is stopped, or of one that has forwarded it to a controller that is.
        wait_until(lambda: any(said()[index] > ends[index] for index in led), 120.0, what="acknowledgements")
        told = said()
        leader.signal(signal.SIGKILL)
        leader.wait_stopped(10.0)
    finally:
        follower.signal(signal.SIGCONT)
    wait_until(
        lambda: bool(now := replicas_of(target, topic)) and all(now[index].leader == other for index in led),
        60.0,
        what=f"node {other} to lead {led}",
    )
    target.up()
    return [f"{index}: {ends[index]} of {told[index]}" for index in led if ends[index] < told[index]]


@pytest.mark.timeout(900)
async def test_what_an_unclean_election_loses_is_appended_once_more(
    source: DevCluster, topic: str, tmp_path: Path
) -> None:
    create_topic(source.bootstrap, topic, partitions=PARTITIONS)
    lost: list[str] = []
    with running_cluster("three", "4.3.1", tmp_path, brokers=3, properties=SOON_MISSED) as target:
        async with mirror_lab(source.bootstrap, target.bootstrap) as lab:
            configs = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
            await create_replicated(lab.target, topic, partitions=PARTITIONS, replication_factor=2, configs=configs)
            starts = await plan_start(lab.source, topic, EARLIEST)
            lab.engine.start_mirror(
                MirrorRecord(link=LINK, source_topic=topic, mirror_topic=topic, mirror_id=5, starts=starts)
            )
            with Writer(source.bootstrap, topic, partitions=PARTITIONS, rate=300) as writer:
                for _ in range(UNCLEAN_ROUNDS):
                    await asyncio.to_thread(writer.wait_for_acks, 300)
                    await lab.caught_up(topic, 120.0)
                    await asyncio.to_thread(wait_until, lambda: in_sync(target, topic, 2), 60.0, what="all in sync")
                    lost += await asyncio.to_thread(lose_what_was_acknowledged, lab, target, topic)
                await asyncio.to_thread(writer.wait_for_acks, 300)
            await lab.caught_up(topic, 120.0)
        one, two = await asyncio.gather(
            *(asyncio.to_thread(read_logs, each.bootstrap, topic, PARTITIONS) for each in (source, target))
        )
    sys.stdout.write(f"unclean: partitions={len(lost)}\n")
    assert_equal(one, two)
    assert_nothing_lost(writer, two)
    assert len(lost) >= UNCLEAN_ROUNDS, lost
