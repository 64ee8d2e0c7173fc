"""A whole gateway before a target that loses leaders between append and replication: nothing it said is taken back.

As in `test_leader_loss.py` both followers are stopped, so that what the mirror appends is on the leader alone; then the
leader is killed. Meanwhile a producer with `ack=both` writes down each acknowledgement, and an operator each answer of
`describe`. All of that must lie below the offset at which the next leader begins: in the end the lost records are there
again, at the same offsets, and nobody could see any more that somebody had been told too early. At the end the topic is
promoted: then the target has everything, where its producer was told, and the source's log is the beginning of it.

`LOCKGATE_KILLS` is how many leaders are lost with what they had alone, 6 by default: a quarter of a minute each.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from gateway.devcluster import DevCluster
from gateway.devcluster.node import NodeProcess
from tests.support.brokers.clusters import SOON_MISSED, running_cluster
from tests.support.brokers.logs import assert_equal, assert_nothing_lost, create_topic, log_ends, read_logs
from tests.support.brokers.replicas import (
    in_sync,
    last_epoch,
    log_end,
    replicas_of,
    start_behind,
    stop_with_unread_answers,
)
from tests.support.clients.writer import Writer
from tests.support.gateways.gateway import GatewayProcess
from tests.support.gateways.mirror_gateway import MirrorGateway, mirror_gateway
from tests.support.waiting import wait_until

PARTITIONS: Final = 3
KILLS: Final = int(os.environ.get("LOCKGATE_KILLS", "6"))
_BACK_S: Final = 120.0
"""Until a partition has its next leader, or a broker is back: some ten seconds, unless others take the processors."""
_LEVEL_S: Final = 20.0
_LISTEN_S: Final = 3.0
_ASK_S: Final = 2.0
_CONFIGS: Final = [{"name": "min.insync.replicas", "value": "2"}]


class Promises:
    """What was told of the copy: `acked` and `described` by partition, the offset up to which all is on the target.

    `answers`: how often somebody who asked was told.
    """

    def __init__(self, mirror: MirrorGateway, topic: str, writer: Writer) -> None:
        self.acked: dict[int, int] = {}
        self.described: dict[int, int] = {}
        self.answers = 0
        self.mirror = mirror
        self._topic = topic
        self._writer = writer
        self._heard = 0  # of its acknowledgements

    def listen(self) -> dict[int, str]:
        """Ask once more. Returns the last error of each partition, as `describe` has it.

        A list has the same numbers, and does not ask the target for configs: brokers that are stopped tell none.
        """
        found: list[dict[str, Any]] = []
        with suppress(httpx.HTTPError):
            found = self.mirror.gateway.api.get(self.mirror.path, timeout=_ASK_S).json().get("data", [])
            self.answers += bool(found)
        lags = [lag for one in found if one["mirror_topic_name"] == self._topic for lag in one["mirror_lags"]]
        for lag in lags:
            _raise(self.described, lag["partition"], max(lag["target_end"], lag["mirrored_to"] or 0))
        told = tuple(self._writer.acknowledged.values())
        for ack in told[self._heard :]:
            _raise(self.acked, ack.partition, ack.offset + 1)
        self._heard = len(told)
        return {lag["partition"]: lag["last_error"] for lag in lags}

    def listen_until(self, is_enough: Callable[[dict[int, str]], bool]) -> None:
        """Ask over and over, for a while only: what does not come need not be there to be told, or not in time."""
        with suppress(AssertionError):
            wait_until(lambda: is_enough(self.listen()), _LISTEN_S)

    def assert_below(self, partition: int, end: int) -> None:
        """The partition ends there for now, whatever was said."""
        for what, told in (("acknowledged", self.acked), ("described", self.described)):
            assert told.get(partition, 0) <= end, f"{what} up to {told[partition]}, and partition {partition} had {end}"


def _raise(told: dict[int, int], partition: int, end: int) -> None:
    told[partition] = max(end, told.get(partition, 0))


@contextmanager
def frozen(gateway: GatewayProcess) -> Iterator[None]:
    """It does nothing for the time of the block: what it has sent is worked off, and nothing new comes.

    A broker works off one connection's requests one after the other. So while one append waits for followers that are
    stopped, none is on the leader alone: they must not be stopped before it is replicated.
    """
    assert gateway.pid is not None
    os.kill(gateway.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(gateway.pid, signal.SIGCONT)


def lose_a_leader(target: DevCluster, topic: str, promises: Promises) -> list[str]:
    """Kill the one that leads most partitions, with what it has alone, and start it again.

    Returns the partitions of which something was lost, in words; none when nobody could ask meanwhile.
    """
    of = {index: one.leader for index, one in replicas_of(target, topic).items()}
    number = max(set(of.values()), key=list(of.values()).count)
    led = [index for index, one in of.items() if one == number]
    leader, followers = target.nodes[number], [node for at, node in target.nodes.items() if at != number]
    try:
        with frozen(promises.mirror.gateway):
            wait_until(lambda: is_replicated(target, topic, leader, led), _LEVEL_S, what=f"replication of {led}")
            stop_with_unread_answers(followers, leader)
            theirs = {index: log_end(leader, topic, index) for index in led}
        promises.listen_until(lambda _: any(log_end(leader, topic, index) > theirs[index] for index in led))
        appended = [index for index in led if log_end(leader, topic, index) > theirs[index]]
        leader.signal(signal.SIGKILL)
        leader.wait_stopped(10.0)
        answers = promises.answers
        promises.listen_until(lambda errors: all(errors.get(index) for index in appended))  # told what came of it
    finally:
        for node in followers:
            node.signal(signal.SIGCONT)
    had = {index: log_end(leader, topic, index) for index in led}
    epochs = {index: last_epoch(leader, topic, index) for index in led}
    # Its old session is waited for, so the others elect before it is back: unless they had been silent for so long that
    # none may lead. Then it leads again.
    leader.start()
    starts = {index: next_start([*followers, leader], topic, index, epochs[index]) for index in led}
    for index, start in starts.items():
        promises.assert_below(index, start)
    target.wait_up(_BACK_S)
    if promises.answers == answers:
        return []
    return [f"{index}: {start} of {had[index]}" for index, start in starts.items() if start < had[index]]


def is_replicated(target: DevCluster, topic: str, leader: NodeProcess, led: Sequence[int]) -> bool:
    """The leader knows that its followers have all that it has."""
    ends = log_ends(target.bootstrap, topic, PARTITIONS)
    return all(ends[index] == log_end(leader, topic, index) for index in led)


def next_start(nodes: Sequence[NodeProcess], topic: str, partition: int, epoch: int) -> int:
    """Where the log of the leaders behind this epoch begins, once there is one."""

    def starts() -> list[int]:
        found = start_behind(nodes, topic, partition, epoch)
        return [] if found is None else [found]

    return wait_until(starts, _BACK_S, what=f"the next leader of partition {partition}")[0]


@pytest.mark.slow
@pytest.mark.timeout(120 + 60 * KILLS)
def test_what_was_said_of_a_copy_is_never_taken_back(source: DevCluster, topic: str, tmp_path: Path) -> None:
    create_topic(source.bootstrap, topic, partitions=PARTITIONS)
    lost: list[list[str]] = []
    kills = 0
    with (
        running_cluster("three", "4.3.1", tmp_path, brokers=3, properties=SOON_MISSED) as target,
        mirror_gateway(tmp_path, source, target, ack="both") as mirror,
    ):
        mirror.create(topic, replication_factor=3, configs=_CONFIGS)
        mirror.until(topic, "ACTIVE")
        with Writer(mirror.gateway.bootstrap, topic, partitions=PARTITIONS, rate=150) as writer:
            promises = Promises(mirror, topic, writer)
            while len(lost) < KILLS and kills < 2 * KILLS:
                writer.wait_for_acks(100, _BACK_S)
                wait_until(lambda: in_sync(target, topic), _BACK_S, what="all in sync")
                kills += 1
                if gone := lose_a_leader(target, topic, promises):
                    lost.append(gone)
            mirror.gateway.promote(mirror.link, topic)  # the last one that was lost need not be in sync again
            mirror.until(topic, "STOPPED")
            writer.wait_for_acks(100)
        promises.listen()
        one, two = (read_logs(each.bootstrap, topic, PARTITIONS) for each in (source, target))
    sys.stdout.write(f"leader-loss: kills={kills} lost={lost} acks={writer.acks} answers={promises.answers}\n")
    assert_nothing_lost(writer, two)
    assert_equal(one, [log[: len(one[index])] for index, log in enumerate(two)])
    for index, log in enumerate(two):
        promises.assert_below(index, log[-1].offset + 1)
    assert len(lost) >= KILLS, lost
