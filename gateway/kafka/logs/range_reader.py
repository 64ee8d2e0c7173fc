"""Reads a range of one partition in order, as record batches that are not decoded, through a leader's moves and faults.

A batch belongs to the range that its last offset is in. So ranges that follow one another share no batch and miss
none, although their borders lie anywhere; and a log that starts inside a batch is read from that batch on.

An empty answer proves nothing: a broker that cannot read its tiered storage in time answers so, without an error. That
a range has no more records is believed when the batch after them was seen.

The next fetch is sent before the answer to the last one is handed out: while the caller works on it, the broker and
the network work too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from gateway.kafka.cluster import BrokerError, Cluster, ClusterUnavailable, ConnectionClosed
from gateway.kafka.connection.connection import Connection
from gateway.kafka.connection.errors import LogTruncated
from gateway.kafka.rules.error_codes import FETCH_ACTIONS, FetchAction
from gateway.transport.backoff import Backoff
from protocol.apis import ApiKey
from protocol.batch.aborted import AbortedTransactions
from protocol.batch.header import BatchHeader, crc_is_valid, extent, iter_batches
from protocol.errors import ErrorCode, MalformedFrame, error_name
from protocol.fetch import FetchedPartition, FetchPartition, build_request_body, scan_response

FETCH_BYTES: Final = 4 * 1024 * 1024
PATIENCE_S: Final = 120.0
"""How long a partition may give nothing, for whatever passing reason, before reading fails."""

LANE: Final = "ranges"
_BY_NAME: Final = 12  # the last Fetch version that names topics
_MAX_WAIT_MS: Final = 500
_FINAL: Final = (FetchAction.CHECK_BOUNDS, FetchAction.UNREADABLE, FetchAction.SLOW)


class BatchChunk(NamedTuple):
    """Whole batches that follow one another: batch i is `records[bounds[i]:bounds[i + 1]]`.

    `aborted[i]`: the batch holds data of an aborted transaction. `transactions`: the aborted ones, (producer id, first
    offset), as the broker told them.
    """

    headers: list[BatchHeader]
    aborted: list[bool]
    bounds: list[int]
    records: memoryview
    transactions: Sequence[tuple[int, int]] = ()


class RangeReader:
    """One partition from `start` up to `end`, which is not in it.

    Args:
        read_committed: read no further than the last stable offset, and find out what was aborted.
        with_last: read the batch that lies across `end` too: for whoever takes records out of batches.
        fetch_bytes: of one fetch; a batch comes whole, however large.
        patience_s: see `PATIENCE_S`.
        last_epoch: leader epoch of the batch before `start`, -1 when it is unknown. With each fetch the leader is told
            the epoch of what was read, and says when its log is another one by now (KIP-595). None: it is not told.
        checked: False for whoever looks at each batch, and at its checksum, anyway: a chunk has the header of its last
            batch alone, and may begin with a batch below the position.

    Attributes:
        position: everything before it was handed out.
    """

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        partition: int,
        start: int,
        end: int,
        *,
        read_committed: bool = True,
        with_last: bool = False,
        fetch_bytes: int = FETCH_BYTES,
        patience_s: float = PATIENCE_S,
        checked: bool = True,
        last_epoch: int | None = None,
    ) -> None:
        self._cluster = cluster
        self._checked = checked
        self._topic = topic
        self._partition = partition
        self._end = end
        self._last_epoch = last_epoch
        self._read_committed = read_committed
        self._with_last = with_last
        self._fetch_bytes = fetch_bytes
        self._patience_s = patience_s
        self._backoff = Backoff(*cluster.config.retry_backoff_s, cluster.rng)
        self._ahead: asyncio.Future[tuple[memoryview | None, int]] | None = None
        self._connection: Connection | None = None
        self.position = start

    async def next(self) -> BatchChunk | None:
        """The next batches; None at the end of the range.

        Raises:
            BrokerError: the partition cannot be read, for example because `position` was deleted (OFFSET_OUT_OF_RANGE).
            LogTruncated: the log is not the one any more that was read until here.
            ClusterUnavailable: nothing came for `patience_s`; or no batch, although the log goes on.
            OldFormat: records of format v0 or v1.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._patience_s
        while self.position < self._end:
            problem = ""
            try:
                part = await self._fetch(deadline)
                found = self._scan(part)
                if found == _EMPTY and self._read_committed and await self._is_gap(deadline):
                    self.position = self._end
                    continue
                if isinstance(found, BatchChunk):
                    self._backoff.reset()
                    if self.position < self._end:
                        self._send_ahead()
                    if found.headers:
                        return found
                    continue
                problem = found
            except (ClusterUnavailable, MalformedFrame) as exc:
                problem = str(exc)
            self._ahead = None
            if loop.time() >= deadline:
                raise ClusterUnavailable(f"{self._what()}: nothing for {self._patience_s:g} s: {problem}")
            if problem not in (_NOTHING, _EMPTY):
                self._cluster.invalidate(self._topic)
                await asyncio.sleep(self._backoff.next())
        return None

    async def _is_gap(self, deadline: float) -> bool:
        """True when the next batch is known, and lies behind the range: beyond the last stable offset, perhaps."""
        committed, self._read_committed, self._ahead = self._read_committed, False, None
        try:
            part = await self._fetch(deadline)
        finally:
            self._read_committed, self._ahead = committed, None
        if part.error_code:
            return False
        following = next(
            (header for header, _ in iter_batches(part.records) if header.last_offset >= self.position), None
        )
        return following is not None and following.base_offset >= self._end

    def _what(self) -> str:
        return f"{self._topic}-{self._partition} at offset {self.position}"

    async def _fetch(self, deadline: float) -> FetchedPartition:
        if self._ahead is None:
            left_s = deadline - asyncio.get_running_loop().time()
            leader = self._cluster.leader(self._topic, self._partition)
            if leader is None:
                await self._cluster.refresh((self._topic,), max(0.001, left_s))
                leader = self._cluster.leader(self._topic, self._partition)
            if leader is None:
                raise ClusterUnavailable("the partition has no leader")
            self._connection = await self._cluster.connection(leader, LANE, max(0.001, left_s))
            self._send_ahead()
        ahead, self._ahead = self._ahead, None
        body, version = (None, 0) if ahead is None else await ahead
        if body is None:
            raise ClusterUnavailable(self._connection.close_reason if self._connection else "not connected")
        response = scan_response(body, version)
        if response.error_code or not response.parts:
            code = response.error_code or ErrorCode.UNKNOWN_SERVER_ERROR
            raise ClusterUnavailable(f"Fetch: {error_name(code)}")
        return response.parts[0]

    def _send_ahead(self) -> None:
        """Ask for what is at `position`, if that is possible now; the next `_fetch` takes the answer up, or asks."""
        connection = self._connection
        if connection is None or connection.closed:
            return
        version = connection.version(ApiKey.FETCH, _BY_NAME)
        last_epoch = -1 if self._last_epoch is None else self._last_epoch
        leader_epoch = self._cluster.leader_epoch(self._topic, self._partition)
        wanted = FetchPartition(self._partition, self.position, self._fetch_bytes, leader_epoch, last_epoch)
        body = build_request_body(
            version,
            {self._topic: [wanted]},
            max_wait_ms=_MAX_WAIT_MS,
            max_bytes=self._fetch_bytes,
            read_committed=self._read_committed,
        )
        ahead: asyncio.Future[tuple[memoryview | None, int]] = asyncio.get_running_loop().create_future()

        def answered(response: memoryview | None) -> None:
            if not ahead.done():
                ahead.set_result((response, version))

        with suppress(ConnectionClosed):
            connection.send(ApiKey.FETCH, version, (body,), answered)
            self._ahead = ahead

    def _scan(self, part: FetchedPartition) -> BatchChunk | str:
        """The batches of an answer that are in the range; or why there are none although there should be."""
        if part.error_code:
            action = FETCH_ACTIONS.get(part.error_code, FetchAction.BACK_OFF)
            if action in _FINAL:
                code, log_start = part.error_code, part.log_start_offset
                raise BrokerError(code, f"{self._what()}: {error_name(code)} (log start {log_start})")
            return error_name(part.error_code)
        if part.diverging is not None:
            epoch, end = part.diverging
            raise LogTruncated(
                f"{self._what()}: the log was truncated: leader epoch {epoch} ends at offset {end} there, "
                f"but records up to {self.position} of epoch {self._last_epoch} were read before",
                max(0, min(end, self.position)),
            )
        chunk = self._batches(part) if self._checked else self._whole(part)
        if chunk.headers and self._last_epoch is not None and chunk.headers[-1].next_offset == self.position:
            self._last_epoch = chunk.headers[-1].partition_leader_epoch
        if not chunk.headers and self.position < self._end:
            readable = part.last_stable_offset if self._read_committed else part.high_watermark
            if len(chunk.bounds) == 1:
                return _NOTHING if len(part.records) or readable < self._end else _EMPTY
        return chunk

    def _whole(self, part: FetchedPartition) -> BatchChunk:
        size, last, ended = extent(part.records, self._end)
        if last is not None:
            self.position = max(self.position, last.next_offset)
        if ended:
            self.position = self._end
        if last is None:
            return BatchChunk([], [], [0], part.records[:0], part.aborted)
        return BatchChunk([last], [False], [0, size], part.records[:size], part.aborted)

    def _batches(self, part: FetchedPartition) -> BatchChunk:
        headers: list[BatchHeader] = []
        aborted: list[bool] = []
        start = at = 0
        bounds = [0]
        transactions = AbortedTransactions(part.aborted)
        for header, batch in iter_batches(part.records):
            if header.last_offset >= self._end and not (self._with_last and header.base_offset < self._end):
                self.position = self._end
                break
            at += header.size
            is_aborted = transactions.is_aborted(header)
            if header.last_offset < self.position:  # a broker may begin with a batch below the position
                start = bounds[0] = at
                continue
            if not crc_is_valid(batch, header):
                if headers:
                    break
                raise MalformedFrame(f"the batch at offset {header.base_offset} fails its checksum")
            headers.append(header)
            aborted.append(is_aborted)
            bounds.append(at)
            self.position = header.next_offset
        return BatchChunk(headers, aborted, [bound - start for bound in bounds], part.records[start:at], part.aborted)


_NOTHING: Final = "no records yet"
_EMPTY: Final = "the log goes on, but the broker sends nothing of it; does a read of its tiered storage time out?"
