"""Partitions go from node to node between real clusters: nothing lost, nothing doubled, and not for long nobody's."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, islice

import pytest

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import assert_equal, assert_nothing_lost, create_topic, log_ends, read_logs
from tests.support.clients.writer import Writer
from tests.support.mirror.mirror_fleet import NODES, PARTITIONS, MirrorFleet
from tests.support.mirror.mirror_gaps import MirrorGaps, percentile
from tests.support.waiting import wait_until

PLANNED_S = 0.2
KILLED_S = 1.0
KILLS = int(os.environ.get("LOCKGATE_KILLS", "9"))
SLACK = 3.0  # two cores for two clusters, three nodes, a writer and a reader


@contextmanager
def fleet(source: DevCluster, target: DevCluster, topic: str) -> Iterator[tuple[MirrorFleet, Writer, MirrorGaps]]:
    for cluster in (source, target):
        create_topic(cluster.bootstrap, topic, partitions=PARTITIONS)
    made = MirrorFleet(source, target, topic)
    with made.stack:
        for name in NODES:
            made.start(name)
        made.assign(a=(0, 1), b=(2, 3), c=(4, 5))
        with MirrorGaps(target.bootstrap, topic, PARTITIONS) as gaps:
            with Writer(source.bootstrap, topic, partitions=PARTITIONS, rate=PARTITIONS * 100) as writer:
                flows(gaps)
                yield made, writer, gaps
            same_logs(made, writer)


def flows(gaps: MirrorGaps) -> float:
    """Wait until every partition gets records that were written from now on; when that is so."""
    since = time.monotonic() + 0.2
    wait_until(lambda: gaps.flows(since), 60.0, what="records on every partition of the target")
    return time.monotonic()


def same_logs(made: MirrorFleet, writer: Writer) -> None:
    """The target has what the source has, and every record that was acknowledged."""
    topic, clusters = made.topic, (made.source.bootstrap, made.target.bootstrap)
    wait_until(lambda: len({tuple(log_ends(each, topic, PARTITIONS)) for each in clusters}) == 1, what="equal log ends")
    one, other = (read_logs(each, topic, PARTITIONS) for each in clusters)
    assert_equal(one, other)
    assert_nothing_lost(writer, other)


def report(what: str, pauses: list[float]) -> None:
    found = [percentile(pauses, share) * 1000 for share in (0.5, 0.99)]
    print(f"{what}: n={len(pauses)} p50={found[0]:.0f} ms p99={found[1]:.0f} ms")  # noqa: T201 - the measurement


@pytest.mark.slow
def test_planned(source: DevCluster, target: DevCluster, topic: str) -> None:
    pauses: list[float] = []
    with fleet(source, target, topic) as (made, _, gaps):
        for first, second in ((1, 2), (2, 1)) * 5:
            began = time.monotonic()
            made.assign(a=(0, first), b=(second, 3), c=(4, 5))
            wait_until(made.readable, 10.0, what="the new owners")
            ended = flows(gaps)
            pauses += gaps.longest(began, ended, (1, 2)).values()
            assert max(gaps.longest(began, ended, (0, 3, 4, 5)).values()) < PLANNED_S * SLACK  # nobody else waits
    report("planned", pauses)
    assert percentile(pauses, 0.5) < PLANNED_S * SLACK


@pytest.mark.slow
def test_in_order(source: DevCluster, target: DevCluster, topic: str) -> None:
    """A node that is stopped hands over what it has before it ends."""
    pauses: list[float] = []
    with fleet(source, target, topic) as (made, _, gaps):
        for _ in range(5):
            began = time.monotonic()
            made.nodes["c"].leave()
            pauses += gaps.longest(began, flows(gaps), (4, 5)).values()
            made.start("c")
            made.assign(a=(0, 1), b=(2, 3), c=(4, 5))
            wait_until(made.readable, 10.0, what="the owners as before")
            flows(gaps)
    report("stopped in order", pauses)
    assert percentile(pauses, 0.5) < PLANNED_S * SLACK


@pytest.mark.slow
def test_killed(source: DevCluster, target: DevCluster, topic: str) -> None:
    pauses: list[float] = []
    with fleet(source, target, topic) as (made, _, gaps):
        for victim, held in islice(cycle((("b", (2, 3)), ("c", (4, 5)), ("a", (0, 1)))), KILLS):
            began = time.monotonic()
            made.nodes[victim].kill()
            pauses += gaps.longest(began, flows(gaps), held).values()
            made.start(victim)
            made.assign(a=(0, 1), b=(2, 3), c=(4, 5))
            wait_until(made.readable, 10.0, what="the owners as before")
            flows(gaps)
    report("killed", pauses)
    assert percentile(pauses, 0.5) < KILLED_S * SLACK


@pytest.mark.slow
def test_paused_and_wrongly_taken_for_dead(source: DevCluster, target: DevCluster, topic: str) -> None:
    """Two nodes append to one partition for a while: no harm."""
    pauses: list[float] = []
    with fleet(source, target, topic) as (made, _, gaps):
        for _ in range(3):
            made.nodes["b"].stop()
            began = time.monotonic()
            pause = gaps.longest(began, flows(gaps), (2, 3))
            made.nodes["b"].go_on()
            wait_until(made.readable, 20.0, what="the partitions back where they are assigned")
            flows(gaps)
            pauses += pause.values()
    report("paused", pauses)
    assert max(pauses) < KILLED_S * SLACK
