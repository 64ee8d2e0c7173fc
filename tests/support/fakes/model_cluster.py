"""A cluster of the broker model on a loop with a virtual clock, asked directly: frames without a network."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any

from protocol.batch.header import TRANSACTIONAL, iter_batches
from protocol.batch.record_reader import Record, read_records
from protocol.codec import decode_response, encode_request
from protocol.header import response_body_offset
from protocol.messages import FetchRequest, ProduceRequest
from tests.simulation.kafka.broker import Session
from tests.simulation.kafka.cluster import ClusterModel
from tests.simulation.kafka.logs.cleaner import encoded_record
from tests.simulation.kernel.loop import SimLoop
from tests.support.mirror.batches import make_batch

NOW_MS = 1_700_001_000_000
"""The brokers' wall clock when a loop starts."""


class ModelLab:
    """`ask` answers what a broker would; `run` runs a coroutine to its end in virtual time."""

    def __init__(
        self, seed: int = 1, brokers: int = 1, version: str = "4.3.1", configs: Mapping[str, str] | None = None
    ) -> None:
        self.loop = SimLoop(seed)
        self.cluster = ClusterModel(self.loop, brokers=brokers, version=version, rng=Random(seed), configs=configs)
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
        over: asyncio.Future[None] = self.loop.create_future()
        self.loop.call_later(seconds, over.set_result, None)
        self.run(over)

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


def fetch_request(
    wanted: Mapping[tuple[str, int], int],
    *,
    ids: Mapping[str, Any] | None = None,
    session: tuple[int, int] = (0, -1),
    forget: Mapping[str, list[int]] | None = None,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    committed: bool = False,
    leader_epoch: int = -1,
    last_epoch: int = -1,
) -> Any:
    """A Fetch request of a consumer: offsets by (topic, partition); `ids` for v13 and later."""
    kind = FetchRequest.FetchTopic
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=1 if committed else 0,
        session_id=session[0],
        session_epoch=session[1],
        topics=[
            kind(
                topic=topic,
                topic_id=(ids or {}).get(topic),
                partitions=[
                    kind.FetchPartition(
                        partition=index,
                        current_leader_epoch=leader_epoch,
                        fetch_offset=offset,
                        last_fetched_epoch=last_epoch,
                        log_start_offset=-1,
                        partition_max_bytes=partition_max_bytes,
                    )
                ],
            )
            for (topic, index), offset in wanted.items()
        ],
        forgotten_topics_data=[
            FetchRequest.ForgottenTopic(topic=topic, topic_id=(ids or {}).get(topic), partitions=indexes)
            for topic, indexes in (forget or {}).items()
        ],
        rack_id="",
    )


def values_in(records: bytes | None) -> list[bytes | None]:
    """Values of the whole batches of a record set."""
    found = []
    for header, batch in iter_batches(memoryview(records or b"")):
        if not header.is_control:
            found += [record.value for record in read_records(header, batch)]
    return found
