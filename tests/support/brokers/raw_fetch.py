"""The bytes of a partition as its broker sends them, whatever their format."""

from __future__ import annotations

from gateway.kafka.cluster import CONTROL_LANE, Cluster
from protocol.apis import ApiKey
from protocol.fetch import FetchPartition, build_request_body, scan_response

_BY_NAME = 12  # the highest version without topic ids
_SIZE = 50 << 20


async def fetch_raw(cluster: Cluster, topic: str, partition: int, offset: int = 0) -> bytes:
    """The record set from an offset on, as one Fetch answers it."""
    await cluster.refresh([topic])
    leader = cluster.leader(topic, partition)
    assert leader is not None
    connection = await cluster.connection(leader, CONTROL_LANE, 10.0)
    version = connection.version(ApiKey.FETCH, _BY_NAME)
    wanted: dict[str | bytes, list[FetchPartition]] = {topic: [FetchPartition(partition, offset, _SIZE)]}
    body = build_request_body(version, wanted, max_wait_ms=100, min_bytes=1, max_bytes=_SIZE)
    answer = scan_response(await connection.exchange(connection.send, ApiKey.FETCH, version, body, 10.0), version)
    (part,) = answer.parts
    assert not part.error_code, part.error_code
    return bytes(part.records)
