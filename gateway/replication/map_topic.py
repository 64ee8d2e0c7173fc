"""The offset maps of a link: a compacted topic on the target, read whole when first needed, appended to before data.

`__lockgate_map.LINK` has one partition, so that its records have one order; it is created with the first breakpoint.
What its records say is in `domain/map_codec.py`, what becomes of them in `domain/offset_ledger.py`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from gateway.domain.map_codec import MapFormatError, PartitionKey, Value, decode_key, decode_value
from gateway.domain.offset_ledger import Change, OffsetLedger
from gateway.domain.offset_map import Breakpoint
from gateway.domain.topic_configs import INTERNAL
from gateway.net.admin import AdminError, create_topic, is_absent
from gateway.net.backoff import Backoff
from gateway.net.cluster import BrokerError, Cluster, ClusterUnavailable, NetError
from gateway.net.host import Host
from gateway.net.offsets import EARLIEST, LATEST, list_offsets
from gateway.net.range_reader import RangeReader
from gateway.replication.start import batch_at
from gateway.replication.tasks import Tasks
from protocol.apis import ApiKey
from protocol.errors import ErrorCode, ProtocolError, error_name
from protocol.keyed_batch import keyed_batch
from protocol.produce import build_request_body, scan_response
from protocol.record_reader import read_records
from protocol.records import BatchHeader

_log = logging.getLogger(__name__)

PREFIX: Final = "__lockgate_map."
CONFIGS: Final = {
    **INTERNAL,
    "compression.type": "zstd",
    "max.message.bytes": str(64 * 1024 * 1024),  # the breakpoints of one large batch full of holes
}
LANE: Final = "offset map"
_REPLICAS: Final = 3
_PRODUCE_CAP: Final = 11
_ANSWER_S: Final = 15.0
_READ_S: Final = 15.0
_BATCH_BYTES: Final = 512 * 1024


def map_topic(link: str) -> str:
    """The name of a link's map topic."""
    return PREFIX + link


class _Wanted(NamedTuple):
    """Changes that somebody waits for to be durable. `error` is told of each attempt that failed."""

    changes: Sequence[Change]
    done: Callable[[], None]
    error: Callable[[str], None]


class LinkMaps:
    """Args: the target, the link's name, and where the requests run; `close` of the tasks ends them."""

    def __init__(self, target: Cluster, link: str, tasks: Tasks) -> None:
        self.topic = map_topic(link)
        self._target = target
        self._tasks = tasks
        self._lock = asyncio.Lock()
        self._exists = False
        self._absent_since = -1.0  # when it was last begun to ask whether the topic is there, and it was not
        self._was_read = False
        self._position = 0  # the next record of the topic to read
        self._unclaimed: dict[PartitionKey, list[tuple[int, int, int, Value | None]]] = {}
        self._ledgers: dict[PartitionKey, OffsetLedger] = {}
        self._wanted: list[_Wanted] = []
        self._writing = False

    def ledger(self, of: PartitionKey, implied: Breakpoint) -> OffsetLedger:
        """The partition's ledger, the same one at each call; it knows what was read so far."""
        ledger = self._ledgers.get(of)
        if ledger is None:
            ledger = self._ledgers[of] = OffsetLedger(of, implied, partial(_new_writer, self._target.host))
            for record in self._unclaimed.pop(of, ()):
                ledger.read(*record)
            if self._was_read:
                ledger.absorb(self._position)
        return ledger

    # -- reading ---------------------------------------------------------------------------------------------

    async def catch_up(self) -> None:
        """Read the topic up to its end as of now; nothing, if there certainly is none.

        Raises:
            NetError, ProtocolError: to be tried again.
            MapFormatError: written by a newer lockgate.
        """
        begun = self._target.host.monotonic()
        async with self._lock:
            # Many partitions begin at once: what one has asked since this one came is as good an answer for it.
            if self._absent_since >= begun or not await self._is_there():
                return
            ends = await list_offsets(self._target, {self.topic: {0: LATEST}}, timeout_s=_READ_S)
            starts = await list_offsets(self._target, {self.topic: {0: EARLIEST}}, timeout_s=_READ_S)
            end, start = ends[self.topic, 0].offset, starts[self.topic, 0].offset
            if end > self._position:
                await self._read(max(self._position, start), end)
            self._was_read = True
            for ledger in self._ledgers.values():
                ledger.absorb(self._position)

    async def _is_there(self) -> bool:
        """False when it certainly is not. A broker that does not know it is no proof: equal offsets would be taken
        for the map of a topic that has one, and its records be appended again.

        Raises:
            NetError: that is not known now; to be tried again.
        """
        if not self._exists:
            asked = self._target.host.monotonic()
            view = await self._target.refresh((self.topic,), _READ_S)
            topic = view.topics.get(self.topic)
            self._exists = topic is not None and bool(topic.partitions)
            if not self._exists:
                if not await is_absent(self._target, self.topic, timeout_s=_READ_S):
                    raise ClusterUnavailable(f"topic {self.topic} is there, but the broker that was asked lacks it yet")
                self._absent_since = asked
        return self._exists

    async def _read(self, start: int, end: int) -> None:
        reader = RangeReader(self._target, self.topic, 0, start, end, read_committed=False, patience_s=_READ_S)
        while (chunk := await reader.next()) is not None:
            for index, header in enumerate(chunk.headers):
                batch = chunk.records[chunk.bounds[index] : chunk.bounds[index + 1]]
                for record in read_records(header, batch):
                    if record.key is not None and record.offset >= self._position:
                        self._hand_over(record.offset, record.key, record.value)
            self._position = max(self._position, chunk.headers[-1].next_offset)
            await asyncio.sleep(0)  # decoding is work; let the others have their turn
        self._position = max(self._position, end)

    def _hand_over(self, offset: int, key_bytes: bytes, value: bytes | None) -> None:
        key = decode_key(key_bytes)
        found = offset, key.base, key.writer, None if value is None else decode_value(key, value)
        ledger = self._ledgers.get(key.of)
        if ledger is None:
            self._unclaimed.setdefault(key.of, []).append(found)
        else:
            ledger.read(*found)

    # -- deciding --------------------------------------------------------------------------------------------

    async def decide(self, ledger: OffsetLedger, copy: Cluster, topic: str, partition: int, log_end: int) -> None:
        """Make the ledger know every breakpoint in force below the copy's log end, which was read just before.

        Raises:
            NetError, ProtocolError, MapFormatError: as `catch_up`.
        """
        await self.catch_up()
        open_ones = ledger.undecided(log_end)
        headers = await asyncio.gather(*(_header_at(copy, topic, partition, each.base) for each in open_ones))
        lost = [each for each, header in zip(open_ones, headers, strict=True) if not each.is_in(header)]
        changes = ledger.settle(log_end, lost)
        if changes:
            self.append(changes, lambda: None, lambda message: _log.info("offset map %s: %s", self.topic, message))

    # -- writing ---------------------------------------------------------------------------------------------

    def append(self, changes: Sequence[Change], done: Callable[[], None], error: Callable[[str], None]) -> None:
        """Write records; `done` is called once all are durable. Goes on trying for ever, `error` tells why."""
        self._wanted.append(_Wanted(changes, done, error))
        if not self._writing:
            self._writing = self._tasks.spawn(self._write(), f"offset map {self.topic}") is not None

    async def _write(self) -> None:
        backoff = Backoff(*self._target.config.retry_backoff_s, self._target.rng)
        try:
            while self._wanted:
                wanted, self._wanted = self._wanted, []
                while (problem := await self._try(wanted)) is not None:
                    _log.warning("offset map %s: %s", self.topic, problem)
                    for one in wanted:
                        one.error(f"the offset map is not written: {problem}")
                    self._target.invalidate(self.topic)
                    await asyncio.sleep(backoff.next())
                backoff.reset()
                for one in wanted:
                    one.done()
        finally:
            self._writing = False

    async def _try(self, wanted: Sequence[_Wanted]) -> str | None:
        """Write all of it; None, or why it may not be there. What is written twice says the same."""
        try:
            await self._ensure()
            for batch in _batches([change for one in wanted for change in one.changes], self._target.host.wall_ms()):
                await self._produce(batch)
        except (NetError, ProtocolError, TimeoutError, OSError) as exc:
            return str(exc) or type(exc).__name__
        return None

    async def _ensure(self) -> None:
        if await self._is_there():
            return
        replicas = max(1, min(_REPLICAS, len(self._target.view.brokers)))
        try:
            await create_topic(self._target, self.topic, partitions=1, replication_factor=replicas, configs=CONFIGS)
        except AdminError as exc:
            if exc.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        await self._target.refresh((self.topic,), _READ_S)

    async def _produce(self, batch: bytes) -> None:
        leader = self._target.leader(self.topic, 0)
        if leader is None:
            raise ClusterUnavailable("its partition has no leader")
        connection = await self._target.connection(leader, LANE, _ANSWER_S)
        version = connection.version(ApiKey.PRODUCE, _PRODUCE_CAP)
        body = b"".join(build_request_body(version, None, -1, int(_ANSWER_S * 500), {self.topic: [(0, batch)]}))
        try:
            response = await connection.exchange(connection.send, ApiKey.PRODUCE, version, body, _ANSWER_S)
        except NetError:
            connection.close("a write of the offset map was not answered")
            raise
        for result in scan_response(response, version):
            if result.error_code:
                raise BrokerError(result.error_code, f"Produce: {error_name(result.error_code)}")


async def _header_at(copy: Cluster, topic: str, partition: int, offset: int) -> BatchHeader | None:
    """Of the batch that holds an offset, or the next one; None when there is none, or it is below the log start."""
    try:
        return await batch_at(copy, topic, partition, offset, timeout_s=_READ_S)
    except BrokerError as exc:
        if exc.code != ErrorCode.OFFSET_OUT_OF_RANGE:
            raise
        return None


def _batches(changes: Sequence[Change], now_ms: int) -> list[bytes]:
    """Record batches of about `_BATCH_BYTES`; what is one call's changes may be spread over several."""
    found: list[bytes] = []
    begin = size = 0
    for index, (key, value) in enumerate(changes):
        if size > _BATCH_BYTES:
            found.append(keyed_batch(changes[begin:index], now_ms))
            begin, size = index, 0
        size += len(key) + len(value or b"")
    if begin < len(changes):
        found.append(keyed_batch(changes[begin:], now_ms))
    return found


def _new_writer(host: Host) -> int:
    return int(host.token_hex(8), 16) or 1


__all__ = ["LinkMaps", "MapFormatError", "map_topic"]
