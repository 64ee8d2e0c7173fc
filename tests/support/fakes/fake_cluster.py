"""Several fake brokers that agree on brokers, topics, leaders and coordinators."""

from __future__ import annotations

import uuid
from contextlib import AsyncExitStack
from typing import Any

from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import FindCoordinatorResponse, MetadataResponse
from tests.support.fakes.fake_broker import FakeBroker, Handler, Request


class FakeCluster:
    """What Metadata and FindCoordinator answer is in the attributes, which tests change as they go.

    Attributes:
        leaders: topic -> leader node id of each partition, -1 for none.
        epochs: topic -> leader epoch of each partition (0 where absent).
        coordinators: group -> node id; the first broker where absent.
        hidden: node ids that Metadata leaves out.
    """

    def __init__(self, brokers: int = 1) -> None:
        self.brokers = {node_id: FakeBroker(node_id=node_id) for node_id in range(1, brokers + 1)}
        self.cluster_id = "fake"
        self.controller_id = 1
        self.leaders: dict[str, list[int]] = {}
        self.epochs: dict[str, list[int]] = {}
        self.replicas: dict[tuple[str, int], tuple[list[int], list[int]]] = {}  # and which of them are in sync
        self.topic_errors: dict[str, int] = {}
        self.topic_ids: dict[str, uuid.UUID] = {}  # of those that were made again
        self.coordinators: dict[str, int] = {}
        self.hidden: set[int] = set()
        self._stack = AsyncExitStack()
        self.on(ApiKey.METADATA, self._metadata)
        self.on(ApiKey.FIND_COORDINATOR, self._coordinator)

    async def __aenter__(self) -> FakeCluster:
        for broker in self.brokers.values():
            await self._stack.enter_async_context(broker)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @property
    def bootstrap(self) -> str:
        """`bootstrap.servers` of every broker."""
        return ",".join(f"127.0.0.1:{broker.port}" for broker in self.brokers.values())

    def on(self, key: int, handler: Handler) -> None:
        """Answer an API on every broker."""
        for broker in self.brokers.values():
            broker.handlers[key] = handler

    def asked(self, key: int) -> list[Request]:
        """The requests of one API so far, on all brokers."""
        return [request for broker in self.brokers.values() for request in broker.asked(key)]

    def topic_id(self, topic: str) -> uuid.UUID:
        """The topic's id: always the same for the same name, unless `topic_ids` has another."""
        return self.topic_ids.get(topic) or uuid.uuid5(uuid.NAMESPACE_URL, topic)

    def _metadata(self, request: Request) -> Any:
        asked = request.message.topics
        names = list(self.leaders) if asked is None else [topic.name for topic in asked]
        broker = MetadataResponse.MetadataResponseBroker
        return MetadataResponse(
            throttle_time_ms=0,
            brokers=[
                broker(node_id=node_id, host="127.0.0.1", port=fake.port, rack=None)
                for node_id, fake in self.brokers.items()
                if node_id not in self.hidden
            ],
            cluster_id=self.cluster_id,
            controller_id=self.controller_id,
            topics=[self._topic(name) for name in names],
            error_code=0,
        )

    def _topic(self, name: str) -> Any:
        topic = MetadataResponse.MetadataResponseTopic
        known = name in self.leaders
        code = self.topic_errors.get(name, 0 if known else int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        epochs = self.epochs.get(name, [0] * len(self.leaders.get(name, ())))
        partitions = [
            topic.MetadataResponsePartition(
                error_code=0 if leader >= 0 else int(ErrorCode.LEADER_NOT_AVAILABLE),
                partition_index=index,
                leader_id=leader,
                leader_epoch=epochs[index],
                replica_nodes=self.replicas.get((name, index), ([leader], [leader]))[0],
                isr_nodes=self.replicas.get((name, index), ([leader], [leader]))[1],
                offline_replicas=[],
            )
            for index, leader in enumerate(self.leaders.get(name, ()))
        ]
        return topic(error_code=code, name=name, topic_id=self.topic_id(name), is_internal=False, partitions=partitions)

    def _coordinator(self, request: Request) -> Any:
        (group,) = request.message.coordinator_keys or [request.message.key]
        node_id = self.coordinators.get(group, 1)
        where = {"node_id": node_id, "host": "127.0.0.1", "port": self.brokers[node_id].port}
        coordinator = FindCoordinatorResponse.Coordinator(key=group, error_code=0, error_message=None, **where)
        return FindCoordinatorResponse(
            throttle_time_ms=0, error_code=0, error_message=None, coordinators=[coordinator], **where
        )
