"""Fetch as a consumer does it: one request per leader at a time, long polls, aborted transactions left out.

Without fetch sessions, as librdkafka. Offsets out of range go back to the log's start (auto.offset.reset=earliest).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any, Final

from gateway.kafka.cluster import Cluster, NetError, PartitionErrors
from gateway.kafka.offsets import EARLIEST, list_offsets
from protocol.apis import ApiKey
from protocol.batch.aborted import AbortedTransactions
from protocol.batch.header import iter_batches
from protocol.batch.record_reader import Record, read_records
from protocol.errors import ErrorCode, ProtocolError, error_name, is_retriable
from protocol.fetch import FetchedPartition, FetchPartition, build_request_body, scan_response
from tests.simulation.clients.client import CONNECT_TRY_S, Client, Fatal, ended
from tests.simulation.clients.sequences import Key

_LANE: Final = "fetch"
_VERSION: Final = 12
_MIN_VERSION: Final = 4
_MOST: Final = 1_000  # records that nobody took yet


class Fetcher:
    """Reads partitions until `close`.

    Args:
        took: called when there is something to `take`.
        min_bytes: a broker waits for so many.

    Attributes:
        positions: the next offset to read.
    """

    def __init__(
        self,
        client: Client,
        cluster: Cluster,
        *,
        committed_only: bool,
        took: Callable[[], None],
        min_bytes: Callable[[], int] = lambda: 1,
    ) -> None:
        self._client, self._cluster, self._took = client, cluster, took
        self._committed_only, self._min_bytes = committed_only, min_bytes
        self.positions: dict[Key, int] = {}
        self._read: dict[Key, list[Record]] = {}
        self._held = 0
        self._busy: set[Key] = set()
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._wake = asyncio.Event()
        self._main = client.spawn(self._run(), "fetches")
        self.fatal = ""

    def begin(self, positions: dict[Key, int]) -> None:
        """Read these from now on; what was read and not taken is forgotten."""
        self.positions = dict(positions)
        self._read, self._held = {}, 0
        self._wake.set()

    def take(self, most: int) -> dict[Key, list[Record]]:
        """What was read since the last call, so many records at most."""
        found: dict[Key, list[Record]] = {}
        for key in list(self._read):
            records = self._read.pop(key)
            if len(records) > most:
                self._read[key] = records[most:]
                records = records[:most]
            most -= len(records)
            self._held -= len(records)
            found[key] = records
            if not most:
                break
        if self._read:
            self._took()
        self._wake.set()
        return found

    async def close(self) -> None:
        """Read no more."""
        self.positions = {}
        await ended(self._main, *self._tasks)

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            for leader, keys in self._by_leader().items():
                self._busy.update(keys)
                task = self._client.spawn(self._fetch(leader, keys), f"fetches from {leader}")
                self._tasks[task] = None
                task.add_done_callback(lambda done: self._tasks.pop(done, None))
            await self._wake.wait()

    def _by_leader(self) -> dict[int, list[Key]]:
        found: dict[int, list[Key]] = {}
        if self._held >= _MOST:
            return found
        homeless = []
        for key in self.positions:
            if key in self._busy:
                continue
            leader = self._cluster.leader(*key)
            if leader is None:
                homeless.append(key)
            else:
                found.setdefault(leader, []).append(key)
        if homeless:
            self._cluster.invalidate(homeless[0][0])
            self._client.loop.call_later(self._client.timing.retry_backoff, self._wake.set)
        # One request per leader: what else it leads waits for the one under way.
        busy = {self._cluster.leader(*key) for key in self._busy}
        return {leader: keys for leader, keys in found.items() if leader not in busy}

    async def _fetch(self, leader: int, keys: list[Key]) -> None:
        try:
            wait_s = await self._once(leader, {key: self.positions[key] for key in keys if key in self.positions})
        except (NetError, ProtocolError):
            self._cluster.invalidate(keys[0][0])
            wait_s = self._client.timing.retry_backoff
        if wait_s:
            await asyncio.sleep(wait_s)
        self._busy.difference_update(keys)
        self._wake.set()

    async def _once(self, leader: int, at: dict[Key, int]) -> float:
        """One request; seconds to wait before the next one."""
        timing = self._client.timing
        connection = await self._cluster.connection(leader, _LANE, CONNECT_TRY_S)
        version = connection.version(ApiKey.FETCH, _VERSION)
        topics: dict[Any, list[FetchPartition]] = {}
        for (topic, index), offset in at.items():
            topics.setdefault(topic, []).append(FetchPartition(index, offset))
        body = build_request_body(
            version,
            topics,
            max_wait_ms=int(timing.fetch_max_wait * 1000),
            min_bytes=self._min_bytes(),
            read_committed=self._committed_only,
        )
        response = await connection.exchange(connection.send, ApiKey.FETCH, version, body, timing.request_timeout)
        answer = scan_response(response, version)
        wait_s = 0.0
        lost: list[Key] = []
        for part in answer.parts:
            key = (str(part.topic), part.partition)
            if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                lost.append(key)
            elif part.error_code:
                self._refused(key, part.error_code)
                wait_s = timing.retry_backoff
            elif self.positions.get(key) == at.get(key):  # else it was given away meanwhile
                self._got(key, part)
        if lost:
            await self._reset(lost)
        return wait_s

    def _refused(self, key: Key, code: int) -> None:
        self._cluster.invalidate(key[0])
        if not is_retriable(code):
            self.fatal = f"Fetch {key[0]}/{key[1]}: {error_name(code)}"
            self._took()

    def _got(self, key: Key, part: FetchedPartition) -> None:
        position = self.positions[key]
        aborted = AbortedTransactions(part.aborted)
        found: list[Record] = []
        following = position
        for header, batch in iter_batches(part.records):
            left_out = self._committed_only and aborted.is_aborted(header)
            if not left_out and not header.is_control:
                found += [record for record in read_records(header, batch) if record.offset >= position]
            following = max(following, header.next_offset)
        self.positions[key] = following
        if found:
            self._read.setdefault(key, []).extend(found)
            self._held += len(found)
            self._took()

    async def _reset(self, keys: Collection[Key]) -> None:
        """Not where another broker leads by a later epoch: one that has lost its cluster knows no better. A client that
        has the epoch of its position, as Java's has, does not believe it, either (KIP-320)."""
        before = {key: self._cluster.leader_epoch(*key) for key in keys}
        for _ in self._cluster.view.brokers:  # each refresh asks the next one
            await self._cluster.refresh({topic for topic, _ in keys}, CONNECT_TRY_S)
        keys = [key for key in keys if self._cluster.leader_epoch(*key) == before[key]]
        if not keys:
            return
        self._client.failed(f"offsets out of range, back to the start: {sorted(keys)}")
        for key, offset in (await earliest(self._cluster, keys)).items():
            if key in self.positions:
                self.positions[key] = offset


async def earliest(cluster: Cluster, keys: Collection[Key]) -> dict[Key, int]:
    """Where logs begin.

    Raises:
        NetError: not known now.
        Fatal: refused for good.
    """
    wanted: dict[str, dict[int, int]] = {}
    for topic, index in sorted(keys):
        wanted.setdefault(topic, {})[index] = EARLIEST
    try:
        found = await list_offsets(cluster, wanted)
    except PartitionErrors as error:
        if all(is_retriable(code) for code in error.errors.values()):
            raise
        raise Fatal(str(error)) from error
    return {key: at.offset for key, at in found.items()}
