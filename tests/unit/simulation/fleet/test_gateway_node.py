"""The product itself in the simulation: a fleet comes up, mirrors, loses its leader, promotes; twice the same."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.fleet import logs
from tests.simulation.fleet.gateway_node import GatewayNode, NotServing
from tests.simulation.kafka.cluster import ClusterModel
from tests.simulation.kernel.loop import SimLoop
from tests.simulation.trace import trace

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture
def loop():
    with logs.told_to(None), SimLoop(seed=11) as made:
        yield made
        assert made.unhandled == []


async def clusters(loop):
    source = ClusterModel(loop, name="source", rng=loop.random("source"))
    target = ClusterModel(loop, name="target", rng=loop.random("target"))
    await source.start()
    await target.start()
    return source, target


async def until(condition, seconds=30.0):
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110 - the condition asks
            await asyncio.sleep(0.1)


def test_one_gateway_starts_serves_and_stops(loop):
    async def story():
        _, target = await clusters(loop)
        gateway = GatewayNode(loop, "gw-0", target.bootstrap)
        with pytest.raises(NotServing):
            await gateway.api.get("/health")
        await gateway.start()
        assert (await gateway.api.get("/health")).status == 200
        status = (await gateway.api.get("/v3/status")).body
        assert (status["leader"], status["listeners"]["1"]) == ("gw-0", "gw-0:9293")
        await gateway.stop()
        assert not gateway.runs
        assert gateway.ended == ""
        assert not gateway.node.servers
        await gateway.start()
        assert (await gateway.api.get("/v3/nothing")).status == 404
        gateway.kill()
        with pytest.raises(NotServing):
            await gateway.api.get("/health")

    loop.run_until_complete(story())


def test_a_gateway_that_finds_no_target_says_so(loop):
    async def story():
        loop.node("target-1")
        with pytest.raises(NotServing, match="target-1:9092: connection refused"):
            await GatewayNode(loop, "gw-0", "target-1:9092").start()

    loop.run_until_complete(story())


def test_three_gateways_share_a_mirror_and_another_one_leads_when_the_leader_is_stopped(loop):
    async def story():
        source, target = await clusters(loop)
        source.create_topic("orders", 3, 3)
        fleet = {name: GatewayNode(loop, name, target.bootstrap, {"fleet": {"lease_s": 5.0}}) for name in "abc"}
        await asyncio.gather(*(each.start() for each in fleet.values()))
        link = {"link_name": "l", "configs": [{"name": "bootstrap.servers", "value": source.bootstrap}]}
        assert (await fleet["a"].api.post("/v3/links", link)).status == 201
        assert (await fleet["b"].api.post("/v3/links/l/mirrors", {"source_topic_name": "orders"})).status == 201

        async def shared():
            shown = (await fleet["c"].api.get("/v3/gateways")).body["data"]
            return [each["mirror_partitions"] for each in shown] == [1, 1, 1]

        await until(shared)
        leader = (await fleet["a"].api.get("/v3/status")).body["leader"]
        fleet[leader].pause()
        other = min(fleet.keys() - {leader})

        async def led_by_another():
            now = (await fleet[other].api.get("/v3/status")).body["leader"]
            return now not in ("", leader)

        await until(led_by_another)
        fleet[leader].wake()

        async def follows():
            return (await fleet[leader].api.get("/v3/status")).body["leader"] not in ("", leader)

        await until(follows)

    loop.run_until_complete(story())


def test_the_same_seed_is_the_same_run_in_this_process_and_in_any_other():
    command = [sys.executable, "-m", "tests.simulation.trace", "5"]
    around = {**os.environ, "PYTHONHASHSEED": "0"}
    runs = [
        subprocess.run(command, cwd=ROOT, env=around, capture_output=True, text=True, check=False) for _ in range(2)
    ]
    assert [run.stderr for run in runs] == ["", ""]
    assert runs[0].stdout == runs[1].stdout
    assert trace(6) == trace(6)
    assert int(runs[0].stdout.split(":")[0]) > 3000
