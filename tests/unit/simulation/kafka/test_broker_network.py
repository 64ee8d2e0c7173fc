"""Brokers of the model on the simulation's network, asked by the product's own client."""

from __future__ import annotations

from random import Random
from typing import Any

from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.config import ClusterConfig
from gateway.transport.host import Host
from protocol.errors import ErrorCode
from protocol.messages import MetadataRequest
from tests.simulation.kafka.cluster import ClusterModel
from tests.simulation.kernel.loop import SimLoop
from tests.support.fakes.model_cluster import batch_of, fetch_request, produce_request


class Scene:
    """Three brokers and a client, each on a node of its own."""

    def __init__(self) -> None:
        self.loop = SimLoop(3)
        self.model = ClusterModel(self.loop, brokers=3, rng=Random(1))
        self.loop.run_until_complete(self.model.start())
        host = Host(rng=Random(2), plain_sockets=False, monotonic=self.loop.time, boot=self.loop.time)
        self.client = Cluster(
            ClusterConfig(bootstrap=tuple((broker.host, 9092) for broker in self.model.brokers.values())), host=host
        )

    def run(self, coroutine: Any) -> Any:
        return self.loop.run_until_complete(self.loop.spawn(self.loop.node("client"), coroutine, "client"))


def test_the_gateways_client_follows_a_leader_over_a_crash():
    scene = Scene()
    with scene.loop:
        scene.model.create_topic("t", 1, 3, {"min.insync.replicas": "2"}, assignments=[[1, 2, 3]])

        async def produce(value: bytes) -> Any:
            await scene.client.refresh(["t"], 30)
            leader = scene.client.leader("t", 0)
            answer = await scene.client.request(
                produce_request({("t", 0): batch_of(value)}), leader, cap=9, timeout_s=5
            )
            return answer.responses[0].partition_responses[0]

        scene.run(scene.client.start(10, topics=["t"]))
        assert scene.run(produce(b"a")).base_offset == 0
        assert len(scene.run(scene.client.request(MetadataRequest(topics=[]))).brokers) == 3
        scene.model.kill_broker(1)
        until = scene.loop.time() + 30
        while scene.model.partition("t", 0).leader is None and scene.loop.time() < until:
            over = scene.loop.create_future()
            scene.loop.call_later(0.5, over.set_result, None)
            scene.loop.run_until_complete(over)
        assert scene.run(produce(b"b")).base_offset == 1
        fetched = scene.run(
            scene.client.request(fetch_request({("t", 0): 0}), scene.client.leader("t", 0), cap=12, timeout_s=5)
        )
        assert fetched.responses[0].partitions[0].high_watermark == 2
        scene.run(scene.model.start_broker(1))
        assert [record.value for record in scene.model.records("t", 0)] == [b"a", b"b"]
        assert not scene.loop.unhandled
        scene.run(scene.client.close())


def test_requests_of_one_connection_are_served_in_order():
    """A long poll holds back what comes behind it on its connection, and on no other."""
    scene = Scene()
    with scene.loop:
        scene.model.create_topic("t", 1, 1, assignments=[[1]])
        scene.run(scene.client.start(10, topics=["t"]))

        async def two() -> list[float]:
            connection = await scene.client.connection(1, 0, 5)
            start = scene.loop.time()
            poll = scene.loop.create_task(
                connection.request(fetch_request({("t", 0): 0}, max_wait_ms=2000), cap=12, timeout_s=5)
            )
            behind = scene.loop.create_task(connection.request(MetadataRequest(topics=[]), timeout_s=5))
            times = []
            for task in (behind, poll):
                answer = await task
                assert getattr(answer, "error_code", 0) == ErrorCode.NONE
                times.append(scene.loop.time() - start)
            return times

        assert min(scene.run(two())) >= 2
        scene.run(scene.client.close())
