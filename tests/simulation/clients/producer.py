"""Producers without transactions: numbered records in batches at an even rate, over all their partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from gateway.kafka.cluster import Cluster, NetError
from protocol.errors import error_name, is_retriable
from protocol.messages import InitProducerIdRequest
from tests.simulation.clients.client import EPOCH_MS, Bootstrap, Client, Fatal
from tests.simulation.clients.java import Java
from tests.simulation.clients.librdkafka import Librdkafka
from tests.simulation.clients.records import Sent, record_body
from tests.simulation.clients.sender import Sender
from tests.simulation.clients.sequences import (
    CERTAINLY_NOT,
    CERTAINLY_NOT_WITH_ONE_ACK,
    Batch,
    End,
    Identity,
    Key,
    Sequences,
)
from tests.simulation.kernel.loop import SimLoop
from tests.simulation.recorder import SOURCE, Recorder

STYLES: Final[Mapping[str, type[Sequences]]] = {"java": Java, "librdkafka": Librdkafka}
_AHEAD: Final = 400  # unanswered records, at most
_WITHOUT_ID: Final = (b"", b"lockgate", None)


class Producer(Client):
    """Idempotent, or with acks=1 or 0.

    Args:
        topics: topic -> partitions.
        rate_per_s: records a second over all partitions.
        keyspace: so many different keys, as compacted topics need; 0: no keys.
        batch: records in a batch, at most.
    """

    def __init__(
        self,
        loop: SimLoop,
        name: str,
        bootstrap: Bootstrap,
        topics: Mapping[str, int],
        recorder: Recorder,
        *,
        style: str = "java",
        acks: int = -1,
        idempotent: bool = True,
        max_in_flight: int = 5,
        rate_per_s: float = 40.0,
        keyspace: int = 0,
        batch: int = 8,
        **options: Any,
    ) -> None:
        super().__init__(loop, name, bootstrap, recorder, **options)
        self.keys: list[Key] = [(topic, index) for topic in sorted(topics) for index in range(topics[topic])]
        self.style, self.acks, self.idempotent = style, acks, idempotent and acks == -1
        self.max_in_flight, self.rate_per_s, self.keyspace, self.batch = max_in_flight, rate_per_s, keyspace, batch
        self.sequences: Sequences = self._new_sequences()
        self.bumps = 0
        self._number = 0
        self._records = 0

    async def live(self) -> None:
        """Send until it is to stop; then wait for the answers."""
        self.recorder.opened(self.process, self.side, ordered=self.idempotent or self.max_in_flight == 1)
        self._number = self._records = 0
        self.sequences = self._new_sequences()
        cluster = self.open_cluster()
        sender = Sender(
            cluster,
            self.sequences,
            acks=self.acks,
            timeout_s=self.timing.request_timeout,
            in_flight=self.max_in_flight,
            epoch_ms=EPOCH_MS,
            spawn=self.spawn,
        )
        try:
            if not await self.metadata(cluster, sorted({topic for topic, _ in self.keys})):
                return
            if self.idempotent and not await self._begin(cluster):
                return
            await self._send_all(sender)
            await self._flush(sender)
        finally:
            self.bumps += self.sequences.bumps
            sender.close("the producer is closed")
            await cluster.close()

    def _new_sequences(self) -> Sequences:
        return STYLES[self.style](
            self._ended,
            self._resent,
            idempotent=self.idempotent,
            transactional=False,
            backoff=(self.timing.retry_backoff, self.timing.retry_backoff_max),
            certain=CERTAINLY_NOT if self.acks == -1 else CERTAINLY_NOT_WITH_ONE_ACK,
        )

    async def _begin(self, cluster: Cluster) -> bool:
        """Get a producer id; False when it is to stop first."""
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
        )
        while not self.stopping:
            try:
                answer = await cluster.request(request, cap=4)
            except NetError:
                await self.pause(self.timing.retry_backoff)
                continue
            if not answer.error_code:
                self.sequences.begin(Identity(answer.producer_id, answer.producer_epoch))
                return True
            if not is_retriable(answer.error_code):
                raise Fatal(f"InitProducerId: {error_name(answer.error_code)}")
            await self.pause(self.timing.retry_backoff)
        return False

    async def _send_all(self, sender: Sender) -> None:
        due = self.loop.time()
        while not self.stopping:
            self._look_for_fatal()
            if self.sequences.unanswered * self.batch < _AHEAD:
                count = self.rng.randint(1, self.batch)
                due = max(due, self.loop.time() - 1.0) + count / self.rate_per_s
                sender.send(self._batch_of(self.rng.choice(self.keys), count))
            else:
                due = max(due, self.loop.time() + 0.1)
            await self.pause(max(0.0, due - self.loop.time()))

    async def _flush(self, sender: Sender) -> None:
        try:
            async with asyncio.timeout(self.timing.delivery_timeout + 5.0):
                await sender.flushed()
        except TimeoutError:
            self.failed(f"{self.sequences.unanswered} batches without an end after their delivery timeout")
        self._look_for_fatal()

    def _look_for_fatal(self) -> None:
        refused = self.sequences.refused
        if refused is not None and refused.fatal:
            raise Fatal(refused.why)

    def _batch_of(self, key: Key, count: int) -> Batch:
        now = self.loop.time()
        records = tuple(self._record() for _ in range(count))
        self._number += 1
        name = self.recorder.key(self.side, *key)
        parts = [["send", name, record.value.decode()] for record in records]
        self.recorder.write("invoke", self.process, "send", parts, self._number)
        body = record_body(records)
        return Batch(key, records, body, self._number, now, now + self.timing.delivery_timeout)

    def _record(self) -> Sent:
        number = self._records
        self._records += 1
        key = b"k%d" % self.rng.randrange(self.keyspace) if self.keyspace else None
        headers = (("trace", _WITHOUT_ID[number % 3]),) if number % 4 == 1 else ()
        return Sent(key, f"{self.process}:{number}".encode(), headers)

    def _ended(self, batch: Batch, end: End, offset: int, why: str) -> None:
        name = self.recorder.key(self.side, *batch.key)
        if end is End.OK:
            self.progress += batch.count
            told = [
                ["send", name, [offset + index if offset >= 0 else None, record.value.decode()]]
                for index, record in enumerate(batch.records)
            ]
            if self.acks == 1:
                self.recorder.weak.add((self.process, batch.number))
            self.recorder.write("ok", self.process, "send", told, batch.number)
            return
        parts = [["send", name, record.value.decode()] for record in batch.records]
        self.recorder.write(end.value, self.process, "send", parts, batch.number)
        if why and why != "the producer is closed":
            self.failed(f"{name}: {why}")

    def _resent(self, batch: Batch) -> None:
        name = self.recorder.key(self.side, *batch.key)
        self.recorder.sent_again(name, [record.value.decode() for record in batch.records])


class Bypass(Producer):
    """One that nobody moved onto the gateway: it writes to the source directly."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"side": SOURCE, **options})
