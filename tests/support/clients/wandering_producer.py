"""A producer whose every request goes through another gateway, as behind a load balancer that remembers nobody.

It speaks the protocol itself, and retries what a client of Kafka would: the same batch with the same sequence, the same
end of a transaction.
"""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Sequence
from typing import Any

from crc32c import crc32c

from gateway.kafka.cluster import CONTROL_LANE, Cluster
from gateway.kafka.connection.errors import ClusterUnavailable
from protocol.apis import ApiKey
from protocol.batch.keyed import keyed_batch
from protocol.errors import ErrorCode, is_retriable
from protocol.messages import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest
from protocol.produce import build_request_body, scan_response
from tests.support.waiting import wait_until_async

_PRODUCE_VERSION = 9
_TRANSACTIONAL = 16
_GIVE_UP_S = 60.0
_CAP = 3


class WanderingProducer:
    """Without a `transactional_id` it is idempotent only. One partition per record, sequences per partition."""

    def __init__(
        self, gateways: Sequence[Cluster], topic: str, dice: random.Random, transactional_id: str | None = None
    ) -> None:
        self._gateways = gateways
        self._topic = topic
        self._dice = dice
        self._name = transactional_id
        self._id, self._epoch = -1, -1
        self._sequences: dict[int, int] = {}
        self.last: dict[int, tuple[bytes, int]] = {}  # per partition the last batch, and its offset

    async def begin(self) -> None:
        """Get an identity."""
        request = InitProducerIdRequest(transactional_id=self._name, transaction_timeout_ms=60_000)
        answer = await self._ask(request, 4, lambda found: found.error_code)
        self._id, self._epoch = answer.producer_id, answer.producer_epoch

    async def write(self, partition: int, value: bytes) -> int:
        """One record, until it is acknowledged. Returns its offset."""
        sequence = self._sequences.get(partition, 0)
        batch = self._batch(value, sequence)
        offset: int = await self._until(lambda gateway: self._produce(gateway, partition, batch))
        self._sequences[partition] = sequence + 1
        self.last[partition] = batch, offset
        return offset

    async def repeat(self, partition: int) -> int:
        """The last record of a partition once more, as after an answer that was lost. Returns the offset it is told."""
        batch, _ = self.last[partition]
        offset: int = await self._until(lambda gateway: self._produce(gateway, partition, batch))
        return offset

    async def transact(self, records: Sequence[tuple[int, bytes]], *, commit: bool) -> None:
        """One transaction."""
        kind = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        for partition, value in records:
            add = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self._name,
                v3_and_below_producer_id=self._id,
                v3_and_below_producer_epoch=self._epoch,
                v3_and_below_topics=[kind(name=self._topic, partitions=[partition])],
            )
            await self._ask(add, _CAP, _code_of_partitions)
            await self.write(partition, value)
        end = EndTxnRequest(
            transactional_id=self._name, producer_id=self._id, producer_epoch=self._epoch, committed=commit
        )
        await self._ask(end, _CAP, lambda found: found.error_code)

    async def _produce(self, gateway: Cluster, partition: int, batch: bytes) -> tuple[int, Any]:
        leader = gateway.leader(self._topic, partition)
        if leader is None:
            await gateway.refresh([self._topic])
            return int(ErrorCode.LEADER_NOT_AVAILABLE), None
        connection = await gateway.connection(leader, CONTROL_LANE, 5.0)
        topics = {self._topic: [(partition, batch)]}
        body = b"".join(bytes(piece) for piece in build_request_body(_PRODUCE_VERSION, self._name, -1, 9_000, topics))
        answer = await connection.exchange(connection.send, ApiKey.PRODUCE, _PRODUCE_VERSION, body, 10.0)
        (result,) = scan_response(answer, _PRODUCE_VERSION)
        return result.error_code, result.base_offset

    async def _ask(self, request: Any, cap: int, code_of: Any) -> Any:
        async def once(gateway: Cluster) -> tuple[int, Any]:
            answer = await gateway.request(request, cap=cap, timeout_s=10.0)
            return int(code_of(answer)), answer

        return await self._until(once)

    async def _until(self, once: Any) -> Any:
        """Try it at one gateway after the other, at random, as long as a client would."""
        answers: list[Any] = []
        deadline = time.monotonic() + _GIVE_UP_S

        async def tried() -> bool:
            gateway = self._dice.choice(self._gateways)
            try:
                code, answer = await once(gateway)
            except ClusterUnavailable:
                return False
            assert not code or is_retriable(code) or code == ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode(code).name
            if not code:
                answers.append(answer)
            return not code

        await wait_until_async(tried, deadline - time.monotonic(), what="an acknowledgement")
        return answers[0]

    def _batch(self, value: bytes, sequence: int) -> bytes:
        batch = bytearray(keyed_batch([(b"k", value)], int(time.time() * 1000)))
        struct.pack_into(">h", batch, 21, _TRANSACTIONAL if self._name else 0)
        struct.pack_into(">qhi", batch, 43, self._id, self._epoch, sequence)
        struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
        return bytes(batch)


def _code_of_partitions(answer: Any) -> int:
    codes = [p.partition_error_code for t in answer.results_by_topic_v3_and_below for p in t.results_by_partition]
    return next((code for code in codes if code), 0)
