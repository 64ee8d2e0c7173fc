"""A cluster of the broker model on a loop with a virtual clock, asked directly: frames without a network."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any


from protocol.codec import decode_response, encode_request
from protocol.header import response_body_offset
from protocol.messages import ProduceRequest
from protocol.records import TRANSACTIONAL
from tests.simulation.kafka.broker import Session
from tests.simulation.kafka.cluster import ClusterModel
from tests.simulation.kernel.loop import SimLoop
from tests.simulation.kafka.cleaner import encoded_record
from protocol.record_reader import Record
from tests.support.batches import make_batch

NOW_MS = 1_700_001_000_000
"""The brokers' wall clock when a loop starts."""


class ModelLab:
    """`ask` answers what a broker would; `run` runs a coroutine to its end in virtual time."""

    def __init__(self, seed: int = 1, brokers: int = 1, version: str = "4.3.1", **configs: str) -> None:
        self.loop = SimLoop(seed)
        named = {name.replace("_", "."): value for name, value in configs.items()}
        self.cluster = ClusterModel(self.loop, brokers=brokers, version=version, rng=Random(seed), configs=named)
        self.session = Session()

    def __enter__(self) -> ModelLab:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.loop.close()

    def run(self, coroutine: Any) -> Any:
        """Until it is done."""
        return self.loop.run_until_complete(coroutine)

    def sleep(self, seconds: float) -> None:
        """Let virtual time pass."""
        self.run(asyncio.sleep(seconds))

    async def asked(self, message: Any, version: int, broker: int = 1) -> Any:
        """The broker's answer to a request, decoded; None for none."""
        frame = encode_request(message, version, 7, "test")[4:]
        answer = await self.cluster.brokers[broker].handle(frame, self.session)
        if answer is None:
            return None
        return decode_response(
            message.API_KEY, version, answer[response_body_offset(message.API_KEY, version, answer) :]
        )

    def ask(self, message: Any, version: int, broker: int = 1) -> Any:
        """The same, to its end."""
        return self.run(self.asked(message, version, broker))

    def produce(self, topic: str, index: int, batch: bytes, **more: Any) -> Any:
        """Produce one batch: the partition's answer."""
        return self.run(self.produced(topic, index, batch, **more))

    async def produced(
        self,
        topic: str,
        index: int,
        batch: bytes,
        acks: int = -1,
        version: int = 9,
        broker: int = 1,
        timeout_ms: int = 30_000,
        transactional_id: str | None = None,
    ) -> Any:
        """The same, awaited."""
        answer = await self.asked(
            produce_request({(topic, index): batch}, acks, timeout_ms, transactional_id), version, broker
        )
        return None if answer is None else answer.responses[0].partition_responses[0]


def produce_request(
    parts: Mapping[tuple[str, int], bytes],
    acks: int = -1,
    timeout_ms: int = 30_000,
    transactional_id: str | None = None,
) -> Any:
    """A Produce request."""
    topic_data = ProduceRequest.TopicProduceData
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            topic_data(name=topic, partition_data=[topic_data.PartitionProduceData(index=index, records=batch)])
            for (topic, index), batch in parts.items()
        ],
    )


def batch_of(
    *values: bytes | None,
    keys: tuple[bytes | None, ...] | None = None,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
    timestamp_ms: int = NOW_MS,
    attributes: int = 0,
) -> bytes:
    """A batch of real records, one per value."""
    pairs = zip(keys or (b"k",) * len(values), values, strict=True)
    records = (Record(at, timestamp_ms, key, value, ()) for at, (key, value) in enumerate(pairs))
    payload = b"".join(encoded_record(record, 0, timestamp_ms) for record in records)
    return make_batch(
        0,
        len(values),
        payload=payload,
        producer_id=producer_id,
        epoch=epoch,
        sequence=sequence,
        timestamp_ms=timestamp_ms,
        attributes=attributes | (TRANSACTIONAL if transactional else 0),
        leader_epoch=-1,
    )
