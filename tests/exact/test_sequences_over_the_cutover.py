"""A producer's sequences as they cross a promote, request by request: retries, epochs of its own, its pipeline."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from struct import Struct

import pytest
from crc32c import crc32c

from gateway.devcluster import DevCluster
from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.connection.connection import Connection
from protocol.apis import ApiKey
from protocol.batch.keyed import keyed_batch
from protocol.messages import InitProducerIdRequest
from protocol.produce import PartitionResult, build_request_body, scan_response
from tests.support.brokers.logs import create_topic, read_logs
from tests.support.gateways.gateway import GatewayProcess, running_gateway
from tests.support.waiting import wait_until

_PRODUCER = Struct(">qhi")
_CRC = Struct(">I")
_PRODUCE = int(ApiKey.PRODUCE)
_VERSION = 9


class Lab:
    """A gateway with one mirrored topic of one partition."""

    def __init__(self, gateway: GatewayProcess, link: str, topic: str, target: DevCluster) -> None:
        self.gateway, self.link, self.topic, self.target = gateway, link, topic, target

    def promote(self) -> None:
        self.gateway.promote(self.link, self.topic)
        wait_until(lambda: self.gateway.mirror(self.link, self.topic)["mirror_status"] == "STOPPED", 60.0)

    def values(self) -> list[bytes | None]:
        return [record.value for record in read_logs(self.target.bootstrap, self.topic, 1)[0]]


@pytest.fixture
def lab(tmp_path: Path, source: DevCluster, target: DevCluster, topic: str) -> Iterator[Lab]:
    link = f"link-{topic}"
    create_topic(source.bootstrap, topic, partitions=1)
    with running_gateway(tmp_path, target.bootstrap, link) as gateway:
        gateway.create_link(link, source.bootstrap)
        gateway.create_mirror(link, topic)
        yield Lab(gateway, link, topic, target)


class Client:
    """A connection to the gateway, and a producer id it was given."""

    def __init__(self, connection: Connection, topic: str, producer_id: int) -> None:
        self._connection, self._topic, self._producer_id = connection, topic, producer_id

    async def produce(self, epoch: int, sequence: int) -> PartitionResult:
        """One record, whose value says which it is."""
        batch = bytearray(keyed_batch([(b"k", f"{epoch}/{sequence}".encode())], 1_700_000_000_000))
        _PRODUCER.pack_into(batch, 43, self._producer_id, epoch, sequence)
        _CRC.pack_into(batch, 17, crc32c(bytes(batch[21:])))
        body = b"".join(build_request_body(_VERSION, None, -1, 30_000, {self._topic: [(0, batch)]}))
        answer = await self._connection.exchange(self._connection.send, _PRODUCE, _VERSION, body)
        (result,) = scan_response(answer, _VERSION)
        return result

    async def offset(self, epoch: int, sequence: int) -> int:
        result = await self.produce(epoch, sequence)
        assert result.error_code == 0, result
        return result.base_offset


@asynccontextmanager
async def client(lab: Lab) -> AsyncIterator[Client]:
    config = ClusterConfig.from_client_properties({"bootstrap.servers": lab.gateway.bootstrap})
    host, port = lab.gateway.bootstrap.split(":")
    connection = await Connection.open(host, int(port), config)
    try:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        answer = await connection.request(request, cap=5)
        assert answer.error_code == 0
        yield Client(connection, lab.topic, answer.producer_id)
    finally:
        connection.close()


async def test_retries_and_the_next_sequence(lab: Lab) -> None:
    async with client(lab) as producer:
        assert [await producer.offset(0, n) for n in range(7)] == list(range(7))
        lab.promote()
        # the last five batches are known, as a broker knows them
        assert [await producer.offset(0, n) for n in range(2, 7)] == list(range(2, 7))
        assert await producer.offset(0, 7) == 7
        assert await producer.offset(0, 7) == 7
        assert await producer.offset(0, 6) == 6
    assert lab.values() == [f"0/{n}".encode() for n in range(8)]


async def test_an_epoch_that_the_client_begins_itself(lab: Lab) -> None:
    """Java, librdkafka and others raise their epoch without asking anybody: before, and right after the cutover."""
    async with client(lab) as producer:
        assert [await producer.offset(0, n) for n in range(3)] == [0, 1, 2]
        assert [await producer.offset(1, n) for n in range(2)] == [3, 4]
        lab.promote()
        assert await producer.offset(1, 1) == 4
        assert await producer.offset(2, 0) == 5
        assert await producer.offset(2, 0) == 5
        assert await producer.offset(2, 1) == 6
        assert await producer.offset(4, 0) == 7
    assert lab.values() == [b"0/0", b"0/1", b"0/2", b"1/0", b"1/1", b"2/0", b"2/1", b"4/0"]
